-- Run-ahead for clients: complete_and_take and commit_and_take hand out the same instance's next step first.
-- GD-325, GD-326, GD-327, GD-328, GD-329, GD-330, GD-332, GD-333
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- Commits the outcome of an instance's claim and takes; tells what was handed out.
CREATE FUNCTION pg_temp.go(name text, outcome jsonb, queue text DEFAULT 'q', batch int DEFAULT 1) RETURNS text LANGUAGE sql AS $$
  SELECT coalesce(string_agg(concat_ws(' ', fsm, step, attempt, signals), ', ' ORDER BY ordinality), 'nothing')
  FROM gen_durable.complete_and_take(jsonb_build_array(outcome || jsonb_build_object('token', t.tok(name))), queue, 'w2', batch) WITH ORDINALITY
$$;

-- A machine without it: the next step waits for its turn.
SELECT 'ok' FROM register_fsm('a', queue => 'q', inline_execution => true) AS a, register_fsm('b', queue => 'q') AS b;
SELECT count(*) FROM insert('b', priority => 1) AS b, insert('c', queue => 'q', priority => 0) AS c, insert('a', priority => 9) AS a;
SELECT picks('q', 1), picks('q', 1), picks('q', 1);
SELECT count(*) FROM insert('c', queue => 'q', state => '2');
SELECT pg_temp.go('b', next_step('two')), st('b');
-- With it: on the claim that is held, before what is more urgent, under a new token and with the caller's name.
SELECT tok('a') AS old \gset
SELECT pg_temp.go('a', next_step('two', '{"n": 1}')), st('a');
SELECT state FROM instances WHERE fsm = 'a';
SELECT tok('a') <> :'old' AS new, locked_by, concurrency_key FROM instances WHERE fsm = 'a';
SELECT err(format('SELECT complete(%L, done())', :'old'));
-- The rest of the batch is picked; the order is the steps that run on, then the queue's.
SELECT count(*) FROM insert('c', queue => 'q', state => '3');
SELECT pg_temp.go('a', next_step('three'), batch => 10);
-- What does not run on: another queue, a delay, any other outcome, a transition that says so.
SELECT pg_temp.go('a', next_step('four'), 'other'), st('a');
SELECT picks('q');
SELECT pg_temp.go('a', next_step('five', inline_execution => false), 'none'), st('a');
SELECT picks('q');
SELECT pg_temp.go('a', next_step('six', delay => '1 hour')), st('a');
UPDATE instances SET eligible_at = now() WHERE fsm = 'a';
SELECT picks('q');
SELECT pg_temp.go('a', next_step('seven', inline_execution => false)), st('a');
SELECT pg_temp.go('a', retry()), st('a');
-- A transition of a machine without it may ask for it.
CALL fresh();
SELECT count(*) FROM insert('x', queue => 'q');
SELECT picks('q');
SELECT pg_temp.go('x', next_step('two', inline_execution => true));
-- A paused queue hands nothing out.
SELECT 'ok' FROM pause('q');
SELECT pg_temp.go('x', next_step('three', inline_execution => true)), st('x');
SELECT 'ok' FROM resume('q');
-- A cancellation that was asked for ends the chain.
SELECT picks('q');
SELECT cancel(id('x'));
SELECT err($$SELECT pg_temp.go('x', next_step('four', inline_execution => true))$$);
SELECT release(ARRAY[tok('x')]), st('x');

-- Keys: kept, the claim holds it and nobody comes between; given back, it is free at once; switched, it is asked for at a claim.
CALL fresh();
SELECT count(*) FROM insert('k', queue => 'q', concurrency_key => 'key') AS k;
SELECT picks('q');
SELECT count(*) FROM insert('l', queue => 'q', concurrency_key => 'key', priority => -1) AS l;
SELECT picks('q');
SELECT pg_temp.go('k', next_step('two', inline_execution => true)), st('k', 'l');
SELECT pg_temp.go('k', next_step('three', concurrency_key => 'key', inline_execution => true)), st('k', 'l');
SELECT pg_temp.go('k', next_step('four', release_key => true, inline_execution => true));
SELECT concurrency_key FROM instances WHERE fsm = 'k';
SELECT picks('q');
SELECT pg_temp.go('k', next_step('five', concurrency_key => 'key', inline_execution => true)), st('k', 'l');

-- Signals: those that the step was parked for are consumed; the next step has a fresh inbox and awaits nothing.
CALL fresh();
SELECT count(*) FROM insert('s', queue => 'q');
SELECT picks('q');
SELECT fin('s', await_signal('{go}', 'two'));
SELECT signal(1, 'go'), signal(1, 'other', '{"n": 1}');
SELECT picks('q');
SELECT signal(1, 'late');
SELECT regexp_replace(pg_temp.go('s', next_step('three', inline_execution => true)), '"at": "[^"]*"', '"at"', 'g');
SELECT awaits FROM instances;
-- Handed are those of the fresh inbox: a park on one of them is not woken by what the step has seen.
SELECT fin('s', await_signal('{late}', 'four'));
-- The attempt starts anew, the lease too.
CALL fresh();
SELECT count(*) FROM insert('r', queue => 'q');
SELECT picks('q', ttl => '1 s');
SELECT fin('r', retry());
SELECT picks('q', ttl => '1 s');
SELECT pg_temp.go('r', next_step('two', inline_execution => true));
SELECT lease_expires_at > clock_timestamp() + interval '30 s' FROM instances;

-- commit_and_take does the same; each batch runs on with all that want it, up to its size.
CALL fresh();
SELECT count(*) FROM generate_series(1, 5) s, insert('m', to_jsonb(s), queue => 'q');
SELECT jsonb_agg(next_step('two', inline_execution => true) || jsonb_build_object('token', token)) AS outcomes FROM pick('q', 'w', 5) \gset
CALL commit_and_take(:'outcomes', 'q', 'w', 3) \gset
SELECT jsonb_path_query_array(:'results', '$[*].result'), jsonb_path_query_array(:'jobs', '$[*].step'), jsonb_array_length(:'jobs');
SELECT status, count(*) FROM instances GROUP BY 1 ORDER BY 1;
