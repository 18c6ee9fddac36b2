-- set_queue: the settings of a queue. GD-411, GD-410
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();
CREATE FUNCTION pg_temp.lease(queue text) RETURNS interval LANGUAGE sql AS $$
  SELECT date_trunc('minute', lease_expires_at - clock_timestamp() + '30 s') FROM pick(queue, 'w')
$$;
SELECT count(*) FROM unnest('{a,b,c,d}'::text[]) n, insert(n, queue => 'q');

-- All of them at once, and again: what is left out is the server's.
SELECT set_queue('q', concurrency => 4, prefetch => 2, min_demand => 3, lease_ttl => '10 min');
TABLE queues;
SELECT pg_temp.lease('q');
SELECT set_queue('q', 0, lease_ttl => '20 min');
TABLE queues;
SELECT pg_temp.lease('q');
SELECT set_queue('q');
TABLE queues;
SELECT pg_temp.lease('q');

-- A pause stays, and pausing leaves the settings.
SELECT pause('q', reason => 'r'), set_queue('q', prefetch => 0);
SELECT paused_at IS NOT NULL, pause_reason, prefetch FROM queues;
SELECT resume('q'), pause('new'), resume('new');
SELECT * FROM queues ORDER BY name;
BEGIN; SELECT set_queue('q', prefetch => 7); ROLLBACK;
SELECT prefetch FROM queues WHERE name = 'q';

-- Bad input names the value and the bound, and loses nothing.
\set VERBOSITY sqlstate
SELECT set_queue(NULL);
SELECT set_queue('');
SELECT set_queue(repeat('x', 256));
SELECT set_queue('q', lease_ttl => '-1 s');
SELECT set_queue('q', lease_ttl => '1001 years');
\set VERBOSITY terse
SELECT set_queue('q', executors => 1);
SELECT executors FROM queues WHERE name = 'q';
SELECT set_queue('q', executors => -1);
SELECT set_queue('q', executors => 100001);
SELECT set_queue('q', concurrency => -1);
SELECT set_queue('q', concurrency => 100001);
SELECT set_queue('q', prefetch => -1);
SELECT set_queue('q', prefetch => 2147483647);
SELECT set_queue('q', min_demand => 0);
SELECT set_queue('q', concurrency => 0, prefetch => 100000, min_demand => 100000);
SELECT set_queue(E'\u00fc ''"\n', 0, 1, 2, 3, '4 s');
SELECT * FROM queues ORDER BY name;
BEGIN READ ONLY; SELECT set_queue('q'); ROLLBACK;
