-- pick: what a claim writes, what a job carries, the order, and who is no candidate.
-- GD-050, GD-051, GD-052, GD-053, GD-059, GD-068, GD-069, GD-070, GD-071, D-5, D-27, D-28, AC-020, AC-022, AC-044, AC-205
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- An empty queue gives no job, and no error.
SELECT * FROM pick('q', 'w');
SELECT * FROM pick('q', 'w', 100);

-- One job.
SELECT created FROM insert('a', '{"n": 1}', 'one', 2, 'q', concurrency_key => 'disk:7');
CREATE TEMP TABLE job AS SELECT * FROM pick('q', 'alice');
SELECT id, fsm, fsm_version, step, state, attempt, awaited, signals, children, queue, concurrency_key FROM job;
-- The row says the same, and is under the claim.
SELECT i.status, i.locked_by, i.token = job.token, i.lease_expires_at = job.lease_expires_at, i.lease_expires_at - i.updated_at,
  i.updated_at > i.inserted_at, i.eligible_at = i.inserted_at, i.attempt, i.crashes, i.step
FROM instances i JOIN job USING (id);
SELECT concurrency_shard, blocked_on, finished_at, await_deadline FROM instances;
-- A claimed row is no candidate.
SELECT picks('q', 10);

-- The lease: the argument, else the queue's, else the setting.
INSERT INTO queues (name, lease_ttl) VALUES ('slow', '10 min');
SELECT count(*) FROM generate_series(1, 4) n, insert('l', to_jsonb(n), queue => 'slow');
SELECT picks('slow', ttl => '5 s'), picks('slow');
UPDATE queues SET lease_ttl = NULL;
SET gen_durable.lease_ttl = '2 min';
SELECT picks('slow');
RESET gen_durable.lease_ttl;
SELECT picks('slow', ttl => '0');
SELECT lease_expires_at - updated_at FROM instances WHERE fsm = 'l' ORDER BY id;

-- Lower priorities first, then the earlier due, then the earlier id.
CALL fresh();
SELECT count(*) FROM insert_all('x', '[
  {"queue": "o", "step": "p5", "priority": 5, "eligible_at": "2001-01-01"}, {"queue": "o", "step": "late", "eligible_at": "2003-01-01"},
  {"queue": "o", "step": "tie1", "eligible_at": "2002-01-01"}, {"queue": "o", "step": "tie2", "eligible_at": "2002-01-01"},
  {"queue": "o", "step": "urgent", "priority": -3, "eligible_at": "2004-01-01"}]');
BEGIN;
SELECT string_agg(step, ' ' ORDER BY ordinality) FROM pick('o', 'w', 10) WITH ORDINALITY;
ROLLBACK;
-- One at a time as in one batch. The rolled back claims left nothing.
SELECT step FROM pick('o', 'w');
SELECT step FROM pick('o', 'w', 2);
SELECT step FROM take('o', 'w', 10);

-- Keyed rows keep their place among the others.
CALL fresh();
SELECT count(*) FROM insert_all('x', '[{"queue": "o", "step": "1", "priority": 1}, {"queue": "o", "step": "2", "priority": 2, "concurrency_key": "k"},
  {"queue": "o", "step": "3", "priority": 3}, {"queue": "o", "step": "4", "priority": 4, "concurrency_key": "l"}]');
SELECT string_agg(step, ' ' ORDER BY ordinality) FROM pick('o', 'w', 10) WITH ORDINALITY;

-- Only one queue, by equality: no pattern, no prefix, no folding.
CALL fresh();
SELECT count(*) FROM unnest('{a,A,ab,a%,a_,%}'::text[]) q, insert(q, queue => q);
SELECT picks('a', 10), picks('a%', 10), picks('%', 10), picks('a_', 10), picks('b', 10);

-- Future rows wait for their time, whatever their priority.
CALL fresh();
SELECT created FROM insert('later', queue => 'q', priority => -1, schedule_in => '1 min');
SELECT created FROM insert('now', queue => 'q', priority => 1);
SELECT picks('q', 10);
SET gen_durable.clock_offset = 59000;
SELECT picks('q', 10);
SET gen_durable.clock_offset = 61000;
SELECT picks('q', 10);
RESET gen_durable.clock_offset;
INSERT INTO instances (fsm, step, queue, priority, eligible_at)
SELECT 'future', 'start', 'f', n % 3, now() + interval '1 day' FROM generate_series(1, 3000) n;
SELECT created FROM insert('due', queue => 'f', priority => 1);
SELECT picks('f', 10);

-- Only runnable rows.
CALL fresh();
SELECT count(*) FROM unnest('{parked,parent,done,failed,cancelled,left}'::text[]) n, insert(n, queue => 'q');
SELECT picks('q', 5);
SELECT fin('parked', await_signal('{go}', 'two')), fin('done', done()), fin('failed', stop('x'));
SELECT fin('parent', schedule_children('two', '[{"fsm": "child", "queue": "other"}]')), cancel(id('cancelled'), force => true);
SELECT picks('q', 10);

-- Several picks in one transaction take different rows; a batch may be larger than what there is.
CALL fresh();
SELECT count(*) FROM generate_series(1, 250) n, insert('m', to_jsonb(n), queue => 'm');
BEGIN;
SELECT count(*) FROM pick('m', 'w', 100);
SELECT count(*) FROM pick('m', 'w', 100);
SELECT count(*) FROM pick('m', 'w', 100);
COMMIT;
SELECT count(*), count(DISTINCT token), count(DISTINCT lease_expires_at) FROM instances WHERE status = 'executing';

-- A row that the same transaction made is a candidate, and may go through its whole life there.
BEGIN;
SELECT created FROM insert('n', queue => 'n');
SELECT picks('n'), fin('n', next_step('two')), picks('n'), fin('n', done());
ROLLBACK;
SELECT count(*) FROM instances WHERE fsm = 'n';
-- A subtransaction that rolls back takes its claims along.
SELECT created FROM insert('s', queue => 's');
BEGIN;
SAVEPOINT one;
SELECT picks('s');
ROLLBACK TO one;
SELECT st('s'), picks('s');
COMMIT;
SELECT st('s');

-- What a job carries: the inbox and the children, each bounded by job_rows, the first by id.
CALL fresh();
SELECT created FROM insert('p', queue => 'q');
SELECT count(*) FROM unnest('{a,b,c,d}'::text[]) n, signal(1, n, jsonb_build_object('from', n));
SELECT picks('q'), fin('p', schedule_children('two', '[{"fsm": "c1", "queue": "c"}, {"fsm": "c2", "queue": "c"}, {"fsm": "c3", "queue": "c", "state": {"s": 3}}]'));
SELECT picks('c', 3), fin('c1', done('{"r": 1}')), fin('c2', stop('broken')), fin('c3', done('{}'));
BEGIN;
CREATE TEMP TABLE full_job AS SELECT * FROM pick('q', 'w');
SELECT s->>'id' AS id, s->>'name' AS name, s->'payload' AS payload, (s->>'at')::timestamptz <= clock_timestamp() AS at,
  (SELECT count(*) FROM jsonb_object_keys(s)) AS keys
FROM full_job, jsonb_array_elements(signals) WITH ORDINALITY e(s, o) ORDER BY o;
SELECT awaited FROM full_job;
SELECT c FROM full_job, jsonb_array_elements(children) WITH ORDINALITY e(c, o) ORDER BY o;
ROLLBACK;
SET gen_durable.job_rows = 2;
SELECT jsonb_path_query_array(signals, '$[*].name'), jsonb_path_query_array(children, '$[*].fsm') FROM pick('q', 'w');
RESET gen_durable.job_rows;
-- The rest by pages.
SELECT id, name, payload, at <= clock_timestamp() FROM inbox(1, 2);
SELECT name FROM inbox(1, max_rows => 1);
SELECT id, fsm, status, state, result, error FROM children(1, after => 2);
SELECT fsm FROM children(1, max_rows => 2);
SELECT count(*) FROM inbox(2), children(2);

-- A claim that fails claims nothing.
SELECT created FROM insert('e', queue => 'e');
SELECT err($$SELECT 1 / (SELECT count(*) - 1 FROM pick('e', 'w'))$$);
SELECT st('e');

-- The names under which the server itself claims are nobody else's.
SELECT err($$SELECT pick('e', 'gen_durable executor 1')$$, 'gen_durable executor 1'), err($$SELECT pick('e', 'gen_durable executor')$$), err($$SELECT pick('none', 'gen_durable execute')$$);
SELECT err($$SELECT pick('e', 'gen_durable scheduler')$$, 'gen_durable scheduler'), err($$SELECT take('e', 'gen_durable scheduler/1')$$);
