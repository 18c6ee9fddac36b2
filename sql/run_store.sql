-- Runs: inserting, reading, listing and committing them, and what is refused, in which order.
-- DK-001..011, DK-015, DK-016..021, DK-025..028, DK-030, DK-035..037, DK-040..044, DK-125..130, DK-132, DK-142..145, D-20, D-22
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET timezone = 'UTC';
SET bytea_output = hex;
TRUNCATE runs RESTART IDENTITY;

-- A run as it is given, and the clock where no instant is.
SELECT * FROM run_insert('tenantless', 'r1', 'graph', 'hash', '\x00ff0a27', '2030-01-01', started_at => '2020-01-01', step => 3, checkpoint_seq => 7);
SELECT started_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp(), updated_at = started_at, checkpoint_seq, step
  FROM run_insert('tenant:t1', 'r2', 'graph', 'hash', '', '2020-01-01');
SELECT id, run_id, tenant_id, scope_key, status, latest_checkpoint_type, claim_token, claimed_at, wake_at, claim_attempts, claim_abandons, poisoned_at, due
  FROM runs ORDER BY id;

-- The scope: malformed raises, whatever else is wrong.
SELECT err($$SELECT run_insert(NULL, '', 'g', 'h', '', now())$$, 'scope');
SELECT err($$SELECT run_insert('', 'r', 'g', 'h', '', now())$$), err($$SELECT run_insert('tenant', 'r', 'g', 'h', '', now())$$),
  err($$SELECT run_insert('tenant:', 'r', 'g', 'h', '', now())$$), err($$SELECT run_insert('System', 'r', 'g', 'h', '', now())$$),
  err($$SELECT run_insert('tenantless ', 'r', 'g', 'h', '', now())$$), err(format($$SELECT run_insert('tenant:%s', 'r', 'g', 'h', '', now())$$, repeat('x', 256)), '256', '255');
SELECT err($$SELECT run_insert('system', 'r', 'g', 'h', '', now())$$, 'system');
SELECT err(format('SELECT %s', c)) FROM unnest(ARRAY[
  $$run_fetch(NULL, 'r1')$$, $$run_fetch('tenant:', 'r1')$$, $$run_inspect('all', 'r1')$$, $$run_list('none')$$, $$run_lock('', 'r1')$$,
  $$run_commit('x', 'r1', gen_random_uuid(), 1, 'c', 'external', 'waiting', 1, '')$$, $$run_commit_unclaimed('x', 'r1', 1, 'c', 'external', 'waiting', 1, '')$$,
  $$run_retry_poisoned('x', 'r1')$$]) c;
SELECT err($$SELECT run_commit('x', 'r1', gen_random_uuid(), -1, '', 'whenever', 'none', -1, '')$$, 'scope'), err($$SELECT run_commit_unclaimed('x', 'r1', -1, '', 'whenever', 'none', -1, '')$$, 'scope');

-- The proposal: each fault by itself, and nothing is written.
SELECT c, err(format($$SELECT run_insert('tenantless', %s)$$, c)) FROM unnest(ARRAY[
  $$NULL, 'g', 'h', '', now()$$, $$'', 'g', 'h', '', now()$$, $$'r', NULL, 'h', '', now()$$, $$'r', '', 'h', '', now()$$, $$'r', 'g', NULL, '', now()$$,
  $$'r', 'g', '', '', now()$$, $$'r', 'g', 'h', NULL, now()$$, $$'r', 'g', 'h', '', NULL$$, $$'r', 'g', 'h', '', 'infinity'$$,
  $$'r', 'g', 'h', '', now(), checkpoint_seq => 0$$, $$'r', 'g', 'h', '', now(), checkpoint_seq => NULL$$, $$'r', 'g', 'h', '', now(), checkpoint_type => 'other'$$,
  $$'r', 'g', 'h', '', now(), checkpoint_type => NULL$$, $$'r', 'g', 'h', '', now(), step => -1$$, $$'r', 'g', 'h', '', now(), step => NULL$$,
  $$'r', 'g', 'h', '', now(), started_at => '-infinity'$$, $$'r', 'g', 'h', '', now(), updated_at => 'infinity'$$]) c;
SELECT err(format($$SELECT run_insert('tenantless', %L, 'g', 'h', '', now())$$, repeat('x', 256)), '256', '255');
SELECT err($$SELECT run_insert('tenantless', 'r', 'g', 'h', '', now(), checkpoint_seq => 0)$$, '0', '1');
SELECT count(*) FROM runs;

-- One name space for all tenants; the payload's tenants mean nothing.
SELECT err($$SELECT run_insert('tenantless', 'r1', 'other', 'h', '', now())$$, 'r1'), err($$SELECT run_insert('tenant:t2', 'r2', 'g', 'h', '{"tenant": "t2"}', now())$$, 'r2');
SELECT tenant_id FROM runs WHERE run_id = 'r2';
-- A failed insert leaves nothing, a rolled back one neither.
BEGIN;
SELECT (run_insert('tenant:new', 'gone', 'g', 'h', '', now())).run_id;
ROLLBACK;
SELECT err($$SELECT run_fetch('system', 'gone')$$, 'gone');

-- Reading: to the byte, within the scope, and what is not there is not found.
SELECT (run_fetch('tenantless', 'r1')).state, (run_fetch('system', 'r1')).state, (run_fetch('tenant:t1', 'r2')).state = '';
SELECT (run_insert('tenantless', 'bytes', 'g', 'h', (SELECT string_agg(decode(lpad(to_hex(i % 256), 2, '0'), 'hex'), '') FROM generate_series(0, 99999) i), now())).step;
SELECT (run_fetch('system', 'bytes')).state = (SELECT string_agg(decode(lpad(to_hex(i % 256), 2, '0'), 'hex'), '') FROM generate_series(0, 99999) i);
SELECT s, err(format($$SELECT run_fetch(%L, 'r2')$$, s)), err(format($$SELECT run_inspect(%L, 'r2')$$, s)), err(format($$SELECT run_lock(%L, 'r2')$$, s)),
  err(format($$SELECT run_commit_unclaimed(%L, 'r2', 1, 'c', 'external', 'waiting', 1, '')$$, s)), err(format($$SELECT run_retry_poisoned(%L, 'r2')$$, s))
  FROM unnest(ARRAY['tenantless', 'tenant:t2', 'tenant:T1', 'tenant:t1 ']) s;
SELECT err($$SELECT run_fetch('system', 'r')$$), err($$SELECT run_fetch('system', NULL)$$), err($$SELECT run_fetch('system', '')$$);
SELECT (run_inspect('system', 'r1')).*;
SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid IN ('run'::regclass, 'run_info'::regclass) AND attnum > 0 AND attname ~ 'token';

-- Commits without a claim: the proposal's own faults come first, for a run that is not there too.
CREATE FUNCTION t.commit_errs(scope text, run_id text) RETURNS SETOF text LANGUAGE sql AS $$
  SELECT c || ': ' || err(format('SELECT run_commit_unclaimed(%L, %L, %s)', scope, run_id, c)) FROM unnest(ARRAY[
    $c$1, 'c', 'whenever', 'running', 1, ''$c$, $c$1, 'c', 'immediate', 'created', 1, ''$c$, $c$1, 'c', 'immediate', 'Running', 1, ''$c$,
    $c$1, 'c', 'retain', 'running', 1, ''$c$, $c$1, '', 'immediate', 'running', 1, ''$c$, $c$1, 'c', 'immediate', 'running', -1, ''$c$,
    $c$-1, 'c', 'immediate', 'running', 1, ''$c$, $c$9223372036854775807, 'c', 'immediate', 'running', 1, ''$c$,
    $c$1, 'c', 'immediate', 'running', 1, '', wake_at => now()$c$, $c$1, 'c', 'at', 'running', 1, ''$c$, $c$1, 'c', 'at', 'running', 1, '', wake_at => 'infinity'$c$,
    $c$1, 'c', 'immediate', 'running', 1, '', finished_at => now()$c$, $c$1, 'c', 'terminal', 'done', 1, '', finished_at => 'infinity'$c$,
    $c$1, 'c', 'immediate', 'running', 1, '', updated_at => '-infinity'$c$,
    $c$NULL, 'c', 'immediate', 'running', 1, ''$c$, $c$1, NULL, 'immediate', 'running', 1, ''$c$, $c$1, 'c', NULL, 'running', 1, ''$c$,
    $c$1, 'c', 'immediate', NULL, 1, ''$c$, $c$1, 'c', 'immediate', 'running', NULL, ''$c$, $c$1, 'c', 'immediate', 'running', 1, NULL$c$]) c
$$;
SELECT commit_errs('system', 'r2');
SELECT count(*) FROM (SELECT commit_errs('tenant:other', 'no such run') EXCEPT SELECT commit_errs('system', 'r2')) x;
SELECT err($$SELECT run_insert('tenantless', 'r', 'g', 'h', '', '-infinity')$$, 'wake_at', '-infinity'), err($$SELECT run_commit_unclaimed('system', 'r2', 1, 'c', 'at', 'running', 1, '', wake_at => 'infinity')$$, 'wake_at', 'infinity'),
  err($$SELECT run_commit_unclaimed('system', 'r2', 1, 'c', 'immediate', 'running', 1, '', wake_at => '2030-01-01')$$, '2030-01-01', 'immediate'), err($$SELECT run_commit_unclaimed('system', 'r2', 1, 'c', 'at', 'running', 1, '')$$, 'wake_at'),
  err($$SELECT run_commit_unclaimed('system', 'r2', 1, 'c', 'immediate', 'running', 1, '', finished_at => '2030-01-01')$$, '2030-01-01', 'running');
-- Which schedule goes with which status.
SELECT s, string_agg(CASE WHEN err(format($$SELECT run_commit_unclaimed('tenantless', 'none', 1, 'c', %L, %L, 1, '', wake_at => %s)$$, s, status, CASE s WHEN 'at' THEN 'now()' ELSE 'NULL' END)) = 'GD002' THEN status END, ' ' ORDER BY n)
  FROM unnest(ARRAY['immediate', 'at', 'external', 'terminal', 'retain']) WITH ORDINALITY AS a (s, o), unnest(ARRAY['running', 'waiting', 'done', 'failed', 'cancelled']) WITH ORDINALITY AS b (status, n)
  GROUP BY s, o ORDER BY o;

-- Then existence, then what the run is bound to, then the fence.
SELECT err($$SELECT run_commit_unclaimed('system', 'r1', 1, 'c', 'immediate', 'running', 1, '', graph_id => 'other')$$, 'graph_id', '"other"', '"graph"'),
  err($$SELECT run_commit_unclaimed('system', 'r1', 1, 'c', 'immediate', 'running', 1, '', graph_hash => 'other')$$, 'graph_hash', '"other"', '"hash"'),
  err($$SELECT run_commit_unclaimed('system', 'r1', 1, 'c', 'immediate', 'running', 1, '', started_at => '2020-01-02')$$, 'started_at', '2020-01-02', '2020-01-01');
SELECT err($$SELECT run_commit_unclaimed('system', 'r1', 1, 'c', 'immediate', 'running', 1, '', graph_id => 'graph', graph_hash => 'hash', started_at => '2020-01-01')$$, '7', '1'),
  err($$SELECT run_commit_unclaimed('system', 'r1', 8, 'c', 'immediate', 'running', 1, '')$$, '7', '8');
SELECT err($$SELECT run_commit('system', 'r1', gen_random_uuid(), 7, 'c', 'immediate', 'running', 1, '')$$, 'r1'), err($$SELECT run_commit('system', 'r1', NULL, 7, 'c', 'immediate', 'running', 1, '')$$);
SELECT wake_at, checkpoint_seq, state FROM runs WHERE run_id = 'r1';

-- A commit replaces the document; the same again is stale.
SELECT * FROM run_commit_unclaimed('system', 'r1', 7, 'moved', 'at', 'running', 4, '\xbeef', wake_at => '2030-02-01', updated_at => '2020-01-03', graph_id => 'graph', graph_hash => 'hash', started_at => '2020-01-01');
SELECT err($$SELECT run_commit_unclaimed('system', 'r1', 7, 'moved', 'at', 'running', 4, '\xbeef', wake_at => '2030-02-01')$$);
SELECT checkpoint_type, wake_at FROM run_inspect('system', 'r1');
-- Statuses: waiting goes to running or cancelled, a terminal one nowhere.
SELECT (run_commit_unclaimed('tenantless', 'r1', 8, 'c', 'external', 'waiting', 5, '')).status;
SELECT s, err(format($$SELECT run_commit_unclaimed('tenantless', 'r1', 9, 'c', %L, %L, 5, '')$$, CASE s WHEN 'waiting' THEN 'external' ELSE 'terminal' END, s)) FROM unnest(ARRAY['waiting', 'done', 'failed']) s;
SELECT (run_commit_unclaimed('tenantless', 'r1', 9, 'c', 'immediate', 'running', 5, '')).status;
SELECT status, finished_at, updated_at FROM run_commit_unclaimed('tenantless', 'r1', 10, 'c', 'terminal', 'failed', 6, 'why', updated_at => '2020-02-01');
SELECT err($$SELECT run_commit_unclaimed('tenantless', 'r1', 11, 'c', 'immediate', 'running', 5, '')$$, 'failed'), err($$SELECT run_commit_unclaimed('tenantless', 'r1', 10, 'c', 'immediate', 'running', 5, '')$$);
SELECT status, finished_at FROM run_commit_unclaimed('tenant:t1', 'r2', 1, 'c', 'terminal', 'done', 1, '', finished_at => '2020-03-01', updated_at => '2020-04-01');
SELECT err($$SELECT run_retry_poisoned('system', 'r2')$$, 'done');
-- A commit that is rolled back is none.
SELECT (run_insert('tenantless', 'r3', 'g', 'h', 'a', '2020-01-01')).state;
BEGIN;
SELECT (run_commit_unclaimed('tenantless', 'r3', 1, 'c', 'external', 'waiting', 1, 'b')).state;
ROLLBACK;
SELECT checkpoint_seq, status, state FROM run_fetch('system', 'r3');
-- Several in one transaction, and in one statement each.
BEGIN;
SELECT (run_lock('tenantless', 'r3')).checkpoint_seq;
SELECT (run_commit_unclaimed('tenantless', 'r3', 1, 'c', 'external', 'waiting', 1, 'b')).checkpoint_seq;
SELECT (run_commit_unclaimed('tenantless', 'r3', 2, 'c', 'immediate', 'running', 1, 'c')).checkpoint_seq;
COMMIT;

-- The shape of a row holds for SQL too.
SELECT c, err(format('UPDATE runs SET %s WHERE run_id = ''r3''', c)) FROM unnest(ARRAY[
  $$status = 'created'$$, $$status = 'done'$$, $$finished_at = now()$$, $$claim_token = gen_random_uuid()$$, $$claimed_at = now()$$, $$poisoned_at = now()$$, $$poison_reason = 'x'$$,
  $$claim_token = gen_random_uuid(), claimed_at = now()$$, $$wake_at = NULL$$, $$status = 'waiting'$$, $$poisoned_at = now(), poison_reason = 'x'$$,
  $$status = 'waiting', wake_at = NULL, poisoned_at = now(), poison_reason = 'x'$$, $$step = -1$$, $$checkpoint_seq = -1$$, $$claim_attempts = -1$$, $$claim_abandons = -1$$,
  $$run_id = 'r4'$$, $$tenant_id = 't1'$$, $$tenant_id = ''$$, $$graph_id = 'x'$$, $$graph_hash = 'x'$$, $$started_at = now()$$, $$scope_key = 'x'$$, $$id = 0$$,
  $$run_id = run_id, tenant_id = tenant_id, started_at = started_at, poisoned_at = now(), poison_reason = 'x', wake_at = NULL$$]) c;
SELECT count(*) FROM runs WHERE poisoned_at IS NOT NULL;
SELECT (run_retry_poisoned('system', 'r3', '2021-01-01')).checkpoint_seq;
SELECT wake_at, poisoned_at, claim_attempts FROM run_inspect('system', 'r3');
SELECT (run_retry_poisoned('system', 'r3', '2022-01-01')).checkpoint_seq;
SELECT wake_at FROM run_inspect('system', 'r3');

-- Lists: youngest first, equal instants by run_id from the end; a page at a time.
TRUNCATE runs;
SELECT count(run_insert(CASE i % 3 WHEN 0 THEN 'tenantless' ELSE 'tenant:t' || i % 3 END, 'run' || lpad(i::text, 2, '0'), 'g' || i % 2, 'h' || i % 4, '', '2020-01-01',
  started_at => timestamptz '2020-01-01' + (i / 4) * interval '1 day')) FROM generate_series(1, 20) i;
SELECT run_id, tenant, graph_id, graph_hash, started_at::date, has_more FROM run_list('system', 5);
CREATE FUNCTION t.pages(scope text, max_rows int, graph_id text DEFAULT NULL, statuses text[] DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r record;
  at timestamptz;
  name text;
  result text := '';
  n int;
BEGIN
  LOOP
    n := 0;
    FOR r IN SELECT * FROM run_list(scope, max_rows, at, name, graph_id, statuses => statuses) LOOP
      result := result || substr(r.run_id, 4) || ' ';
      at := r.started_at;
      name := r.run_id;
      n := n + 1;
    END LOOP;
    result := result || '| ';
    EXIT WHEN n < max_rows OR NOT r.has_more;
  END LOOP;
  RETURN result;
END $$;
SELECT pages('system', 7), pages('system', 20), pages('system', 1);
SELECT pages('tenantless', 2), pages('tenant:t1', 3), pages('tenant:t2', 100), pages('tenant:t9', 1);
SELECT pages('system', 3, 'g1'), pages('tenant:t1', 2, 'g0');
SELECT count(run_commit_unclaimed('system', 'run' || lpad(i::text, 2, '0'), 1, 'c', CASE WHEN i < 5 THEN 'terminal' ELSE 'external' END, CASE WHEN i < 3 THEN 'done' WHEN i < 5 THEN 'failed' ELSE 'waiting' END, 1, ''))
  FROM generate_series(1, 8) i;
SELECT pages('system', 3, statuses => '{done}'), pages('system', 3, statuses => '{failed,waiting}'), pages('tenant:t1', 2, statuses => '{done,waiting,running}'), pages('system', 3, statuses => '{cancelled}');
SELECT pages('system', 6), pages('system', 3, 'g1', '{running,done}');
SELECT run_id, status, finished_at IS NOT NULL, checkpoint_seq FROM run_list('tenant:t1', 1000, graph_hash => 'h1', statuses => '{done,running}');
SELECT count(*) FROM run_list('system', before_started_at => '1970-01-01', before_run_id => 'x');
-- The documents are not read, so one that cannot be breaks no list: what is stored out of line is looked up by a fetch only.
SELECT (run_insert('tenant:big', 'big', 'g', 'h', (SELECT decode(string_agg(md5(i::text), ''), 'hex') FROM generate_series(1, 1000) i), '2020-01-01')).step;
CREATE FUNCTION t.lookups() RETURNS bigint LANGUAGE sql AS $$
  SELECT pg_stat_force_next_flush();
  SELECT pg_stat_get_numscans(i.indexrelid) + pg_stat_get_xact_numscans(i.indexrelid) FROM pg_class c JOIN pg_index i ON i.indrelid = c.reltoastrelid WHERE c.oid = 'gen_durable.runs'::regclass
$$;
BEGIN;
SELECT lookups() AS before \gset
SELECT run_id FROM run_list('tenant:big');
SELECT lookups() - :before;
SELECT length((run_fetch('tenant:big', 'big')).state);
SELECT lookups() - :before > 0;
COMMIT;
DELETE FROM runs WHERE run_id = 'big';
SELECT c, err(format('SELECT * FROM run_list(''system'', %s)', c)) FROM unnest(ARRAY['0', '-1', '1001', 'NULL', $$1, now()$$, $$1, NULL, 'x'$$, $$1, 'infinity', 'x'$$, $$1, now(), ''$$,
  $$graph_id => ''$$, $$graph_hash => ''$$, $$statuses => '{}'$$, $$statuses => '{done,NULL}'$$, $$statuses => '{created}'$$]) c;
-- What reads needs no right to write.
BEGIN READ ONLY;
SELECT count(*) FROM run_list('system'), run_fetch('system', 'run01'), run_inspect('system', 'run01');
ROLLBACK;
SELECT err($$SET TRANSACTION READ ONLY; SELECT run_insert('tenantless', 'x', 'g', 'h', '', now())$$), err($$SET TRANSACTION READ ONLY; SELECT run_lock('system', 'run01')$$);
