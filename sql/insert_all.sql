-- insert_all: a row for every entry, duplicates against stored rows and inside the batch, all or nothing on bad input.
-- GD-033, GD-034, GD-035, GD-036, GD-037, D-16, AC-007, AC-008
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- Entries are keyed as insert's arguments; the ordinal says whose row is whose.
SELECT ord, created FROM insert_all('a', '[{"step": "one"}, {}, {"step": "three", "priority": 3, "queue": "q", "weight": 2, "fsm_version": 2,
  "concurrency_key": "ck", "correlation_key": "k", "correlation_scope": ["runnable", "failed"], "state": [1],
  "eligible_at": "2001-02-03T04:05:06Z"}]') ORDER BY ord;
SELECT fsm, fsm_version, step, queue, priority, weight, state, concurrency_key, correlation_key, correlation_scope
FROM instances WHERE step = 'three';
SELECT eligible_at = '2001-02-03 04:05:06+00' FROM instances WHERE step = 'three';
SELECT step, queue, priority, state, eligible_at = inserted_at FROM instances WHERE step = 'start';

-- Intervals may be ISO 8601 or PostgreSQL text.
SELECT ord, created FROM insert_all('iso', '[{"schedule_in": "PT90S"}, {"schedule_in": "1 minute 30 seconds"}, {"schedule_in": "00:01:30"}]') ORDER BY ord;
SELECT DISTINCT eligible_at - inserted_at FROM instances WHERE fsm = 'iso';

-- JSON null is the same as leaving the key out.
SELECT created FROM insert_all('null', '[{"step": null, "queue": null, "priority": null, "weight": null, "state": null, "fsm_version": null,
  "correlation_key": null, "correlation_scope": null, "concurrency_key": null, "rate_limit": null, "eligible_at": null, "schedule_in": null}]');
SELECT step, queue, priority, weight, state, fsm_version, correlation_key, concurrency_key, rate_limit, eligible_at = inserted_at
FROM instances WHERE fsm = 'null';

-- Duplicates: of a stored row, and of an earlier entry. Each is told whose.
SELECT ins('stored', 'k7', '{runnable}');
SELECT r.ord, r.created, r.id = (SELECT id FROM instances WHERE fsm = 'stored') AS stored,
  r.id = (SELECT id FROM instances WHERE correlation_key = 'k8') AS k8
FROM insert_all('b', '[{"correlation_key": "k7", "correlation_scope": ["runnable"]},
  {"correlation_key": "k8", "correlation_scope": ["runnable"], "step": "first"},
  {"correlation_key": "k8", "correlation_scope": ["runnable"], "step": "second"}]') r ORDER BY ord;
SELECT step FROM instances WHERE fsm = 'b';
SELECT r.ord, r.created, r.id = (SELECT id FROM instances WHERE correlation_key = 'k8') AS k8
FROM insert_all('b', '[{"correlation_key": "k8"}, {}]') r ORDER BY ord;

-- NULL keys and empty scopes never collide.
SELECT count(*) FILTER (WHERE created) FROM insert_all('c', '[{}, {}, {"correlation_key": "c", "correlation_scope": []}, {"correlation_key": "c", "correlation_scope": []}]');
-- Nor do keys whose scope the rows have not reached.
SELECT count(*) FILTER (WHERE created) FROM insert_all('d', '[{"correlation_key": "d", "correlation_scope": ["executing"]}, {"correlation_key": "d", "correlation_scope": ["executing"]}]');

-- Sorted by key inside, so that two sessions cannot wait for each other's new keys crosswise; the ordinals stay the caller's.
CREATE TEMP TABLE e AS SELECT * FROM insert_all('e', '[{"correlation_key": "e3"}, {"correlation_key": "e1"}, {"correlation_key": "e2"}]');
SELECT string_agg(i.correlation_key, ' ' ORDER BY e.ord) FROM e JOIN instances i USING (id);
-- Among entries without keys the first comes first at a pick.
SELECT count(*) FROM insert_all('order', '[{"queue": "order", "step": "1"}, {"queue": "order", "step": "2"}, {"queue": "order", "step": "3"}]');
SELECT string_agg(step, ' ' ORDER BY ordinality) FROM pick('order', 'w', 3) WITH ORDINALITY;

-- No bound but memory: 6,000 keys in one call, each with its scope, and again as duplicates.
SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE created), min(ord), max(ord)
FROM insert_all('many', (SELECT jsonb_agg(jsonb_build_object('correlation_key', 'm' || n)) FROM generate_series(1, 6000) n));
SELECT count(*) FROM instances WHERE fsm = 'many' AND correlation_scope = '{runnable,executing,awaiting_signal,awaiting_children}';
SELECT count(*), count(*) FILTER (WHERE created), bool_and(i.correlation_key = 'm' || r.ord)
FROM insert_all('again', (SELECT jsonb_agg(jsonb_build_object('correlation_key', 'm' || n)) FROM generate_series(1, 6000) n)) r
JOIN instances i USING (id);

-- An empty batch is legal.
SELECT * FROM insert_all('f', '[]');

-- One bad entry refuses the call, and nothing of it stays.
SELECT err($$SELECT insert_all('g', '[{}, {"priority": 1.5}]')$$, 'priority');
SELECT err($$SELECT insert_all('g', '[{}, {"no_such": 1}]')$$, 'no_such');
SELECT count(*) FROM instances WHERE fsm = 'g';

-- The whole call's instants are equal.
SELECT count(*) FROM insert_all('h', '[{}, {}, {}]');
SELECT count(DISTINCT eligible_at), count(DISTINCT inserted_at) FROM instances WHERE fsm = 'h';
