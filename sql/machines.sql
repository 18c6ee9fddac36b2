-- Machines: registered names, versions, owners, the retry policy of fail.
-- GD-031, GD-347, GD-345, D-9, AC-214
\pset format unaligned
\pset tuples_only on
\pset null -
SET search_path = gen_durable, t;
CALL fresh();

-- What insert leaves out comes from the machine; an unregistered one has the defaults.
SELECT 'ok' FROM register_fsm('m', queue => 'mq', initial => 'begin');
SELECT name, version, owner = current_user, queue, initial, max_attempts, backoff_base, backoff_cap, max_crashes, inline_execution FROM fsms;
SELECT count(*) FROM unnest('{m,other}'::text[]) n, insert(n);
SELECT count(*) FROM insert('m', step => 'own', queue => 'own');
SELECT fsm, fsm_version, step, queue FROM instances ORDER BY id;
-- insert_all and children alike.
SELECT count(*) FROM insert_all('m', '[{}, {"step": "own"}]');
SELECT picks('own');
SELECT 'ok' FROM complete((SELECT token FROM instances WHERE status = 'executing'), schedule_children('two', '[{"fsm": "m"}, {"fsm": "other"}]'));
SELECT fsm, fsm_version, step, queue FROM instances WHERE id > 3 ORDER BY id;

-- Versions: the newest is what insert takes; an instance ends on the version it began with.
CALL fresh();
SELECT 'ok' FROM register_fsm('v', queue => 'q1', initial => 'one');
SELECT count(*) FROM insert('v');
SELECT 'ok' FROM register_fsm('v', version => 2, queue => 'q2', initial => 'two', max_attempts => 1);
SELECT count(*) FROM insert('v');
SELECT count(*) FROM insert('v', fsm_version => 1);
SELECT fsm_version, step, queue FROM instances ORDER BY id;
SELECT fsm_version FROM pick('q1', 'w');
-- each version's own policy
SELECT 'ok' FROM complete((SELECT token FROM instances WHERE status = 'executing'), fail('x'));
SELECT fsm_version FROM pick('q2', 'w');
SELECT 'ok' FROM complete((SELECT token FROM instances WHERE status = 'executing'), fail('x'));
SELECT fsm_version, status, attempt FROM instances ORDER BY id;
-- The order of registration is no matter, only the number.
SELECT 'ok' FROM register_fsm('w', version => 10, initial => 'ten') AS a, register_fsm('w', version => 9, initial => 'nine') AS b;
SELECT count(*) FROM insert('w');
SELECT fsm_version, step FROM instances WHERE fsm = 'w';

-- Registered again, a version takes the new settings.
SELECT 'ok' FROM register_fsm('w', version => 10, initial => 'again', queue => 'wq', max_attempts => 3, backoff_base => '2 s', backoff_cap => '1 min', max_crashes => NULL, inline_execution => true);
SELECT version, queue, initial, max_attempts, backoff_base, backoff_cap, max_crashes, inline_execution FROM fsms WHERE name = 'w' ORDER BY version;

-- fail: again after base * 2^attempt, at most the cap, while attempts are left; then failed with its error.
CALL fresh();
SELECT 'ok' FROM register_fsm('f', queue => 'q', max_attempts => 5, backoff_base => '3 s', backoff_cap => '20 s');
SELECT count(*) FROM insert('f');
CREATE FUNCTION pg_temp.failed(error text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  UPDATE gen_durable.instances SET eligible_at = '2001-01-01';
  PERFORM t.picks('q');
  RETURN t.fin('f', gen_durable.fail(error));
END $$;
SELECT pg_temp.failed('e0');
SELECT eligible_at - updated_at FROM instances;
SELECT pg_temp.failed('e1');
SELECT eligible_at - updated_at FROM instances;
SELECT pg_temp.failed('e2');
SELECT eligible_at - updated_at FROM instances;
SELECT pg_temp.failed('e3');
SELECT eligible_at - updated_at FROM instances;
SELECT pg_temp.failed('e4');
SELECT last_error, finished_at = updated_at FROM instances;
-- Very many attempts overflow nothing.
SELECT 'ok' FROM register_fsm('f', queue => 'q', max_attempts => 2000000000, backoff_cap => '1 day');
SELECT 'revived' FROM revive(1);
UPDATE instances SET attempt = 1999999998;
SELECT pg_temp.failed('e');
SELECT eligible_at - updated_at FROM instances;
SELECT pg_temp.failed('last');
-- One attempt is one; no backoff is none.
SELECT 'ok' FROM register_fsm('f', queue => 'q', max_attempts => 2, backoff_base => '0');
SELECT 'revived' FROM revive(1);
SELECT pg_temp.failed('e'), pg_temp.failed('e');

-- A machine that no worker knows is no error: its row goes back at the lease's end.
CALL fresh();
SELECT count(*) FROM insert('unknown', queue => 'q', fsm_version => 99);
SELECT picks('q');
SET gen_durable.clock_offset = 61000;
SELECT reap();
RESET gen_durable.clock_offset;
SELECT st('unknown');

-- Owners: only the role that registered a machine, or a superuser, changes it or adds a version.
CREATE ROLE regress_gd_one;
CREATE ROLE regress_gd_two;
SELECT grant_usage('regress_gd_one', 'admin'), grant_usage('regress_gd_two', 'client');
GRANT USAGE ON SCHEMA t TO regress_gd_one, regress_gd_two;
GRANT EXECUTE ON FUNCTION register_fsm TO regress_gd_two;
SET ROLE regress_gd_two;
SELECT 'ok' FROM register_fsm('mine');
SELECT 'ok' FROM register_fsm('mine', version => 2);
RESET ROLE;
CREATE ROLE regress_gd_three;
SELECT grant_usage('regress_gd_three', 'client');
GRANT USAGE ON SCHEMA t TO regress_gd_three;
GRANT EXECUTE ON FUNCTION register_fsm TO regress_gd_three;
SET ROLE regress_gd_three;
SELECT err($$SELECT register_fsm('mine', queue => 'stolen')$$, 'mine');
SELECT err($$SELECT register_fsm('mine', version => 3)$$, 'mine');
RESET ROLE;
SET ROLE regress_gd_one;
SELECT 'ok' FROM register_fsm('mine', queue => 'admin');
RESET ROLE;
SELECT 'ok' FROM register_fsm('mine', version => 2, queue => 'superuser');
SELECT version, owner, queue FROM fsms WHERE name = 'mine' ORDER BY version;
DROP OWNED BY regress_gd_one, regress_gd_two, regress_gd_three;
DROP ROLE regress_gd_one, regress_gd_two, regress_gd_three;

-- What is refused. Handlers are in sql_steps.
SELECT q, err('SELECT ' || q) FROM unnest(ARRAY[
  $$register_fsm(NULL)$$, $$register_fsm('')$$, $$register_fsm(repeat('x', 256))$$, $$register_fsm('x', version => 0)$$, $$register_fsm('x', version => -1)$$,
  $$register_fsm('x', queue => '')$$, $$register_fsm('x', initial => '')$$, $$register_fsm('x', max_attempts => 0)$$, $$register_fsm('x', max_crashes => 0)$$, $$register_fsm('x', max_crashes => -1)$$,
  $$register_fsm('x', backoff_base => '-1 s')$$, $$register_fsm('x', backoff_cap => '-1 s')$$,
  $$register_fsm('x', version => NULL)$$, $$register_fsm('x', queue => NULL)$$, $$register_fsm('x', initial => NULL)$$, $$register_fsm('x', max_attempts => NULL)$$]) q;
SELECT count(*) FROM fsms WHERE name = 'x';
