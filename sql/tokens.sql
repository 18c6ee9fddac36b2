-- The fence: an outcome counts only with the token of the present claim. The worker's name is a label.
-- GD-150, GD-151, GD-152, GD-236, GD-238, GD-247, D-1, AC-112, AC-113, AC-136
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- Every claim has a token of its own: a UUID of version 8, new each time.
SELECT created FROM insert('a', queue => 'q');
SELECT token AS first FROM pick('q', 'w') \gset
SELECT substr(:'first', 15, 1), release(ARRAY[:'first'::uuid]);
SELECT token AS second FROM pick('q', 'w') \gset
SELECT :'first' = :'second';

-- The earlier claim's outcome is stale, though the same worker holds the row again. It changes nothing.
SELECT err(format('SELECT complete(%L, next_step(%L))', :'first', 'two'), '1');
SELECT st('a'), token = :'second' FROM instances;
SELECT held, cancel_requested FROM heartbeat(ARRAY[:'first'::uuid]);
SELECT release(ARRAY[:'first'::uuid]), st('a');
-- The present claim's outcome is not; with it the token is spent.
SELECT 'ok' FROM complete(:'second', next_step('two'));
SELECT status, token, locked_by, lease_expires_at, concurrency_shard FROM instances;
SELECT err(format('SELECT complete(%L, next_step(%L))', :'second', 'three'));
SELECT st('a');

-- After the lease's end and reap, and after reclaim.
SELECT token AS third FROM pick('q', 'w') \gset
SET gen_durable.clock_offset = 61000;
SELECT reap();
SELECT err(format('SELECT complete(%L, done())', :'third'));
SELECT st('a');
SELECT token AS fourth FROM pick('q', 'host.1') \gset
SELECT reclaim('q', 'host.', '1 h');
SELECT err(format('SELECT complete(%L, done())', :'fourth'));
SELECT st('a');
RESET gen_durable.clock_offset;

-- The lease's end alone takes nothing away.
SELECT token AS fifth FROM pick('q', 'w') \gset
SET gen_durable.clock_offset = 600000;
SELECT held FROM heartbeat(ARRAY[:'fifth'::uuid]);
SET gen_durable.clock_offset = 6000000;
SELECT 'ok' FROM complete(:'fifth', retry());
SELECT st('a');
RESET gen_durable.clock_offset;

-- A stale outcome has no effect anywhere: the inbox stays, no child appears, the parent's count stays.
CALL fresh();
SELECT created FROM insert('parent', queue => 'q');
SELECT picks('q'), fin('parent', schedule_children('two', '[{"fsm": "child", "queue": "c"}]'));
SELECT signal(id('child'), 'go');
SELECT token AS stale FROM pick('c', 'w') \gset
SELECT release(ARRAY[:'stale'::uuid]);
SELECT o->>'outcome', err(format('SELECT complete(%L, %L)', :'stale', o))
FROM unnest(ARRAY[done(), stop('x'), fail('x'), retry(), next_step('x'), await_signal('{go}', 'x'), schedule_children('x', '[{"fsm": "y"}]')]) o;
SELECT ord, result FROM complete_many(jsonb_build_array(done() || jsonb_build_object('token', :'stale')));
SELECT st('parent', 'child', 'y'), sigs('child'), (SELECT children_pending FROM instances WHERE fsm = 'parent');

-- The caller's writes go with the outcome: with a stale token both roll back.
CREATE TEMP TABLE ledger (entry text);
\set VERBOSITY sqlstate
BEGIN;
INSERT INTO ledger VALUES ('twice');
SELECT complete(:'stale', done());
COMMIT;
SELECT count(*) FROM ledger;
SELECT picks('c');
BEGIN;
INSERT INTO ledger VALUES ('once');
SELECT 'ok' FROM complete(tok('child'), done());
COMMIT;
SELECT entry, st('child') FROM ledger;

-- Tokens of nobody: another database's, a random one, one of an instance that is gone or has ended.
SELECT err($$SELECT complete('00000000-0002-8000-8000-000000000000', done())$$);
SELECT err($$SELECT complete('6ecd8c99-4036-403d-bf84-cf8400f67836', done())$$);
SELECT err($$SELECT complete('ffffffff-ffff-ffff-ffff-ffffffffffff', done())$$);
SELECT err($$SELECT complete('00000000-0000-0000-0000-000000000000', done())$$);
SELECT token AS ended FROM insert('gone', queue => 'g'), LATERAL pick('g', CASE WHEN created THEN 'w' END) \gset
SELECT 'ok' FROM complete(:'ended', done());
SELECT err(format('SELECT complete(%L, done())', :'ended'));
DELETE FROM instances WHERE fsm = 'gone';
SELECT err(format('SELECT complete(%L, done())', :'ended'));
SELECT held FROM heartbeat(ARRAY[:'ended'::uuid]);
SELECT release(ARRAY[:'ended'::uuid]);
-- Malformed ones, and none.
SELECT err($$SELECT complete('no-token', done())$$, 'no-token');
SELECT err($$SELECT complete('', done())$$);
SELECT err($$SELECT complete(NULL, done())$$, 'token');
