-- Correlation keys: who holds one, in which statuses, and what happens when a row comes back to a key that was taken meanwhile.
-- GD-033, GD-034, GD-041, GD-042, GD-180, GD-265, D-7, D-16, AC-002, AC-004, AC-005, AC-013, AC-014
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- The key is held through the statuses of its scope.
SELECT ins('a', 'a', '{runnable,executing}', 'q');
SELECT ins('a2', 'a', '{runnable,executing}', 'q');
SELECT picks('q');
SELECT ins('a2', 'a', '{runnable,executing}', 'q');
SELECT fin('a', done());
SELECT ins('a2', 'a', '{runnable,executing}', 'q');
SELECT find('a') = id('a2'), find('nobody');

-- The default scope: through runnable, executing and both parks; free at the end, whichever end.
SELECT ins('b', 'b', queue => 'b');
SELECT picks('b'), fin('b', await_signal('{go}', 'two')), ins('b2', 'b');
SELECT signal_key('b', 'go');
SELECT picks('b'), fin('b', schedule_children('three', '[{"fsm": "b-child", "queue": "none"}]')), ins('b2', 'b');
SELECT find('b') = id('b');
SELECT cancel(id('b'));
SELECT find('b'), ins('b2', 'b', queue => 'b');
SELECT picks('b'), fin('b2', stop('no'));
SELECT ins('b3', 'b');

-- A scope with terminal statuses keeps the key after the end; such an occupant is nobody to talk to.
SELECT ins('c', 'c', '{runnable,executing,done,failed}', 'c');
SELECT picks('c'), fin('c', done());
SELECT ins('c2', 'c', '{runnable}'), find('c'), signal_key('c', 'go');
-- A status that is not in the scope does not hold it.
SELECT ins('d', 'd', '{runnable,executing,done}', 'd');
SELECT picks('d'), fin('d', stop('no')), ins('d2', 'd');
SELECT ins('e', 'e', '{cancelled,runnable}');
SELECT cancel(id('e')), ins('e2', 'e');

-- NULL keys never collide. An empty scope holds nothing: neither unique nor an address.
SELECT ins('f', NULL), ins('f2', NULL);
SELECT ins('g', 'g', '{}'), ins('g2', 'g', '{}'), signal_key('g', 'go'), find('g');
SELECT ins('g3', 'g'), ins('g4', 'g', '{}'), find('g') = id('g3');
-- Keys are compared whole and by bytes.
SELECT ins('h', 'Key'), ins('h2', 'key'), ins('h3', 'key '), ins('h4', 'key:1');

-- Coming back to a key that another took meanwhile never fails: the row goes on without it (D-7).
CALL fresh();
SELECT ins('a', 'k', '{runnable,executing}', 'q');
SELECT picks('q'), fin('a', await_signal('{go}', 'two'));
SELECT ins('b', 'k', '{runnable,executing}', 'q');
SELECT signal(id('a'), 'go');
SELECT st('a'), (SELECT correlation_guard FROM instances WHERE fsm = 'a'), find('k') = id('b');
SELECT i.fsm FROM unkeyed_instances u JOIN instances i ON i.id = u.id;
-- Moving about inside the scope does not take the key, even when it is free.
SELECT picks('q', 2);
SELECT fin('b', done());
SELECT fin('a', next_step('three')), find('k');
SELECT (SELECT correlation_guard FROM instances WHERE fsm = 'a'), (SELECT count(*) FROM unkeyed_instances);
SELECT ins('c', 'k', '{runnable,executing}', 'other');
-- Leaving and entering again does, once it is free.
SELECT picks('q'), fin('a', await_signal('{go}', 'four'));
SELECT count(*) FROM unkeyed_instances;
SELECT picks('other'), fin('c', done());
SELECT signal(id('a'), 'go');
SELECT (SELECT correlation_guard FROM instances WHERE fsm = 'a'), find('k') = id('a');

-- The same at every way into a scope. By a claim, in one pick:
CALL fresh();
SELECT ins('a', 'k', '{executing}', 'q'), ins('b', 'k', '{executing}', 'q'), ins('c', 'l', '{executing}', 'q');
SELECT picks('q', 10);
SELECT fsm, correlation_guard FROM instances ORDER BY id;
-- by the lease's end and by release, which must not stop at such a row:
CALL fresh();
SELECT ins('a', 'k', '{runnable}', 'q'), ins('b', NULL, '{runnable}', 'q'), ins('d', 'm', '{runnable}', 'q');
SELECT picks('q', 10);
SELECT ins('c', 'k', '{runnable}', 'other'), ins('e', 'm', '{runnable}', 'other');
SELECT release(ARRAY[tok('d')]);
SET gen_durable.clock_offset = 61000;
SELECT reap();
RESET gen_durable.clock_offset;
SELECT fsm, status, correlation_guard FROM instances ORDER BY id;
-- by a deadline, among others in one sweep:
CALL fresh();
SELECT ins('a', 'k', '{runnable,executing}', 'q'), ins('b', NULL, '{}', 'q');
SELECT picks('q', 2), fin('a', await_signal('{go}', 'two', timeout => '1s')), fin('b', await_signal('{go}', 'two', timeout => '2s'));
SELECT ins('c', 'k', '{runnable,executing}', 'other');
SET gen_durable.clock_offset = 10000;
SELECT fire_timeouts();
RESET gen_durable.clock_offset;
SELECT fsm, status, correlation_guard FROM instances ORDER BY id;
-- by a join:
CALL fresh();
SELECT ins('a', 'k', '{runnable}', 'q');
SELECT picks('q'), fin('a', schedule_children('two', '[{"fsm": "child", "queue": "c"}]')), ins('b', 'k', '{runnable}', 'other');
SELECT picks('c'), fin('child', done());
SELECT fsm, status, correlation_guard FROM instances ORDER BY id;
-- by the end, in one batch of outcomes:
CALL fresh();
SELECT ins('a', 'k', '{done}', 'q'), ins('b', 'k', '{done}', 'q'), ins('c', 'k', '{failed,done}', 'q');
SELECT picks('q', 10);
SELECT ord, result FROM complete_many(jsonb_build_array(done() || jsonb_build_object('token', tok('a')),
  done() || jsonb_build_object('token', tok('b')), stop('x') || jsonb_build_object('token', tok('c')))) ORDER BY ord;
SELECT string_agg(status::text, ' ' ORDER BY id), string_agg(correlation_guard, ' ') FROM instances;
-- by cancel, and by revive:
SELECT ins('d', 'k', '{cancelled}'), cancel(id('d'));
SELECT fsm, status, correlation_guard FROM instances WHERE fsm = 'd';
SELECT ins('e', 'e', '{runnable}', 'e');
SELECT picks('e'), fin('e', stop('x')), ins('f', 'e', '{runnable}');
SELECT 'revived' FROM revive(id('e'));
SELECT fsm, status, correlation_guard FROM instances WHERE fsm IN ('e', 'f') ORDER BY id;
-- The key of a row that ended is free once gc took the row, where its scope had kept it.
SELECT ins('g', 'g', '{done}', 'g');
SELECT picks('g'), fin('g', done()), ins('g2', 'g', '{runnable}');
SELECT gc('0') > 0, ins('g2', 'g', '{runnable}');
