-- The lease's end: the step runs again, counted as an attempt and as a crash, up to the machine's bound. And reclaim at a worker's start.
-- GD-225, GD-226, GD-227, GD-228, GD-229, GD-230, GD-231, GD-235, GD-236, GD-237, GD-238, D-2, D-9, D-13, AC-112, AC-181, AC-185, AC-187, AC-194
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- Only leases that have passed.
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', ttl => '10 s'), picks('q', ttl => '20 s');
UPDATE instances SET rate_limit = 'api', weight = 2 WHERE fsm = 'a';
SELECT eligible_at AS due FROM instances WHERE fsm = 'a' \gset
SET gen_durable.clock_offset = 9000;
SELECT reap();
SET gen_durable.clock_offset = 11000;
SELECT reap();
SELECT st('a', 'b', 'c');
-- The claim is gone, one attempt and one crash more; due time, limit and signals are as they were.
SELECT token, locked_by, lease_expires_at, concurrency_shard, crashes, eligible_at = :'due', rate_limit, weight, finished_at FROM instances WHERE fsm = 'a';
SELECT reap();
-- A park that waited keeps what it was woken for.
CALL fresh();
SELECT count(*) FROM insert('a', queue => 'q');
SELECT picks('q'), fin('a', await_signal('{go}', 'two')), signal(id('a'), 'go'), picks('q');
SET gen_durable.clock_offset = 90000;
SELECT reap();
SELECT step, attempt, jsonb_path_query_array(awaited, '$[*].name') FROM pick('q', 'w');

-- In bounded batches, the oldest lease first.
CALL fresh();
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => n);
SELECT picks('a', ttl => '30 s'), picks('b', ttl => '10 s'), picks('c', ttl => '20 s');
SET gen_durable.clock_offset = 900000;
SELECT reap(2);
SELECT st('a', 'b', 'c');
SELECT reaped FROM tick();
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY['reap(0)', 'reap(-5)', 'reap(NULL)']) q;
RESET gen_durable.clock_offset;

-- Crashes in a row end the instance: after max_crashes of them the next one fails it.
CALL fresh();
SELECT 'ok' FROM register_fsm('fragile', queue => 'q', max_crashes => 2) AS a, register_fsm('endless', queue => 'q', max_crashes => NULL) AS b;
CREATE FUNCTION pg_temp.crash(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM t.picks('q', 10);
  UPDATE gen_durable.instances SET lease_expires_at = '2001-01-01' WHERE status = 'executing';
  PERFORM gen_durable.reap();
  RETURN t.st(name);
END $$;
SELECT count(*) FROM unnest('{fragile,endless,plain}'::text[]) n, insert(n, queue => 'q');
SELECT pg_temp.crash('fragile'), pg_temp.crash('fragile'), (SELECT count(*) FROM instances WHERE status = 'failed');
SELECT pg_temp.crash('fragile');
SELECT crashes, last_error, token, locked_by, finished_at = updated_at FROM instances WHERE fsm = 'fragile';
-- An unregistered machine has the default bound of 10; NULL is no bound.
SELECT count(pg_temp.crash('plain')) FROM generate_series(1, 7);
SELECT st('plain', 'endless'), pg_temp.crash('plain');
SELECT last_error FROM instances WHERE fsm = 'plain';
SELECT count(pg_temp.crash('endless')) FROM generate_series(1, 20);
SELECT st('endless'), crashes FROM instances WHERE fsm = 'endless';

-- Only crashes in a row, of one step: next, await and children begin anew, retry and release do not.
CALL fresh();
SELECT 'ok' FROM register_fsm('f', queue => 'q', max_crashes => 2);
SELECT count(*) FROM insert('f');
SELECT pg_temp.crash('f'), pg_temp.crash('f'), picks('q'), fin('f', retry());
SELECT picks('q'), release(ARRAY[tok('f')]);
SELECT crashes, attempt FROM instances;
SELECT picks('q'), fin('f', next_step('two'));
SELECT crashes FROM instances;
SELECT pg_temp.crash('f'), pg_temp.crash('f'), pg_temp.crash('f');
-- A crash that fails a child joins its parent, drops its inbox and frees its key.
CALL fresh();
SELECT 'ok' FROM register_fsm('child', queue => 'q', max_crashes => 1);
SELECT count(*) FROM insert('p', queue => 'p');
SELECT picks('p'), fin('p', schedule_children('two', '[{"fsm": "child", "concurrency_key": "k"}]'));
SELECT signal(id('child'), 'x'), pg_temp.crash('child'), pg_temp.crash('child');
SELECT st('p'), (SELECT count(*) FROM signals), (SELECT count(*) FROM insert('next', queue => 'k', concurrency_key => 'k'));
SELECT picks('k');
-- One whose cancellation was asked for ends as cancelled at the lease's end.
CALL fresh();
SELECT count(*) FROM insert('a', queue => 'q');
SELECT picks('q'), cancel(id('a'), 'no use');
SET gen_durable.clock_offset = 90000;
SELECT reap();
RESET gen_durable.clock_offset;
SELECT status, last_error, finished_at = updated_at FROM instances;

-- reclaim: this queue, workers by plain prefix, less than the margin of lease left; the attempt stays.
CALL fresh();
SELECT count(*) FROM generate_series(1, 6) n, insert('r', to_jsonb(n), queue => 'a%_b');
SELECT count(*) FROM insert('other', queue => 'aXXb');
SELECT picks('a%_b', worker => 'h%_0', ttl => '200 ms'), picks('a%_b', worker => 'hXX0', ttl => '200 ms'), picks('a%_b', worker => 'h%_1', ttl => '1 h'),
  picks('a%_b', worker => 'H%_0', ttl => '200 ms'), picks('a%_b', worker => 'h%', ttl => '1 min'), picks('aXXb', worker => 'h%_0', ttl => '200 ms');
SELECT reclaim('a%_b', 'h%_', '400 ms');
SELECT locked_by, status, attempt, crashes FROM instances ORDER BY id;
SELECT reclaim('a%_b', 'h%_', '2 h'), reclaim('a%_b', 'h%_', '2 h'), reclaim('nobody', 'h', '2 h'), reclaim('a%_b', 'zz', '2 h');
-- A worker whose name is the whole prefix counts; the freed key is promoted at once.
SELECT reclaim('a%_b', 'h%', '0'), reclaim('a%_b', 'h%', '2 h');
CALL fresh();
SELECT count(*) FROM unnest('{k1,k2}'::text[]) n, insert(n, queue => 'q', concurrency_key => 'k');
SELECT picks('q', 2, 'dead', '1 s'), blocked('q');
SELECT reclaim('q', 'dead', '1 h');
SELECT blocked('q'), picks('q', 2);
SELECT cancel(id('k1'));
SELECT reclaim('q', 'w', '1 h'), st('k1');
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[$$reclaim(NULL, 'p', '1 s')$$, $$reclaim('', 'p', '1 s')$$, $$reclaim('q', NULL, '1 s')$$, $$reclaim('q', '', '1 s')$$,
  $$reclaim('q', 'p', NULL)$$, $$reclaim('q', 'p', '-1 s')$$]) q;
