-- Where the engine meets what surrounds it: errors inside its own subtransactions, columns and constraints that an
-- administrator adds, ids and keys at their limits. Rules: D-3, D-4, D-7, D-8, D-15, GD-031, GD-052, GD-183.
\set VERBOSITY sqlstate
\pset tuples_only on
\pset format unaligned
SET client_min_messages = warning;
SET search_path = gen_durable, public;
TRUNCATE gen_durable.instances CASCADE;

CREATE FUNCTION pg_temp.tok(name text) RETURNS uuid LANGUAGE sql AS
  'SELECT token FROM gen_durable.instances WHERE fsm = name AND status = ''executing''';

-- An error while a row enters its correlation scope ends the subtransaction that the engine began, not the caller's.
CREATE INDEX boom ON gen_durable.instances ((100 / (state ->> 'n')::int));
SELECT created FROM insert('enter', '{"n": 1}', queue => 'enter', correlation_key => 'c', correlation_scope => '{awaiting_signal}');
SELECT fsm FROM pick('enter', 'w');
DO $$
BEGIN
  BEGIN
    PERFORM gen_durable.complete(pg_temp.tok('enter'), gen_durable.await_signal('{x}', 's', '{"n": 0}'));
  EXCEPTION WHEN division_by_zero THEN NULL;
  END;
END $$;
SELECT txid_current() AS first \gset
SELECT txid_current() > :first AS ended;
DROP INDEX gen_durable.boom;
SELECT complete(pg_temp.tok('enter'), await_signal('{x}', 's'));
SELECT status, correlation_guard FROM instances WHERE fsm = 'enter';

-- A column that was added with a default, since dropped, keeps its value.
SELECT created FROM insert('kept', queue => 'kept');
ALTER TABLE gen_durable.instances ADD COLUMN tenant text DEFAULT 'acme';
ALTER TABLE gen_durable.instances ALTER COLUMN tenant DROP DEFAULT;
SELECT fsm FROM pick('kept', 'w');
SELECT complete(pg_temp.tok('kept'), done());
SELECT tenant FROM instances WHERE fsm = 'kept';
ALTER TABLE gen_durable.instances DROP COLUMN tenant;

-- A deferrable constraint could not be kept, so it is refused at the first write.
ALTER TABLE gen_durable.instances ADD CONSTRAINT late UNIQUE (id, step) DEFERRABLE INITIALLY DEFERRED;
SELECT insert('late');
ALTER TABLE gen_durable.instances DROP CONSTRAINT late;
SELECT created FROM insert('late', queue => 'late');

-- Versions of one machine mixed in one call: the newest is the newest, whatever was asked for before it.
SELECT register_fsm('mixed', version => 1, initial => 'one'), register_fsm('mixed', version => 2, initial => 'two');
SELECT count(*) FROM insert_all('mixed', '[{"fsm_version": 1}, {}, {"fsm_version": 1}, {"fsm_version": 2}, {}]');
SELECT fsm_version, step FROM instances WHERE fsm = 'mixed' ORDER BY id;

-- A row that was given its turn and has not used it hides no blocked row that sorts before it.
SELECT created FROM insert('holder', queue => 'turn2', concurrency_key => 'turn');
SELECT fsm FROM pick('turn2', 'w');
SELECT created FROM insert('promoted', queue => 'turn', priority => 5, concurrency_key => 'turn');
SELECT count(*) FROM pick('turn', 'w');
SELECT complete(pg_temp.tok('holder'), done());
SELECT promoted_on FROM instances WHERE fsm = 'promoted';
SELECT created FROM insert('holder2', queue => 'turn2', concurrency_key => 'turn');
SELECT fsm FROM pick('turn2', 'w');
SELECT created FROM insert('head', queue => 'turn', priority => 1, concurrency_key => 'turn');
SELECT count(*) FROM pick('turn', 'w', 1);
SELECT complete(pg_temp.tok('holder2'), done());
SELECT created FROM insert('newcomer', queue => 'turn', priority => 3, concurrency_key => 'turn');
SELECT fsm FROM pick('turn', 'w');

-- Ids that no token can carry cannot be stored.
INSERT INTO gen_durable.instances (id, fsm, step) VALUES (0, 'x', 'x');
INSERT INTO gen_durable.instances (id, fsm, step) VALUES (-1, 'x', 'x');
INSERT INTO gen_durable.instances (id, fsm, step) VALUES (1152921504606846976, 'x', 'x');

-- Key locks of subtransactions that rolled back do not count against the transaction's thousand.
SELECT created FROM insert('again', queue => 'again', concurrency_key => 'again');
DO $$
BEGIN
  FOR n IN 1..1100 LOOP
    BEGIN
      IF (SELECT count(*) FROM gen_durable.pick('again', 'w')) <> 1 THEN
        RAISE EXCEPTION 'round % picked nothing', n USING ERRCODE = 'assert_failure';
      END IF;
      RAISE EXCEPTION 'back' USING ERRCODE = 'triggered_action_exception';
    EXCEPTION WHEN triggered_action_exception THEN NULL;
    END;
  END LOOP;
END $$;

-- A row that the running command has written cannot be signalled or cancelled by it: an error, not a wrong answer.
SELECT created FROM insert('self', queue => 'self', correlation_key => 'self');
UPDATE gen_durable.instances SET priority = 1 WHERE fsm = 'self' RETURNING gen_durable.signal_key('self', 'x');
UPDATE gen_durable.instances SET priority = 1 WHERE fsm = 'self' RETURNING gen_durable.cancel(id);

-- Asking twice for a cancellation keeps the reason.
SELECT fsm FROM pick('self', 'w');
SELECT cancel(find('self'), 'first'), cancel(find('self'));
SELECT last_error FROM instances WHERE fsm = 'self';
TRUNCATE gen_durable.instances CASCADE;

-- The lists of a job are kept to 32 MB, so that a large inbox cannot make a row that no pick can build; inbox() has the rest.
SELECT created FROM insert('heavy', queue => 'heavy', correlation_key => 'heavy');
SELECT signal_key('heavy', 's', to_jsonb(repeat('x', 20000000))) FROM generate_series(1, 3);
SELECT jsonb_array_length(signals) AS listed, (SELECT count(*) FROM inbox(id)) AS inbox FROM pick('heavy', 'w');
-- A scope of more statuses than there are; a role that does not exist.
SELECT insert('x', correlation_scope => array_fill('done'::durable_status, '{8}'));
SELECT grant_usage(1::oid::regrole, 'client');
-- The key is the reason before any pick has met the row.
SELECT created FROM insert('holds', queue => 'why', concurrency_key => 'why');
SELECT fsm FROM pick('why', 'holder');
SELECT created FROM insert('waits', queue => 'why', concurrency_key => 'why');
SELECT waits_for, held_by FROM instances i, LATERAL why(i.id) WHERE fsm = 'waits';
TRUNCATE gen_durable.instances CASCADE;

-- The views are of one meaning, and silent, whatever the caller's strings are.
SET standard_conforming_strings = off;
SELECT count(*) >= 0 FROM workers;
RESET standard_conforming_strings;
