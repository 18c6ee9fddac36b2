-- Outcomes and the next claims in one call: complete_and_take raises, commit_and_take reports.
-- GD-150, GD-153, GD-167, GD-301, D-1, D-8, D-25, D-26
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.entry(name text, outcome jsonb) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT outcome || jsonb_build_object('token', t.tok(name))
$$;
CALL fresh();

-- A worker's loop: no outcomes yet, then each with the next claims. A row may come straight back.
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');
SELECT fsm, step FROM complete_and_take('[]', 'q', 'w', 2);
SELECT fsm, step, attempt FROM complete_and_take(jsonb_build_array(pg_temp.entry('a', next_step('two')), pg_temp.entry('b', done())), 'q', 'w', 5);
SELECT st('a', 'b', 'c');
SELECT fsm FROM complete_and_take(jsonb_build_array(pg_temp.entry('a', done()), pg_temp.entry('c', done())), 'q', 'w', 5);
-- The lease is an argument here as well.
SELECT created FROM insert('d', queue => 'q');
SELECT lease_expires_at > clock_timestamp() + interval '50 min' FROM complete_and_take('[]', 'q', 'w', lease_ttl => '1 h');

-- The effects of the outcomes come before the claims: a freed key, a joined parent.
CALL fresh();
SELECT count(*) FROM unnest('{k1,k2}'::text[]) n, insert(n, queue => 'q', concurrency_key => 'k');
SELECT fsm FROM complete_and_take('[]', 'q', 'w', 5);
SELECT fsm FROM complete_and_take(jsonb_build_array(pg_temp.entry('k1', done())), 'q', 'w', 5);
SELECT fsm FROM complete_and_take(jsonb_build_array(pg_temp.entry('k2', schedule_children('two', '[{"fsm": "child", "queue": "q"}]'))), 'q', 'w', 5);
SELECT fsm, step, children->0->>'status' FROM complete_and_take(jsonb_build_array(pg_temp.entry('child', done())), 'q', 'w', 5);

-- complete_and_take: one stale or invalid outcome and all of the call is undone, the claims too.
CALL fresh();
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 2);
SELECT err(format('SELECT complete_and_take(%L, %L, %L)', jsonb_build_array(pg_temp.entry('a', done()), pg_temp.entry('b', '{"outcome": "dnoe"}')), 'q', 'w'), 'dnoe');
SELECT err(format('SELECT complete_and_take(%L, %L, %L)', jsonb_build_array(pg_temp.entry('a', done()),
  done() || '{"token": "00000000-0002-8000-8000-000000000000"}'), 'q', 'w'));
SELECT err(format('SELECT complete_and_take(%L, %L, %L)', jsonb_build_array(pg_temp.entry('a', done()), pg_temp.entry('a', done())), 'q', 'w'));
SELECT err(format('SELECT complete_and_take(%L, %L, %L)', '[{"outcome": "done"}]', 'q', 'w'), 'token');
SELECT err(format('SELECT complete_and_take(%L, %L, %L)', '[{"outcome": "done", "token": "no-token"}]', 'q', 'w'), 'no-token');
SELECT st('a', 'b', 'c');

-- commit_and_take: each outcome by itself, and the claims as an array.
CALL commit_and_take(jsonb_build_array(pg_temp.entry('a', done()), pg_temp.entry('b', '{"outcome": "dnoe"}'),
  '{"outcome": "done", "token": "00000000-0002-8000-8000-000000000000"}'::jsonb), 'q', 'w', 5) \gset
SELECT r->>'ord', split_part(r->>'result', ':', 1) FROM jsonb_array_elements(:'results') r;
SELECT r->>'id' FROM jsonb_array_elements(:'results') r LIMIT 1;
SELECT jsonb_array_length(:'jobs'), j->>'fsm', j->>'step', j->>'id', (j->>'token')::uuid = tok('c'), j->'state', j->'attempt', j->>'queue'
FROM jsonb_array_elements(:'jobs') j;
-- A job object has a job's columns.
SELECT string_agg(key, ' ' ORDER BY key COLLATE "C") FROM jsonb_object_keys(:'jobs'::jsonb->0) key;
SELECT string_agg(attname, ' ' ORDER BY attname COLLATE "C") FROM pg_attribute WHERE attrelid = 'job'::regclass AND attnum > 0;
SELECT st('a', 'b', 'c');
-- Nothing given and nothing found are empty arrays.
CALL commit_and_take('[]', 'q', 'w');
-- In a transaction block it is part of that transaction.
BEGIN;
CALL commit_and_take(jsonb_build_array(pg_temp.entry('c', next_step('two'))), 'q', 'w') \gset
SELECT :'jobs'::jsonb->0->>'fsm', st('c');
ROLLBACK;
SELECT st('c');

-- What both refuse.
SELECT q, err(q) FROM unnest(ARRAY[
  $$SELECT complete_and_take(NULL, 'q', 'w')$$, $$SELECT complete_and_take('{}', 'q', 'w')$$, $$SELECT complete_and_take('[]', NULL, 'w')$$,
  $$SELECT complete_and_take('[]', 'q', NULL)$$, $$SELECT complete_and_take('[]', '', 'w')$$, $$SELECT complete_and_take('[]', 'q', '')$$,
  $$SELECT complete_and_take('[]', 'q', 'w', 0)$$, $$SELECT complete_and_take('[]', 'q', 'w', NULL)$$, $$SELECT complete_and_take('[]', 'q', 'w', 1, '-1 s')$$,
  $$CALL commit_and_take(NULL, 'q', 'w')$$, $$CALL commit_and_take('{}', 'q', 'w')$$, $$CALL commit_and_take('[]', NULL, 'w')$$,
  $$CALL commit_and_take('[]', 'q', NULL)$$, $$CALL commit_and_take('[]', '', 'w')$$, $$CALL commit_and_take('[]', 'q', '')$$,
  $$CALL commit_and_take('[]', 'q', 'w', 0)$$, $$CALL commit_and_take('[]', 'q', 'w', NULL)$$, $$CALL commit_and_take('[]', 'q', 'w', 1, '-1 s')$$]) q;
-- A bad argument takes no outcome with it.
SELECT err(format('SELECT complete_and_take(%L, %L, %L, 0)', jsonb_build_array(pg_temp.entry('c', done())), 'q', 'w'), 'batch', '0'), st('c');
