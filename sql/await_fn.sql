-- await(): the six answers, the two modes, the deadline. GD-285, GD-286, GD-287, GD-288, GD-289, GD-291, D-17, D-27, AC-200, AC-202, AC-203
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
SELECT count(*) FROM unnest('{done,failed,cancelled,parked,parent,runs,backoff}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 7);
SELECT fin('done', next_step('two')), picks('q'), fin('done', done('{"sum": 7}')), fin('failed', stop('boom')), cancel(id('cancelled'), 'why not', force => true);
SELECT fin('parked', await_signal('{go}', 'two')), fin('parent', schedule_children('three', '[{"fsm": "kid"}]')), fin('backoff', retry('1 h'));

-- Ended, by each end: at once, in both modes.
SELECT n, m, a.* FROM unnest('{done,failed,cancelled}'::text[]) n, unnest('{settled,terminal}'::text[]) m, await(id(n), '1 h', m) a ORDER BY n, m;
-- Parked: settled, but not ended.
SELECT n, a.* FROM unnest('{parked,parent}'::text[]) n, await(id(n), '1 h') a ORDER BY n;
SELECT n, a.* FROM unnest('{parked,parent}'::text[]) n, await(id(n), '10 ms', 'terminal') a ORDER BY n;
-- Pending at the deadline: busy, with where it is, which is no error.
SELECT n, m, a.* FROM unnest('{runs,backoff}'::text[]) n, unnest('{settled,terminal}'::text[]) m, await(id(n), '10 ms', m) a ORDER BY n, m;
SELECT outcome FROM await(id('runs'), '0');
-- Unknown: at once.
SELECT * FROM await(999, '1 h');
SELECT outcome FROM await(0, '1 h', 'terminal');

-- It waits as long as it was told, by the wall clock. (Long enough to see, short enough for a test.)
SELECT clock_timestamp() AS before \gset
SELECT outcome FROM await(id('runs'), '300 ms');
SELECT clock_timestamp() - :'before' BETWEEN '300 ms' AND '30 s';
-- The answer is read anew: what the same transaction did counts.
BEGIN;
SELECT fin('runs', done('{"late": true}'));
SELECT outcome, result FROM await(id('runs'));
COMMIT;
-- A statement that is cancelled while it waits is cancelled.
SET statement_timeout = '200 ms';
\set VERBOSITY sqlstate
SELECT outcome FROM await(id('backoff'), '1 h');
RESET statement_timeout;

SELECT q, err('SELECT ' || q) FROM unnest(ARRAY['await(NULL)', 'await(1, NULL)', $$await(1, '-1 s')$$, $$await(1, until => 'ready')$$, $$await(1, until => '')$$, 'await(1, until => NULL)']) q;
