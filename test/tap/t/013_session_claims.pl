# How sessions end whose claims are bound to them (D-19), with the library preloaded and without.
#
# The client goes, is terminated in the middle of a transaction or of a wait, or the server is stopped: committed claims
# are free at once. Nothing that others hold delays the end: then the claim stays until its lease ends. A process that
# was killed gives nothing back.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

for my $preload ('', "shared_preload_libraries = 'gen_durable'\n")
{
	my $how = $preload ? 'preloaded' : 'loaded by its session';
	my $node = new_node($preload ? 'preloaded' : 'loaded', conf => $preload);
	my $q = sub { return $node->safe_psql('postgres', $_[0]) };
	my $held = sub { return $q->("SELECT coalesce(string_agg(fsm || ' ' || locked_by, ', ' ORDER BY id), '-') FROM gen_durable.instances WHERE status = 'executing'") };
	my $ended = sub {
		my ($pid, $what) = @_;
		wait_until("$how: $what has ended", sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' });
	};
	my $claimer = sub {
		my $session = $node->background_psql('postgres', on_error_stop => 0);
		$session->query("SET gen_durable.claim_scope = 'session'");
		my $pid = $session->query('SELECT pg_backend_pid()');
		is($session->query("SELECT fsm FROM gen_durable.pick('q', 'bound')"), 'a', "$how: claimed");
		return ($session, $pid);
	};
	$q->("SELECT gen_durable.insert('a', queue => 'q'), gen_durable.insert('b', queue => 'q')");

	my ($session, $pid) = $claimer->();
	$session->quit;
	$ended->($pid, 'the client that left');
	is($held->(), '-', "$how: the client left");

	($session, $pid) = $claimer->();
	$q->("SELECT pg_terminate_backend($pid)");
	$ended->($pid, 'the idle session');
	is($held->(), '-', "$how: terminated while idle");
	eval { $session->quit };

	($session, $pid) = $claimer->();
	$session->query($_) for 'BEGIN', "SELECT gen_durable.complete(token, gen_durable.done()) FROM gen_durable.instances WHERE fsm = 'a'",
		"SELECT fsm FROM gen_durable.pick('q', 'bound')";
	$q->("SELECT pg_terminate_backend($pid)");
	$ended->($pid, 'the session in a transaction');
	is($held->(), '-', "$how: terminated in a transaction, whose outcome and claim are none");
	is($q->("SELECT string_agg(fsm || ' ' || status, ', ' ORDER BY id) FROM gen_durable.instances"), 'a runnable, b runnable', "$how: as before");
	eval { $session->quit };

	($session, $pid) = $claimer->();
	send_async($session, 'SELECT pg_sleep(600)');
	wait_until("$how: it runs", sub { $q->("SELECT wait_event FROM pg_stat_activity WHERE pid = $pid") eq 'PgSleep' });
	$q->("SELECT pg_terminate_backend($pid)");
	$ended->($pid, 'the busy session');
	is($held->(), '-', "$how: terminated while it runs a statement");
	eval { $session->quit };

	# Locks that others hold: on the row, on the table.
	for my $lock ("SELECT FROM gen_durable.instances WHERE fsm = 'a' FOR UPDATE", 'LOCK TABLE gen_durable.instances IN SHARE MODE',
		'LOCK TABLE gen_durable.queues')
	{
		($session, $pid) = $claimer->();
		my ($holder) = hold($node, $lock);
		$session->quit;
		$ended->($pid, "the session beside $lock");
		$holder->quit;
		is($held->(), 'a bound', "$how: it did not wait for $lock");
		$q->("SELECT gen_durable.release(ARRAY(SELECT token FROM gen_durable.instances WHERE status = 'executing'))");
	}
	like(slurp($node->logfile), qr/LOG: .*1 claims of this session end with their leases/, "$how: which the log says");

	($session, $pid) = $claimer->();
	kill_backend($node, $pid);
	eval { $session->quit };
	is($held->(), 'a bound', "$how: killed, the claim stays until its lease ends");
	$q->("SELECT gen_durable.release(ARRAY(SELECT token FROM gen_durable.instances WHERE status = 'executing'))");

	($session, $pid) = $claimer->();
	$node->stop('fast');
	eval { $session->quit };
	$node->start;
	is($held->(), '-', "$how: a fast stop of the server");

	# Dropped with its claims.
	($session, $pid) = $claimer->();
	$q->('DROP EXTENSION gen_durable CASCADE');
	$session->quit;
	$ended->($pid, 'the session without the extension');
	is(broken_log($node), '', "$how: nothing but what is known in the log");
	$node->stop;
}

# Lines of the log that tell of trouble beyond what the test brings about.
sub broken_log
{
	my ($node) = @_;
	return join "\n", grep { /\b(PANIC|FATAL|ERROR|WARNING):/ && !/terminating connection|the database system is|another server process/ }
		split /\n/, slurp($node->logfile);
}

done_testing();
