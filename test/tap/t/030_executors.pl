# Executors: the server runs SQL steps by itself, as the owner of their machine, each with its outcome in one transaction.
# GD-331, GD-334, GD-345, GD-346, GD-347, D-9, D-15, D-18. The polls are set to an hour, so that only being told makes work begin.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('executors', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.poll_interval = '1h'
gen_durable.max_poll_interval = '1h'
gen_durable.reaper_interval = '1h'
gen_durable.executor_idle_timeout = '60s'
gen_durable.max_executors = 12
autovacuum = off
max_worker_processes = 24
max_connections = 40
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $executors = sub { return $q->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gen_durable executor'" . ($_[0] ? " AND $_[0]" : '')) };
my $ended = sub {
	my ($what) = @_;
	wait_until($what, sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE finished_at IS NULL") eq '0' });
	return pass($what);
};
my $rows = sub {
	return $q->("SELECT string_agg(concat_ws(' ', step, status, attempt, result->>'is', split_part(last_error, E'\\n', 1)), '; ' ORDER BY id) FROM gen_durable.instances") };
my $fresh = sub { $q->('TRUNCATE gen_durable.instances CASCADE; TRUNCATE s.ledger') };

$q->(<<'SQL');
CREATE ROLE a LOGIN;
CREATE ROLE b LOGIN;
SELECT gen_durable.grant_usage(r, 'worker') FROM unnest('{a,b}'::regrole[]) r;
GRANT EXECUTE ON FUNCTION gen_durable.register_fsm, gen_durable.cancel TO a, b;
CREATE SCHEMA s;
GRANT ALL ON SCHEMA s TO a, b;
CREATE TABLE s.ledger (id bigint, step text, by text DEFAULT current_user, pid int DEFAULT pg_backend_pid());
CREATE TABLE s.gate (x int);
GRANT ALL ON s.ledger, s.gate TO a, b;
CREATE FUNCTION s.run(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  got text;
BEGIN
  INSERT INTO s.ledger VALUES (ctx.id, ctx.step);
  IF ctx.step = 'go' THEN RETURN gen_durable.next_step('end'); END IF;
  IF ctx.state ? 'q' THEN EXECUTE ctx.state->>'q' INTO got; END IF;
  IF ctx.state ? 'do' THEN EXECUTE ctx.state->>'do'; END IF;
  RETURN gen_durable.done(jsonb_build_object('is', got));
END $$;
SQL
my $as = sub { my ($role, $sql) = @_; return $node->safe_psql('postgres', $sql, connstr => $node->connstr('postgres') . " user=$role") };

# A machine runs by itself: started on demand, as its owner; a second step of the same instance too.
$as->('a', "SELECT gen_durable.register_fsm('m', 's.run(gen_durable.job)', initial => 'go', max_attempts => 1)");
$as->('b', "SELECT gen_durable.register_fsm('n', 's.run(gen_durable.job)', initial => 'go', max_attempts => 1)");
my $start = time;
$q->("SELECT gen_durable.insert(m) FROM unnest('{m,n}'::text[]) m");
$ended->('two machines of two owners run');
cmp_ok(time - $start, '<', 5, 'at once');
is($q->('SELECT string_agg(DISTINCT by, \' \' ORDER BY by), count(*), count(DISTINCT pid) FROM s.ledger'), 'a b|4|2', 'each as its owner, in a process of its own');
is($executors->("usename = 'a'"), 1, 'an executor is connected as the owner');
is($q->("SELECT outcome FROM gen_durable.await((SELECT id FROM gen_durable.insert('m')), '300 ms')"), 'busy', 'a transaction does not see what waits for its commit');
$ended->('and it runs after the commit');

# Work of the future: found in time by an idle executor, and where there is none.
$fresh->();
$q->("SELECT gen_durable.insert('m', schedule_in => '500 ms')");
$ended->('a step of the future, with an idle executor');
$q->("SELECT gen_durable.insert('m', queue => 'later', schedule_in => '500 ms')");
is($executors->("query LIKE '%later%'"), 0, 'nobody is there yet');
$ended->('a step of the future, with none');

# As many as the queue says.
$fresh->();
$q->("SELECT gen_durable.set_queue('wide', executors => 4); SELECT gen_durable.set_queue('none', executors => 0)");
my ($hold) = hold($node, 'SELECT pg_advisory_lock(1)');
$q->("SELECT gen_durable.insert('m', '{\"q\": \"SELECT pg_advisory_lock_shared(1)\"}', 'x', queue => 'wide') FROM generate_series(1, 1)") for 1 .. 9;
wait_until('four at a time', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE status = 'executing'") eq '4' });
is($q->("SELECT count(DISTINCT locked_by) FROM gen_durable.instances WHERE status = 'executing'"), 4, 'four executors, one step each');
$q->("SELECT gen_durable.insert('m', queue => 'none')");
$hold->query('COMMIT; SELECT pg_advisory_unlock(1)');
wait_until('the wide queue is done', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE queue = 'wide' AND status <> 'done'") eq '0' });
pass('the rest follow');
is($q->("SELECT status FROM gen_durable.instances WHERE queue = 'none'"), 'runnable', 'a queue with 0 executors waits');
$q->("SELECT gen_durable.set_queue('none', executors => 1)");
$ended->('until it has one');
$q->("SELECT gen_durable.pause('none'); SELECT gen_durable.insert('m', queue => 'none'); SELECT gen_durable.insert('m', queue => 'other')");
wait_until('the other queue', sub { $q->("SELECT status FROM gen_durable.instances WHERE queue = 'other'") eq 'done' });
is($q->("SELECT count(*) FROM gen_durable.instances WHERE queue = 'none' AND status = 'runnable'"), 1, 'a paused queue waits');
$q->("SELECT gen_durable.resume('none')");
$ended->('until it is resumed');

# Errors of every kind: the handler's writes are undone, the error is kept, and the executor lives on.
$fresh->();
$as->('a', <<'SQL');
CREATE FUNCTION s.bad(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO s.ledger VALUES (ctx.id, ctx.step);
  CASE ctx.step
    WHEN 'nothing' THEN RETURN NULL;
    WHEN 'array' THEN RETURN '[]';
    WHEN 'outcome' THEN RETURN '{"outcome": "x"}';
    WHEN 'division' THEN PERFORM 1 / 0;
    WHEN 'raise' THEN RAISE EXCEPTION 'no stock' USING DETAIL = 'shelf 7', HINT = 'buy', ERRCODE = 'XX123';
    WHEN 'commit' THEN COMMIT;
    WHEN 'timeout' THEN PERFORM pg_sleep(60);
    WHEN 'deferred' THEN INSERT INTO s.deferred VALUES (1), (1);
    WHEN 'cancelled' THEN PERFORM pg_cancel_backend(pg_backend_pid()), pg_sleep(10);
    WHEN 'complete' THEN PERFORM gen_durable.complete(ctx.token, gen_durable.done());
    WHEN 'cancel' THEN PERFORM gen_durable.cancel(ctx.id);
    WHEN 'drain' THEN PERFORM gen_durable.drain();
    WHEN 'memory' THEN RETURN to_jsonb(repeat('x', 1100000000));
    WHEN 'good' THEN RETURN gen_durable.done();
  END CASE;
  RETURN gen_durable.done();
END $$;
CREATE TABLE s.deferred (x int UNIQUE DEFERRABLE INITIALLY DEFERRED);
SELECT gen_durable.register_fsm('bad', 's.bad(gen_durable.job)', max_attempts => 2, backoff_base => '1 ms', statement_timeout => '200 ms');
SQL
$q->('GRANT EXECUTE ON FUNCTION gen_durable.drain TO a');
my $before = $q->("SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type = 'gen_durable executor' AND usename = 'a'");
for my $group (1, 60)
{
	$fresh->();
	$q->("ALTER ROLE a SET gen_durable.commit_group = $group");
	$q->("SELECT gen_durable.insert('bad', step => s) FROM unnest('{good,nothing,array,outcome,division,raise,commit,timeout,deferred,cancelled,complete,cancel,drain,memory,case,good}'::text[]) s");
	$ended->("all handlers that go wrong have ended, commit_group $group");
	is($rows->(), join('; ', 'good done 0', 'nothing failed 1 handler s.bad(gen_durable.job) returned NULL',
		'array failed 1 handler s.bad(gen_durable.job) returned no valid outcome: the outcome must be a JSON object, not an array',
		'outcome failed 1 handler s.bad(gen_durable.job) returned no valid outcome: outcome "x" is unknown',
		'division failed 1 division by zero', 'raise failed 1 no stock', 'commit failed 1 invalid transaction termination',
		'timeout failed 1 step exceeded its statement_timeout of 200 ms', 'deferred failed 1 duplicate key value violates unique constraint "deferred_x_key"',
		'cancelled failed 1 canceling statement due to user request', $q->("SELECT 'complete failed 1 ' || split_part(last_error, E'\\n', 1) FROM gen_durable.instances WHERE step = 'complete'"),
		$q->("SELECT 'cancel failed 1 ' || split_part(last_error, E'\\n', 1) FROM gen_durable.instances WHERE step = 'cancel'"),
		'drain failed 1 drain cannot run inside a step', 'memory failed 1 requested length too large', 'case failed 1 case not found', 'good done 0'),
		'each with its own error');
	like($q->("SELECT string_agg(last_error, ' ') FROM gen_durable.instances WHERE step IN ('complete', 'cancel')"), qr/GD001.*GD001/s, 'a step that ends its own claim');
	like($q->("SELECT last_error FROM gen_durable.instances WHERE step = 'raise'"), qr/^no stock\nSQLSTATE: XX123\nDETAIL: shelf 7\nHINT: buy\nCONTEXT: .*line \d+ at RAISE/, 'message, SQLSTATE, detail, hint and context are kept');
	is($q->("SELECT string_agg(step, ' ') FROM s.ledger"), 'good good', 'what they wrote is undone');
	is($q->('SELECT count(*) FROM s.deferred'), 0, 'and what their commit refused');
}
$q->('ALTER ROLE a RESET gen_durable.commit_group');

# Nothing of a session passes from step to step, nor to another owner.
$fresh->();
my @leaves = ('SET search_path = s', 'SET ROLE a', "SELECT set_config('work_mem', '99MB', false)", 'CREATE TEMP TABLE mine AS SELECT 1', 'PREPARE p AS SELECT 1',
	'DECLARE c CURSOR WITH HOLD FOR SELECT 1', 'LISTEN x', 'SELECT pg_advisory_lock(77)');
# (LISTEN is refused by the server itself in a background process.)
$q->("SELECT gen_durable.insert('m', jsonb_build_object('do', \$\$$_\$\$), 'x', queue => 'leak', concurrency_key => 'one')") for @leaves;
$q->(q{SELECT gen_durable.insert('m', jsonb_build_object('q', $$SELECT concat_ws(' ', current_user, session_user, current_setting('work_mem') <> '99MB', to_regclass('pg_temp.mine') IS NULL,
  (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors WHERE name = 'c'), (SELECT count(*) FROM pg_listening_channels()),
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77))$$), 'last', queue => 'leak', concurrency_key => 'one')});
$ended->('steps that leave things behind');
is($q->("SELECT count(*) FILTER (WHERE status = 'done'), count(DISTINCT l.pid) FROM gen_durable.instances i JOIN s.ledger l USING (id)"), '8|1', 'are no error, in one process') or diag($rows->());
is($q->("SELECT result->>'is' FROM gen_durable.instances WHERE step = 'last'"), 'a a t t 0 0 0 0', 'and the next step finds none of them');

# Ownership: a step can do what its owner can.
$fresh->();
$as->('b', "CREATE TABLE s.secret AS SELECT 'b''s' AS it");
$as->('b', "CREATE FUNCTION s.definer() RETURNS text LANGUAGE sql SECURITY DEFINER AS 'SELECT current_user::text'");
my @tries = ('SELECT it FROM s.secret', 'SET ROLE b', 'SET SESSION AUTHORIZATION b', 'ALTER ROLE b SET work_mem = 1', "SELECT set_config('role', 'b', false)", 'SET gen_durable.clock_offset = 1',
	'DROP TABLE s.secret', "SELECT pg_read_file('/etc/passwd')", 'SELECT * FROM gen_durable.instances', 'UPDATE gen_durable.queues SET executors = 1');
$q->("SELECT gen_durable.insert('m', jsonb_build_object('do', \$\$$_\$\$), 'x')") for @tries;
$q->("SELECT gen_durable.insert('m', jsonb_build_object('q', 'SELECT s.definer()'), 'x')");
$ended->('steps that want more than their owner may');
is($q->("SELECT count(*) FROM gen_durable.instances WHERE status = 'failed' AND last_error ~ 'permission denied|must be owner|42501'"), scalar(@tries), 'are refused');
is($q->("SELECT result->>'is' FROM gen_durable.instances WHERE status = 'done'"), 'b', 'but for what another role offers');

# Cancelling a step that runs cancels its query; the next step of the executor is not hit.
$fresh->();
my $id = $q->("SELECT id FROM gen_durable.insert('m', '{\"q\": \"SELECT pg_sleep(600)\"}', 'x', queue => 'c')");
wait_until('it runs', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'step x of m%' AND wait_event = 'PgSleep'") eq '1' });
$start = time;
is($q->("SELECT gen_durable.cancel($id)"), 'requested', 'cancelling a step that runs');
wait_until('it is cancelled', sub { $q->("SELECT status FROM gen_durable.instances") eq 'cancelled' });
cmp_ok(time - $start, '<', 5, 'ends it');
is($q->('SELECT count(*) FROM s.ledger'), 0, 'and undoes what it did');
$id = $q->("SELECT id FROM gen_durable.insert('m', '{\"q\": \"SELECT pg_sleep(600)\"}', 'x', queue => 'c')");
wait_until('it runs', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'step x of m%' AND wait_event = 'PgSleep'") eq '1' });
is($q->("SELECT gen_durable.cancel($id, force => true)"), 'cancelled', 'by force too');
$q->("SELECT gen_durable.insert('m', queue => 'c')");
$ended->('the executor goes on');
is($q->('SELECT string_agg(status::text, \' \' ORDER BY id) FROM gen_durable.instances'), 'cancelled cancelled done', 'with the next');

# A cancellation that a rollback to a savepoint takes back does not reach the step.
$fresh->();
$id = $q->("SELECT id FROM gen_durable.insert('m', '{\"do\": \"DO \$\$ BEGIN WHILE NOT EXISTS (SELECT FROM s.gate) LOOP PERFORM pg_sleep(0.01); END LOOP; END \$\$\"}', 'x', queue => 'c')");
wait_until('it runs', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'step x of m%' AND wait_event = 'PgSleep'") eq '1' });
$q->("BEGIN; SAVEPOINT s; SELECT gen_durable.cancel($id); ROLLBACK TO s; COMMIT");
$q->('INSERT INTO s.gate VALUES (1)');
$ended->('a step whose cancellation was taken back');
is($rows->(), 'x done 0', 'goes on to its end');

# The function is dropped, or replaced, under an executor that has used it.
$fresh->();
$as->('a', "CREATE FUNCTION s.comes(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS 'SELECT gen_durable.done(''{\"is\": 1}'')'; SELECT gen_durable.register_fsm('comes', 's.comes(gen_durable.job)', max_attempts => 1)");
my $one = sub { $q->("SELECT gen_durable.insert('comes')"); $ended->($_[0]) };
$one->('as it was');
$as->('a', "CREATE OR REPLACE FUNCTION s.comes(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS 'SELECT gen_durable.done(''{\"is\": 2}'')'");
$one->('replaced');
$as->('a', 'DROP FUNCTION s.comes');
$one->('dropped');
$as->('a', "CREATE FUNCTION s.comes(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN RETURN gen_durable.done(''{\"is\": 3}''); END'");
$one->('there again, in another language');
is($rows->(), 'start done 0 1; start done 0 2; start failed 0 handler s.comes(gen_durable.job) does not exist; start done 0 3', 'each step runs what is there');

# Keys: one at a time, however many executors.
$fresh->();
$q->("SELECT count(*) FROM generate_series(1, 20) i, gen_durable.insert('m', to_jsonb(i), 'x', queue => 'wide', concurrency_key => 'k' || i % 2)");
$ended->('keyed steps');
is($q->('SELECT count(*), count(DISTINCT id) FROM s.ledger'), '20|20', 'run once each');

# A lease is renewed while a step runs.
$fresh->();
$q->("SELECT gen_durable.set_queue('short', executors => 1, lease_ttl => '600 ms')");
$q->("SELECT gen_durable.insert('m', '{\"q\": \"SELECT pg_sleep(2.5)\"}', 'x', queue => 'short')");
$ended->('a step that is longer than its lease');
is($rows->(), 'x done 0 ', 'was not taken away') or diag($rows->());

# The owner is dropped: its steps wait and others' go on. It comes back.
$fresh->();
$q->("CREATE ROLE c LOGIN; SELECT gen_durable.grant_usage('c', 'worker'); GRANT ALL ON SCHEMA s TO c; GRANT ALL ON s.ledger TO c; GRANT EXECUTE ON FUNCTION gen_durable.register_fsm TO c");
$as->('c', "SELECT gen_durable.register_fsm('c', 's.run(gen_durable.job)')");
$q->("SELECT gen_durable.insert('c')");
$ended->('a third owner');
$q->('DROP OWNED BY c');
$q->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'c'");
wait_until('it is gone', sub { $executors->("usename = 'c'") eq '0' });
$q->('DROP ROLE c');
$q->("SELECT gen_durable.insert('c'); SELECT gen_durable.insert('m')");
wait_until('m runs', sub { $q->("SELECT status FROM gen_durable.instances WHERE fsm = 'm'") eq 'done' });
is($q->("SELECT count(*) FROM gen_durable.instances WHERE fsm = 'c' AND status = 'runnable'"), 1, 'a step whose owner was dropped waits');
$q->("SELECT gen_durable.register_fsm('c', 's.run(gen_durable.job)')");
$ended->('until an admin takes the machine over');

# A step that kills its process is counted, and ends when it has done so too often; those that wait for it go on.
$fresh->();
$q->("SELECT gen_durable.register_fsm('killer', 's.run(gen_durable.job)', max_crashes => 2, queue => 'k')");
$q->("SELECT gen_durable.insert('killer', '{\"q\": \"SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(10)\"}', 'x'); SELECT gen_durable.insert('killer', step => 'y')");
$ended->('a step that ends its executor');
is($rows->(), 'x failed 3 worker died 3 times; y done 0', 'fails after max_crashes');

# DROP DATABASE and its like do not wait for executors, busy or idle; DROP EXTENSION neither.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', "CREATE EXTENSION gen_durable; CREATE FUNCTION run(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN IF ctx.step = ''x'' THEN PERFORM pg_sleep(600); END IF; RETURN gen_durable.done(); END';"
	. "SELECT gen_durable.register_fsm('m', 'run(gen_durable.job)')");
$node->safe_psql('other', "SELECT gen_durable.insert('m')");
wait_until('it runs there', sub { $node->safe_psql('other', 'SELECT status FROM gen_durable.instances') eq 'done' });
$node->safe_psql('postgres', 'ALTER DATABASE other RENAME TO another');
$node->safe_psql('another', "SELECT gen_durable.insert('m')");
wait_until('it runs again under its new name', sub { $node->safe_psql('another', "SELECT count(*) FROM gen_durable.instances WHERE status = 'done'") eq '2' });
$node->safe_psql('another', "SELECT gen_durable.insert('m', step => 'x')");
wait_until('a long step runs there', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE datname = 'another' AND query LIKE 'step x%'") eq '1' });
$start = time;
$node->safe_psql('postgres', 'DROP DATABASE another');
cmp_ok(time - $start, '<', 14, 'a database with a long step is dropped');

# Settings: off ends them, on starts them again.
$fresh->();
$q->('ALTER SYSTEM SET gen_durable.enabled = off');
$node->reload;
wait_until('off', sub { $executors->() eq '0' });
$q->("SELECT gen_durable.insert('m')");
$q->('ALTER SYSTEM RESET gen_durable.enabled');
$node->reload;
$ended->('on again');

# More crews than room: they take turns.
$fresh->();
$q->("ALTER SYSTEM SET max_worker_processes = 7");
$node->restart;
$q->("SELECT count(*) FROM generate_series(1, 6) c, generate_series(1, 3) i, gen_durable.insert('m', jsonb_build_object('q', 'SELECT pg_sleep(0.1 + 0 * ' || i || ')'), 'x', queue => 'crew ' || c)");
$ended->('six crews with room for four executors');
like(slurp($node->logfile), qr/gen_durable found no room for an executor/, 'which is said');

# A drop of the extension under executors, and its return.
$q->('DROP SCHEMA s CASCADE; DROP SCHEMA rig CASCADE; DROP EXTENSION gen_durable');
wait_until('they end', sub { $executors->() eq '0' });
unlike(slurp($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
$node->stop;
done_testing();
