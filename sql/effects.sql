-- Effects on other rows come last: joins and promotions are applied at commit, or by a pick in the same transaction, and go away with
-- the subtransaction that caused them. GD-151, GD-170, GD-171, GD-184, GD-215, D-3, D-26, AC-122
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
-- A parent, its children claimed, and two rows of one key.
CREATE PROCEDURE pg_temp.family() LANGUAGE plpgsql AS $$
BEGIN
  CALL t.fresh();
  PERFORM gen_durable.insert('p', queue => 'p');
  PERFORM t.picks('p');
  PERFORM t.fin('p', gen_durable.schedule_children('two', '[{"fsm": "c1", "queue": "c"}, {"fsm": "c2", "queue": "c"}, {"fsm": "c3", "queue": "c"}]'));
  PERFORM t.picks('c', 3);
  PERFORM gen_durable.insert('k1', queue => 'k', concurrency_key => 'k'), gen_durable.insert('k2', queue => 'k', concurrency_key => 'k');
  PERFORM t.picks('k', 2);
END $$;
CREATE FUNCTION pg_temp.now_at() RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT (SELECT concat_ws(' ', status, children_pending) FROM gen_durable.instances WHERE fsm = 'p') || '; ' || coalesce(t.blocked('k'), 'free')
$$;

-- At commit.
CALL pg_temp.family();
SELECT pg_temp.now_at();
BEGIN;
SELECT fin('c1', done()), fin('c2', stop('x')), fin('k1', done());
SELECT pg_temp.now_at();
COMMIT;
SELECT pg_temp.now_at();
-- Not at all after a rollback, nor later.
CALL pg_temp.family();
BEGIN;
SELECT fin('c1', done()), fin('k1', done());
ROLLBACK;
BEGIN;
COMMIT;
SELECT pg_temp.now_at(), st('c1', 'k1');

-- Subtransactions: what is rolled back goes, what is released stays.
BEGIN;
SAVEPOINT one;
SELECT fin('c1', done()), fin('k1', done());
ROLLBACK TO one;
COMMIT;
SELECT pg_temp.now_at(), st('c1', 'k1');
BEGIN;
SAVEPOINT one;
SELECT fin('c1', done()), fin('k1', done());
SAVEPOINT two;
SELECT fin('c2', done());
ROLLBACK TO two;
SELECT fin('c3', done());
RELEASE one;
SELECT pg_temp.now_at();
COMMIT;
SELECT pg_temp.now_at(), st('c1', 'c2', 'c3');
-- Released and then rolled back with the one around it.
CALL pg_temp.family();
BEGIN;
SAVEPOINT one;
SAVEPOINT two;
SELECT fin('c1', done());
RELEASE two;
ROLLBACK TO one;
SELECT fin('c1', stop('x'));
COMMIT;
SELECT pg_temp.now_at();
-- An exception block is a subtransaction.
CALL pg_temp.family();
DO $$
BEGIN
  PERFORM t.fin('c1', gen_durable.done());
  BEGIN
    PERFORM t.fin('c2', gen_durable.done()), t.fin('k1', gen_durable.done());
    RAISE 'no';
  EXCEPTION WHEN raise_exception THEN
    NULL;
  END;
  PERFORM t.fin('c3', gen_durable.done());
END $$;
SELECT pg_temp.now_at(), st('c2', 'k1');

-- A pick in the same transaction sees them.
CALL pg_temp.family();
BEGIN;
SELECT fin('c1', done()), fin('c2', done()), fin('c3', done()), fin('k1', done());
SELECT picks('p'), picks('k');
SELECT fin('p', done()), fin('k2', done());
COMMIT;
SELECT pg_temp.now_at(), st('p', 'k2');
-- Applied in a subtransaction that rolls back, they are due again, and once.
CALL pg_temp.family();
BEGIN;
SELECT fin('c1', done()), fin('c2', done()), fin('k1', done());
SAVEPOINT one;
SELECT picks('none'), pg_temp.now_at();
SELECT fin('c3', done()), picks('p'), picks('k');
ROLLBACK TO one;
SELECT pg_temp.now_at();
SAVEPOINT two;
SELECT picks('none'), pg_temp.now_at();
RELEASE two;
SELECT picks('none'), pg_temp.now_at();
ROLLBACK TO one;
SELECT picks('p'), pg_temp.now_at();
COMMIT;
SELECT pg_temp.now_at(), st('c3');

-- Each at once, where asked for; with what was queued before, if any.
CALL pg_temp.family();
BEGIN;
SELECT fin('c1', done());
SET LOCAL gen_durable.defer_effects = off;
SELECT fin('c2', done()), fin('k1', done());
SELECT pg_temp.now_at();
SAVEPOINT one;
SELECT fin('c3', done());
SELECT pg_temp.now_at();
ROLLBACK TO one;
SELECT pg_temp.now_at();
COMMIT;
SELECT pg_temp.now_at();

-- A procedure's COMMIT applies them like any other, and a chained transaction begins without them.
CALL pg_temp.family();
DO $$
BEGIN
  PERFORM t.fin('c1', gen_durable.done());
  COMMIT;
  RAISE NOTICE '%', pg_temp.now_at();
  PERFORM t.fin('c2', gen_durable.done());
  ROLLBACK;
  PERFORM t.fin('c3', gen_durable.done());
END $$;
SELECT pg_temp.now_at();
BEGIN;
SELECT fin('k1', done());
COMMIT AND CHAIN;
SELECT pg_temp.now_at();
ROLLBACK;

-- Several generations in one transaction.
CALL fresh();
BEGIN;
SELECT count(*) FROM insert('top', queue => 'q');
SELECT picks('q'), fin('top', schedule_children('two', '[{"fsm": "mid", "queue": "q"}]'));
SELECT picks('q'), fin('mid', schedule_children('two', '[{"fsm": "leaf", "queue": "q"}, {"fsm": "leaf2", "queue": "q"}]'));
SELECT picks('q', 2), fin('leaf', done()), fin('leaf2', done());
SELECT picks('q'), fin('mid', done());
SELECT picks('q'), fin('top', done());
COMMIT;
SELECT st('top', 'mid', 'leaf', 'leaf2');
-- A parent that was itself cancelled in the transaction.
CALL pg_temp.family();
BEGIN;
SELECT fin('c1', done()), cancel(id('p'));
COMMIT;
SELECT st('p', 'c1');
-- A parent deleted before its child's end is no error.
CALL pg_temp.family();
BEGIN;
SELECT fin('c1', done());
DELETE FROM instances WHERE fsm = 'p';
COMMIT;
SELECT st('c1', 'p'), count(*) FROM instances WHERE parent_id IS NOT NULL;

-- Outcomes that are committed on the way to the commit itself: by a deferred trigger, and by a cursor that outlives the transaction.
CALL pg_temp.family();
CREATE FUNCTION pg_temp.finish() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM t.fin(NEW.name, gen_durable.done());
  RETURN NULL;
END $$;
CREATE TEMP TABLE late (name text);
CREATE CONSTRAINT TRIGGER finish AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pg_temp.finish();
BEGIN;
INSERT INTO late VALUES ('c1'), ('k1');
SELECT st('c1', 'k1');
COMMIT;
SELECT pg_temp.now_at(), st('c1', 'k1');
BEGIN;
DECLARE later CURSOR WITH HOLD FOR SELECT fin('c2', done());
COMMIT;
SELECT pg_temp.now_at();
FETCH later;
-- A failed commit applies nothing.
\set VERBOSITY sqlstate
BEGIN;
SELECT fin('c3', done());
INSERT INTO late VALUES ('nobody');
COMMIT;
SELECT pg_temp.now_at(), st('c3');
