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
SELECT count(*) FROM reap();
RESET gen_durable.log_events;
RESET client_min_messages;
