-- Events in the server's log, where they are asked for. GD-230, GD-370, D-30
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');
SET client_min_messages = log;
-- Off by default.
SELECT picks('q');
SET gen_durable.log_events = on;
SELECT picks('q', 5);
-- A line stays one line, and a name cannot pass for another value.
SELECT picks(E'a b\nqueue=x', worker => 'w"1');
-- Each with what it is about.
SELECT fin('a', next_step('two'));
SELECT ord, result FROM complete_many(jsonb_build_array(done() || jsonb_build_object('token', tok('b')), retry() || '{"token": "00000000-0000-8000-8000-000000000000"}')) ORDER BY ord;
SET gen_durable.clock_offset = 100000;
-- Sweeps only when they did something, and how much.
SELECT reap(), fire_timeouts(), gc('0'), reclaim('q', 'w', '1 h'), reap();
RESET gen_durable.log_events;
RESET client_min_messages;
