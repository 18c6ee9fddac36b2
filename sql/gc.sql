-- gc: ended rows after the retention, in batches, sparing the children of live parents; their signals go along.
-- GD-003, GD-007, GD-187, GD-218, GD-260, GD-261, GD-262, GD-263, GD-264, GD-265, GD-266, GD-267, D-10, D-11, D-13, AC-190, AC-191
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- Only ended rows, all three ends, and only after the retention.
SELECT count(*) FROM unnest('{done,failed,cancelled,parked,parent,executing,runnable}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 6);
SELECT fin('done', done()), fin('failed', stop('x')), cancel(id('cancelled'), force => true), fin('parked', await_signal('{go}', 'x')),
  fin('parent', schedule_children('x', '[{"fsm": "child", "queue": "c"}]'));
SELECT gc();
SET gen_durable.clock_offset = 86000000;
SELECT gc();
SET gen_durable.clock_offset = 86500000;
SELECT gc(), gc();
SELECT string_agg(fsm, ' ' ORDER BY id) FROM instances;

-- The instant of the end counts, not the last change.
CALL fresh();
SELECT count(*) FROM insert('a', queue => 'q');
SELECT picks('q'), fin('a', done());
UPDATE instances SET updated_at = updated_at + interval '2 days';
SET gen_durable.clock_offset = 173000000;
SELECT gc();
CALL fresh();
SELECT count(*) FROM insert('a', queue => 'q');
SELECT picks('q'), fin('a', done());
UPDATE instances SET updated_at = updated_at - interval '2 days', inserted_at = inserted_at - interval '2 days';
SELECT gc();
RESET gen_durable.clock_offset;

-- The retention and the batch: arguments before settings.
CALL fresh();
SELECT count(*) FROM generate_series(1, 3) n, insert('a', to_jsonb(n), queue => 'q');
SELECT count(complete(token, done())) FROM pick('q', 'w', 3);
SET gen_durable.clock_offset = 5000;
SELECT gc('60 s'), gc('1 s', 2), gc('1 s', 2), gc('1 s', 2);
SELECT count(*) FROM generate_series(1, 3) n, insert('a', to_jsonb(n), queue => 'q');
SELECT count(complete(token, done())) FROM pick('q', 'w', 3);
SET gen_durable.clock_offset = 10000;
SET gen_durable.gc_retention = '1 s';
SET gen_durable.gc_batch = 2;
SELECT gc(), collected FROM tick();
RESET gen_durable.gc_retention;
RESET gen_durable.gc_batch;
RESET gen_durable.clock_offset;
-- A retention of nothing takes what has just ended.
SELECT count(*) FROM insert('a', queue => 'q');
SELECT count(complete(token, done())) FROM pick('q', 'w');
SELECT gc('0');

-- An ended child stays while its parent lives, and goes with it.
CALL fresh();
SELECT count(*) FROM insert('p', queue => 'q');
SELECT picks('q'), fin('p', schedule_children('two', '[{"fsm": "a", "queue": "c"}, {"fsm": "b", "queue": "c"}]'));
SELECT picks('c', 2), fin('a', done());
SET gen_durable.clock_offset = 90000000;
SELECT gc();
SELECT fin('b', stop('x'));
SELECT picks('q'), gc(), fin('p', done());
-- The parent has just ended: the child that ended long ago is free to go.
SELECT gc();
SELECT string_agg(fsm, ' ' ORDER BY id) FROM instances;
SET gen_durable.clock_offset = 180000000;
SELECT gc();
SELECT count(*) FROM instances;
-- A child that lives on after its parent loses the link.
SET gen_durable.clock_offset = 0;
CALL fresh();
SELECT count(*) FROM insert('p', queue => 'q');
SELECT picks('q'), fin('p', schedule_children('two', '[{"fsm": "a", "queue": "c"}]')), cancel(id('p'));
SET gen_durable.clock_offset = 90000000;
SELECT gc();
SELECT fsm, status, parent_id FROM instances;
SELECT picks('c'), fin('a', done());
-- Both in one pass, whichever ended first; deeper trees too.
CALL fresh();
SET gen_durable.clock_offset = 0;
SELECT count(*) FROM insert('p', queue => 'q');
SELECT picks('q'), fin('p', schedule_children('two', '[{"fsm": "a", "queue": "c"}, {"fsm": "b", "queue": "c"}]')), picks('c'), fin('a', schedule_children('two', '[{"fsm": "leaf", "queue": "leaf"}]'));
SELECT cancel(id('p')), cancel(id('a')), picks('leaf'), fin('leaf', done());
SELECT cancel(id('b'));
SELECT gc('0');
-- Spared rows do not keep the others from their turn, whatever the batch.
CALL fresh();
RESET gen_durable.clock_offset;
SELECT count(*) FROM insert('p', queue => 'q');
SELECT picks('q'), fin('p', schedule_children('two', (SELECT jsonb_agg('{"fsm": "kid", "queue": "c"}'::jsonb) FROM generate_series(1, 21))));
SELECT count(complete(token, done())) FROM pick('c', 'w', 20);
SELECT count(*) FROM insert('a', queue => 'a');
SELECT picks('a'), fin('a', done());
SET gen_durable.clock_offset = 90000000;
SELECT gc(batch => 2), gc(batch => 2);
SELECT count(*) FROM instances;

-- Signals go with their row, and a tombstone with its retention. A collected row is unknown.
CALL fresh();
RESET gen_durable.clock_offset;
SELECT count(*) FROM insert('a', queue => 'q', correlation_key => 'k', correlation_scope => '{runnable,executing,done}');
SELECT picks('q'), fin('a', done()), ins('b', 'k');
INSERT INTO signals (target_id, name) VALUES (1, 'leftover');
SET gen_durable.clock_offset = 90000000;
SELECT gc();
SELECT count(*) FROM signals;
SELECT signal(1, 'go'), (SELECT outcome FROM await(1)), err('SELECT cancel(1)');
-- Its correlation key is free.
SELECT created FROM insert('b', correlation_key => 'k');
RESET gen_durable.clock_offset;
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[$$gc('-1 s')$$, $$gc(batch => 0)$$, $$gc(batch => -1)$$]) q;
-- tick does all of it once, and says what it did.
CALL fresh();
SELECT * FROM tick();
