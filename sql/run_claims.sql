-- Claims of runs: who is handed out, in which order, what each operation changes, poison and its cure.
-- DK-050..055, DK-060..066, DK-070..076, DK-095..098, DK-100..103, DK-110..117, DK-126, DK-129, DK-133..135, DK-143, DK-144, DK-150, DK-151, DK-190, DK-195, D-21, D-22
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';

CREATE PROCEDURE t.fresh_runs() LANGUAGE sql AS $$
  SET intervalstyle = postgres;
  TRUNCATE gen_durable.runs RESTART IDENTITY;
$$;
CREATE FUNCTION t.run(name text, wake_at timestamptz DEFAULT '2020-01-01', scope text DEFAULT 'tenantless') RETURNS void LANGUAGE sql AS $$
  SELECT gen_durable.run_insert(scope, name, 'g', 'h', 'state', wake_at, started_at => '2020-01-01')
$$;
-- What a claim hands out: names, poisoned ones with an exclamation mark.
CREATE FUNCTION t.due(max_rows int DEFAULT 1, ttl interval DEFAULT '1 min', max int DEFAULT 5, preference text DEFAULT NULL, at timestamptz DEFAULT '2020-01-02') RETURNS text LANGUAGE sql AS $$
  SELECT string_agg(run_id || CASE kind WHEN 'poisoned' THEN '!' ELSE '' END, ' ') FROM gen_durable.run_claim_due(max_rows, ttl, max, preference, at)
$$;
CREATE FUNCTION t.claim_of(name text) RETURNS uuid LANGUAGE sql AS $$ SELECT claim_token FROM gen_durable.runs WHERE run_id = name $$;
-- A run's operational state: attempts, abandons, poison, claimed, wake; and whether the document's own moved.
CREATE FUNCTION t.op(name text) RETURNS text LANGUAGE sql AS $$
  SELECT format('%s %s%s%s%s', claim_attempts, claim_abandons, ' poison ' || to_char(poisoned_at, 'YYYY-MM-DD ') || poison_reason,
    ' claimed ' || CASE WHEN claimed_at > '2026-01-01' THEN 'now' ELSE to_char(claimed_at, 'YYYY-MM-DD') END,
    ' wake ' || CASE WHEN wake_at > '2026-01-01' THEN 'now' ELSE to_char(wake_at, 'YYYY-MM-DD') END) FROM gen_durable.runs WHERE run_id = name
$$;
CALL fresh_runs();

-- The lease has nine fields, and the rest is empty.
SELECT run('a', scope => 'tenant:t1');
SELECT kind, run_id, scope, graph_id, graph_hash, checkpoint_seq, claim_token = claim_of('a'), claimed_at, claim_attempt, orphan_ttl, poisoned_at, poison_reason
  FROM run_claim_due(5, '1 min', 2, now => '2020-01-02');
SELECT op('a'), claim_of('a') IS NOT NULL, updated_at, checkpoint_seq, latest_checkpoint_type, state FROM runs;
SELECT due(5);
-- Expired is strictly before now - ttl, by the claimant's ttl; expiry alone revokes nothing.
SELECT claim_of('a') AS first \gset
SELECT due(5, '1 h', at => '2020-01-02 01:00'), due(5, '1 h', at => '2020-01-02 00:59');
-- Nothing is as old as that before the first instant there is: not expired, and no error.
SELECT due(5, '1 h', at => '4714-11-24 00:00:00+00 BC'), due(5, '1000 years', at => '4000-01-01 BC'), due(5, '1000 years', at => '2020-01-02 01:00');
SELECT run_refresh_claim('a', :'first'), op('a');
UPDATE runs SET claimed_at = '2020-01-02';
SELECT due(5, '1 h', at => '2020-01-02 01:00:00.001'), claim_of('a') <> :'first', op('a');
-- The old token is no use; the document has not moved.
SELECT err(format($$SELECT run_refresh_claim('a', %L)$$, :'first')), run_release_claim('a', :'first'), run_abandon_claim('a', :'first', 1, '2030-01-01', 5),
  err(format($$SELECT run_commit('system', 'a', %L, 1, 'c', 'external', 'waiting', 1, '')$$, :'first')), op('a');
SELECT updated_at, checkpoint_seq FROM runs;
-- ttl 0 takes anything claimed before; max 2 means two launches, and the next poisons.
SELECT kind, run_id, scope, graph_id, graph_hash, checkpoint_seq, claim_token, claimed_at, claim_attempt, orphan_ttl, poisoned_at, poison_reason
  FROM run_claim_due(5, '0', 2, now => '2020-01-03');
SELECT op('a'), due(5, '0', at => '2040-01-01');
SELECT updated_at, checkpoint_seq FROM run_retry_poisoned('tenant:t1', 'a', '2020-01-04');
SELECT op('a'), due(5, at => '2020-01-03'), due(5, at => '2020-01-04'), op('a');

-- Without a now it is the engine's clock.
CALL fresh_runs();
SELECT run('a');
SELECT claimed_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() FROM run_claim_due(1, '1 min', 5);

-- Inside a class by time, then by age of the row; future ones are none.
CALL fresh_runs();
SELECT run('c', '2020-01-01 02:00'), run('b', '2020-01-01 01:00'), run('a', '2020-01-01 02:00'), run('f', '2030-01-01');
SELECT due(), due(), due(), due();
SELECT string_agg(run_id || claimed_at::time, ' ' ORDER BY id) FROM runs WHERE claimed_at IS NOT NULL;

-- Of two classes that have candidates each has one outcome, where there is room for two; else the older is first.
CREATE PROCEDURE t.two_classes(expired int, ready int) LANGUAGE plpgsql AS $$
BEGIN
  CALL t.fresh_runs();
  PERFORM t.run('e' || i, timestamptz '2019-01-01' + i * interval '1 s') FROM generate_series(1, expired) i;
  PERFORM t.due(1, at => timestamptz '2019-06-01' + i * interval '1 s') FROM generate_series(1, expired) i;
  PERFORM t.run('r' || i, timestamptz '2020-01-01' + i * interval '1 s') FROM generate_series(1, ready) i;
END $$;
CALL two_classes(3, 3);
SELECT due(2);
SELECT due(4), due(9);
CALL two_classes(3, 3);
SELECT due(3);
CALL two_classes(1, 5);
SELECT due(3), due(9);
CALL two_classes(0, 3);
SELECT due(2), due(2);
CALL two_classes(3, 0);
SELECT due(2), due(2);
-- With room for one: the preferred class if it has any, else the other; without a preference the older. Above one it is ignored.
CALL two_classes(3, 3);
SELECT due(1, preference => 'ready'), due(1, preference => 'expired'), due(1), due(1, preference => 'none'), due(1, preference => 'expired'), due(1, preference => 'ready'), due(1, preference => 'ready');
CALL two_classes(2, 2);
SELECT due(3, preference => 'ready');
-- A poisoned head uses up its class's place and a part of the limit.
CALL two_classes(2, 2);
SELECT due(2, max => 1), due(2, max => 1), due(2, max => 1);

-- Where the ready ones are older too the expired have their place, which one that is poisoned has taken up.
CREATE FUNCTION t.claimed(name text, at timestamptz) RETURNS void LANGUAGE sql AS $$
  SELECT t.run(name, '2000-01-01');
  SELECT t.due(1, '10 years', at => at);
$$;
CALL fresh_runs();
SELECT claimed('e1', '2020-01-01'), run('r1', '2019-01-01'), run('r2', '2019-02-01');
SELECT due(2), due(9);
CALL fresh_runs();
SELECT claimed('e1', '2019-01-01'), claimed('e2', '2019-04-01'), run('r1', '2019-02-01'), run('r2', '2019-03-01');
SELECT due(3, max => 1), due(9, max => 1);
-- Of the same instant the older row is first, of whichever class.
CALL fresh_runs();
SELECT claimed('older', '2019-01-01'), run('younger', '2019-01-01');
SELECT due(), due();
CALL fresh_runs();
SELECT run('older', '2019-01-01'), claimed('younger', '2018-12-31');
UPDATE runs SET claimed_at = '2019-01-01' WHERE run_id = 'younger';
SELECT due(), due();

-- Many young claims hide no ready run.
CALL two_classes(50, 0);
SELECT due(1, '10 years'), (SELECT run('late')), due(1, '10 years');

-- What is refused.
SELECT c, err(format('SELECT * FROM run_claim_due(%s)', c)) FROM unnest(ARRAY[$$0, '1 s', 1$$, $$NULL, '1 s', 1$$, $$1, NULL, 1$$, $$1, '-1 s', 1$$, $$1, '1 s', 0$$, $$1, '1 s', NULL$$, $$1, '1 s', 1, 'both'$$,
  $$1, '1 s', 1, now => 'infinity'$$, $$1, '2000 years', 1$$]) c;

-- Breadth-first over the tenants with due work: each one's first run before any one's second, and on from the last one served.
CALL fresh_runs();
SELECT run(t || i, timestamptz '2020-01-01' + i * interval '1 s', CASE t WHEN 'z' THEN 'tenantless' ELSE 'tenant:' || t END) FROM unnest(ARRAY['a', 'b', 'c', 'z']) t, generate_series(1, CASE t WHEN 'b' THEN 1 WHEN 'a' THEN 6 ELSE 3 END) i \g /dev/null
SELECT run('sleeper' || i, '2030-01-01', 'tenant:aa' || i) FROM generate_series(1, 50) i \g /dev/null
-- The walk is put behind tenant c.
SELECT run('turn', '2019-01-01', 'tenant:c');
SELECT count(*) FROM run_claim_due(1, '1 h', 5, now => '2020-01-01') WHERE run_id = 'turn';
SELECT due(2);
SELECT due(3), due(1), due(20);
SELECT due(20);
-- A tenant whose time comes is served with the others.
SELECT run('a9', scope => 'tenant:a'), run('b9', scope => 'tenant:b');
SELECT due(100, '100 years', at => '2031-01-01');
SELECT count(*) FROM runs WHERE claim_token IS NULL;
-- The same of a great many.
CALL fresh_runs();
SELECT count(*) FROM (SELECT run('s' || i, timestamptz '2021-01-01' + i * interval '1 s', 'tenant:' || i % 7) FROM generate_series(1, 1000) i) x;
SELECT due(3, at => '2020-12-31'), (SELECT count(*) FROM run_claim_due(700, '1 h', 5, now => '2022-01-01')), (SELECT count(*) FROM run_claim_due(700, '1 h', 5, now => '2022-01-01'));

-- Refresh: the later of the stored instant and the clock; nothing else moves.
CALL fresh_runs();
SELECT run('a');
SELECT due(1, at => '2020-05-01');
SELECT run_refresh_claim('a', claim_of('a'), '2020-06-01'), op('a');
UPDATE runs SET claimed_at = '2040-01-01';
SELECT run_refresh_claim('a', claim_of('a'));
SELECT claimed_at FROM runs;
SELECT err($$SELECT run_refresh_claim('a', gen_random_uuid())$$, 'a'), err($$SELECT run_refresh_claim('b', gen_random_uuid())$$), err($$SELECT run_refresh_claim('', gen_random_uuid())$$),
  err($$SELECT run_refresh_claim(NULL, gen_random_uuid())$$), err($$SELECT run_refresh_claim('a', NULL)$$), err($$SELECT run_refresh_claim('a', claim_of('a'), 'infinity')$$), err($$SELECT run_refresh_claim('a', 'x')$$);

-- Release: back to ready at now, the attempt counted; again is no error. It walks towards poison.
CALL fresh_runs();
SELECT run('a');
SELECT due(max => 2), run_release_claim('a', claim_of('a'), '2020-01-03'), op('a');
SELECT run_release_claim('a', gen_random_uuid()), run_release_claim('b', gen_random_uuid()), op('a');
SELECT due(max => 2), due(max => 2, at => '2020-01-03'), run_release_claim('a', claim_of('a'), '2020-01-04'), due(max => 2, at => '2020-01-04'), op('a');
SELECT err($$SELECT run_release_claim('', gen_random_uuid())$$), err($$SELECT run_release_claim('a', NULL)$$), err($$SELECT run_release_claim('a', gen_random_uuid(), '-infinity')$$);

-- Abandon: the attempt is handed back, the abandon counted; max M is M reschedules. The fence is the token and the sequence.
CALL fresh_runs();
SELECT run('a');
SELECT due(), run_abandon_claim('a', claim_of('a'), 2, '2030-01-01', 2), run_abandon_claim('a', gen_random_uuid(), 1, '2030-01-01', 2), run_abandon_claim('b', claim_of('a'), 1, '2030-01-01', 2), op('a');
SELECT run_abandon_claim('a', claim_of('a'), 1, '2020-01-03', 2, now => '2020-01-02'), op('a');
SELECT due(at => '2020-01-03'), run_abandon_claim('a', claim_of('a'), 1, '2020-01-04', 2, now => '2020-01-03'), op('a');
SELECT due(at => '2020-01-04'), run_abandon_claim('a', claim_of('a'), 1, '2020-01-05', 2, now => '2020-01-04'), op('a');
SELECT updated_at, checkpoint_seq, state FROM runs;
-- Not poisoning: without bound, at retry_at or by a doubling backoff.
SELECT (run_retry_poisoned('system', 'a', '2020-01-05')).step, op('a');
SELECT due(at => '2020-01-05'), run_abandon_claim('a', claim_of('a'), 1, '2020-01-06', 1, true, now => '2020-01-05'), op('a');
SELECT due(at => '2020-01-06'), run_abandon_claim('a', claim_of('a'), 1, '2020-01-06', 1, true, '1 day', '5 days', now => '2020-01-06'), op('a');
SELECT due(at => '2020-01-08'), run_abandon_claim('a', claim_of('a'), 1, '2020-01-08', 1, true, '1 day', '5 days', now => '2020-01-08'), op('a');
SELECT due(at => '2020-01-12'), run_abandon_claim('a', claim_of('a'), 1, '2020-01-12', 1, true, '1 day', '5 days', now => '2020-01-12'), op('a');
UPDATE runs SET claim_abandons = 2147483647;
SELECT due(at => '2020-01-17'), run_abandon_claim('a', claim_of('a'), 1, '2020-01-17', 1, true, '1 us', '5 years', now => '2020-01-17');
SELECT claim_abandons, wake_at FROM runs;
-- now() means at once, although the engine's clock is past it already; what is before it is refused, and so is a now that is given and later.
CALL fresh_runs();
SELECT run('a');
BEGIN;
SELECT due(), run_abandon_claim('a', claim_of('a'), 1, now(), 2);
SELECT wake_at = now() FROM runs;
SELECT due(at => now()), err(format($$SELECT run_abandon_claim('a', %L, 1, now() - interval '1 us', 2)$$, claim_of('a'))) LIKE '22023%', err(format($$SELECT run_abandon_claim('a', %L, 1, now(), 2, now => now() + interval '1 us')$$, claim_of('a'))) LIKE '22023%';
SELECT run_abandon_claim('a', claim_of('a'), 1, clock_timestamp(), 2);
COMMIT;
-- A wake that no timestamp can hold would make the row unreadable, and a dump of it impossible.
CALL fresh_runs();
SELECT run('a');
SELECT due(), err(format($$SELECT run_abandon_claim('a', %L, 1, '294276-12-31 23:00 UTC', 1, true, '900 years', '900 years', now => '294276-12-31 22:00 UTC')$$, claim_of('a'))), op('a');
SELECT c, err(format($$SELECT run_abandon_claim('a', gen_random_uuid(), %s)$$, c)) FROM unnest(ARRAY[$$-1, '2030-01-01', 1$$, $$NULL, '2030-01-01', 1$$, $$1, NULL, 1$$, $$1, '2020-01-01', 1$$, $$1, 'infinity', 1$$, $$1, '2030-01-01', 0$$,
  $$1, '2030-01-01', NULL$$, $$1, '2030-01-01', 1, NULL$$, $$1, '2030-01-01', 1, true, '0', '1 s'$$, $$1, '2030-01-01', 1, true, '-1 s', '1 s'$$, $$1, '2030-01-01', 1, true, '2 s', '1 s'$$, $$1, '2030-01-01', 1, true, '2 s'$$,
  $$1, '2030-01-01', 1, true, NULL, '2 s'$$, $$1, '2030-01-01', 1, false, '1 s', '2 s'$$, $$1, '2030-01-01', 1, now => '2030-01-02'$$, $$1, '2030-01-01', 1, now => 'infinity'$$]) c;
SELECT err($$SELECT run_abandon_claim('', gen_random_uuid(), 1, '2030-01-01', 1)$$), err($$SELECT run_abandon_claim(NULL, gen_random_uuid(), 1, '2030-01-01', 1)$$), err($$SELECT run_abandon_claim('a', NULL, 1, '2030-01-01', 1)$$);

-- The transition matrix: each operation from each state of the counters, what it leaves behind (DK-195).
CREATE FUNCTION t.prepare(state text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM gen_durable.runs;
  PERFORM t.run('m');
  CASE state
    WHEN 'ready' THEN UPDATE gen_durable.runs SET claim_attempts = 3, claim_abandons = 2;
    WHEN 'claimed' THEN UPDATE gen_durable.runs SET claim_attempts = 3, claim_abandons = 2, wake_at = NULL, claimed_at = '2020-01-01', claim_token = '00000000-0000-8001-8000-000000000001';
    WHEN 'unused' THEN UPDATE gen_durable.runs SET claim_attempts = 0, wake_at = NULL, claimed_at = '2020-01-01', claim_token = '00000000-0000-8001-8000-000000000001';
    WHEN 'poisoned' THEN UPDATE gen_durable.runs SET claim_attempts = 3, claim_abandons = 2, wake_at = NULL, poisoned_at = '2020-01-01', poison_reason = 'why';
    WHEN 'waiting' THEN UPDATE gen_durable.runs SET status = 'waiting', wake_at = NULL;
    WHEN 'done' THEN UPDATE gen_durable.runs SET status = 'done', wake_at = NULL, finished_at = '2020-01-01';
  END CASE;
END $$;
-- states: from which the operation takes effect; from all others it changes nothing. The rest is what the rule says of it.
CREATE TABLE t.matrix (n serial, operation text, states text[], attempts text, abandons text, poison text, token text, wake text, document text, call text);
INSERT INTO t.matrix (operation, states, attempts, abandons, poison, token, wake, document, call) VALUES
  ('claim below max', '{ready,claimed,unused}', '+1', '=', 'none', 'new', 'none', '=', $$SELECT t.due(1, '1 min', 4)$$),
  ('claim at max', '{ready,claimed}', '=', '=', 'set', 'none', 'none', '=', $$SELECT t.due(1, '1 min', 3)$$),
  ('refresh', '{claimed,unused}', '=', '=', '=', '=', '=', '=', $$SELECT gen_durable.run_refresh_claim('m', '00000000-0000-8001-8000-000000000001')$$),
  ('release', '{claimed,unused}', '=', '=', '=', 'none', '2020-02-01', '=', $$SELECT gen_durable.run_release_claim('m', '00000000-0000-8001-8000-000000000001', '2020-02-01')$$),
  ('abandon', '{claimed,unused}', '-1', '+1', 'none', 'none', '2020-02-01', '=', $$SELECT gen_durable.run_abandon_claim('m', '00000000-0000-8001-8000-000000000001', 1, '2020-02-01', 3, now => '2020-02-01')$$),
  ('abandon at max', '{claimed}', '-1', '=', 'set', 'none', 'none', '=', $$SELECT gen_durable.run_abandon_claim('m', '00000000-0000-8001-8000-000000000001', 1, '2020-02-01', 2, now => '2020-02-01')$$),
  ('abandon, not poisoning', '{claimed,unused}', '-1', '+1', 'none', 'none', '2020-02-01', '=', $$SELECT gen_durable.run_abandon_claim('m', '00000000-0000-8001-8000-000000000001', 1, '2020-02-01', 1, true, now => '2020-02-01')$$),
  ('commit retain', '{claimed,unused}', '0', '0', 'none', '=', 'none', 'next', $$SELECT (gen_durable.run_commit('system', 'm', '00000000-0000-8001-8000-000000000001', 1, 'c', 'retain', 'running', 1, '')).status$$),
  ('commit immediate', '{claimed,unused}', '0', '0', 'none', 'none', 'now', 'next', $$SELECT (gen_durable.run_commit('system', 'm', '00000000-0000-8001-8000-000000000001', 1, 'c', 'immediate', 'running', 1, '')).status$$),
  ('commit at', '{claimed,unused}', '0', '0', 'none', 'none', '2020-03-01', 'next', $$SELECT (gen_durable.run_commit('system', 'm', '00000000-0000-8001-8000-000000000001', 1, 'c', 'at', 'running', 1, '', '2020-03-01')).status$$),
  ('commit external', '{claimed,unused}', '0', '0', 'none', 'none', 'none', 'next', $$SELECT (gen_durable.run_commit('system', 'm', '00000000-0000-8001-8000-000000000001', 1, 'c', 'external', 'waiting', 1, '')).status$$),
  ('commit terminal', '{claimed,unused}', '0', '0', 'none', 'none', 'none', 'next', $$SELECT (gen_durable.run_commit('system', 'm', '00000000-0000-8001-8000-000000000001', 1, 'c', 'terminal', 'done', 1, '')).status$$),
  ('unclaimed immediate', '{ready,claimed,unused,poisoned,waiting}', '0', '0', 'none', 'none', 'now', 'next', $$SELECT (gen_durable.run_commit_unclaimed('system', 'm', 1, 'c', 'immediate', 'running', 1, '')).status$$),
  ('unclaimed at', '{ready,claimed,unused,poisoned,waiting}', '0', '0', 'none', 'none', '2020-03-01', 'next', $$SELECT (gen_durable.run_commit_unclaimed('system', 'm', 1, 'c', 'at', 'running', 1, '', '2020-03-01')).status$$),
  ('unclaimed external', '{ready,claimed,unused,poisoned}', '0', '0', 'none', 'none', 'none', 'next', $$SELECT (gen_durable.run_commit_unclaimed('system', 'm', 1, 'c', 'external', 'waiting', 1, '')).status$$),
  ('unclaimed terminal', '{ready,claimed,unused,poisoned,waiting}', '0', '0', 'none', 'none', 'none', 'next', $$SELECT (gen_durable.run_commit_unclaimed('system', 'm', 1, 'c', 'terminal', 'cancelled', 1, '')).status$$),
  ('recovery', '{poisoned}', '0', '0', 'none', 'none', '2020-02-01', '=', $$SELECT (gen_durable.run_retry_poisoned('system', 'm', '2020-02-01')).status$$);
CREATE FUNCTION t.apply(from_state text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
  PERFORM t.prepare(from_state);
  BEGIN
    EXECUTE call INTO answer;
  EXCEPTION WHEN OTHERS THEN
    answer := SQLSTATE;
  END;
  -- What the functions leave behind passes the table's own checks.
  UPDATE gen_durable.runs SET step = step;
  RETURN format('%s -> %s: %s%s', (SELECT coalesce(nullif(answer, ''), 'ok')), t.op('m'),
    (SELECT CASE WHEN checkpoint_seq = 1 AND updated_at = '2020-01-01' AND state = 'state' AND latest_checkpoint_type = 'run_initialized' THEN 'same document' ELSE 'next document' END FROM gen_durable.runs),
    (SELECT ' new token' FROM gen_durable.runs WHERE claim_token <> '00000000-0000-8001-8000-000000000001'));
END $$;
-- What of a run is not as the matrix has it, after an operation from a state.
CREATE FUNCTION t.disobeys(rule t.matrix, from_state text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  before gen_durable.runs;
  after gen_durable.runs;
BEGIN
  PERFORM t.prepare(from_state);
  SELECT * INTO before FROM gen_durable.runs;
  BEGIN
    EXECUTE rule.call;
  EXCEPTION WHEN OTHERS THEN
    NULL;
  END;
  SELECT * INTO after FROM gen_durable.runs;
  IF from_state <> ALL (rule.states) THEN
    RETURN CASE WHEN after IS DISTINCT FROM before THEN 'changed' END;
  END IF;
  RETURN nullif(concat_ws(', ',
    CASE WHEN after.claim_attempts <> CASE rule.attempts WHEN '0' THEN 0 WHEN '=' THEN before.claim_attempts ELSE greatest(before.claim_attempts + rule.attempts::int, 0) END THEN 'attempts' END,
    CASE WHEN after.claim_abandons <> CASE rule.abandons WHEN '0' THEN 0 WHEN '=' THEN before.claim_abandons ELSE before.claim_abandons + rule.abandons::int END THEN 'abandons' END,
    CASE WHEN (after.poisoned_at IS NOT NULL) <> CASE rule.poison WHEN 'set' THEN true WHEN 'none' THEN false ELSE before.poisoned_at IS NOT NULL END THEN 'poison' END,
    CASE WHEN CASE rule.token WHEN 'none' THEN after.claim_token IS NOT NULL WHEN '=' THEN after.claim_token IS DISTINCT FROM before.claim_token ELSE coalesce(after.claim_token = before.claim_token, after.claim_token IS NULL) END THEN 'token' END,
    CASE WHEN CASE rule.wake WHEN 'none' THEN after.wake_at IS NOT NULL WHEN '=' THEN after.wake_at IS DISTINCT FROM before.wake_at
      WHEN 'now' THEN (after.wake_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp()) IS NOT TRUE ELSE after.wake_at IS DISTINCT FROM rule.wake::timestamptz END THEN 'wake' END,
    -- A commit replaces all of the document, with the clock where it gives no instant; everything else leaves all of it alone.
    CASE WHEN CASE rule.document WHEN '=' THEN (after.updated_at, after.latest_checkpoint_type, after.state, after.step, after.status, after.finished_at) IS DISTINCT FROM (before.updated_at, before.latest_checkpoint_type, before.state, before.step, before.status, before.finished_at)
      ELSE ((after.latest_checkpoint_type, after.state, after.step) = ('c', '', 1) AND after.updated_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp()
        AND after.status = substring(rule.call FROM '(running|waiting|done|cancelled)') AND after.finished_at IS NOT DISTINCT FROM CASE WHEN rule.operation ~ 'terminal' THEN after.updated_at END) IS NOT TRUE END THEN 'document' END,
    CASE WHEN rule.operation IN ('refresh', 'commit retain') AND (after.claimed_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp()) IS NOT TRUE THEN 'claimed_at' END,
    CASE WHEN (after.run_id, after.started_at, after.inserted_at, after.graph_id, after.graph_hash, after.scope_key) <> (before.run_id, before.started_at, before.inserted_at, before.graph_id, before.graph_hash, before.scope_key) THEN 'bindings' END,
    CASE WHEN after.checkpoint_seq <> before.checkpoint_seq + (rule.document = 'next')::int THEN 'sequence' END), '');
END $$;
-- Each operation from each state; a run of few attempts and no abandons is not at a maximum.
CREATE VIEW t.cases AS
  SELECT m, state, o FROM t.matrix AS m, unnest(ARRAY['ready', 'claimed', 'unused', 'poisoned', 'waiting', 'done']) WITH ORDINALITY s (state, o) WHERE NOT (operation ~ 'at max' AND state = 'unused');
SELECT (m).operation, state, disobeys(m, state) FROM t.cases WHERE disobeys(m, state) IS NOT NULL;
SELECT (m).operation, state, apply(state, (m).call) FROM t.cases ORDER BY (m).n, o;

-- A commit that keeps the claim makes it young by the clock, even where that is earlier than what is stored.
CALL fresh_runs();
SELECT run('a');
SELECT due(1, at => '2040-01-01');
SELECT (run_commit('tenantless', 'a', claim_of('a'), 1, 'c', 'retain', 'running', 1, 'one')).checkpoint_seq;
SELECT claimed_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() FROM runs;
-- A commit that keeps the claim resets the attempts: a crash after it makes the next claim the first again.
CALL fresh_runs();
SELECT run('a');
SELECT due(), (run_commit('tenantless', 'a', claim_of('a'), 1, 'c', 'retain', 'running', 1, 'one')).checkpoint_seq, op('a');
SELECT (run_commit('tenantless', 'a', claim_of('a'), 2, 'c', 'retain', 'running', 2, 'two')).checkpoint_seq, op('a');
SELECT claim_attempt, checkpoint_seq FROM run_claim_due(1, '0', 5, now => clock_timestamp() + interval '1 s');
-- Within the caller's transaction, so its rollback takes the commit back, and the claim is what it was.
SELECT claim_of('a') AS tok \gset
BEGIN;
SELECT (run_commit('tenantless', 'a', :'tok', 3, 'c', 'terminal', 'done', 3, 'three')).status;
ROLLBACK;
SELECT (run_commit('tenantless', 'a', :'tok', 3, 'c', 'terminal', 'done', 3, 'three')).status, err(format($$SELECT run_commit('tenantless', 'a', %L, 4, 'c', 'terminal', 'done', 3, 'three')$$, :'tok'));
