-- cancel: at once where no worker holds the row, else asked for; force, cascade, and what follows for parents, keys and inboxes.
-- GD-002, GD-216, GD-218, D-2, D-3, D-15, D-26
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- A runnable, a future, a parked row: cancelled at once, with the reason, without inbox, claim or deadline to come.
SELECT count(*) FROM unnest('{a,b}'::text[]) n, insert(n, queue => n, correlation_key => n);
SELECT count(*) FROM insert('f', queue => 'f', schedule_in => '1 day');
SELECT picks('b'), fin('b', await_signal('{go}', 'two', '{"n": 1}', '1 h')), signal(id('b'), 'other', dedup_key => 'k'), signal(id('a'), 'x');
SELECT cancel(id('a'), 'not needed'), cancel(id('b'), reason => 'nor this'), cancel(id('f'));
SELECT fsm, status, step, state, last_error, result, awaits, attempt, finished_at = updated_at, token, cancel_requested_at, correlation_guard FROM instances ORDER BY id;
SELECT count(*) FROM signals;
SELECT picks('a'), picks('b'), signal(id('a'), 'x'), find('a'), fire_timeouts(), reap();
SET gen_durable.clock_offset = 80000000;
SELECT fire_timeouts(), picks('f'), st('b');
RESET gen_durable.clock_offset;

-- Unknown rows, and rows that have ended, each end.
SELECT err('SELECT cancel(999)', '999'), err('SELECT cancel(0)'), err('SELECT cancel(-1)'), err('SELECT cancel(NULL)');
SELECT count(*) FROM unnest('{d,s}'::text[]) n, insert(n, queue => n);
SELECT picks('d'), fin('d', done()), picks('s'), fin('s', stop('own reason'));
SELECT err(format('SELECT cancel(%s)', id('d')), id('d')::text, 'done'), err(format('SELECT cancel(%s, force => true)', id('s')), 'failed'), err(format('SELECT cancel(%s, cascade => true)', id('a')), 'cancelled');
SELECT last_error FROM instances WHERE fsm IN ('d', 's', 'a') ORDER BY id;

-- A row that a worker holds: marked, and held until the worker is through.
CALL fresh();
SELECT count(*) FROM unnest('{h,next}'::text[]) n, insert(n, queue => 'q', concurrency_key => 'k');
SELECT picks('q', 5);
SELECT token FROM instances WHERE fsm = 'h' \gset
SELECT signal(id('h'), 'x'), cancel(id('h'), 'stop it');
SELECT status, token = :'token', locked_by, lease_expires_at IS NOT NULL, cancel_requested_at <= clock_timestamp(), finished_at, concurrency_key, sigs('h') FROM instances WHERE fsm = 'h';
-- exclusion holds until then
SELECT picks('q', 5), blocked('q');
-- asked for again, it was asked for at first; the reason is the last one given
SELECT cancel_requested_at AS asked FROM instances WHERE fsm = 'h' \gset
SELECT cancel(id('h')), cancel(id('h'), 'again');
SELECT cancel_requested_at = :'asked' FROM instances WHERE fsm = 'h';
-- The holder sees it at its heartbeat, and its outcome is refused, whichever it is.
SELECT held, cancel_requested FROM heartbeat(ARRAY[:'token'::uuid]);
SELECT o->>'outcome', err(format('SELECT complete(%L, %L)', :'token', o)) FROM unnest(ARRAY[done(), retry(), next_step('x'), await_signal('{x}', 'y'), schedule_children('y', '[{"fsm": "z"}]')]) o;
SELECT st('h', 'z');
-- Released, it is cancelled, and the key goes on.
SELECT release(ARRAY[:'token'::uuid]);
SELECT status, last_error, finished_at = updated_at, token, locked_by, lease_expires_at, sigs('h') FROM instances WHERE fsm = 'h';
SELECT blocked('q'), picks('q', 5);
-- Where the refusal does not undo the call, as in a batch, the row is cancelled then.
SELECT cancel(id('next'), 'this too');
SELECT ord, result FROM complete_many(jsonb_build_array(done() || jsonb_build_object('token', tok('next'))));
SELECT status, last_error, result, token FROM instances WHERE fsm = 'next';
-- At the lease's end, too.
SELECT count(*) FROM insert('l', queue => 'l');
SELECT picks('l'), cancel(id('l'));
SET gen_durable.clock_offset = 61000;
SELECT reap();
RESET gen_durable.clock_offset;
SELECT status, token, locked_by FROM instances WHERE fsm = 'l';

-- force takes a held claim away at once, also one that was asked for before.
CALL fresh();
SELECT count(*) FROM unnest('{a,b}'::text[]) n, insert(n, queue => 'q', concurrency_key => 'k');
SELECT picks('q', 5);
SELECT token FROM instances WHERE fsm = 'a' \gset
SELECT cancel(id('a'), 'now', force => true);
SELECT status, last_error, token, cancel_requested_at, finished_at = updated_at FROM instances WHERE fsm = 'a';
SELECT err(format('SELECT complete(%L, done())', :'token')), st('a');
SELECT held, cancel_requested FROM heartbeat(ARRAY[:'token'::uuid]);
SELECT picks('q', 5), cancel(id('b')), cancel(id('b'), force => true);
SELECT st('b');

-- A cancelled child joins its parent, once.
CALL fresh();
SELECT count(*) FROM insert('p', queue => 'p');
SELECT picks('p'), fin('p', schedule_children('two', '[{"fsm": "c1", "queue": "c"}, {"fsm": "c2", "queue": "c"}]'));
SELECT cancel(id('c1')), picks('c'), cancel(id('c2'));
SELECT st('p'), children_pending FROM instances WHERE fsm = 'p';
SELECT release(ARRAY[tok('c2')]);
SELECT st('p'), children_pending FROM instances WHERE fsm = 'p';

-- Without cascade a cancelled parent leaves its children be.
CALL fresh();
SELECT count(*) FROM insert('p', queue => 'p');
SELECT picks('p'), fin('p', schedule_children('two', '[{"fsm": "c1", "queue": "c"}, {"fsm": "c2", "queue": "c"}]')), cancel(id('p'));
SELECT st('p', 'c1', 'c2'), picks('c'), fin('c1', done());
SELECT st('p');
-- With cascade they go too, down to the last one; those held are asked, those that have ended stay as they ended.
CALL fresh();
SELECT count(*) FROM insert('top', queue => 'top');
SELECT picks('top'), fin('top', schedule_children('two', '[{"fsm": "mid", "queue": "mid"}, {"fsm": "ended", "queue": "ended"}, {"fsm": "held", "queue": "held"}, {"fsm": "waits", "queue": "waits"}]'));
SELECT picks('mid'), fin('mid', schedule_children('two', '[{"fsm": "leaf", "queue": "leaf"}, {"fsm": "deep", "queue": "deep"}]')), picks('ended'), fin('ended', done()), picks('held');
SELECT picks('deep'), fin('deep', schedule_children('two', '[{"fsm": "deepest", "queue": "deepest"}]'));
SELECT cancel(id('top'), 'all of it', cascade => true);
SELECT fsm, status, last_error, cancel_requested_at IS NOT NULL FROM instances ORDER BY id;
SELECT release(ARRAY[tok('held')]);
SELECT st('top', 'held');
-- force goes down the tree as well.
CALL fresh();
SELECT count(*) FROM insert('p', queue => 'p');
SELECT picks('p'), fin('p', schedule_children('two', '[{"fsm": "c", "queue": "c"}, {"fsm": "d", "queue": "d"}]'));
SELECT picks('c'), cancel(id('c'), force => true), cancel(id('d'));
SELECT picks('p'), fin('p', schedule_children('three', '[{"fsm": "e", "queue": "e"}]'));
SELECT picks('e'), cancel(id('p'), cascade => true, force => true);
SELECT st('p', 'c', 'd', 'e');
-- A parent that ended keeps nobody from cancelling a child of it.
CALL fresh();
SELECT count(*) FROM insert('p', queue => 'p');
SELECT picks('p'), fin('p', schedule_children('two', '[{"fsm": "c", "queue": "c"}]')), cancel(id('p')), cancel(id('c'));
-- Rolled back, nothing was cancelled.
SELECT count(*) FROM insert('r', queue => 'r');
BEGIN;
SELECT cancel(id('r'));
ROLLBACK;
SELECT st('r');
