-- why(): what an instance waits for, since and until when, held by whom, how many are ahead. D-3, D-7, D-12
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
SELECT count(*) FROM unnest('{a,b}'::text[]) n, insert(n, queue => 'q');
SELECT count(*) FROM insert('urgent', queue => 'q', priority => -1);
SELECT count(*) FROM insert('future', queue => 'q', priority => -2, schedule_in => '1 h');
-- a worker
SELECT n, w.status, w.waits_for, w.since = i.inserted_at, w.until, w.held_by, w.ahead FROM unnest('{a,b,urgent}'::text[]) n JOIN instances i ON i.fsm = n, why(i.id) w ORDER BY n;
-- its time
SELECT w.status, w.waits_for, w.until = i.eligible_at, w.held_by, w.ahead FROM instances i, why(i.id) w WHERE i.fsm = 'future';
-- its worker
SELECT picks('q', worker => 'alice');
SELECT w.status, w.waits_for, w.since = i.updated_at, w.until = i.lease_expires_at, w.held_by, w.ahead FROM instances i, why(i.id) w WHERE i.fsm = 'urgent';
SELECT cancel(id('urgent'));
SELECT waits_for, held_by FROM why(id('urgent'));
-- a signal, its children
SELECT picks('q', 2), fin('a', await_signal('{go,stop}', 'two', timeout => '1 h')), fin('b', schedule_children('two', '[{"fsm": "c", "queue": "c"}, {"fsm": "d", "queue": "c"}]'));
SELECT w.status, w.waits_for, w.until = i.await_deadline, w.held_by, w.ahead FROM instances i, why(i.id) w WHERE i.fsm = 'a';
SELECT status, waits_for, until, held_by, ahead FROM why(id('b'));
-- a signal that its step had already is not waited for
SELECT count(*) FROM insert('early', queue => 'early');
SELECT signal(id('early'), 'go'), picks('early'), fin('early', await_signal('{go}', 'two'));
SELECT waits_for FROM why(id('early'));
-- a key
CALL fresh();
SELECT count(*) FROM unnest('{k1,k2,k3}'::text[]) n, insert(n, queue => 'k', concurrency_key => 'disk:1');
SELECT picks('k', 10, 'bob');
SELECT w.status, w.waits_for, w.until = h.lease_expires_at, w.held_by, w.ahead FROM instances h, instances i, why(i.id) w WHERE h.fsm = 'k1' AND i.fsm = 'k3';
-- a rate limit
INSERT INTO bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'api', 0.001, 1);
SELECT count(*) FROM unnest('{r0,r1,r2}'::text[]) n, insert(n, queue => 'r', rate_limit => 'api:eu');
SELECT picks('r', 10), blocked('r');
SELECT status, waits_for, round(extract(epoch FROM until - clock_timestamp()) / 100), held_by, ahead FROM why(id('r2'));
-- a burst that was made smaller than the weight of one that waits
UPDATE bucket_configs SET capacity = 0.5 WHERE name = 'api';
SELECT n, waits_for, until, ahead FROM unnest('{r1,r2}'::text[]) n, why(id(n));
UPDATE instances SET weight = 0.25 WHERE fsm = 'r2';
SELECT waits_for, until, ahead FROM why(id('r2'));
-- nothing
SELECT fin('k1', stop('x')), cancel(id('r1'));
SELECT w.status, w.waits_for, w.since = i.finished_at, w.until, w.held_by, w.ahead FROM instances i, why(i.id) w WHERE i.fsm IN ('k1', 'r1') ORDER BY i.id;
SELECT err('SELECT why(999)', '999'), err('SELECT why(NULL)');
