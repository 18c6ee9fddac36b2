-- The limiter by itself: policies, counters, admit, credit, renew, reconcile, and the arithmetic on tables of values.
-- GD-008, GD-009, GD-010, GD-090..098, GD-100..103, GD-110..130, GD-135, GD-140..143, D-2, D-3, D-12, D-14, D-32, R-7, R-9, R-21,
-- R-24
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- What a batch is answered: + or - for each entry, with the shard of a slot. Entries are written "rate weight gate".
CREATE FUNCTION pg_temp.ask(VARIADIC entries text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(CASE WHEN a.admitted THEN '+' || coalesce(a.slot->>'shard', '') ELSE '-' END, ' ' ORDER BY ordinality)
  FROM gen_durable.admit((
    SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', n, 'conc', nullif(p[3], '-'), 'rate', CASE WHEN p[1] <> '-' THEN
             jsonb_build_object('key', p[1], 'weight', nullif(p[2], '-')::numeric) END)) ORDER BY n)
    FROM unnest(entries) WITH ORDINALITY e (entry, n), string_to_array(entry, ' ') p)) WITH ORDINALITY a
$$;
-- Counters: what each shard has, of how much.
CREATE FUNCTION pg_temp.counters(of text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(round(available::numeric, 3) || '/' || round(capacity::numeric, 3) || CASE WHEN debt > 0 THEN ' owes ' || debt ELSE '' END, ' ' ORDER BY shard)
  FROM gen_durable.buckets WHERE key = of
$$;
CREATE FUNCTION pg_temp.slots(of text, most int DEFAULT NULL) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('key', key, 'shard', shard, 'holder', id)), '[]') FROM
    (SELECT * FROM gen_durable.slot_holders WHERE key = of ORDER BY id LIMIT most) h
$$;

-- Policies: what is stored (GD-100, GD-101).
SELECT set_rate_limit('r1', 100, '1 min'), set_rate_limit('r2', 6, '1 h', 2.5, 4), set_rate_limit('r3', 1, '1 day'), set_concurrency_limit('g1', 10), set_concurrency_limit('g2', 10, 4);
SELECT kind, name, round(rate::numeric, 6), capacity, shards FROM bucket_configs ORDER BY kind, name;
-- A rate limit and a gate may share a name (GD-008); the last word counts (GD-098).
SELECT set_rate_limit('g1', 5, '1 s'), set_concurrency_limit('g1', 3);
SELECT kind, rate, capacity, shards FROM bucket_configs WHERE name = 'g1' ORDER BY kind;
-- More shards than slots are clamped, with a notice.
SET client_min_messages = notice;
SELECT set_concurrency_limit('g3', 2, 5);
RESET client_min_messages;
SELECT capacity, shards FROM bucket_configs WHERE name = 'g3';

-- Bad policies are refused, and change nothing.
SELECT err(format('SELECT set_rate_limit(%s)', args), VARIADIC words), args FROM (VALUES
  ('NULL, 1, ''1 s''', '{name}'::text[]), ('''r1'', NULL, ''1 s''', '{allowed}'), ('''r1'', 1, NULL', '{period}'),
  ('''r1'', 1, ''1 s'', NULL, NULL', '{shards}'), (''''', 1, ''1 s''', '{empty}'), ('''a:b'', 1, ''1 s''', '{a:b,colon}'),
  ('repeat(''x'', 256), 1, ''1 s''', '{256,255}'), ('''r1'', 0, ''1 s''', '{"allowed 0",1}'), ('''r1'', -3, ''1 s''', '{"allowed -3",1}'),
  ('''r1'', 1, ''0 s''', '{period,0}'), ('''r1'', 1, ''-1 s''', '{period,negative}'), ('''r1'', 1, ''2000 years''', '{period,1000}'),
  ('''r1'', 1, ''1 s'', 0', '{"burst 0",0}'), ('''r1'', 1, ''1 s'', -1', '{"burst -1",0}'),
  ('''r1'', 1, ''1 s'', ''NaN''', '{"burst NaN",0}'), ('''r1'', 1, ''1 s'', ''Infinity''', '{"burst Infinity",0}'),
  ('''r1'', 1, ''1 s'', NULL, 0', '{"shards 0",1,1000}'), ('''r1'', 1, ''1 s'', NULL, 1001', '{"shards 1001",1,1000}')) x (args, words);
SELECT err(format('SELECT set_concurrency_limit(%s)', args), VARIADIC words), args FROM (VALUES
  ('NULL, 1', '{name}'::text[]), ('''g1'', NULL', '{capacity}'), ('''g1'', 1, NULL', '{shards}'), (''''', 1', '{empty}'),
  ('''a:b'', 1', '{a:b,colon}'), ('''g1'', 0', '{"capacity 0",1}'), ('''g1'', -1', '{"capacity -1",1}'),
  ('''g1'', 1, 0', '{"shards 0",1,1000}'), ('''g1'', 5000, 1001', '{"shards 1001",1,1000}')) x (args, words);
SELECT err($$SELECT drop_limit('rates', 'r1')$$, 'rates'), err($$SELECT drop_limit(NULL, 'r1')$$), err($$SELECT drop_limit('rate', NULL)$$),
  err($$SELECT drop_limit('rate', 'nix')$$, 'nix'), err($$SELECT drop_limit('conc', 'r1')$$, 'r1');
SELECT kind, name, capacity, shards FROM bucket_configs WHERE name IN ('r1', 'g1', 'a:b') ORDER BY kind, name;

-- sync_config: all or nothing, others left alone (GD-098).
SELECT sync_config('[{"kind": "rate", "name": "s1", "allowed": 10, "period": "PT1M", "burst": 20, "shards": 2}, {"kind": "conc", "name": "s2", "capacity": 4}]');
SELECT kind, name, round(rate::numeric, 6), capacity, shards FROM bucket_configs WHERE name LIKE 's%' ORDER BY name;
SELECT sync_config('[]');
SELECT err(format('SELECT sync_config(%s)', args), VARIADIC words), args FROM (VALUES
  ('NULL', '{configs}'::text[]), ('''{}''', '{array,object}'), ('''7''', '{array,scalar}'), ('''[7]''', '{"config 1",object,number}'),
  ('''[{"kind": "conc", "name": "s9", "capacity": 1}, {"kind": "x", "name": "a"}]''', '{"config 2",x}'),
  ('''[{"name": "a"}]''', '{kind}'), ('''[{"kind": "rate"}]''', '{name}'), ('''[{"kind": "rate", "name": "a", "period": "1 s"}]''', '{allowed}'),
  ('''[{"kind": "rate", "name": "a", "allowed": 1}]''', '{period}'), ('''[{"kind": "conc", "name": "a"}]''', '{capacity}'),
  ('''[{"kind": "conc", "name": "a", "capacity": 1, "burst": 2}]''', '{burst}'), ('''[{"kind": "rate", "name": "a", "allowed": 1, "period": "1 s", "capacity": 2}]''', '{capacity}'),
  ('''[{"kind": "conc", "name": "a", "capacity": 1.5}]''', '{1.5,whole}'), ('''[{"kind": "conc", "name": "a", "capacity": "1"}]''', '{capacity,number,string}'),
  ('''[{"kind": "conc", "name": "a", "capacity": 1, "color": 2}]''', '{color}'), ('''[{"kind": "rate", "name": "a", "allowed": 1, "period": "soon"}]''', '{soon}'),
  ('''[{"kind": "rate", "name": "a", "allowed": 1, "period": "1 s", "burst": 1e400}]''', '{burst}'), ('''[{"kind": "rate", "name": "a", "allowed": 1, "period": "1 s", "burst": 0}]''', '{"burst 0"}'),
  ('''[{"kind": "rate", "name": "a", "allowed": 0, "period": "1 s"}]''', '{"allowed 0"}'), ('''[{"kind": "rate", "name": "a", "allowed": 1, "period": "0 s"}]''', '{period}'),
  ('''[{"kind": "rate", "name": "a", "allowed": 1, "period": "-1 s"}]''', '{period,negative}'), ('''[{"kind": "rate", "name": "a", "allowed": 1, "period": "1 s", "shards": 0}]''', '{"shards 0"}'),
  ('''[{"kind": "rate", "name": "a", "allowed": 3000000000, "period": "1 s"}]''', '{allowed}'), ('''[{"kind": "conc", "name": "a:b", "capacity": 1}]''', '{a:b,colon}'),
  ('''[{"kind": "conc", "name": "", "capacity": 1}]''', '{empty}'), ('''[{"kind": "conc", "name": "a", "capacity": 0}]''', '{"capacity 0"}'),
  ('''[{"kind": "conc", "name": null, "capacity": 1}]''', '{name}'),
  ('''[{"kind": "conc", "name": "a", "capacity": 1}, {"kind": "conc", "name": "a", "capacity": 2}]''', '{a,twice}')) x (args, words);
SELECT count(*) FROM bucket_configs WHERE name IN ('a', 's9');

-- Bad entries, named by their place. Empty batches ask nobody (GD-090).
SELECT count(*) FROM admit('[]');
SELECT err(format('SELECT admit(%s)', args), VARIADIC words), args FROM (VALUES
  ('NULL', '{entries}'::text[]), ('''{}''', '{array}'), ('''[1]''', '{"entry 1",object}'), ('''[{"id": 1}, {"conc": "g1"}]''', '{"entry 2",id}'),
  ('''[{"id": "1"}]''', '{id,number}'), ('''[{"id": 1.5}]''', '{1.5,whole}'), ('''[{"id": 99999999999999999999}]''', '{bigint}'),
  ('''[{"id": 1, "conc": ""}]''', '{empty}'), ('''[{"id": 1, "conc": 1}]''', '{conc,string}'), ('''[{"id": 1, "rate": "r1"}]''', '{rate,object}'),
  ('''[{"id": 1, "rate": {}}]''', '{rate,key}'), ('''[{"id": 1, "rate": {"key": "r1", "weight": 0}}]''', '{"weight 0"}'),
  ('''[{"id": 1, "rate": {"key": "r1", "weight": -1}}]''', '{"weight -1"}'), ('''[{"id": 1, "rate": {"key": "r1", "weight": 1e400}}]''', '{weight}'),
  ('''[{"id": 1, "rate": {"key": "r1:x", "weight": 100.5}}]''', '{100.5,100,r1}'), ('''[{"id": 1, "rate": {"key": "r1", "cost": 1}}]''', '{cost}'),
  ('''[{"id": 1, "weight": 1}]''', '{weight}')) x (args, words);
SELECT err(format('SELECT %s(%s)', f, args), VARIADIC words), f, args FROM (VALUES
  ('NULL', '{slots}'::text[]), ('''{}''', '{array}'), ('''[1]''', '{"slot 1",object}'), ('''[{"key": "g1", "shard": 0}]''', '{holder}'),
  ('''[{"key": "g1", "shard": "0", "holder": 1}]''', '{shard,number}'), ('''[null, {"shard": 0, "holder": 1}]''', '{"slot 2",key}')) x (args, words), unnest('{credit,renew}'::text[]) f;
-- Slots that were never given, or not for this key, free nothing.
SELECT credit('[]'), renew('[]'), credit('[null]'), credit('[{"key": "g1", "shard": 0, "holder": 77}]'), renew('[{"key": "g1", "shard": 0, "holder": 77}]');
SELECT (SELECT count(*) FROM buckets), (SELECT count(*) FROM slot_credits);

-- An entry that asks for nothing is admitted; one under a limit that is not configured is not (GD-127).
SELECT pg_temp.ask('- - -', 'nix 1 -', '- - nix', 'nix 1 nix');

-- Shard capacities of gates: they add up, and differ by one at most (GD-102).
CALL fresh();
SELECT set_concurrency_limit('c' || c || 's' || s, c, s) FROM (VALUES (1, 1), (10, 1), (10, 3), (10, 4), (7, 7), (1000, 8), (9, 2)) x (c, s);
SELECT name, pg_temp.ask('- - ' || name), pg_temp.counters(name) FROM bucket_configs ORDER BY capacity, shards;
-- and of rates: a burst divides as it is (GD-103).
SELECT set_rate_limit('b' || s, 1, '1000 years', b, s) FROM (VALUES (10, 1), (10, 4), (1, 8), (2.5, 2)) x (b, s);
SELECT name, pg_temp.ask(name || ' 1 -'), pg_temp.counters(name) FROM bucket_configs WHERE kind = 'rate' ORDER BY name;

-- The fullest shard is drawn from first, then the first (GD-114). A cold key admits at once (GD-112, GD-124).
CALL fresh();
SELECT set_concurrency_limit('g', 10, 3);
SELECT pg_temp.ask('- - g'), pg_temp.counters('g');
SELECT pg_temp.ask('- - g', '- - g', '- - g'), pg_temp.counters('g');
SELECT pg_temp.ask(VARIADIC array_fill('- - g'::text, '{8}')), pg_temp.counters('g');
SELECT pg_temp.ask('- - g'), pg_temp.counters('g');
-- Slots come back to their shards (GD-135), once each.
SELECT credit(pg_temp.slots('g', 4)), credit('[{"key": "g", "shard": 0, "holder": 1}]'), pg_temp.counters('g');
SELECT pg_temp.counters('g');
SELECT credit(pg_temp.slots('g'));
SELECT pg_temp.counters('g'), (SELECT count(*) FROM slot_holders);
-- A key is under the limit named by its text before the colon, and has counters of its own (GD-010).
SELECT pg_temp.ask('- - g:a', '- - g:b', '- - g:a:c', '- - g'), pg_temp.counters('g:a'), pg_temp.counters('g:b'), pg_temp.counters('g:a:c');

-- Proportional debits (GD-121): each shard gives its part.
CALL fresh();
SELECT set_rate_limit('r', 1, '1000 years', 12, 3);
SELECT pg_temp.ask('r 6 -'), pg_temp.counters('r');
UPDATE buckets SET available = shard WHERE key = 'r';
SELECT pg_temp.ask('r 1.5 -'), pg_temp.counters('r');
SELECT pg_temp.ask('r 1.5 -'), pg_temp.counters('r');
-- nothing left; and who is granted nothing writes nothing (D-14)
SELECT array_agg(b.xmin::text) AS written, pg_temp.ask('r 0.001 -') FROM buckets b \gset
SELECT :'ask', array_agg(xmin::text) = :'written'::text[] FROM buckets;

-- Inclusive prefixes by cumulative weight (GD-118): what does not fit stops all behind it.
CREATE FUNCTION pg_temp.weights(burst float8, VARIADIC weights float8[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  CALL t.fresh();
  PERFORM gen_durable.set_rate_limit('r', 1, '1000 years', burst);
  RETURN pg_temp.ask(VARIADIC ARRAY(SELECT 'r ' || w || ' -' FROM unnest(weights) w)) || ' leaves ' || coalesce(pg_temp.counters('r'), '-');
END $$;
SELECT pg_temp.weights(5, 5), pg_temp.weights(5, 2, 3), pg_temp.weights(5, 2, 3, 1), pg_temp.weights(5, 2, 4, 1), pg_temp.weights(5, 1, 1, 1, 1, 1, 1),
  pg_temp.weights(0.3, 0.1, 0.1, 0.1), pg_temp.weights(1, 0.7, 0.2, 0.1, 0.01), pg_temp.weights(5, 5, 1), pg_temp.weights(3, 3, 3);

-- Refill at the wall clock (GD-117): what came since, at most the burst.
CALL fresh();
SELECT set_rate_limit('r', 2, '1 min', 10, 2);
SELECT pg_temp.ask('r 10 -'), pg_temp.counters('r');
UPDATE buckets SET last_refill = last_refill - interval '3 min';
SELECT pg_temp.ask('r 5 -', 'r 5 -');
SELECT round(available::numeric, 1) FROM buckets ORDER BY shard;
UPDATE buckets SET last_refill = last_refill - interval '1 day';
SELECT pg_temp.ask('r 10 -', 'r 1 -');
-- A clock that went back brings nothing, and takes nothing.
UPDATE buckets SET available = 5, last_refill = last_refill + interval '1 day';
SELECT pg_temp.ask('r 4 -', 'r 4 -', 'r 4 -'), pg_temp.counters('r');
-- The clock is the wall's, not the transaction's: tokens come inside one transaction.
SELECT set_rate_limit('w', 1000, '1 s', 1);
BEGIN;
SELECT pg_temp.ask('w 1 -', 'w 1 -');
SELECT pg_sleep(0.01);
SELECT pg_temp.ask('w 1 -');
COMMIT;

-- A shard that another would have is not there: the others decide (GD-111). A partly present key is not cold (GD-112).
CALL fresh();
SELECT set_concurrency_limit('g', 6, 3), set_rate_limit('r', 1, '1000 years', 6, 3);
SELECT pg_temp.ask('- - g', 'r 3 -');
DELETE FROM buckets WHERE shard = 1;
SELECT pg_temp.ask(VARIADIC array_fill('- - g'::text, '{6}')), pg_temp.counters('g');
SELECT pg_temp.ask('r 2 -', 'r 1 -'), pg_temp.counters('r');

-- Gate first, then rate (GD-110, GD-116): who finds no slot spends no tokens. A slot that its rate leaves unused is not
-- taken, and goes to the next (GD-115 as D-3 has it). All or nothing (GD-119, GD-120).
CALL fresh();
SELECT set_concurrency_limit('g', 2), set_rate_limit('r', 1, '1000 years', 3), set_rate_limit('s', 1, '1000 years', 1);
SELECT pg_temp.ask('r 1 g', 's 1 g', 'r 2 g', 'r 2 -'), pg_temp.counters('g'), pg_temp.counters('r'), pg_temp.counters('s');
SELECT credit(pg_temp.slots('g'));
SELECT pg_temp.ask('s 1 g', 's 1 g', '- - g', '- - g'), pg_temp.counters('g'), pg_temp.counters('s');

-- Slots that programs hold are leases (D-32): renew extends, never shortens (GD-097); the end of the lease frees.
CALL fresh();
SELECT set_concurrency_limit('g', 2);
SET gen_durable.lease_ttl = '60s';
SELECT pg_temp.ask('- - g', '- - g', '- - g');
SET gen_durable.lease_ttl = '10s';
SELECT renew(pg_temp.slots('g')), max(expires_at) > clock_timestamp() + interval '50 s' FROM slot_holders;
SET gen_durable.lease_ttl = '100s';
SELECT renew(pg_temp.slots('g', 1)), count(*) FILTER (WHERE expires_at > clock_timestamp() + interval '90 s') FROM slot_holders;
SELECT count(*) FILTER (WHERE expires_at > clock_timestamp() + interval '90 s') FROM slot_holders;
SELECT count(*), sum(available) FROM buckets;
SET gen_durable.clock_offset = 65000;
SELECT pg_temp.ask('- - g', '- - g'), (SELECT array_agg(held_for ORDER BY id) FROM slot_holders);
SET gen_durable.clock_offset = 300000;
SELECT reaped FROM tick();
SELECT count(*) FROM slot_holders;
SELECT pg_temp.counters('g');
-- A slot whose lease has ended is not held any more.
SELECT credit('[{"key": "g", "shard": 0, "holder": 1}]'), pg_temp.counters('g');
RESET gen_durable.clock_offset;
RESET gen_durable.lease_ttl;

-- A transaction that rolls back has taken nothing.
CALL fresh();
SELECT set_concurrency_limit('g', 2), set_rate_limit('r', 1, '1000 years', 2);
BEGIN;
SELECT pg_temp.ask('r 2 g');
ROLLBACK;
SELECT pg_temp.ask('r 2 g', '- - g');
BEGIN;
SELECT credit(pg_temp.slots('g', 1));
-- in one transaction, a slot that was given back can be had again
SELECT pg_temp.ask('- - g');
ROLLBACK;
SELECT pg_temp.counters('g'), (SELECT count(*) FROM slot_holders);

-- reconcile (GD-141..143): heals what should not be, adds missing shards, removes those beyond and keys that say nothing.
CALL fresh();
SELECT set_concurrency_limit('g', 6, 3);
SELECT pg_temp.ask('- - g', '- - g', '- - g:full'), pg_temp.counters('g');
SELECT credit(pg_temp.slots('g:full'));
UPDATE buckets SET available = 0 WHERE key = 'g' AND shard = 1;
DELETE FROM buckets WHERE key = 'g' AND shard = 2;
INSERT INTO buckets (kind, key, shard, capacity, available) VALUES ('conc', 'g', 7, 5, 5), ('conc', 'orphan', 0, 5, 5);
SELECT gates FROM reconcile();
SELECT key, pg_temp.counters(key) FROM buckets GROUP BY key;
SELECT * FROM reconcile();
-- A whole key goes or none of it (GD-140); a key that is used is not removed.
SELECT credit(pg_temp.slots('g'));
SELECT gates FROM reconcile();
SELECT count(*) FROM buckets;
-- A rate counter goes when it has been idle until it was full, or when its policy is gone.
SELECT set_rate_limit('fast', 10, '1 h', shards => 2), set_rate_limit('slow', 1, '100 years', 10), set_rate_limit('gone', 1, '100 years', 10);
SELECT pg_temp.ask('fast 10 -', 'slow 1 -', 'gone:x 1 -');
SELECT buckets FROM reconcile();
DELETE FROM bucket_configs WHERE name = 'gone';
UPDATE buckets SET last_refill = last_refill - interval '54 min' WHERE key = 'fast';
SELECT buckets FROM reconcile();
UPDATE buckets SET last_refill = last_refill - interval '12 min' WHERE key = 'fast' AND shard = 0;
SELECT buckets FROM reconcile();
UPDATE buckets SET last_refill = last_refill - interval '12 min' WHERE key = 'fast';
SELECT buckets FROM reconcile();
SELECT key, shard FROM buckets ORDER BY key, shard;

-- A change of a policy takes effect on live counters at once. Slots: what is free is what is not held.
CALL fresh();
SELECT set_concurrency_limit('g', 4);
SELECT pg_temp.ask('- - g', '- - g', '- - g');
SELECT set_concurrency_limit('g', 6, 2);
SELECT pg_temp.counters('g');
SELECT set_concurrency_limit('g', 2);
SELECT pg_temp.counters('g'), (SELECT available FROM limits WHERE name = 'g');
-- made smaller than what is held: the first return pays the debt
SELECT pg_temp.ask('- - g'), credit(pg_temp.slots('g', 1));
SELECT pg_temp.counters('g'), pg_temp.ask('- - g');
SELECT credit(pg_temp.slots('g', 1));
SELECT pg_temp.counters('g'), pg_temp.ask('- - g', '- - g');
-- more shards while most slots are held: together they have no more than the gate
SELECT set_concurrency_limit('g', 9, 3);
SELECT pg_temp.counters('g'), pg_temp.ask(VARIADIC array_fill('- - g'::text, '{9}'));
SELECT set_concurrency_limit('g', 9, 1);
SELECT pg_temp.counters('g');
SELECT set_concurrency_limit('g', 9, 9);
SELECT pg_temp.counters('g'), pg_temp.ask('- - g');
SELECT credit(pg_temp.slots('g'));
SELECT pg_temp.counters('g');
-- Tokens: shared out anew, none made.
SELECT set_rate_limit('r', 1, '1000 years', 10);
SELECT pg_temp.ask('r 4 -'), pg_temp.counters('r');
SELECT set_rate_limit('r', 1, '1000 years', 12, 3);
SELECT pg_temp.counters('r');
SELECT set_rate_limit('r', 1, '1000 years', 5, 1);
SELECT pg_temp.counters('r');
SELECT set_rate_limit('r', 1, '1000 years', 5, 1), (SELECT count(*) FROM buckets WHERE key = 'r');
-- What came before the change came at the rate that there was, and was saved up to the burst that there was.
SELECT set_rate_limit('v', 1, '1 min', 10), pg_temp.ask('v 10 -');
UPDATE buckets SET last_refill = last_refill - interval '2 min' WHERE key = 'v';
SELECT set_rate_limit('v', 100, '1 s', 10, 2);
SELECT round(sum(available)::numeric, 1) FROM buckets WHERE key = 'v';
SELECT set_rate_limit('v', 1, '1 min', 10, 2);
UPDATE buckets SET last_refill = last_refill - interval '1 day' WHERE key = 'v';
SELECT set_rate_limit('v', 1, '1 min', 100, 2);
SELECT round(sum(available)::numeric, 1) FROM buckets WHERE key = 'v';
SELECT drop_limit('rate', 'v');
-- Dropped, its counters stay while something of their key is held (GD-141); made anew, it counts that.
SELECT pg_temp.ask('- - g:k', '- - g:k', '- - g');
SELECT drop_limit('conc', 'g'), drop_limit('rate', 'r');
SELECT count(*) FROM buckets;
SELECT pg_temp.ask('- - g:k', 'r 1 -'), set_concurrency_limit('g', 3);
SELECT pg_temp.ask('- - g:k', '- - g:k'), pg_temp.counters('g:k');
-- credit of a slot of a gate that is gone is dropped (GD-096)
SELECT drop_limit('conc', 'g');
SELECT credit(pg_temp.slots('g:k'));
-- and the counters go once nothing is held
SELECT gates FROM reconcile();
SELECT (SELECT array_agg(key) FROM buckets), (SELECT count(*) FROM slot_credits), (SELECT count(*) FROM slot_holders);

-- The views.
CALL fresh();
SELECT set_concurrency_limit('g', 4, 2), set_rate_limit('r', 1, '1000 years', 10), set_rate_limit('idle', 1, '1 min');
SELECT pg_temp.ask('- - g:1', '- - g:1', '- - g:2', 'r 3 -');
SELECT kind, name, capacity, shards, keys, round(available::numeric, 3), blocked FROM limits ORDER BY kind, name;
SELECT kind, key, name, capacity, shards, round(available::numeric, 3), blocked FROM limit_keys ORDER BY kind, key;
CALL fresh();
