-- insert: what an instance begins with, when it is due, what is refused.
-- GD-001, GD-003, GD-008, GD-009, GD-010, GD-012, GD-030, GD-031, GD-032, GD-033, GD-038, GD-039, GD-129, GD-130, D-12, D-16, D-29, AC-001, AC-011
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- Everything left out.
SELECT * FROM insert('a');
SELECT fsm, fsm_version, step, status, state, queue, priority, attempt, crashes, weight, children_pending
FROM instances WHERE fsm = 'a';
SELECT result, awaits, concurrency_key, concurrency_shard, last_error, await_deadline, rate_limit, locked_by,
  lease_expires_at, token, handed, blocked_on, cancel_requested_at, parent_id, correlation_key, correlation_guard, finished_at
FROM instances WHERE fsm = 'a';
-- The instants of one call are equal, and the database's.
SELECT eligible_at = inserted_at, inserted_at = updated_at, inserted_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp()
FROM instances WHERE fsm = 'a';
-- An insert touches no other table.
SELECT (SELECT count(*) FROM buckets), (SELECT count(*) FROM signals), (SELECT count(*) FROM fsms), (SELECT count(*) FROM queues);

-- Everything given.
SELECT * FROM insert(fsm => 'b', state => '{"n": 1}', step => 'two', fsm_version => 3, queue => 'q', priority => -5,
  concurrency_key => 'disk:7', correlation_key => 'order:7', correlation_scope => '{runnable,done}', weight => 2.5,
  eligible_at => '2001-02-03 04:05:06+00');
SELECT fsm_version, step, state, queue, priority, concurrency_key, correlation_key, correlation_scope, correlation_guard, weight,
  eligible_at = '2001-02-03 04:05:06+00' FROM instances WHERE fsm = 'b';

-- The default scope is the four live statuses.
SELECT created FROM insert('c', correlation_key => 'c');
SELECT correlation_scope, correlation_guard FROM instances WHERE fsm = 'c';

-- NULL is the same as leaving an argument out.
SELECT created FROM insert('n', NULL, NULL, NULL, NULL, NULL, NULL, 'n', NULL, NULL, NULL, NULL, NULL);
SELECT state, step, fsm_version, queue, priority, concurrency_key, correlation_scope, rate_limit, weight, eligible_at = inserted_at FROM instances WHERE fsm = 'n';

-- When it is due: eligible_at before schedule_in before now.
SELECT created FROM insert('d', schedule_in => '90 minutes');
SELECT created FROM insert('e', eligible_at => '2001-01-01 00:00+00', schedule_in => '90 minutes');
SELECT created FROM insert('f', schedule_in => '0');
SELECT created FROM insert('g', schedule_in => '1 month');
SELECT fsm, eligible_at - inserted_at FROM instances WHERE fsm IN ('d', 'f') ORDER BY fsm;
SELECT eligible_at = '2001-01-01 00:00+00' FROM instances WHERE fsm = 'e';
SELECT eligible_at = inserted_at + interval '1 month' FROM instances WHERE fsm = 'g';

-- The engine's clock is the database's plus the offset, for due times too.
SET gen_durable.clock_offset = 3600000;
SELECT created FROM insert('h');
RESET gen_durable.clock_offset;
SELECT eligible_at > clock_timestamp() + interval '59 min', eligible_at = inserted_at FROM instances WHERE fsm = 'h';

-- State is any JSON value, stored as that value and not as a text that holds JSON.
SELECT count(*) FROM unnest('{"{\"n\": 0}","[1, 2]","\"text\"",7,true,"null"}'::jsonb[]) s, insert('json', s);
SELECT jsonb_typeof(state), state FROM instances WHERE fsm = 'json' ORDER BY id;
SELECT state->>'n' FROM instances WHERE fsm = 'json' AND jsonb_typeof(state) = 'object';

-- Priorities fill a smallint.
SELECT created FROM insert('p', priority => -32768);
SELECT created FROM insert('p', priority => 32767);
SELECT err($$SELECT insert('p', priority => 32768)$$, 'priority', '32768');
SELECT err($$SELECT insert('p', priority => -32769)$$, 'priority', '-32769');
SELECT array_agg(priority ORDER BY id) FROM instances WHERE fsm = 'p';

-- A rate limit must be configured, and the weight must be one that its burst can cover.
INSERT INTO bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'api', 1, 5);
INSERT INTO bucket_configs (kind, name, capacity) VALUES ('conc', 'gate', 5);
SELECT err($$SELECT insert('r', rate_limit => 'nowhere')$$, 'nowhere');
SELECT err($$SELECT insert('r', rate_limit => 'nowhere:eu')$$, 'nowhere');
-- a gate is no rate limit
SELECT err($$SELECT insert('r', rate_limit => 'gate')$$, 'gate');
SELECT err($$SELECT insert('r', rate_limit => 'api', weight => 5.5)$$, 'weight', '5.5', '5', 'api');
SELECT created FROM insert('r', rate_limit => 'api', weight => 5);
SELECT created FROM insert('r', rate_limit => 'api:eu');
SELECT rate_limit, weight FROM instances WHERE fsm = 'r' ORDER BY id;
-- A limit's name is what stands before the first colon; a rate limit and a gate may share one.
INSERT INTO bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'gate', 1, 3);
SELECT created FROM insert('r', rate_limit => 'gate:a:b', weight => 3);
SELECT err($$SELECT insert('r', rate_limit => ':api')$$), err($$SELECT insert('r', rate_limit => 'API')$$), err($$SELECT insert('r', rate_limit => 'gate:a:b', weight => 3.5)$$, '3.5', '3');
-- The policy is read, never written, and nothing is minted.
SELECT count(*) FROM buckets;

-- Weights.
SELECT w, err(format('SELECT insert(%L, weight => %L)', 'w', w), 'weight')
FROM unnest('{0,-1,NaN,Infinity,-Infinity}'::text[]) w;
SELECT created FROM insert('w', weight => 1e-300);

-- Due times that are no instants.
SELECT err($$SELECT insert('x', schedule_in => '-1 second')$$, 'schedule_in', '-00:00:01');
SELECT err($$SELECT insert('x', eligible_at => 'infinity')$$, 'eligible_at');
SELECT err($$SELECT insert('x', eligible_at => '-infinity')$$, 'eligible_at');
SELECT err($$SELECT insert('x', schedule_in => '178000000 years')$$, 'schedule_in', '178000000 years');
SELECT count(*) FROM instances WHERE fsm = 'x';

-- Versions count from 1.
SELECT err($$SELECT insert('v', fsm_version => 0)$$, 'version', '0');
