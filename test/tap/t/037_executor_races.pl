# SQL steps under load while what they run with changes: handlers, rights, owners, machines, queues, processes. Each effect exactly once. D-9, D-15, GD-345, GD-346.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('executor_races', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.executors = 3
max_worker_processes = 9
max_prepared_transactions = 2
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $seconds = $ENV{GD_RACE_SECONDS} || 1;

$q->(<<'SQL');
CREATE ROLE a LOGIN;
CREATE ROLE b;
SELECT gen_durable.grant_usage('a', 'worker');
GRANT EXECUTE ON FUNCTION gen_durable.register_fsm TO a;
CREATE SCHEMA s;
CREATE SCHEMA away;
GRANT ALL ON SCHEMA s, away TO a, b;
CREATE TABLE s.ledger (id bigint, n int, by regrole DEFAULT current_user::text::regrole);
GRANT ALL ON s.ledger TO a;
SQL

# Each instance goes through four steps, each of which writes its line; two of them may run ahead, one is keyed.
my $define = sub { return <<"SQL" };
CREATE OR REPLACE FUNCTION s.run(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS \$\$
DECLARE
  n int := (ctx.state->>'n')::int; -- $_[0]
BEGIN
  INSERT INTO s.ledger VALUES (ctx.id, n);
  IF n = 4 THEN RETURN gen_durable.done(); END IF;
  RETURN gen_durable.next_step('x', jsonb_build_object('n', n + 1), inline_execution => n % 2 = 1, concurrency_key => CASE WHEN n = 2 THEN 'k' || ctx.id % 7 END, release_key => n <> 2);
END \$\$;
SQL
$q->($define->(0) . 'ALTER FUNCTION s.run OWNER TO a; REVOKE EXECUTE ON FUNCTION s.run FROM PUBLIC');
my $machine = "'m', 's.run(gen_durable.job)', max_attempts => 1000000, backoff_base => '1 ms', backoff_cap => '5 ms', max_crashes => NULL";
$q->("SET ROLE a; SELECT gen_durable.register_fsm($machine)");

# Keeps a queue of steps filled while changes are made, and ends with all of them done exactly once.
my $batch = q{SELECT count(*) FROM gen_durable.insert_all('m', (SELECT jsonb_agg('{"state": {"n": 1}}'::jsonb) FROM generate_series(1, 300)))};
my $all;
my $under = sub {
	my ($what, @changes) = @_;
	# No claim that is lost comes back by itself in time, and there are fewer worker slots than executors wanted.
	$q->("TRUNCATE gen_durable.instances, s.ledger CASCADE; SELECT gen_durable.set_queue('default', executors => 9, lease_ttl => '1 h')");
	$all = 0;
	my $end = time + $seconds;
	while (time < $end)
	{
		for my $change (@changes)
		{
			if ($q->('SELECT count(*) FROM gen_durable.instances WHERE finished_at IS NULL') < 300) { $q->($batch); $all += 300; }
			ref $change ? $change->() : $q->($change);
		}
	}
	wait_until($what, sub { $q->('SELECT count(*) FROM gen_durable.instances WHERE finished_at IS NULL') eq '0' }, 60);
	is($q->('SELECT status, count(*) FROM gen_durable.instances GROUP BY 1'), "done|$all", "$what: all are done") or diag($q->('SELECT last_error, count(*) FROM gen_durable.instances GROUP BY 1'));
	is($q->('SELECT count(*), count(DISTINCT (id, n)), string_agg(DISTINCT by::text, \' \') FROM s.ledger'), join('|', 4 * $all, 4 * $all, 'a'), 'each step has written its line once, as the owner');
	is(broken($node), '', 'nothing is broken');
	return;
};

for my $group (1, 60)
{
	$q->("ALTER ROLE a SET gen_durable.commit_group = $group");
	$q->("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'gen_durable executor'");
	my $i = 0;
	$under->("handlers that are replaced, dropped, renamed and moved, commit_group $group",
		sub { $q->($define->(++$i)) },
		sub { $q->('DROP FUNCTION s.run'); $q->($define->(++$i) . 'ALTER FUNCTION s.run OWNER TO a; REVOKE EXECUTE ON FUNCTION s.run FROM PUBLIC') },
		'ALTER FUNCTION s.run RENAME TO walk', 'ALTER FUNCTION s.walk RENAME TO run', 'ALTER FUNCTION s.run SET SCHEMA away', 'ALTER FUNCTION away.run SET SCHEMA s', 'ALTER FUNCTION s.run SECURITY DEFINER', 'ALTER FUNCTION s.run SECURITY INVOKER',
		"ALTER FUNCTION s.run SET work_mem = '1MB'", 'ALTER FUNCTION s.run RESET ALL');
	$under->("rights and owners that change, commit_group $group", 'REVOKE EXECUTE ON FUNCTION s.run FROM a', 'GRANT EXECUTE ON FUNCTION s.run TO a', 'ALTER FUNCTION s.run OWNER TO b', 'GRANT EXECUTE ON FUNCTION s.run TO a', 'ALTER FUNCTION s.run OWNER TO a',
		'REVOKE USAGE ON SCHEMA s FROM a', 'GRANT USAGE ON SCHEMA s TO a', 'ALTER ROLE a RENAME TO c', 'ALTER ROLE c RENAME TO a');
	$under->("queues that change, commit_group $group", "SELECT gen_durable.set_queue('default', executors => 0)", "SELECT gen_durable.set_queue('default', executors => 4)", "SELECT gen_durable.pause('default')", "SELECT gen_durable.resume('default')",
		"SELECT gen_durable.set_queue('default', executors => 1)", "SELECT gen_durable.set_queue('default', lease_ttl => '200 ms', executors => 9)");
	$under->("machines that change, commit_group $group", "SELECT gen_durable.register_fsm('m', max_attempts => 1000000, backoff_base => '1 ms')", "SELECT gen_durable.register_fsm($machine)",
		"SELECT gen_durable.register_fsm('m', 's.run(gen_durable.job)', step => 'x', max_attempts => 1000000, backoff_base => '1 ms', backoff_cap => '5 ms', max_crashes => NULL)", "SELECT gen_durable.register_fsm('m', step => 'x', max_attempts => 1000000, backoff_base => '1 ms', backoff_cap => '5 ms', max_crashes => NULL)",
		"SELECT gen_durable.register_fsm('m', 's.run(gen_durable.job)', version => 2); DELETE FROM gen_durable.fsms WHERE version = 2",
		"BEGIN; SELECT gen_durable.register_fsm('m'); PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'");
	# Whose claim is taken back while it runs, its effects go, and it runs again.
	$under->("claims that are taken back, commit_group $group", ("SELECT gen_durable.reclaim('default', 'gen_durable executor', '1 h')") x 5);
	$under->("processes that end, commit_group $group", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'gen_durable executor' LIMIT 1", "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'gen_durable executor'",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type IN ('gen_durable scheduler', 'gen_durable maintainer')", "ALTER SYSTEM SET gen_durable.enabled = off; ", 'SELECT pg_reload_conf()', 'ALTER SYSTEM RESET gen_durable.enabled', 'SELECT pg_reload_conf()');
}

# drain beside the executors, while machines change: whatever it has claimed it runs or gives back.
my $drains = 0;
my $drain = sub { $all += 300; my @counts = split /\n/, $q->("$batch; SELECT steps FROM gen_durable.drain(max_steps => 1000000)"); $drains += $counts[1] };
$under->('drain beside the executors', $drain, "SELECT gen_durable.register_fsm('m', max_attempts => 1000000, backoff_base => '1 ms')", $drain, "SELECT gen_durable.register_fsm($machine)");
cmp_ok($drains, '>', 0, 'it ran some');

# Other processes want the worker slots too: parallel queries, which take what they can get.
$q->('ALTER SYSTEM SET max_parallel_workers_per_gather = 8; ALTER SYSTEM SET max_parallel_workers = 9; SELECT pg_reload_conf()');
$under->('worker slots that others take', 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SELECT count(*) FROM pg_class a, pg_class b');

my $log = slurp($node->logfile);
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
# What is not anybody's mistake is an error of the engine's.
is(join("\n", grep { /ERROR:  / && !/canceling statement due to user request|does not exist|lacks (EXECUTE|USAGE)|terminating|permission denied|cache lookup failed for function/ } split /\n/, $log), '', 'and no error is a surprise');
$node->stop;
done_testing();
