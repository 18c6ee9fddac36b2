-- Bad input: each is refused with its SQLSTATE, with value and bound in the message, and changes nothing. And odd names that are fine.
-- GD-012, GD-039, GD-174, D-8, D-12
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
CREATE TEMP TABLE call (ord serial, q text, optional boolean DEFAULT false);
INSERT INTO call (q) VALUES
  ('insert(%s)'), ('insert_all(%s, ''[]'')'), ('signal(1, %s)'), ('signal_key(%s, ''x'')'), ('signal_key(''x'', %s)'), ('find(%s)'),
  ('pick(%s, ''w'')'), ('pick(''q'', %s)'), ('take(%s, ''w'')'), ('take(''q'', %s)'), ('complete_and_take(''[]'', %s, ''w'')'), ('complete_and_take(''[]'', ''q'', %s)'),
  ('reclaim(%s, ''p'', ''1 s'')'), ('reclaim(''q'', %s, ''1 s'')'), ('register_fsm(%s)'), ('register_fsm(''x'', queue => %s)'), ('register_fsm(''x'', initial => %s)'),
  ('next_step(%s)'), ('await_signal(ARRAY[''x'', %s], ''x'')'), ('await_signal(''{x}'', %s)'), ('schedule_children(%s, ''[]'')');
INSERT INTO call (q, optional) SELECT q, true FROM unnest(ARRAY[
  'insert(''x'', step => %s)', 'insert(''x'', queue => %s)', 'insert(''x'', concurrency_key => %s)', 'insert(''x'', correlation_key => %s)', 'insert(''x'', rate_limit => %s)',
  'signal(1, ''x'', dedup_key => %s)', 'signal_key(''x'', ''x'', dedup_key => %s)', 'next_step(''x'', rate_limit => %s)', 'next_step(''x'', concurrency_key => %s)', 'revive(1, %s)']) q;

-- Names and keys: NULL where one is required, empty, over 255 bytes, counted in bytes.
SELECT q, err('SELECT ' || format(q, 'NULL::text')) FROM call WHERE NOT optional AND err('SELECT ' || format(q, 'NULL::text')) <> '22004' ORDER BY ord;
SELECT q, err('SELECT ' || format(q, '''''')) FROM call WHERE err('SELECT ' || format(q, ''''''), 'must not be empty') <> '22023' ORDER BY ord;
SELECT q, err('SELECT ' || format(q, 'repeat(''x'', 256)'), 'xxxxxxxx', '256', '255') FROM call
WHERE err('SELECT ' || format(q, 'repeat(''x'', 256)'), 'xxxxxxxx', '256', '255') <> '22023' ORDER BY ord;
SELECT q, err('SELECT ' || format(q, 'repeat(''д'', 128)'), 'дддд', '256', '255') FROM call
WHERE err('SELECT ' || format(q, 'repeat(''д'', 128)'), 'дддд', '256', '255') <> '22023' ORDER BY ord;
SELECT count(*), (SELECT count(*) FROM instances), (SELECT count(*) FROM fsms), (SELECT count(*) FROM signals) FROM call;
-- A message stays short, whatever the value.
DO $$
BEGIN
  PERFORM gen_durable.insert(repeat('д', 1000000));
EXCEPTION WHEN invalid_parameter_value THEN
  RAISE NOTICE '%', length(SQLERRM) < 300;
END $$;

-- Numbers and spans.
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[
  $$pick('q', 'w', 0)$$, $$pick('q', 'w', -1)$$, $$pick('q', 'w', NULL)$$, $$take('q', 'w', 0)$$, $$pick('q', 'w', 1, '-1 ms')$$, $$take('q', 'w', 1, '-1 day')$$, $$pick('q', 'w', 1, '-1 mon')$$,
  $$pick('q', 'w', 1, '178000000 years')$$, $$heartbeat('{}', '-1 s')$$, $$insert('x', schedule_in => '-1 us')$$, $$insert('x', priority => 32768)$$, $$insert('x', fsm_version => 0)$$,
  $$insert('x', weight => 0)$$, $$insert('x', weight => -0.5)$$, $$insert('x', weight => 'NaN')$$, $$insert('x', correlation_scope => '{runnable,nowhere}')$$, $$insert('x', correlation_scope => '{NULL}')$$,
  $$insert('x', eligible_at => 'infinity')$$, $$gc('-1 s')$$, $$gc(batch => 0)$$, $$reap(0)$$, $$fire_timeouts(0)$$, $$reclaim('q', 'p', '-1 s')$$, $$await(1, '-1 s')$$, $$await(1, until => 'later')$$]) q;
-- Spans that lead out of the calendar.
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[$$insert('x', schedule_in => '178000000 years')$$, $$heartbeat('{}', '178000000 years')$$, $$gc('178000000 years')$$, $$reclaim('q', 'p', '178000000 years')$$,
  $$await(1, '178000000 years')$$, $$register_fsm('x', backoff_base => '178000000 years', backoff_cap => '178000000 years')$$]) q;
-- The largest numbers are numbers.
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[$$pick('q', 'w', 2147483647)$$, $$fire_timeouts(2147483647)$$, $$reap(2147483647)$$, $$gc(batch => 2147483647)$$, $$inbox(1, -9223372036854775808, 2147483647)$$, $$children(1, 9223372036854775807, 2147483647)$$]) q;
SELECT err($$SELECT pick('q', 'w', -7)$$, 'batch', '-7', '1'), err($$SELECT pick('q', 'w', 1, '-7 s')$$, 'lease_ttl', '-00:00:07'), err($$SELECT await(1, until => 'later')$$, 'later', 'settled', 'terminal');

-- The JSON of insert_all: no array, no objects, unknown keys, wrong types, bad values.
SELECT a, err(format('SELECT insert_all(%L, %L)', 'x', a)) FROM unnest(ARRAY['{}', '"x"', '1', 'null', '[1]', '["x"]', '[null]', '[[]]', '[{}, true]']) a;
SELECT err($$SELECT insert_all('x', NULL)$$), err($$SELECT insert_all('x', '[{"step": "a\u0000b"}]')$$), err($$SELECT insert_all('x', '[{"step": "a"')$$);
SELECT e, err(format('SELECT insert_all(%L, %L)', 'x', '[{}, ' || e || ']'), k) FROM (VALUES
  ('{"fsm": "y"}', 'fsm'), ('{"stpe": "y"}', 'stpe'), ('{"Step": "y"}', 'Step'), ('{"id": 1}', 'id'), ('{"status": "done"}', 'status'), ('{"": 1}', ''), ('{"parent_id": 1}', 'parent_id'),
  ('{"step": 1}', 'step'), ('{"step": ""}', 'step'), ('{"queue": []}', 'queue'), ('{"queue": ""}', 'queue'), ('{"priority": "1"}', 'priority'), ('{"priority": 1.5}', 'priority'), ('{"priority": true}', 'priority'),
  ('{"fsm_version": "1"}', 'fsm_version'), ('{"fsm_version": 0}', 'fsm_version'), ('{"fsm_version": 1.5}', 'fsm_version'), ('{"weight": "1"}', 'weight'), ('{"weight": 0}', 'weight'), ('{"weight": -1}', 'weight'),
  ('{"concurrency_key": 1}', 'concurrency_key'), ('{"concurrency_key": ""}', 'concurrency key'), ('{"correlation_key": {}}', 'correlation_key'), ('{"correlation_key": ""}', 'correlation key'),
  ('{"correlation_scope": "runnable"}', 'correlation_scope'), ('{"correlation_scope": {}}', 'correlation_scope'), ('{"correlation_scope": [1]}', 'correlation_scope'), ('{"correlation_scope": ["nowhere"]}', 'nowhere'),
  ('{"correlation_scope": [null]}', 'correlation_scope'), ('{"rate_limit": 1}', 'rate_limit'), ('{"rate_limit": ""}', 'rate limit'), ('{"eligible_at": 1}', 'eligible_at'), ('{"eligible_at": "infinity"}', 'eligible_at'),
  ('{"schedule_in": 1}', 'schedule_in'), ('{"schedule_in": "-1 s"}', 'schedule_in')) v (e, k);
SELECT e, err(format('SELECT insert_all(%L, %L)', 'x', '[{}, ' || e || ']'), k) FROM (VALUES
  ('{"priority": 32768}', 'priority'), ('{"priority": -1e30}', 'priority'), ('{"fsm_version": 3000000000}', 'fsm_version'), ('{"rate_limit": "nowhere"}', 'nowhere'),
  ('{"eligible_at": "soon"}', 'soon'), ('{"eligible_at": ""}', 'eligible_at'), ('{"eligible_at": "2001-02-30"}', '2001-02-30'), ('{"schedule_in": "soon"}', 'soon'), ('{"schedule_in": ""}', 'schedule_in')) v (e, k);
SELECT err(format('SELECT insert_all(%L, %L)', 'x', '[{"queue": "' || repeat('x', 256) || '"}]'), 'queue', '256', '255');
-- Whole numbers may be written with a fraction of zero.
SELECT created FROM insert_all('fine', '[{"priority": 3.0, "fsm_version": 2.0, "weight": 1e2}]');
SELECT priority, fsm_version, weight FROM instances;

-- Targets that are not there, and that have ended.
CALL fresh();
SELECT count(*) FROM insert('ended', queue => 'q');
SELECT picks('q'), fin('ended', done());
SELECT signal(999, 'x'), signal(1, 'x'), signal_key('nobody', 'x'), err('SELECT cancel(999)'), err('SELECT cancel(1)'), err('SELECT revive(999)'), err('SELECT revive(1)');
SELECT err('SELECT signal(NULL, ''x'')'), err('SELECT find(NULL)');
SELECT (SELECT count(*) FROM instances), (SELECT count(*) FROM signals);

-- Odd names are names: quotes, percent signs, underscores, backslashes, newlines, other alphabets, 255 bytes. Through everything that takes one.
CREATE FUNCTION pg_temp.odd(n text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  instance bigint;
  j gen_durable.job;
  k gen_durable.job;
BEGIN
  CALL t.fresh();
  PERFORM gen_durable.register_fsm(n, queue => n, initial => n);
  SELECT id INTO instance FROM gen_durable.insert(n, concurrency_key => n, correlation_key => n);
  ASSERT gen_durable.find(n) = instance;
  ASSERT (SELECT id = instance AND NOT created FROM gen_durable.insert(n, correlation_key => n));
  SELECT * INTO j FROM gen_durable.pick(n, n);
  ASSERT (j.fsm, j.step, j.queue, j.concurrency_key) = (n, n, n, n);
  ASSERT (SELECT locked_by FROM gen_durable.instances) = n;
  PERFORM gen_durable.insert('blocked', queue => n, concurrency_key => n);
  ASSERT NOT EXISTS (SELECT FROM gen_durable.pick(n, n));
  ASSERT (SELECT blocked_on FROM gen_durable.instances WHERE fsm = 'blocked') = 'conc:' || n;
  PERFORM gen_durable.complete(j.token, gen_durable.await_signal(ARRAY[n], n || ''));
  ASSERT gen_durable.signal_key(n, n, to_jsonb(n), n) = 'delivered';
  ASSERT gen_durable.signal(instance, n, '{}', n) = 'duplicate';
  ASSERT (SELECT fsm FROM gen_durable.pick(n, n)) = 'blocked';
  ASSERT gen_durable.cancel((SELECT id FROM gen_durable.instances WHERE fsm = 'blocked'), n, force => true) = 'cancelled';
  ASSERT (SELECT last_error FROM gen_durable.instances WHERE fsm = 'blocked') = n;
  SELECT * INTO k FROM gen_durable.pick(n, n);
  ASSERT k.id = instance AND k.awaited->0->>'name' = n AND k.awaited->0->>'payload' = n;
  ASSERT gen_durable.reclaim(n, n, '1 h') = 1;
  SELECT * INTO k FROM gen_durable.pick(n, n);
  PERFORM gen_durable.complete(k.token, gen_durable.schedule_children(n, jsonb_build_array(jsonb_build_object('fsm', n, 'state', n, 'concurrency_key', n))));
  SELECT * INTO k FROM gen_durable.pick(n, n);
  ASSERT (k.fsm, k.step, k.state) = (n, n, to_jsonb(n));
  PERFORM gen_durable.complete(k.token, gen_durable.stop(n));
  SELECT * INTO k FROM gen_durable.pick(n, n);
  ASSERT k.id = instance AND k.children->0->>'error' = n;
  PERFORM gen_durable.complete(k.token, gen_durable.next_step(n, concurrency_key => n || ''));
  RETURN 'fine';
END $$;
SELECT octet_length(n), pg_temp.odd(n) FROM unnest(ARRAY['o''b"c', '100%', '%_', '_', 'a:b:c', ':', 'back\slash', '\', '$1', '{}', ' ', E'two\nlines\ttab\r', E'\x01', 'имя', '名前', '🙂', 'NULL', 'null',
  repeat('x', 64), repeat('x', 255), repeat('д', 127) || 'x', '); DROP TABLE x; --']) n;
