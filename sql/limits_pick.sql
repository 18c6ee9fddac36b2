-- Claims under gates and rate limits: blocking, promotion, strict order, credits, changes of limits, why.
-- GD-010, GD-060..069, GD-072, GD-091..093, GD-095, GD-112, GD-124, GD-127, GD-129, GD-136, GD-137, GD-142, GD-143,
-- GD-246, GD-252, D-2, D-3, D-12, D-14, D-26, R-9, R-15, R-22, R-23
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.put(names text, gate text DEFAULT NULL, rate text DEFAULT NULL, weight float8 DEFAULT 1, priority int DEFAULT 0, queue text DEFAULT 'q')
RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(i.id) FROM unnest(string_to_array(names, ' ')) n,
    gen_durable.insert(n, queue => queue, concurrency_key => gate, rate_limit => rate, weight => weight, priority => priority) i
$$;
CREATE FUNCTION pg_temp.counters(of text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(round(available::numeric, 3) || '/' || round(capacity::numeric, 3) || CASE WHEN debt > 0 THEN ' owes ' || debt ELSE '' END, ' ' ORDER BY shard)
  FROM gen_durable.buckets WHERE key = of
$$;
CREATE FUNCTION pg_temp.blocked() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(string_agg(fsm || ' ' || blocked_on, '; ' ORDER BY priority, eligible_at, id), '-') FROM gen_durable.instances WHERE blocked_on IS NOT NULL
$$;
-- Time passes: the engine's clock goes on by so many minutes.
CREATE PROCEDURE pg_temp.pass(minutes float8) LANGUAGE sql AS $$
  SELECT set_config('gen_durable.clock_offset', (current_setting('gen_durable.clock_offset')::float8 + minutes * 60000)::text, false)
$$;

-- A gate: as many as it has slots, each with the shard of its slot (GD-060); the rest is blocked on it, unchanged (GD-067).
CALL fresh();
SELECT set_concurrency_limit('g', 3, 2);
SELECT pg_temp.put('a b c d e', 'g:1'), pg_temp.put('x', 'g:2'), pg_temp.put('plain');
SELECT picks('q', 10), pg_temp.blocked(), pg_temp.counters('g:1'), pg_temp.counters('g:2');
SELECT fsm, concurrency_shard, blocked_on, attempt, eligible_at = inserted_at AS same FROM instances ORDER BY id;
-- Each end of a claim frees its slot and promotes the next, at its commit (D-2, GD-136).
SELECT fin('b', done());
SELECT pg_temp.counters('g:1'), pg_temp.blocked(), picks('q', 10), pg_temp.counters('g:1');
SELECT fin('a', next_step('two', release_key => true));
SELECT picks('q', 10), fin('c', retry('1 h')), pg_temp.blocked();
SELECT pg_temp.counters('g:1'), (SELECT count(*) FROM instances WHERE concurrency_shard IS NOT NULL);
SELECT release(ARRAY[tok('d')]), pg_temp.counters('g:1');
SELECT pg_temp.counters('g:1'), cancel(id('e'), force => true);
SELECT pg_temp.counters('g:1'), fin('x', await_signal('{go}', 'two'));
SELECT pg_temp.counters('g:2');

-- Reaped and reclaimed claims free theirs.
CALL fresh();
SELECT set_concurrency_limit('g', 2);
SELECT pg_temp.put('a b c d', 'g');
SELECT picks('q', 10), pg_temp.counters('g');
SET gen_durable.clock_offset = 3600000;
SELECT reap();
-- the reaped rows have the best places, and get the slots before those that wait
SELECT pg_temp.counters('g'), picks('q', 10), pg_temp.blocked();
SELECT reclaim('q', 'w', '2 h');
SELECT pg_temp.counters('g'), picks('q', 10), pg_temp.blocked();
RESET gen_durable.clock_offset;
-- A claim that is beaten in time keeps its slot past the end of its first lease (GD-246); released, it gives it back at once
-- (GD-252).
CALL fresh();
SELECT set_concurrency_limit('g', 1);
SELECT pg_temp.put('a b', 'g'), picks('q', 10, 'w', '1 min');
SET gen_durable.clock_offset = 50000;
SELECT held FROM heartbeat(ARRAY[tok('a')], '1 min');
SET gen_durable.clock_offset = 100000;
SELECT reap(), pg_temp.counters('g'), picks('q', 10), pg_temp.blocked();
SELECT release(ARRAY[tok('a')]);
SELECT pg_temp.counters('g'), picks('q', 10), pg_temp.blocked();
RESET gen_durable.clock_offset;
CALL fresh();
SELECT set_concurrency_limit('g', 2);
SELECT pg_temp.put('a b c d', 'g'), picks('q', 10);
-- A cancellation that is only asked for keeps the slot, so that no more run than may.
SELECT cancel(id('a')), pg_temp.counters('g'), picks('q', 10);
SELECT release(ARRAY[tok('a')]);
SELECT picks('q', 10), pg_temp.counters('g');

-- The slot of a gate is taken at the claim only: a switched key is asked for at the next (GD-155).
CALL fresh();
SELECT set_concurrency_limit('g', 1), set_concurrency_limit('h', 1);
SELECT pg_temp.put('a', 'g'), pg_temp.put('b', 'h'), pg_temp.put('c', 'g', priority => 5);
SELECT picks('q', 10), fin('a', next_step('two', concurrency_key => 'h'));
SELECT picks('q', 10), pg_temp.blocked(), pg_temp.counters('g'), pg_temp.counters('h');
SELECT fin('b', done());
SELECT picks('q', 10), pg_temp.counters('h');

-- A rate limit: a prefix by weight; the first that waits knows when its tokens are there.
CALL fresh();
SELECT set_rate_limit('r', 1, '1 min', 5);
SELECT pg_temp.put('a b', rate => 'r', weight => 2), pg_temp.put('c', rate => 'r', weight => 3), pg_temp.put('d', rate => 'r'), pg_temp.put('plain');
SELECT picks('q', 10);
SELECT pg_temp.blocked(), round(available) FROM buckets;
SELECT fsm, round(extract(epoch FROM refill_at - clock_timestamp()) / 60) FROM instances WHERE blocked_on IS NOT NULL ORDER BY id;
-- no tokens come back (GD-095)
SELECT release(ARRAY[tok('a')]);
SELECT round(available) FROM buckets;
SELECT picks('q', 10), pg_temp.blocked();
-- Refilled tokens promote as many as they cover, in order, and the next learns its instant.
CALL pg_temp.pass(1.5);
SELECT promoted, pg_temp.blocked() FROM tick();
CALL pg_temp.pass(1);
SELECT promoted FROM tick();
SELECT pg_temp.blocked(), picks('q', 10);
CALL pg_temp.pass(2.9);
SELECT picks('q', 10), pg_temp.blocked();
CALL pg_temp.pass(0.2);
SELECT picks('q', 10), pg_temp.blocked();
CALL pg_temp.pass(1.1);
SELECT picks('q', 10), pg_temp.blocked(), (SELECT count(*) FROM instances WHERE refill_at IS NOT NULL OR promoted_on IS NOT NULL);
RESET gen_durable.clock_offset;

-- A newcomer never overtakes one that waits and sorts before it, though there are tokens for it; one that sorts before does.
CALL fresh();
SELECT set_rate_limit('r', 1, '1 min', 10);
SELECT pg_temp.put('big', rate => 'r', weight => 8), pg_temp.put('next', rate => 'r', weight => 8);
SELECT picks('q', 10), pg_temp.blocked();
SELECT pg_temp.put('small', rate => 'r');
SELECT picks('q', 10), pg_temp.blocked();
SELECT pg_temp.put('urgent', rate => 'r', weight => 2, priority => -1);
SELECT picks('q', 10), pg_temp.blocked();
-- another queue of the same key goes by itself, and another key of the limit has tokens of its own
SELECT pg_temp.put('elsewhere', rate => 'r', queue => 'r'), pg_temp.put('other', rate => 'r:x', weight => 10), picks('q', 10);
CALL pg_temp.pass(1);
SELECT picks('r', 10), pg_temp.blocked();
CALL pg_temp.pass(8);
SELECT picks('q', 10), pg_temp.blocked();
CALL pg_temp.pass(1);
SELECT picks('q', 10), pg_temp.blocked();
RESET gen_durable.clock_offset;

-- The same of slots: a newcomer that comes between a freeing and the claim.
CALL fresh();
SELECT set_concurrency_limit('g', 2);
SELECT pg_temp.put('a b', 'g'), picks('q', 10);
SELECT pg_temp.put('w1 w2 w3', 'g'), picks('q', 10);
SELECT count(*) FROM instances WHERE fsm IN ('a', 'b') AND complete(token, done()) IS NOT NULL;
SELECT pg_temp.blocked();
SELECT pg_temp.put('late', 'g'), pg_temp.put('first', 'g', priority => -1);
SELECT picks('q', 10), pg_temp.blocked();
-- and one whose promotion was lost (GD-142): who waits is taken before the newcomer, as far as there is room in the batch
CALL fresh();
SELECT set_concurrency_limit('g', 2), set_rate_limit('r', 1, '1000 years', 3);
\c -
SET search_path = gen_durable, t;
INSERT INTO instances (fsm, step, queue, concurrency_key, blocked_on) SELECT 'far', 'start', 'nobody', k, 'conc:' || k FROM (SELECT 'a' || n FROM generate_series(10, 99) n) x (k);
INSERT INTO instances (fsm, step, queue, concurrency_key, blocked_on) SELECT 'o' || n, 'start', 'q', 'g', 'conc:g' FROM generate_series(1, 3) n;
INSERT INTO instances (fsm, step, queue, rate_limit, blocked_on) SELECT 'p' || n, 'start', 'q', 'r', 'rate:r' FROM generate_series(1, 2) n;
SELECT count(i.id) FROM (VALUES ('new', 'g', NULL), ('newer', NULL, 'r'), ('last', NULL, 'r')) x (n, g, r), insert(n, queue => 'q', concurrency_key => g, rate_limit => r) i;
SELECT picks('q', 1), picks('q', 3);
SELECT fsm, status, blocked_on FROM instances WHERE queue = 'q' ORDER BY id;
\c -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.put(names text, gate text DEFAULT NULL, rate text DEFAULT NULL, weight float8 DEFAULT 1, priority int DEFAULT 0, queue text DEFAULT 'q')
RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT count(i.id) FROM unnest(string_to_array(names, ' ')) n,
    gen_durable.insert(n, queue => queue, concurrency_key => gate, rate_limit => rate, weight => weight, priority => priority) i
$$;
CREATE FUNCTION pg_temp.counters(of text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(round(available::numeric, 3) || '/' || round(capacity::numeric, 3) || CASE WHEN debt > 0 THEN ' owes ' || debt ELSE '' END, ' ' ORDER BY shard)
  FROM gen_durable.buckets WHERE key = of
$$;
CREATE FUNCTION pg_temp.blocked() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(string_agg(fsm || ' ' || blocked_on, '; ' ORDER BY priority, eligible_at, id), '-') FROM gen_durable.instances WHERE blocked_on IS NOT NULL
$$;
-- Time passes: the engine's clock goes on by so many minutes.
CREATE PROCEDURE pg_temp.pass(minutes float8) LANGUAGE sql AS $$
  SELECT set_config('gen_durable.clock_offset', (current_setting('gen_durable.clock_offset')::float8 + minutes * 60000)::text, false)
$$;

-- Both: the gate is asked first. A row goes from one to the other, and the turn it had passes on (D-3).
CALL fresh();
SELECT set_concurrency_limit('g', 1), set_rate_limit('r', 1, '1 min', 1);
SELECT pg_temp.put('a', 'g', 'r'), pg_temp.put('b', 'g', 'r'), pg_temp.put('c', 'g');
SELECT picks('q', 10), pg_temp.blocked();
SELECT fin('a', done());
-- "b" has its turn at the gate, but no tokens: its turn passes to "c"
SELECT picks('q', 10), pg_temp.blocked();
SELECT picks('q', 10), pg_temp.blocked();
CALL pg_temp.pass(2);
SELECT picks('q', 10), pg_temp.blocked();
SELECT fin('c', done());
SELECT picks('q', 10), pg_temp.counters('g');
RESET gen_durable.clock_offset;
-- A rate limit and a key of size one.
CALL fresh();
SELECT set_rate_limit('r', 1, '1 min', 2);
SELECT pg_temp.put('a b', 'k', 'r'), pg_temp.put('c', 'k2', 'r'), pg_temp.put('d', 'k3', 'r');
SELECT picks('q', 10), pg_temp.blocked();
SELECT fin('a', done());
SELECT picks('q', 10), pg_temp.blocked();
CALL pg_temp.pass(1);
SELECT picks('q', 10), pg_temp.blocked();
CALL pg_temp.pass(1);
SELECT picks('q', 10), pg_temp.blocked();
RESET gen_durable.clock_offset;

-- Refused rows cost the batch nothing, and unrelated work is not held up.
CALL fresh();
SELECT set_concurrency_limit('g', 1), set_rate_limit('r', 1, '1000 years', 1);
SELECT pg_temp.put(string_agg('g' || n, ' '), 'g'), pg_temp.put(string_agg('r' || n, ' '), rate => 'r') FROM generate_series(1, 50) n;
SELECT pg_temp.put('p1 p2 p3');
SELECT picks('q', 5), (SELECT count(*) FROM blocked_instances);
SELECT count(*) FROM blocked_instances;
-- Marks are bounded by 100, or four times the batch.
CALL fresh();
SELECT set_concurrency_limit('g', 1);
SELECT pg_temp.put(string_agg('g' || n, ' '), 'g') FROM generate_series(1, 150) n;
SELECT pg_temp.put('plain');
SELECT picks('q', 3);
SELECT count(*) FROM blocked_instances;
SELECT picks('q', 3);
SELECT count(*) FROM blocked_instances;

-- More ready rows than are held at once.
CALL fresh();
SELECT set_concurrency_limit('g', 1100, 4);
SELECT count(*) FROM generate_series(1, 1200) n, insert('x' || n, queue => 'q', concurrency_key => 'g');
SELECT count(*), count(DISTINCT id) FROM pick('q', 'w', 2000);
SELECT count(*) FILTER (WHERE status = 'executing'), count(*) FILTER (WHERE blocked_on = 'conc:g') FROM instances;
SELECT pg_temp.counters('g');
-- A batch of ends gives all back, in one transaction id.
SELECT count(*), count(DISTINCT result) FROM complete_many((SELECT jsonb_agg(done() || jsonb_build_object('token', token)) FROM instances WHERE status = 'executing'));
SELECT pg_temp.counters('g'), (SELECT count(*) FROM blocked_instances);

-- The order of the jobs is that of the queue, limited or not (GD-069 as D-3 has it).
CALL fresh();
SELECT set_concurrency_limit('g', 5), set_rate_limit('r', 5, '1 min');
SELECT pg_temp.put('a', 'g'), pg_temp.put('b'), pg_temp.put('c', rate => 'r'), pg_temp.put('d', 'g', 'r'), pg_temp.put('e'), pg_temp.put('f', 'k');
SELECT picks('q', 10);

-- Limits that change take effect on blocked rows at once. A larger gate:
CALL fresh();
SELECT set_concurrency_limit('g', 1);
SELECT pg_temp.put('a b c d', 'g:1'), picks('q', 10);
SELECT set_concurrency_limit('g', 3);
SELECT pg_temp.blocked(), picks('q', 10);
-- a smaller one: nothing new until enough have ended
SELECT set_concurrency_limit('g', 1);
SELECT pg_temp.counters('g:1'), fin('a', done()), picks('q', 10), fin('b', done()), picks('q', 10), fin('c', done());
SELECT picks('q', 10), pg_temp.counters('g:1');
-- One that is made: keys of size one become larger; the row that executed before holds no slot of it (GD-065).
CALL fresh();
SELECT pg_temp.put('a b c d', 'g'), picks('q', 10);
SELECT set_concurrency_limit('g', 2);
SELECT pg_temp.blocked(), picks('q', 10), pg_temp.counters('g');
SELECT fin('a', done());
SELECT pg_temp.counters('g'), picks('q', 10);
-- One that is dropped: keys are of size one, and rows that hold its slots do not count (GD-065).
SELECT drop_limit('conc', 'g');
SELECT pg_temp.blocked(), picks('q', 10), pg_temp.put('e', 'g'), picks('q', 10), pg_temp.blocked();
SELECT fin('b', done()), fin('c', done()), picks('q', 10);
SELECT fin('d', done());
SELECT picks('q', 10), gates, (SELECT count(*) FROM slot_credits) FROM reconcile();
SELECT count(*) FROM buckets;
-- A rate limit that is dropped: its rows wait until it is back (D-12), and work is refused under it meanwhile (GD004).
CALL fresh();
SELECT set_rate_limit('r', 1, '1000 years', 1);
SELECT pg_temp.put('a b', rate => 'r:x'), picks('q', 10);
SELECT drop_limit('rate', 'r');
SELECT pg_temp.blocked(), picks('q', 10), promoted FROM tick();
SELECT err($$SELECT insert('c', rate_limit => 'r:x')$$, 'r'), fin('a', retry('0 s')), picks('q', 10), pg_temp.blocked();
SELECT waits_for, until FROM why(id('b'));
SELECT set_rate_limit('r', 5, '1000 years');
SELECT pg_temp.blocked(), picks('q', 10);
-- A faster one: the first that waits learns its new instant.
CALL fresh();
SELECT set_rate_limit('r', 1, '1 day', 1);
SELECT pg_temp.put('a b', rate => 'r'), picks('q', 10), count(*) FILTER (WHERE refill_at > now() + interval '20 h') FROM instances;
SELECT count(*) FILTER (WHERE refill_at > now() + interval '20 h') FROM instances;
SELECT set_rate_limit('r', 1, '10 min', 1);
SELECT pg_temp.blocked(), refill_at < now() + interval '11 min' FROM instances WHERE fsm = 'b';
CALL pg_temp.pass(10);
SELECT picks('q', 10);
RESET gen_durable.clock_offset;
-- A burst made smaller than the weight of one that waits: it waits on, visible, and goes on when the burst is back.
CALL fresh();
SELECT set_rate_limit('r', 1, '1 min', 10);
SELECT pg_temp.put('a', rate => 'r', weight => 10), pg_temp.put('b', rate => 'r', weight => 5), picks('q', 10);
SELECT set_rate_limit('r', 1, '1 min', 2);
CALL pg_temp.pass(100);
SELECT picks('q', 10), pg_temp.blocked();
SELECT set_rate_limit('r', 1, '1 min', 5);
CALL pg_temp.pass(10);
SELECT picks('q', 10), pg_temp.blocked();
RESET gen_durable.clock_offset;

-- A row that waits and is cancelled: the next one that waits learns its instant.
CALL fresh();
SELECT set_rate_limit('r', 1, '10 min', 1);
SELECT pg_temp.put('a b c', rate => 'r'), picks('q', 10);
SELECT cancel(id('b'));
SELECT fsm, round(extract(epoch FROM refill_at - clock_timestamp()) / 60) FROM instances WHERE blocked_on IS NOT NULL;
-- A turn that was given and is not used passes on.
CALL pg_temp.pass(10);
SELECT promoted FROM tick();
SELECT cancel(id('c')), pg_temp.put('d', rate => 'r'), picks('q', 10);
RESET gen_durable.clock_offset;

-- A paused queue is given no turns; others are.
CALL fresh();
SELECT set_concurrency_limit('g', 1);
SELECT pg_temp.put('a b', 'g'), pg_temp.put('c', 'g', queue => 'r', priority => 1), picks('q', 10), picks('r', 10), pause('q');
SELECT fin('a', done());
SELECT pg_temp.blocked(), picks('r', 10), resume('q');
SELECT pg_temp.blocked(), fin('c', done());
SELECT pg_temp.blocked(), picks('q', 10);

-- Within one transaction: a claim and its end, and a claim again.
CALL fresh();
SELECT set_concurrency_limit('g', 1), set_rate_limit('r', 2, '1000 years');
SELECT pg_temp.put('a b c', 'g', 'r');
BEGIN;
SELECT picks('q', 10), fin('a', done()), picks('q', 10), pg_temp.blocked();
SELECT pg_temp.counters('g'), round(available) FROM buckets WHERE kind = 'rate';
ROLLBACK;
SELECT picks('q', 10), (SELECT count(*) FROM buckets);
BEGIN;
SAVEPOINT s;
SELECT fin('a', done()), picks('q', 10);
ROLLBACK TO s;
SELECT st('a', 'b'), pg_temp.counters('g');
SELECT fin('a', stop('x'));
COMMIT;
SELECT pg_temp.counters('g'), picks('q', 10), pg_temp.blocked();

-- A pick that fails has taken nothing (GD-068, R-22).
CALL fresh();
SELECT set_concurrency_limit('g', 2), set_rate_limit('r', 3, '1000 years');
SELECT pg_temp.put('a b', 'g', 'r');
SELECT err($$SELECT 1 / (count(*) - 2) FROM pick('q', 'w', 10)$$);
SELECT (SELECT count(*) FROM buckets), picks('q', 10);

-- why: which key, who holds it, how many are ahead, when the next token comes.
CALL fresh();
SELECT set_concurrency_limit('g', 2), set_rate_limit('r', 2, '1 min', 2);
SELECT pg_temp.put('a b c d', 'g:eu'), picks('q', 10, 'w1', '1 h');
SELECT pg_temp.put('e f', rate => 'r:eu', weight => 2), pg_temp.put('h', rate => 'r:eu'), picks('q', 10);
SELECT x.fsm, w.status, w.waits_for, w.held_by, w.ahead, round(extract(epoch FROM w.until - clock_timestamp()) / 30) / 2 FROM instances x, why(x.id) w WHERE x.blocked_on IS NOT NULL ORDER BY x.id;
SELECT kind, name, capacity, keys, round(available), blocked FROM limits ORDER BY kind;
CALL fresh();
-- Counters that somebody deleted: a session counts what is held before it takes a key without any for unused (GD-112, GD-142).
SELECT set_concurrency_limit('g', 2);
SELECT pg_temp.put('a b', 'g'), picks('q', 10);
DELETE FROM buckets;
\c -
SET search_path = gen_durable, t;
SELECT created FROM insert('c', queue => 'q', concurrency_key => 'g');
SELECT picks('q', 10);
SELECT available, blocked_on FROM buckets, instances WHERE fsm = 'c';
CALL fresh();
