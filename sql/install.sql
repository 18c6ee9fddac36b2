-- Creating the extension, and what every other test file uses.
-- GD-002, GD-003, GD-004, GD-006, GD-011, GD-410, GD-411, D-15, D-24
\pset format unaligned
\pset tuples_only on
\pset null -

-- Without the preload it says so, once, with what to do about it.
CREATE EXTENSION gen_durable;

-- It can go and come back, in a session that has used it.
SELECT id, (SELECT fsm FROM gen_durable.pick('q', 'w')) FROM gen_durable.insert('old', queue => 'q');
DROP EXTENSION gen_durable;
CREATE EXTENSION gen_durable;
SELECT id, (SELECT fsm FROM gen_durable.pick('q', 'w')) FROM gen_durable.insert('new', queue => 'q');

-- The schema is fixed.
SELECT extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'gen_durable';
ALTER EXTENSION gen_durable SET SCHEMA public;

-- Statuses in their order; the terminal ones come last.
SELECT enum_range(NULL::gen_durable.durable_status);
SELECT atttypid::regtype FROM pg_attribute
WHERE attrelid = 'gen_durable.instances'::regclass AND attname = 'correlation_scope';

-- Apart from the primary key every unique index on instances is partial, so a claim's row lock stays the weak one.
SELECT indexrelid::regclass FROM pg_index
WHERE indrelid = 'gen_durable.instances'::regclass AND indisunique AND indpred IS NULL;

-- Settings and their defaults.
LOAD 'gen_durable';
SELECT name, boot_val AS setting, unit, context FROM pg_settings WHERE name LIKE 'gen\_durable.%' ORDER BY name;

-- A setting that does not exist, or a value out of its range, is refused.
\set VERBOSITY sqlstate
SET gen_durable.lease_ttl_ms = 5;
SET gen_durable.lease_ttl = 0;
SET gen_durable.gc_batch = 0;
SET gen_durable.gc_retention = '-1s';
SET gen_durable.job_rows = 0;
SET gen_durable.clock_offset = 'NaN';
\set VERBOSITY default

-- What follows serves the other test files. They run in one database, each in a session of its own,
-- and name instances by their machine: an instance of machine a is "a".
CREATE SCHEMA t;

-- An empty engine, ids from 1. Spans of time are written in one style.
CREATE PROCEDURE t.fresh() LANGUAGE sql AS $$
  SET intervalstyle = postgres;
  TRUNCATE gen_durable.instances, gen_durable.signals, gen_durable.fsms, gen_durable.queues, gen_durable.bucket_configs, gen_durable.buckets, gen_durable.slot_credits, gen_durable.slot_holders
    RESTART IDENTITY;
$$;

-- The SQLSTATE that a statement raises. Its message or detail must hold each of the words.
CREATE FUNCTION t.err(q text, VARIADIC words text[] DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  message text;
  detail text;
  word text;
BEGIN
  EXECUTE q;
  RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
  FOREACH word IN ARRAY words LOOP
    IF position(word IN message || ' ' || detail) = 0 THEN
      RETURN SQLSTATE || ', without "' || word || '": ' || message;
    END IF;
  END LOOP;
  RETURN SQLSTATE;
END $$;

-- Claims, and tells whom, in the order of the jobs.
CREATE FUNCTION t.picks(queue text, batch int DEFAULT 1, worker text DEFAULT 'w', ttl interval DEFAULT NULL)
RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(fsm, ' ' ORDER BY ordinality)
  FROM gen_durable.pick(queue, worker, batch, ttl) WITH ORDINALITY
$$;

-- The token that an instance carries.
CREATE FUNCTION t.tok(name text) RETURNS uuid LANGUAGE sql VOLATILE AS $$
  SELECT token FROM gen_durable.instances WHERE fsm = name
$$;

CREATE FUNCTION t.id(name text) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT id FROM gen_durable.instances WHERE fsm = name
$$;

-- Where instances are: name, status, step, attempt.
CREATE FUNCTION t.st(VARIADIC names text[]) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(concat_ws(' ', fsm, status, step, attempt), '; ' ORDER BY id)
  FROM gen_durable.instances WHERE fsm = ANY (names)
$$;

-- Commits an outcome of the claim that an instance is under.
CREATE FUNCTION t.fin(name text, outcome jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM gen_durable.complete(t.tok(name), outcome);
  RETURN t.st(name);
END $$;

-- The names of the signals in an instance's inbox.
CREATE FUNCTION t.sigs(name text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(s.name, ' ' ORDER BY s.id)
  FROM gen_durable.signals s JOIN gen_durable.instances i ON i.id = s.target_id
  WHERE i.fsm = sigs.name AND s.consumed_at IS NULL
$$;

-- Inserts with a correlation key: "new", or whose duplicate it is.
CREATE FUNCTION t.ins(fsm text, key text, scope gen_durable.durable_status[]
    DEFAULT '{runnable,executing,awaiting_signal,awaiting_children}', queue text DEFAULT 'default')
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  r record;
BEGIN
  SELECT * INTO r FROM gen_durable.insert(ins.fsm, queue => ins.queue, correlation_key => key, correlation_scope => scope);
  RETURN CASE WHEN r.created THEN 'new' ELSE 'duplicate of ' || (SELECT i.fsm FROM gen_durable.instances i WHERE i.id = r.id) END;
END $$;

-- Who is blocked, and on what.
CREATE FUNCTION t.blocked(queue text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT string_agg(fsm || ' ' || blocked_on, '; ' ORDER BY id)
  FROM gen_durable.instances i WHERE i.queue = blocked.queue AND blocked_on IS NOT NULL
$$;
