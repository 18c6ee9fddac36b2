-- What an administrator does to the tables while sessions use them: added columns and indexes, rewrites, truncation. GD-005, GD-073
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
SET client_min_messages = warning;
CALL fresh();
CREATE FUNCTION pg_temp.life(name text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.insert(name, queue => 'q', concurrency_key => 'k', correlation_key => name);
  PERFORM t.picks('q'), t.fin(name, gen_durable.await_signal('{go}', 'two'));
  PERFORM gen_durable.signal_key(name, 'go', dedup_key => 'd');
  PERFORM t.picks('q'), t.fin(name, gen_durable.schedule_children('three', '[{"fsm": "kid", "queue": "kid"}]'));
  PERFORM gen_durable.complete(token, gen_durable.done()) FROM gen_durable.pick('kid', 'w');
  PERFORM t.picks('q'), t.fin(name, gen_durable.done());
  RETURN t.st(name);
END $$;
SELECT pg_temp.life('before');
-- Columns and indexes of one's own.
ALTER TABLE instances ADD COLUMN note text;
ALTER TABLE signals ADD COLUMN note text;
CREATE INDEX own_fsm ON instances (fsm, upper(step)) WHERE status <> 'runnable';
CREATE INDEX own_note ON signals (note);
SELECT pg_temp.life('columns');
UPDATE instances SET note = 'kept';
-- The indexes know every row.
SET enable_seqscan = off;
SELECT count(*) FROM instances WHERE fsm = 'columns' AND upper(step) = 'THREE' AND status <> 'runnable';
SELECT count(*) FROM instances WHERE fsm = 'columns' AND upper(step) = 'TWO' AND status <> 'runnable';
SELECT count(*) FROM signals WHERE note IS NULL;
RESET enable_seqscan;
SELECT count(*) FROM insert('a', queue => 'a');
SELECT picks('a'), fin('a', retry());
UPDATE instances SET note = 'kept' WHERE fsm = 'a';
SELECT picks('a'), fin('a', done());
SELECT note FROM instances WHERE fsm = 'a';
-- A unique index of one's own is kept.
CREATE UNIQUE INDEX own_unique ON instances (fsm) WHERE status = 'executing' AND queue = 'u';
SELECT count(*) FROM unnest('{1,2}'::jsonb[]) n, insert('u', n, queue => 'u');
SELECT picks('u'), err($$SELECT picks('u')$$, 'own_unique');
DROP INDEX own_unique;
SELECT picks('u');
-- Rewrites, and new attribute numbers.
ALTER TABLE instances DROP COLUMN note;
VACUUM FULL instances;
SELECT pg_temp.life('rewritten');
REINDEX TABLE instances;
REINDEX TABLE signals;
SELECT pg_temp.life('reindexed');
-- In the middle of a transaction.
BEGIN;
SELECT pg_temp.life('one');
ALTER TABLE instances ADD COLUMN more int;
SELECT pg_temp.life('two');
TRUNCATE instances CASCADE;
SELECT pg_temp.life('three');
ROLLBACK;
SELECT pg_temp.life('four'), st('one', 'two', 'three');
ALTER TABLE signals DROP COLUMN note;
-- Rows that SQL made are rows like any other.
CALL fresh();
INSERT INTO instances (fsm, step, queue) VALUES ('sql', 'start', 'q');
SELECT picks('q'), fin('sql', next_step('two'));
UPDATE instances SET step = 'by hand', priority = 3;
SELECT step FROM pick('q', 'w');
-- What the engine cannot work with is refused, and nothing is touched.
CREATE FUNCTION pg_temp.altered(ddl text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE ddl;
  PERFORM gen_durable.pick('none', 'w'), gen_durable.insert('none');
  RAISE EXCEPTION 'it worked';
EXCEPTION WHEN OTHERS THEN
  RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT pg_temp.altered(d) FROM unnest(ARRAY[
  'ALTER TABLE gen_durable.instances ALTER COLUMN token TYPE text',
  'ALTER TABLE gen_durable.instances ALTER COLUMN weight TYPE numeric',
  'ALTER TABLE gen_durable.instances ALTER COLUMN handed TYPE int[]',
  'ALTER TABLE gen_durable.instances ALTER COLUMN step DROP NOT NULL',
  'ALTER TABLE gen_durable.instances DROP COLUMN promoted_on',
  'ALTER TABLE gen_durable.queues ALTER COLUMN lease_ttl TYPE text',
  'ALTER TABLE gen_durable.instances RENAME TO away; CREATE VIEW gen_durable.instances AS SELECT * FROM gen_durable.away',
  'DROP INDEX gen_durable.instances_pick; CREATE INDEX instances_pick ON gen_durable.instances (id)',
  'DROP INDEX gen_durable.instances_pick; CREATE INDEX instances_pick ON gen_durable.instances USING hash (queue)',
  'DROP INDEX gen_durable.instances_pick; CREATE INDEX instances_pick ON gen_durable.instances (queue, priority, eligible_at, id)',
  'DROP INDEX gen_durable.instances_pick; CREATE INDEX instances_pick ON gen_durable.instances (queue, priority DESC, eligible_at, id) WHERE blocked_on IS NULL',
  'DROP INDEX gen_durable.instances_pick; CREATE INDEX instances_pick ON gen_durable.signals (id) WHERE id > 0',
  'DROP INDEX gen_durable.instances_key; CREATE INDEX instances_key ON gen_durable.instances (concurrency_key) WHERE concurrency_key IS NOT NULL',
  'DROP INDEX gen_durable.instances_key; CREATE UNIQUE INDEX instances_key ON gen_durable.instances (concurrency_key COLLATE "POSIX") WHERE concurrency_key IS NOT NULL',
  'ALTER TYPE gen_durable.job ALTER ATTRIBUTE attempt TYPE text',
  'ALTER TYPE gen_durable.job ADD ATTRIBUTE more int',
  'ALTER TYPE gen_durable.job ADD ATTRIBUTE more int; ALTER TYPE gen_durable.job DROP ATTRIBUTE more',
  'ALTER TYPE gen_durable.child DROP ATTRIBUTE state',
  'ALTER TYPE gen_durable.child ALTER ATTRIBUTE status TYPE text',
  'ALTER TYPE gen_durable.run ALTER ATTRIBUTE step TYPE text CASCADE',
  'ALTER TYPE gen_durable.run_decision ALTER ATTRIBUTE run TYPE gen_durable.run_info',
  'ALTER TYPE gen_durable.inbox_signal RENAME TO away',
  $$ALTER TYPE gen_durable.durable_status RENAME VALUE 'cancelled' TO 'away'$$]) d;
SELECT pg_temp.life('unharmed');
