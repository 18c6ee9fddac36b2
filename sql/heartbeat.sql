-- Leases: heartbeat extends them by token, release gives the claim back untouched.
-- GD-067, GD-243, GD-244, GD-247, GD-250, D-1, D-2, D-10, D-15, D-31, AC-182, AC-184
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 2);

-- One row for each token. The lease counts from now, by the setting or the argument.
SELECT tok('a') AS a, tok('b') AS b, updated_at AS before, lease_expires_at AS lease FROM instances WHERE fsm = 'a' \gset
SET gen_durable.clock_offset = 30000;
SELECT count(*), count(*) FILTER (WHERE token = :'a'), bool_and(held), bool_or(cancel_requested) FROM heartbeat(ARRAY[:'b', :'a']::uuid[]);
SELECT lease_expires_at - :'lease' BETWEEN '30 s' AND '90 s', updated_at = :'before', attempt FROM instances WHERE fsm = 'a';
SELECT held FROM heartbeat(ARRAY[:'a'::uuid], '1 h');
SELECT lease_expires_at - :'lease' BETWEEN '59 min' AND '62 min' FROM instances WHERE fsm = 'a';
-- It may shorten too.
SELECT held FROM heartbeat(ARRAY[:'a'::uuid], '1 s');
SELECT lease_expires_at - :'lease' < '0' FROM instances WHERE fsm = 'a';

-- Beaten in time, a long step is never taken away.
SELECT count(*) FROM heartbeat(ARRAY[:'a', :'b']::uuid[]);
SET gen_durable.clock_offset = 80000;
SELECT reap(), count(*) FROM heartbeat(ARRAY[:'a', :'b']::uuid[]);
SET gen_durable.clock_offset = 130000;
SELECT reap(), st('a', 'b');
-- After the lease's end, not yet reaped, the claim can be beaten on.
SET gen_durable.clock_offset = 900000;
SELECT held FROM heartbeat(ARRAY[:'a'::uuid]);
SELECT reap(), st('a', 'b');

-- Not held: a token that was reaped, a random one, one of a row claimed anew by the same worker. Their leases stay as they are.
SELECT held, cancel_requested FROM heartbeat(ARRAY[:'b', '6ecd8c99-4036-403d-bf84-cf8400f67836']::uuid[]);
SELECT picks('q', 2);
SELECT lease_expires_at AS lease FROM instances WHERE fsm = 'b' \gset
SELECT held FROM heartbeat(ARRAY[:'b'::uuid], '5 h');
SELECT lease_expires_at = :'lease' FROM instances WHERE fsm = 'b';
-- The same token twice is told once; no tokens, no rows.
SELECT held FROM heartbeat(ARRAY[:'a', :'a']::uuid[]);
SELECT * FROM heartbeat('{}');
-- A cancellation that was asked for shows here.
SELECT cancel(id('a'));
SELECT held, cancel_requested FROM heartbeat(ARRAY[:'a'::uuid]);

-- A queue's own lease is the default for its claims.
INSERT INTO queues (name, lease_ttl) VALUES ('q', '10 min');
SELECT held FROM heartbeat(ARRAY[tok('c')]);
SELECT lease_expires_at > clock_timestamp() + interval '900 s' + interval '9 min' FROM instances WHERE fsm = 'c';

-- release: back to runnable with its attempt, its due time and its step; nothing is consumed.
SELECT attempt, crashes, eligible_at AS due FROM instances WHERE fsm = 'b' \gset
SELECT signal(id('b'), 'go');
SELECT release(ARRAY[tok('b'), tok('c'), :'b'::uuid]);
SELECT fsm, status, step, attempt, token, locked_by, lease_expires_at, concurrency_shard, updated_at > inserted_at FROM instances WHERE fsm IN ('b', 'c') ORDER BY id;
SELECT crashes = :crashes, eligible_at = :'due', sigs('b') FROM instances WHERE fsm = 'b';
SELECT picks('q', 5);
-- The same token twice counts once.
SELECT release(ARRAY[tok('b'), tok('b')]), release('{}'), st('b');
-- A claim whose cancellation was asked for ends with its release.
SELECT release(ARRAY[:'a'::uuid]);
SELECT st('a'), finished_at = updated_at FROM instances WHERE fsm = 'a';
RESET gen_durable.clock_offset;

-- What they refuse.
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY['heartbeat(NULL)', 'heartbeat(ARRAY[NULL::uuid])', $$heartbeat('{}', '-1 s')$$, $$heartbeat('{no-token}')$$,
  'release(NULL)', 'release(ARRAY[NULL::uuid])', $$release('{no-token}')$$]) q;
SELECT err(format('SELECT release(ARRAY[%L, NULL]::uuid[])', tok('c'))), st('c');
