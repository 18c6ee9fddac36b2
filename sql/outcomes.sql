-- What each outcome does to its row, its inbox and its key.
-- GD-151, GD-152, GD-154, GD-155, GD-156, GD-157, GD-158, GD-159, GD-160, GD-190, GD-200, GD-012, GD-348, GD-349, D-9, D-10, D-12,
-- AC-011, AC-098, AC-110, AC-115, AC-116, AC-118, AC-119
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;

-- A claimed row with everything set, parked once so that it has been handed an awaited signal.
CREATE FUNCTION pg_temp.claimed(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  CALL t.fresh();
  INSERT INTO gen_durable.bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'api', 1, 5);
  PERFORM gen_durable.insert(name, '{"n": 0}', 'one', queue => 'q', concurrency_key => 'k');
  PERFORM t.picks('q'), t.fin(name, gen_durable.await_signal('{go,more}', 'two'));
  PERFORM gen_durable.signal(t.id(name), 'go'), gen_durable.signal(t.id(name), 'other');
  UPDATE gen_durable.instances SET rate_limit = 'api', weight = 2;
  RETURN NULL;
END $$;
CREATE FUNCTION pg_temp.claim(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  UPDATE gen_durable.instances SET rate_limit = NULL, weight = 1;
  PERFORM t.picks('q');
  UPDATE gen_durable.instances SET rate_limit = 'api', weight = 2, attempt = 3, crashes = 2;
  RETURN t.st(name) || ' ' || t.sigs(name);
END $$;
-- The row after it, against the row before it.
CREATE FUNCTION pg_temp.after() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT concat_ws(' ', status, step, state, 'attempt', attempt, 'crashes', crashes, 'awaits', awaits, 'rate', rate_limit, weight,
    'key', concurrency_key, 'result', result, 'error', last_error)
  FROM gen_durable.instances WHERE parent_id IS NULL
$$;
CREATE FUNCTION pg_temp.instants() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT concat_ws(' ', 'due at', eligible_at - updated_at, 'deadline', await_deadline - updated_at, 'ended', finished_at = updated_at)
  FROM gen_durable.instances WHERE parent_id IS NULL
$$;
CREATE FUNCTION pg_temp.claim_left() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT concat_ws(' ', token, locked_by, lease_expires_at, concurrency_shard)
  FROM gen_durable.instances WHERE parent_id IS NULL
$$;

SELECT pg_temp.claimed('a');
SELECT pg_temp.claim('a');

-- next: new step, attempt and crashes 0, awaits and limit cleared, key kept; the awaited signal that it was handed is consumed.
SELECT fin('a', next_step('three', '{"n": 1}'));
SELECT pg_temp.after(), pg_temp.instants(), pg_temp.claim_left(), sigs('a');
-- With nothing else given, the state stays; a limit and a delay are the new step's.
SELECT pg_temp.claim('a'), fin('a', next_step('four', rate_limit => 'api:x', weight => 5, delay => '90 s'));
SELECT pg_temp.after(), pg_temp.instants(), sigs('a');
-- The key: absent keeps, null releases, a text switches.
UPDATE instances SET eligible_at = now();
SELECT pg_temp.claim('a'), fin('a', '{"outcome": "next", "step": "five"}');
SELECT concurrency_key FROM instances;
SELECT pg_temp.claim('a'), fin('a', '{"outcome": "next", "step": "six", "concurrency_key": "k2"}');
SELECT concurrency_key FROM instances;
SELECT pg_temp.claim('a'), fin('a', '{"outcome": "next", "step": "seven", "concurrency_key": null}');
SELECT concurrency_key FROM instances;
-- JSON null for the state is the same as leaving it out.
SELECT pg_temp.claim('a'), fin('a', '{"outcome": "next", "step": "eight", "state": null, "delay": null, "rate_limit": null, "weight": null}');
SELECT pg_temp.after();
-- A state may be any JSON value, and is stored as that value.
SELECT pg_temp.claim('a'), fin('a', next_step('nine', '["x"]'));
SELECT state->>0 FROM instances;

-- retry: same step, attempt one more, everything else kept, the inbox too; crashes are counted on.
SELECT pg_temp.claimed('b'), pg_temp.claim('b');
SELECT fin('b', retry('90 s'));
SELECT pg_temp.after(), pg_temp.instants(), pg_temp.claim_left(), sigs('b');
-- The redo sees the same awaited signals.
UPDATE instances SET eligible_at = now(), rate_limit = NULL;
SELECT jsonb_path_query_array(awaited, '$[*].name'), jsonb_path_query_array(signals, '$[*].name'), attempt FROM pick('q', 'w');
SELECT fin('b', retry(state => '{"n": 2}'));
SELECT state, eligible_at = updated_at FROM instances;

-- await: parked at the next step, attempt and crashes 0, limit cleared, key kept, inbox kept.
SELECT pg_temp.claimed('c'), pg_temp.claim('c');
SELECT fin('c', await_signal('{never,ever}', 'three', '{"n": 1}'));
SELECT pg_temp.after(), pg_temp.instants(), pg_temp.claim_left(), sigs('c');
SELECT pg_temp.claimed('c2'), pg_temp.claim('c2'), fin('c2', await_signal('{never}', 'three', timeout => '1 h'));
SELECT pg_temp.instants(), state FROM instances;

-- children: parked at the next step, attempt and crashes 0, limit cleared, key kept; the awaited signal is consumed.
SELECT pg_temp.claimed('d'), pg_temp.claim('d');
SELECT fin('d', schedule_children('three', '[{"fsm": "child", "queue": "c"}]', '{"n": 1}'));
SELECT pg_temp.after(), pg_temp.instants(), pg_temp.claim_left(), sigs('d');

-- done: the result; state, step, attempt, due time, limit and key stay; the inbox goes.
SELECT pg_temp.claimed('e'), pg_temp.claim('e');
SELECT eligible_at AS due FROM instances \gset
SELECT fin('e', done('{"ok": true}'));
SELECT pg_temp.after(), pg_temp.claim_left(), sigs('e'), (SELECT count(*) FROM signals);
SELECT eligible_at = :'due', finished_at = updated_at, result->>'ok' FROM instances;
-- The default result is an empty object.
SELECT pg_temp.claimed('e2'), pg_temp.claim('e2'), fin('e2', '{"outcome": "done"}');
SELECT result FROM instances;

-- stop: failed, with the reason; as done otherwise.
SELECT pg_temp.claimed('f'), pg_temp.claim('f');
SELECT eligible_at AS due FROM instances \gset
SELECT fin('f', stop('boom'));
SELECT pg_temp.after(), pg_temp.claim_left(), sigs('f'), (SELECT count(*) FROM signals);
SELECT eligible_at = :'due', finished_at = updated_at FROM instances;

-- fail, while attempts are left: as retry after the backoff, consuming nothing.
SELECT pg_temp.claimed('g'), pg_temp.claim('g');
SELECT fin('g', fail('broken'));
SELECT status, step, state, awaits, rate_limit, weight, concurrency_key, crashes, result, pg_temp.instants(), sigs('g') FROM instances;
-- and as stop when they are used up.
SELECT pg_temp.claimed('g2'), pg_temp.claim('g2');
UPDATE instances SET attempt = 19;
SELECT fin('g2', fail('broken')), sigs('g2');
SELECT last_error, finished_at = updated_at FROM instances;

-- All that leave executing at once, in one call.
CALL fresh();
SELECT count(*) FROM unnest('{a,b,c,d}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 10);
SELECT ord, result FROM complete_many(jsonb_build_array(
  next_step('second', '{"n": 1}') || jsonb_build_object('token', tok('a')), retry('1 s') || jsonb_build_object('token', tok('b')),
  done('{"r": 1}') || jsonb_build_object('token', tok('c')), stop('boom') || jsonb_build_object('token', tok('d')))) ORDER BY ord;
SELECT st('a', 'b', 'c', 'd');
SELECT result, last_error FROM instances WHERE fsm IN ('c', 'd') ORDER BY id;

-- A limit must be configured, and the weight fit its burst, at next as at insert; refused, the claim stays.
INSERT INTO bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'api', 1, 5);
SELECT created FROM insert('r', queue => 'r');
SELECT picks('r'), err($$SELECT fin('r', next_step('x', rate_limit => 'nowhere'))$$, 'nowhere'),
  err($$SELECT fin('r', next_step('x', rate_limit => 'api', weight => 6))$$, 'weight', '6', '5'), st('r');
SELECT ord, result LIKE 'invalid: %nowhere%' FROM complete_many(jsonb_build_array(next_step('x', rate_limit => 'nowhere') || jsonb_build_object('token', tok('r'))));
SELECT st('r');
