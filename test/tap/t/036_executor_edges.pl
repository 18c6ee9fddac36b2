# What steps do to the executor that runs them: what they leave, how they fail, what they are refused. D-9, D-12, GD-160, GD-161, GD-346, GD-347.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('executor_edges', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.lease_ttl = '1h'
gen_durable.reaper_interval = '1h'
autovacuum = off
max_worker_processes = 24
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $as = sub { return $node->safe_psql('postgres', $_[0], connstr => $node->connstr('postgres') . ' user=a') };
my $ended = sub {
	my ($what) = @_;
	wait_until($what, sub { $q->('SELECT count(*) FROM gen_durable.instances WHERE finished_at IS NULL') eq '0' });
	return pass($what);
};
my $fresh = sub { $q->('TRUNCATE gen_durable.instances CASCADE; TRUNCATE s.ledger') };
# The settings of the owner come with a new executor.
my $group = sub {
	$q->("ALTER ROLE a SET gen_durable.commit_group = $_[0]");
	$q->("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'gen_durable executor'");
};

$q->(<<'SQL');
CREATE ROLE a LOGIN CREATEDB;
SELECT gen_durable.grant_usage('a', 'worker');
GRANT EXECUTE ON FUNCTION gen_durable.register_fsm, gen_durable.cancel, gen_durable.drain TO a;
CREATE SCHEMA s;
GRANT ALL ON SCHEMA s TO a;
ALTER DATABASE postgres OWNER TO a;
CREATE TABLE s.ledger (id bigint, what text);
CREATE TABLE s.deferred (x int UNIQUE DEFERRABLE INITIALLY DEFERRED);
GRANT ALL ON s.ledger, s.deferred TO a;
CREATE FUNCTION s.run(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  got text;
BEGIN
  INSERT INTO s.ledger VALUES (ctx.id, ctx.step);
  IF ctx.step = 'raise' THEN RAISE 'raised' USING ERRCODE = ctx.state->>'code'; END IF;
  IF ctx.step = 'bigger' THEN RETURN gen_durable.done(jsonb_build_object('is', length(ctx.state->>'x'))); END IF;
  IF ctx.state ? 'do' THEN EXECUTE ctx.state->>'do'; END IF;
  IF ctx.state ? 'q' THEN EXECUTE ctx.state->>'q' INTO got; END IF;
  IF ctx.state ? 'returns' THEN RETURN ctx.state->'returns'; END IF;
  IF ctx.state ? 'big' THEN RETURN gen_durable.next_step('bigger', jsonb_build_object('x', repeat('x', (ctx.state->>'big')::int))); END IF;
  RETURN gen_durable.done(jsonb_build_object('is', got));
END $$;
CREATE FUNCTION s.decides(ctx gen_durable.job, error jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO s.ledger VALUES (ctx.id, 'decides');
  EXECUTE ctx.state->>'then';
  RETURN coalesce(ctx.state->'decides', gen_durable.done());
END $$;
SQL
$as->(<<'SQL');
SELECT gen_durable.register_fsm('m', 's.run(gen_durable.job)', max_attempts => 1);
SELECT gen_durable.register_fsm('e', 's.run(gen_durable.job)', max_attempts => 1, max_crashes => 1, on_error => 's.decides(gen_durable.job,jsonb)');
SQL

for my $size (1, 60)
{
	my $with = "commit_group $size";
	$group->($size);

	# Temporary tables go with their step, also where the same commit makes others' steps, and those with triggers pending.
	$fresh->();
	my $tables = 'CREATE TEMP TABLE one (x int PRIMARY KEY); CREATE TEMP TABLE many (x int REFERENCES one DEFERRABLE INITIALLY DEFERRED); INSERT INTO one VALUES (1); INSERT INTO many VALUES (1)';
	$q->("SELECT count(*) FROM gen_durable.insert_all('m', (SELECT jsonb_agg(jsonb_build_object('state', jsonb_build_object('do', '$tables'))) FROM generate_series(1, 20)))");
	$ended->("steps that leave temporary tables, $with");
	is($q->("SELECT status, count(*), count(DISTINCT l.id) FROM gen_durable.instances JOIN s.ledger l USING (id) GROUP BY 1"), 'done|20|20', 'none meets another\'s')
	  or diag($q->('SELECT DISTINCT last_error FROM gen_durable.instances'));
	is($q->("SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'"), 0, 'and none is left');

	# Errors of every class are the step's.
	$fresh->();
	$q->(<<'SQL');
SELECT count(*) FROM unnest('{01000,02000,03000,08000,08006,09000,0A000,0B000,0F000,0L000,0P000,0Z000,20000,21000,22000,23000,23505,24000,25000,25P02,26000,27000,28000,2B000,2D000,2F000,34000,38000,39000,3B000,3D000,3F000,40000,40001,
  40P01,42000,44000,53000,53100,54000,54001,55000,55P03,57000,57014,57P01,57P02,58000,72000,F0000,HV000,P0000,P0004,XX000,XX001,GD001,GD002,GD003,GD004,GD005,GD006,GD007}'::text[]) c, gen_durable.insert('m', jsonb_build_object('code', c), 'raise');
SQL
	$ended->("steps that raise, $with");
	is($q->("SELECT status, crashes, last_error ^@ (E'raised\\nSQLSTATE: ' || (state->>'code')), count(*) FROM gen_durable.instances GROUP BY 1, 2, 3"), 'failed|0|t|62', 'each has failed with its own error');
	is($q->('SELECT count(*) FROM s.ledger'), 0, 'and left nothing');

	# What they may do, and what they are refused.
	$fresh->();
	my @good = ("SELECT gen_durable.insert('m', '{\"returns\": {\"outcome\": \"done\", \"result\": {\"is\": \"inserted\"}}}')", "SELECT gen_durable.signal(1, 'nobody')", 'NOTIFY x', 'LOCK TABLE s.ledger IN ACCESS EXCLUSIVE MODE',
		'SET TRANSACTION READ ONLY', 'SET CONSTRAINTS ALL IMMEDIATE', 'DISCARD TEMP', 'DECLARE c CURSOR FOR SELECT 1', 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY');
	my %bad = ('CALL gen_durable.wait(\'{default}\', \'1 s\')' => '25001', 'CALL gen_durable.commit_and_take(\'[]\', \'default\', \'w\')' => '', 'LISTEN x' => '0A000', 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE' => '25001', 'DISCARD ALL' => '25001',
		'PREPARE TRANSACTION \'x\'' => '0A000', 'SELECT gen_durable.drain()' => '55000', 'SELECT gen_durable.complete_many(jsonb_build_array(gen_durable.done() || jsonb_build_object(\'token\', i.token))) FROM gen_durable.instances i' => '42501', 'DROP DATABASE postgres' => '25001',
		'ALTER DATABASE postgres RENAME TO other' => '0A000');
	$q->("SELECT gen_durable.insert('m', jsonb_build_object('do', \$\$$_\$\$))") for @good, sort keys %bad;
	$q->("SELECT gen_durable.insert('m', jsonb_build_object('returns', r::jsonb)) FROM unnest(ARRAY['{\"outcome\": \"next\", \"step\": \"x\", \"rate_limit\": \"none\"}', '{\"outcome\": \"next\", \"step\": \"x\", \"weight\": 0}',
	  '{\"outcome\": \"children\", \"step\": \"x\", \"children\": [{\"fsm\": \"m\", \"rate_limit\": \"none\"}]}', '{\"outcome\": \"next\"}', 'null', '[1]', '7']) r");
	$q->("SELECT gen_durable.insert('m', '{\"big\": 50000000}')");
	$ended->("steps that do all kinds of things, $with");
	is($q->("SELECT string_agg(state->>'do' || ' ' || split_part(last_error, E'\\n', 1), '; ' ORDER BY id) FROM gen_durable.instances WHERE id <= (SELECT min(id) FROM gen_durable.instances) + $#good AND status <> 'done'") || 'none', 'none', 'what is allowed is done');
	is($q->("SELECT count(*) FROM gen_durable.instances WHERE result->>'is' = 'inserted'"), 1, 'an instance that a step inserted runs');
	for my $do (sort keys %bad)
	{
		like($q->("SELECT status || ' ' || coalesce(last_error, '') FROM gen_durable.instances WHERE state->>'do' = \$\$$do\$\$"), $bad{$do} ? qr/^failed .*\nSQLSTATE: $bad{$do}/ : qr/^(failed|done)/, $do);
	}
	is($q->("SELECT count(*) FROM gen_durable.instances WHERE state ? 'returns' AND status = 'failed' AND last_error ~ 'returned no valid outcome'"), 7, 'outcomes that are none');
	is($q->("SELECT result->>'is' FROM gen_durable.instances WHERE step = 'bigger'"), 50000000, 'a state of 50 MB');

	# A handler of errors whose decision cannot be committed, or that ends its own claim: that is its error, not a crash.
	$fresh->();
	my @ways = ('INSERT INTO s.deferred VALUES (1), (1)', 'SELECT gen_durable.cancel(max(id)) FROM s.ledger', 'SELECT 1 / 0');
	$q->("SELECT gen_durable.insert('e', jsonb_build_object('code', '22000', 'then', \$\$$_\$\$), 'raise')") for @ways;
	$ended->("handlers of errors that go wrong, $with");
	is($q->("SELECT string_agg(concat_ws(' ', status, crashes, split_part(last_error, E'\\n', 1), substring(regexp_replace(last_error, 'claim [0-9a-f-]*', 'claim') FROM 'on_error: ([^\\n]*)')), '; ' ORDER BY id) FROM gen_durable.instances"),
		'failed 0 raised duplicate key value violates unique constraint "deferred_x_key"; failed 0 raised claim is stale: the cancellation of instance ' . $q->("SELECT id FROM gen_durable.instances ORDER BY id OFFSET 1 LIMIT 1")
		  . ' was requested; failed 0 raised division by zero', 'both errors are kept');
	is($q->('SELECT count(*) FROM s.ledger'), 0, 'and nothing of theirs');
}
is($q->("SELECT count(*) FROM pg_database WHERE datname = 'postgres'"), 1, 'the database has its name');

# Fewer executors, while there is no end of work: those that are too many end, and none is left of none.
$fresh->();
$group->(1); # in groups one of them might hold all of it
$as->("CREATE FUNCTION s.round(ctx gen_durable.job) RETURNS jsonb LANGUAGE sql AS 'SELECT gen_durable.next_step(''again'')'");
$as->("SELECT gen_durable.register_fsm(m, 's.round(gen_durable.job)', inline_execution => m = 'ahead', queue => 'rounds') FROM unnest('{round,ahead}'::text[]) m");
$q->("SELECT gen_durable.set_queue('rounds', executors => 4)");
$q->("SELECT gen_durable.insert(m) FROM generate_series(1, 5), unnest('{round,ahead}'::text[]) m");
my $rounds = sub { my ($n) = @_; wait_until("$n executors", sub { $q->("SELECT count(DISTINCT locked_by) FROM gen_durable.instances WHERE status = 'executing'") eq $n }); return pass("$n executors of a queue that never ends") };
$rounds->(4);
for my $n (1, 0) { $q->("SELECT gen_durable.set_queue('rounds', executors => $n)"); $rounds->($n) }

# Steps that come in one commit, or are found by a look, do not wait for the first one's end.
$fresh->();
$as->("SELECT gen_durable.register_fsm('long', 's.run(gen_durable.job)', queue => 'rounds')");
$q->("SELECT count(*) FROM gen_durable.insert_all('long', (SELECT jsonb_agg('{\"state\": {\"q\": \"SELECT pg_sleep(600)\"}}'::jsonb) FROM generate_series(1, 3)))");
$q->("SELECT gen_durable.set_queue('rounds', executors => 3)");
wait_until('three', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE status = 'executing'") eq '3' });
pass('three long steps that were inserted together run together');
$q->('SELECT count(gen_durable.cancel(id, force => true)) FROM gen_durable.instances');

# More queues with steps of the future than there is room for in shared memory: those that are due before them run.
$fresh->();
$q->("SELECT count(*) FROM generate_series(1, 300) i, gen_durable.insert('m', queue => 'future ' || i, schedule_in => '1 hour')");
$q->("SELECT gen_durable.insert('m', queue => 'now'); SELECT gen_durable.insert('m', queue => 'soon', schedule_in => '700 ms')");
wait_until('they run', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE queue IN ('now', 'soon') AND status = 'done'") eq '2' }, 20);
pass('what is due is not kept back by what is due later');

# A step that kills its process, of a machine that bears any number of crashes: after twenty in a row it is begun ever more slowly.
$fresh->();
$as->("SELECT gen_durable.register_fsm('kills', 's.run(gen_durable.job)', queue => 'kills', max_crashes => NULL)");
my $kills = $q->("SELECT id FROM gen_durable.insert('kills', '{\"q\": \"SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(60)\"}')");
my $crashes = sub { my ($n) = @_; wait_until("$n crashes", sub { $q->("SELECT crashes >= $n FROM gen_durable.instances WHERE id = $kills") eq 't' }) };
$crashes->(20);
my $start = time;
$crashes->(23);
cmp_ok(time - $start, '>', 1.5, 'a step that kills its process for ever is begun ever more slowly');
$q->("SELECT gen_durable.cancel($kills, force => true)");

# The owner's own statement_timeout, where the machine has none.
$fresh->();
$q->("ALTER ROLE a SET statement_timeout = '300 ms'");
$group->(1);
$q->("SELECT gen_durable.insert('m', '{\"q\": \"SELECT pg_sleep(60)\"}')");
$ended->("the owner's statement_timeout");
like($q->('SELECT last_error FROM gen_durable.instances'), qr/^step exceeded its statement_timeout of 300 ms\nSQLSTATE: 57014/, 'ends a step');
$q->('ALTER ROLE a RESET statement_timeout');

# Settings of the owner that would lead the engine astray do not.
$fresh->();
$q->("CREATE ROLE b; GRANT b TO a; ALTER ROLE a SET role = 'b'; ALTER ROLE a SET default_transaction_read_only = on; ALTER ROLE a SET default_transaction_isolation = 'serializable'; ALTER ROLE a SET search_path = ''");
$q->("ALTER ROLE a SET transaction_timeout = '200 ms'") if $q->("SELECT current_setting('server_version_num')::int") >= 170000;
$group->(1);
$q->("SELECT gen_durable.insert('m', '{\"do\": \"CREATE TEMP TABLE t (x int)\", \"q\": \"SELECT concat_ws(\\u0027 \\u0027, current_user, current_setting(\\u0027transaction_isolation\\u0027), pg_sleep(0.5))\"}')");
$ended->('an owner with strange settings');
is($q->("SELECT result->>'is', crashes FROM gen_durable.instances"), 'a read committed |0', 'runs its steps all the same');
$q->('ALTER ROLE a RESET ALL');

# The owner loses LOGIN: before 17 its steps wait until it is back.
$fresh->();
$q->('ALTER ROLE a NOLOGIN');
$group->(1);
my $offset = -s $node->logfile;
$q->("SELECT gen_durable.insert('m')");
if ($q->("SELECT current_setting('server_version_num')::int") < 170000)
{
	wait_until('it is refused', sub { substr(slurp($node->logfile), $offset) =~ /role "a" is not permitted to log in/ });
	is($q->("SELECT status FROM gen_durable.instances"), 'runnable', 'a step of a role that may no longer log in waits');
	$q->('ALTER ROLE a LOGIN');
}
$ended->('a step of a role without LOGIN');
$q->('ALTER ROLE a LOGIN');

# Languages go, and the extension with plpgsql, under executors that have used them.
$node->safe_psql('postgres', 'CREATE DATABASE other');
my $o = sub { return $node->safe_psql('other', 'SET client_min_messages = warning; ' . $_[0]) };
$o->("CREATE EXTENSION gen_durable; CREATE LANGUAGE l HANDLER plpgsql_call_handler; CREATE FUNCTION l(ctx gen_durable.job) RETURNS jsonb LANGUAGE l AS 'BEGIN RETURN gen_durable.done(); END';"
	. "SELECT gen_durable.register_fsm('l', 'l(gen_durable.job)', max_attempts => 1); SELECT gen_durable.insert('l')");
wait_until('it runs', sub { $o->('SELECT status FROM gen_durable.instances') eq 'done' });
$o->('DROP LANGUAGE l CASCADE');
$o->("SELECT gen_durable.insert('l')");
wait_until('it fails', sub { $o->("SELECT count(*) FROM gen_durable.instances WHERE status = 'failed' AND last_error ^@ 'handler public.l(gen_durable.job) does not exist'") eq '1' });
pass('a handler whose language was dropped is an error of its step');
$o->('DROP EXTENSION plpgsql CASCADE');
wait_until('the processes of its database end', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE datname = 'other'") eq '0' });
pass('plpgsql is dropped, and gen_durable, which needs it');

# The postmaster dies: a busy executor, which never sleeps, does not outlive it.
$fresh->();
$q->("SELECT gen_durable.set_queue('rounds', executors => 2); SELECT gen_durable.insert('ahead') FROM generate_series(1, 3)");
wait_until('it is busy', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gen_durable executor' AND query LIKE 'step again%'") ne '0' });
kill_postmaster($node);
start_again($node);
pass('a server whose executors are busy can be started again');
unlike(slurp($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
$node->stop('immediate');
done_testing();
