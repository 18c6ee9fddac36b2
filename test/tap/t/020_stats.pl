# The view stats: counters of every event, gauges that follow commits and nothing else, the count that sets them right while
# others commit, one that comes late, and queues beyond the room for them. D-30, GD-370. And that shared memory has the size
# that the guide states.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use Test::More;

$ENV{GD_PRELOAD} = 1;
my $node = new_node('stats', conf => "max_prepared_transactions = 5\ngen_durable.max_queues = 64\n");
my $q = sub { return $node->safe_psql('postgres', $_[0]) };

# What the table says, and what the view says, a line a queue with live rows.
my $truth = q(SELECT queue, count(*) FILTER (WHERE status = 'runnable' AND blocked_on IS NULL AND eligible_at <= updated_at),
	count(*) FILTER (WHERE status = 'runnable' AND blocked_on IS NULL AND eligible_at > updated_at),
	count(*) FILTER (WHERE blocked_on IS NOT NULL), count(*) FILTER (WHERE status = 'executing'),
	count(*) FILTER (WHERE status = 'awaiting_signal'), count(*) FILTER (WHERE status = 'awaiting_children')
	FROM gen_durable.instances WHERE finished_at IS NULL GROUP BY 1 ORDER BY 1);
my $view = q(SELECT queue, ready, scheduled, blocked, executing, awaiting_signal, awaiting_children FROM gen_durable.stats
	WHERE ready + scheduled + blocked + executing + awaiting_signal + awaiting_children > 0 ORDER BY 1);

sub agrees
{
	my ($what) = @_;
	my $expected = $q->($truth);
	isnt($expected, '', "$what: there are rows");
	is($q->($view), $expected, "$what: the gauges agree with the table");
	return;
}

# A counter of queue q, or of no queue.
sub counter
{
	my ($name, $queue) = @_;
	return $q->("SELECT $name FROM gen_durable.stats WHERE queue IS NOT DISTINCT FROM " . ($queue || "'q'"));
}

# The statements move the counter by so much.
sub counts
{
	my ($name, $by, $statements, $queue) = @_;
	my $before = counter($name, $queue) || 0;
	my (undef, undef, $error) = $node->psql('postgres', $statements, on_error_stop => 0);
	is((counter($name, $queue) || 0) - $before, $by, "$name counts") or diag($error);
	return;
}

my $take = sub { return "SELECT token AS t FROM gen_durable.pick('q', 'worker', 1, '1h') \\gset\n" };
my $complete = sub { return $take->() . "SELECT gen_durable.complete(:'t', gen_durable.$_[0]);\n" };

# Shared memory has the parts of docs/operations.md, each as large as it says there for the settings of this server.
sub memory_is_stated
{
	my ($what) = @_;
	my $slots = $node->pg_version < 18 ? "'autovacuum_max_workers'" : "'autovacuum_worker_slots'";
	my $processes = $q->("SELECT sum(setting::int) + 1 FROM pg_settings WHERE name IN ('max_connections', 'max_worker_processes', 'max_wal_senders', $slots)");
	my %size = map { split /\|/ } split /\n/, $q->("SELECT name, size FROM pg_shmem_allocations WHERE name LIKE 'gen\\_durable %'");
	my @wrong;
	for (grep { /^\| `gen_durable .*\|.*\|.*\|/ } split /\n/, slurp("$FindBin::RealBin/../../../docs/operations.md"))
	{
		my (undef, $part, $fixed, $unit, $each) = split /\s*\|\s*/;
		next unless $part =~ s/^`(.*)`$/$1/ && $fixed =~ s/^(\d+).*/$1/;
		my $units = $unit =~ /`(gen_durable\.\w+)`/ ? $q->("SHOW $1") : $unit eq 'process' ? $processes : 0;
		my $stated = $fixed + ($each || 0) * $units;
		my $size = delete $size{$part};
		push @wrong, "$part is stated as $stated and has " . ($size // 'none') unless defined $size && abs($size - $stated) < 1000 + $stated * 0.02;
	}
	push @wrong, map { "$_ is not stated" } keys %size;
	is(join("\n", @wrong), '', "shared memory is as the guide states it, $what");
	return;
}
memory_is_stated('by default');

is($q->("SELECT gen_durable.insert('a', queue => 'q'); SELECT ready IS NULL, inserted, oldest_ready_age > '0', due_next IS NULL, paused FROM gen_durable.stats WHERE queue = 'q'"),
	"(1,t)\nt|1|t|t|f", 'before the first count only the gauges are unknown');
is($q->('SELECT gen_durable.recount()'), '1', 'a count');
agrees('the first row');

# Every event.
counts('inserted', 2, q(SELECT gen_durable.insert_all('a', '[{"queue": "q"}, {"queue": "q", "schedule_in": "1 h"}, {"queue": "other"}]')));
counts('duplicates', 1, "SELECT gen_durable.insert('a', queue => 'q', correlation_key => 'k') FROM generate_series(1, 2)");
agrees('inserts');
is($q->("SELECT extract(epoch FROM due_next - now())::int BETWEEN 3590 AND 3600 FROM gen_durable.stats WHERE queue = 'q'"), 't', 'the next row to fall due');
counts('picks', 2, $take->() . "SELECT gen_durable.pick('q', 'worker', 7, '1h')");
counts('wanted', 100, "SELECT gen_durable.pick('q', 'worker', 100)");
agrees('claims');
my $chain = sub { return $take->() . "CALL gen_durable.commit_and_take(jsonb_build_array(gen_durable.next_step('two', inline_execution => true$_[0]) || jsonb_build_object('token', :'t')), 'q', 'worker', 1, '1h')" };
counts('released', 3, "SELECT gen_durable.release(array_agg(token)) FROM gen_durable.instances WHERE status = 'executing'");
counts('claims', 1, $take->());
agrees('a release');
$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
is($q->($view), '', 'what has ended counts as nothing');
my $insert = "SELECT gen_durable.insert('a', queue => 'q');\n";
counts('outcome_next', 1, $insert . $complete->("next_step('two')"));
counts('outcome_retry', 1, $complete->("retry('1 h')"));
agrees('a delay');
counts('outcome_await', 1, $insert . $complete->("await_signal(ARRAY['go'], 'three', timeout => '1 microsecond')"));
agrees('a park');
counts('timeouts', 1, 'SELECT gen_durable.fire_timeouts()');
counts('outcome_children', 1, $complete->(q(schedule_children('four', '[{"fsm": "kid", "queue": "kids"}]'))));
agrees('children');
counts('outcome_done', 1, $insert . $complete->('done()'));
counts('outcome_stop', 1, $insert . $complete->("stop('no')"));
counts('outcome_fail', 1, $insert . $complete->("fail('ouch')"));
is($q->("SELECT step_time BETWEEN '1 microsecond' AND '1 hour' FROM gen_durable.stats WHERE queue = 'q'"), 't', 'the time that steps took');
counts('stale_outcomes', 2, $insert . $take->() . "SELECT gen_durable.complete(:'t', gen_durable.done());\nSELECT gen_durable.complete(:'t', gen_durable.done());
	SELECT gen_durable.complete_many(jsonb_build_array(gen_durable.done() || jsonb_build_object('token', :'t')));");
counts('stale_outcomes', 1, 'SELECT gen_durable.complete(gen_random_uuid(), gen_durable.done())', 'NULL');
counts('invalid_outcomes', 1, q(SELECT gen_durable.complete_many('[{"outcome": "no"}]')), 'NULL');
counts('cancelled', 1, $insert . 'SELECT gen_durable.cancel(max(id)) FROM gen_durable.instances');
counts('reaped', 1, $insert . "SELECT gen_durable.pick('q', 'worker', 1, '0'); SELECT gen_durable.reap()");
counts('reclaimed', 1, $take->() . "SELECT gen_durable.reclaim('q', 'work', '2h')");
counts('key_refusals', 2, "SELECT gen_durable.insert('a', queue => 'q', concurrency_key => 'key') FROM generate_series(1, 3); SELECT gen_durable.pick('q', 'worker', 10, '1h')");
agrees('a key');
counts('rate_unknown', 1, "SELECT gen_durable.insert('a', rate_limit => 'nobody')", 'NULL');
{
	my ($session) = hold($node, "SELECT gen_durable.insert('a', queue => 'c', concurrency_key => 'busy')", 'COMMIT', 'BEGIN', "SELECT gen_durable.pick('c', 'worker', 1, '1h')");
	counts('contended', 1, "SELECT gen_durable.insert('a', queue => 'c', concurrency_key => 'busy'); SELECT gen_durable.pick('c', 'worker')", "'c'");
	$session->query('ROLLBACK');
	$session->quit;
}
$q->("SELECT gen_durable.set_concurrency_limit('gate', 1), gen_durable.set_rate_limit('rate', 1, '1 hour', 1)");
counts('key_refusals', 1, "SELECT gen_durable.insert('a', queue => 'g', concurrency_key => 'gate') FROM generate_series(1, 2); SELECT gen_durable.pick('g', 'worker', 10, '1h')", "'g'");
counts('rate_refusals', 1, "SELECT gen_durable.insert('a', queue => 'r', rate_limit => 'rate') FROM generate_series(1, 2); SELECT gen_durable.pick('r', 'worker', 10, '1h')", "'r'");
agrees('limits');
counts('reconciled_gates', 1, "UPDATE gen_durable.buckets SET available = capacity WHERE kind = 'conc'; SELECT gen_durable.reconcile()", 'NULL');
counts('inline_steps', 1, $insert . $chain->(''));
counts('inline_yields', 1, $insert . $chain->(", concurrency_key => 'other'"));
agrees('steps run on');
counts('collected', $q->("SELECT count(*) FROM gen_durable.instances WHERE queue = 'q' AND finished_at IS NOT NULL"), "SELECT gen_durable.gc('0')");
agrees('all of it');

# Rollbacks, savepoints, and what went round the engine.
$q->("BEGIN; $insert ROLLBACK");
$q->("BEGIN; $insert SAVEPOINT a; $insert SAVEPOINT b; $insert RELEASE b; SELECT gen_durable.insert('a', queue => 'new'); SAVEPOINT c; $insert ROLLBACK TO c; RELEASE a;
	SAVEPOINT d; $insert SELECT gen_durable.pick('q', 'worker', 100, '1h'); ROLLBACK TO d; COMMIT");
$q->("DO \$\$ BEGIN FOR i IN 1 .. 5 LOOP BEGIN PERFORM gen_durable.insert('a', queue => 'loop' || i % 3); IF i % 2 = 0 THEN RAISE 'no'; END IF; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END \$\$");
agrees('savepoints');
$q->("BEGIN; $insert PREPARE TRANSACTION 'p'");
agrees('a prepared transaction');
my $ready = counter('ready');
$q->("COMMIT PREPARED 'p'");
$q->("INSERT INTO gen_durable.instances (fsm, step, queue) VALUES ('a', 'start', 'sql')");
is(counter('ready'), $ready, 'COMMIT PREPARED tells nobody');
my $live = $q->('SELECT count(*) FROM gen_durable.instances WHERE finished_at IS NULL');
is($q->('SELECT gen_durable.recount()'), $live, 'until the next count');
agrees('a count');
my ($status, undef, $error) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nBEGIN; $insert SELECT gen_durable.recount()");
like($error, qr/25001/, 'a transaction that has written cannot count');

# Counts while others commit: what is committed before, during and after each is in the gauges once.
my $load = PostgreSQL::Test::Utils::tempdir() . '/load.sql';
append_to_file($load, q(\set r random(1, 8)
\set w random(1, 3)
BEGIN;
SELECT gen_durable.insert('load', queue => 'load' || :r);
SELECT count(gen_durable.complete(token, gen_durable.await_signal(ARRAY['go'], 'two'))) FROM gen_durable.pick('load' || :r, 'worker', :w, '1h') WHERE id % 4 > 0;
END;
));
my @load = ($node->installed_command('pgbench'), '-n', '-c', 6, '-t', 250, '-M', 'prepared', '-f', $load, '-h', $node->host, '-p', $node->port, '-d', 'postgres');
my $bench = IPC::Run::start(\@load, '>', \my $out, '2>', \my $err);
my $recounts = 0;
while ($bench->pumpable)
{
	$recounts++ if $q->('SELECT gen_durable.recount()') > 0;
	$bench->pump_nb;
}
ok($bench->finish, 'a load runs') or diag($err);
cmp_ok($recounts, '>', 3, 'and is counted meanwhile');
agrees('a load under counts');

# A count whose snapshot sees a transaction that has not said yet what it did: it waits, and counts that once. One that
# stands still for longer than a second is not waited for.
{
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $file = "$dir/hold";
	run_log([ 'cc', '-shared', '-fPIC', '-I' . $node->config_data('--includedir-server'), '-o', "$dir/gen_durable_hold.so", "$FindBin::RealBin/../lib/gen_durable_hold.c" ]) or die 'no compiler';
	chmod 0755, $dir;
	my $held = $node->background_psql('postgres', on_error_stop => 0);
	$held->query("LOAD '$dir/gen_durable_hold'");
	my $pid = $held->query("SET gen_durable_hold.file = '$file'; SELECT pg_backend_pid()");
	my $counter = $node->background_psql('postgres', on_error_stop => 0);
	my $its_pid = $counter->query('SELECT pg_backend_pid()');
	my $seen = sub { return $q->("SELECT count(*) FROM gen_durable.instances WHERE queue = 'held' AND finished_at IS NULL") };
	my $commit = sub { my ($rows) = @_; append_to_file($file, ''); send_async($held, "SELECT gen_durable.insert('a', queue => 'held')"); wait_until('its row is seen', sub { $seen->() == $rows }); return };
	$q->("SELECT gen_durable.insert('a', queue => 'held')");
	$commit->(2);
	is(counter('ready', "'held'"), 1, 'a transaction that has not said what it did');
	send_async($counter, 'SELECT gen_durable.recount()');
	wait_until('the count waits', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE pid = $its_pid AND state = 'active' AND wait_event_type = 'Extension'") == 1 });
	unlink $file;
	like($counter->query('SELECT 1'), qr/^\d+\n1$/, 'is waited for');
	is(counter('ready', "'held'"), 2, 'and counted once');
	agrees('a late transaction');
	$held->query('SELECT 1');
	$commit->(3);
	$counter->query('SELECT gen_durable.recount()');
	like($counter->{stderr}, qr/does not end its commit/, 'one that stands still is not waited for');
	unlink $file;
	$held->query('SELECT 1');
	is(counter('ready', "'held'"), 3, 'and what was counted is forgotten');
	$_->quit for $held, $counter;
}

# Queues for which there is no room share the entry without a name; a database that is gone gives its room back.
$node->safe_psql('postgres', 'CREATE DATABASE many');
$node->safe_psql('many', 'CREATE EXTENSION gen_durable');
$node->safe_psql('many', "SELECT gen_durable.recount(); SELECT gen_durable.insert('a', queue => 'many' || i) FROM generate_series(1, 100) i; SELECT gen_durable.insert('a', queue => 'many' || i) FROM generate_series(1, 100) i");
is($node->safe_psql('many', 'SELECT sum(ready), sum(inserted), count(*) BETWEEN 30 AND 101, count(*) FILTER (WHERE queue IS NULL AND ready > 100) FROM gen_durable.stats'),
	'200|200|t|1', 'nothing is lost of queues beyond the room');
is($node->safe_psql('many', 'SELECT gen_durable.recount(); SELECT sum(ready) FROM gen_durable.stats'), "200\n200", 'a count leaves it so');
is($node->safe_psql('many', 'SELECT count(DISTINCT queue) FROM gen_durable.stats WHERE oldest_ready_age IS NOT NULL'), '100', 'each of them is shown with its oldest row');

# Nor is there room for the run store then, which works all the same.
is($node->safe_psql('many', "SELECT status FROM gen_durable.run_insert('tenantless', 'r', 'g', 'h', '', now()); SELECT inserted IS NULL, since IS NULL, oldest_ready_age IS NULL FROM gen_durable.run_stats"),
	"running\nt|t|f", 'without room for it the run store is not counted');

# The maintainer counts by itself, and corrects what went round the engine.
$node->append_conf('postgresql.conf', "gen_durable.enabled = on\ngen_durable.stats_interval = 50ms\nmax_connections = 50\ngen_durable.dispatch_buffer = 1000\ngen_durable.max_databases = 5\ngen_durable.max_executors = 3\n");
$node->restart;
memory_is_stated('and by other settings');
ok($node->poll_query_until('many', 'SELECT sum(ready) = 200 FROM gen_durable.stats'), 'after a restart the maintainer counts');
$node->safe_psql('many', 'DELETE FROM gen_durable.instances');
ok($node->poll_query_until('many', 'SELECT sum(ready) = 0 FROM gen_durable.stats'), 'and again after a while');
$q->('DROP DATABASE many');
$q->("SELECT gen_durable.insert('a', queue => 'room' || i) FROM generate_series(1, 20) i");
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM gen_durable.stats WHERE queue LIKE 'room%' AND ready IS NULL"), 'a database that is gone has given its room back');
agrees('the rest');
done_testing();
