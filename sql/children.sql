-- Fan-out and join. GD-005, GD-159, GD-171, GD-210, GD-211, GD-212, GD-213, GD-214, GD-215, GD-216, GD-217, GD-218, GD-219, GD-263,
-- D-8, D-15, D-26, D-28, AC-122, AC-166, AC-167, AC-170, AC-172
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.spawn(name text, children jsonb, step text DEFAULT 'joined') RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF t.id(name) IS NULL THEN
    PERFORM gen_durable.insert(name, queue => name);
  END IF;
  PERFORM t.picks(name);
  RETURN t.fin(name, gen_durable.schedule_children(step, children));
END $$;
CREATE FUNCTION pg_temp.pending(name text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT concat_ws(' ', status, step, children_pending) FROM gen_durable.instances WHERE fsm = name
$$;
CALL fresh();

-- Children are ordinary rows with the parent's id, keyed as insert's arguments.
SELECT pg_temp.spawn('p', '[{"fsm": "a", "queue": "c"}, {"fsm": "b", "queue": "c", "state": {"n": 2}, "step": "two", "priority": 4, "fsm_version": 3,
  "concurrency_key": "ck", "correlation_key": "k", "correlation_scope": ["runnable"], "weight": 2, "schedule_in": "PT1H"}]');
SELECT fsm, parent_id = id('p'), status, step, queue, state, attempt, eligible_at = inserted_at FROM instances WHERE fsm = 'a';
SELECT state, step, priority, fsm_version, concurrency_key, correlation_key, correlation_scope, weight, eligible_at - inserted_at FROM instances WHERE fsm = 'b';
SELECT pg_temp.pending('p');
-- Each end counts once, whichever end it is; the last one wakes.
SELECT picks('c'), fin('a', stop('broken'));
SELECT pg_temp.pending('p'), picks('p');
SELECT cancel(id('b'));
SELECT pg_temp.pending('p'), eligible_at = updated_at FROM instances WHERE fsm = 'p';
-- The parent sees them all, by id, with status, result and error.
SELECT j->>'fsm', j->>'status', j->'result', j->>'error' FROM pick('p', 'w'), jsonb_array_elements(children) WITH ORDINALITY e(j, o) ORDER BY o;

-- The next round shows the children of earlier rounds too, and waits for its own only.
SELECT fin('p', schedule_children('again', '[{"fsm": "c", "queue": "c"}]'));
SELECT pg_temp.pending('p'), picks('c'), fin('c', done('{"ok": 1}'));
SELECT pg_temp.pending('p'), jsonb_path_query_array(children, '$[*].fsm'), children->2->'result' FROM pick('p', 'w');

-- No children at all, and none that landed: the parent goes on at once.
CALL fresh();
SELECT pg_temp.spawn('p', '[]'), pg_temp.pending('p');
SELECT ins('occupant', 'k'), pg_temp.spawn('p2', '[{"fsm": "x", "correlation_key": "k"}, {"fsm": "x", "correlation_key": "k"}]');
-- Collisions, with stored rows and among themselves, cost only the child.
SELECT pg_temp.spawn('p3', '[{"fsm": "x", "correlation_key": "k"}, {"fsm": "y", "correlation_key": "l", "queue": "c"}, {"fsm": "x", "correlation_key": "l"}]'), pg_temp.pending('p3');
SELECT count(*) FROM instances WHERE fsm = 'x';
SELECT picks('c'), fin('y', done());
SELECT pg_temp.pending('p3');

-- Children appear with the park and not before: rolled back, both are gone.
SELECT count(*) FROM insert('r', queue => 'r');
SELECT picks('r');
BEGIN;
SELECT fin('r', schedule_children('two', '[{"fsm": "rc"}]'));
ROLLBACK;
SELECT st('r', 'rc');

-- A crash and a retry of a child do not count; its one end does.
CALL fresh();
SELECT pg_temp.spawn('p', '[{"fsm": "c1", "queue": "c"}, {"fsm": "c2", "queue": "c"}]');
SELECT picks('c');
SET gen_durable.clock_offset = 61000;
SELECT reap();
SELECT pg_temp.pending('p'), picks('c');
RESET gen_durable.clock_offset;
SELECT fin('c1', retry());
SELECT pg_temp.pending('p');
SET gen_durable.clock_offset = 61000;
SELECT picks('c', 2), fin('c1', done());
SELECT pg_temp.pending('p');
-- A revived child whose end was counted is not counted again.
SELECT cancel(id('c2'), force => true);
SELECT 'revived' FROM revive(id('c2'));
SELECT pg_temp.pending('p');
SELECT picks('p'), fin('p', schedule_children('second', '[{"fsm": "c3", "queue": "c"}]'));
SELECT picks('c', 2), fin('c2', done());
SELECT pg_temp.pending('p');
SELECT fin('c3', done());
SELECT pg_temp.pending('p');
RESET gen_durable.clock_offset;

-- Nested: each barrier by itself.
CALL fresh();
SELECT pg_temp.spawn('top', '[{"fsm": "mid1", "queue": "mid1"}, {"fsm": "mid2", "queue": "mid2"}]');
SELECT pg_temp.spawn('mid1', '[{"fsm": "leaf1", "queue": "leaf"}, {"fsm": "leaf2", "queue": "leaf"}]'), pg_temp.spawn('mid2', '[{"fsm": "leaf3", "queue": "leaf"}]');
SELECT picks('leaf', 3), fin('leaf1', done()), fin('leaf3', done());
SELECT pg_temp.pending('top'), pg_temp.pending('mid1'), pg_temp.pending('mid2');
SELECT fin('leaf2', done()), picks('mid2'), fin('mid2', done());
SELECT pg_temp.pending('top'), pg_temp.pending('mid1'), picks('mid1'), fin('mid1', done());
SELECT pg_temp.pending('top');

-- Children of an ended parent stay with themselves: its barrier is nobody's.
CALL fresh();
SELECT pg_temp.spawn('p', '[{"fsm": "c", "queue": "c"}]'), cancel(id('p'));
SELECT picks('c'), fin('c', done());
SELECT st('p');
-- A row of an earlier round that ends late joins no later barrier.
CALL fresh();
SELECT pg_temp.spawn('p', '[{"fsm": "late", "queue": "late"}]'), cancel(id('p'));
SELECT 'revived' FROM revive(id('p'), 'start');
SELECT pg_temp.spawn('p', '[{"fsm": "new", "queue": "new"}]', 'second'), pg_temp.pending('p');
SELECT picks('late'), fin('late', done());
SELECT pg_temp.pending('p');
SELECT picks('new'), fin('new', done());
SELECT pg_temp.pending('p');

-- Deleting the parent leaves the children, without the link.
DELETE FROM instances WHERE fsm = 'p';
SELECT fsm, parent_id FROM instances ORDER BY id;

-- Many at once.
CALL fresh();
SELECT pg_temp.spawn('p', (SELECT jsonb_agg(jsonb_build_object('fsm', 'c', 'queue', 'c', 'state', n, 'correlation_key', 'k' || (3000 - n))) FROM generate_series(1, 3000) n)), pg_temp.pending('p');
SELECT count(*) FILTER (WHERE result = 'committed') FROM complete_many((SELECT jsonb_agg(done() || jsonb_build_object('token', token)) FROM pick('c', 'w', 3000)));
SELECT pg_temp.pending('p'), jsonb_array_length(children) FROM pick('p', 'w');
SELECT count(*), count(*) FILTER (WHERE status = 'done') FROM children(1, max_rows => 5000);

-- What the pages refuse.
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY['children(NULL)', 'children(1, NULL)', 'children(1, 0, 0)', 'children(1, 0, NULL)', 'inbox(NULL)', 'inbox(1, NULL)', 'inbox(1, 0, 0)', 'inbox(1, 0, NULL)']) q;
-- An unknown instance has none.
SELECT count(*) FROM children(999999), inbox(999999);
