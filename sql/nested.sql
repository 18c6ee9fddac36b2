-- Functions inside one another, inside one statement: each sees what the others did. D-27
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CREATE FUNCTION pg_temp.entry(token uuid, outcome jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_build_array(outcome || jsonb_build_object('token', token))
$$;
CALL fresh();
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');

-- pick, complete, and pick again, in one statement.
SELECT j.fsm, j.step, m.result, k.fsm, k.step
FROM pick('q', 'w') j, LATERAL complete_many(pg_temp.entry(j.token, next_step('two'))) m, LATERAL pick('q', m.result, 5) k;
-- complete for each claimed row, while the claims are read.
SELECT release((SELECT array_agg(token) FROM instances));
SELECT count(complete(token, next_step('three'))) FROM pick('q', 'w', 5);
SELECT st('a', 'b', 'c');
-- pick in an argument of pick, complete in an argument of pick.
SELECT fsm FROM pick('q', (SELECT worker FROM (SELECT fsm || '''s' AS worker FROM pick('q', 'w')) first));
SELECT fsm, locked_by FROM instances WHERE status = 'executing' ORDER BY id;
SELECT fsm, step FROM pick('q', (SELECT result FROM complete_many(pg_temp.entry(tok('b'), next_step('four')))), 5);
-- insert in an argument of pick, and a claim of what it made.
SELECT fsm FROM pick('new', CASE WHEN (SELECT created FROM insert('d', queue => 'new')) THEN 'w' END);
-- complete_and_take in itself.
SELECT fsm, step FROM complete_and_take(pg_temp.entry((SELECT token FROM complete_and_take(pg_temp.entry(tok('d'), next_step('two')), 'new', 'w')), next_step('three')), 'new', 'w');

-- Common table expressions, with writes of the caller's own beside them.
CREATE TEMP TABLE ledger (id bigint, step text);
CALL fresh();
SELECT count(*) FROM unnest('{a,b,c}'::text[]) n, insert(n, queue => 'q');
WITH j AS MATERIALIZED (SELECT * FROM pick('q', 'w', 2)), l AS (INSERT INTO ledger SELECT id, step FROM j)
SELECT count(complete(token, done())) FROM j;
SELECT id, step, st('a', 'b') FROM ledger ORDER BY id;
-- A limit outside, or a cursor that is not read to its end, claims the whole batch all the same.
SELECT count(*) FROM unnest('{d,e,f,g,h,i}'::text[]) n, insert(n, queue => 'l');
SELECT fsm FROM pick('l', 'w', 2) LIMIT 1;
SELECT (pick('l', 'w', 2)).fsm LIMIT 1;
BEGIN;
DECLARE jobs CURSOR FOR SELECT fsm FROM pick('l', 'w', 2);
FETCH 1 FROM jobs;
CLOSE jobs;
COMMIT;
SELECT count(*) FROM instances WHERE queue = 'l' AND status = 'executing';

-- From a trigger of the caller's table.
CREATE FUNCTION pg_temp.finish() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.complete(NEW.token, gen_durable.done()), gen_durable.insert('audit', queue => 'audit');
  RETURN NEW;
END $$;
CREATE TEMP TABLE orders (token uuid);
CREATE TRIGGER finish BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION pg_temp.finish();
INSERT INTO orders SELECT token FROM pick('q', 'w');
SELECT st('c'), picks('audit');
-- and with the outcome refused, the row is not inserted
\set VERBOSITY sqlstate
INSERT INTO orders SELECT token FROM orders;
\set VERBOSITY default
SELECT count(*), (SELECT count(*) FROM instances WHERE fsm = 'audit') FROM orders;

-- Prepared statements, often enough for their generic plans.
PREPARE enqueue (text) AS SELECT created FROM insert($1, queue => 'p');
PREPARE step (text) AS SELECT count(complete(token, next_step($1))) FROM pick('p', 'w', 5);
EXECUTE enqueue('p');
EXECUTE step('1');
EXECUTE step('2');
EXECUTE step('3');
EXECUTE step('4');
EXECUTE step('5');
EXECUTE step('6');
EXECUTE step('7');
SELECT st('p');
-- A claim in an error's wake.
DO $$
BEGIN
  FOR n IN 1..3 LOOP
    BEGIN
      PERFORM t.picks('p');
      RAISE 'no';
    EXCEPTION WHEN raise_exception THEN
      PERFORM t.picks('p'), t.fin('p', gen_durable.retry());
    END;
  END LOOP;
END $$;
SELECT st('p');
