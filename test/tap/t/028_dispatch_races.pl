# What others do to a claim that was made ahead while it lies ready, and while a transaction that has taken it is open:
# whichever comes first holds, the later is refused, a token is never handed out twice, and no row is left behind.
# D-1, D-15, D-25; GD-226, GD-229, GD-236, GD-250.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

my $node = new_node('dispatch_races', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.poll_interval = '1h'
gen_durable.max_poll_interval = '1h'
gen_durable.lease_ttl = '1h'
gen_durable.dispatch_buffer = 64
autovacuum = off
max_worker_processes = 12
max_prepared_transactions = 5
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $process = sub { return $q->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable $_[0]'") };
wait_until('the scheduler', sub { $process->('scheduler') ne '' });

my $row = sub { return $q->("SELECT status || ' ' || attempt || ' ' || crashes FROM gen_durable.instances WHERE id = $_[0]") };
my $ready = sub { return $q->("SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM gen_durable.dispatched() WHERE queue = '$_[0]' AND worker IS NULL") };
my $token = sub { return $q->("SELECT token FROM gen_durable.instances WHERE id = $_[0]") };
my %handed;    # every token that a take has handed out

# Takes and gives back until so many claims lie ready: the scheduler feeds a queue once somebody takes from it.
sub feeds
{
	my ($queue, $count) = @_;
	wait_until("$queue is fed", sub {
		return 1 if split(/ /, $ready->($queue)) == $count;
		$q->("SELECT gen_durable.release(coalesce(array_agg(token), '{}')) FROM gen_durable.take('$queue', 'first')");
		return });
	return;
}

# A queue of its own, fed with three claims; returns its name and the id and token of the first.
my $queues = 0;
sub fed
{
	my ($more) = @_;
	my $queue = 'q' . ++$queues;
	$q->("SELECT gen_durable.set_queue('$queue', prefetch => 3" . ($more || '') . "); SELECT count(gen_durable.insert('a', queue => '$queue')) FROM generate_series(1, 3)");
	feeds($queue, 3);
	my ($id) = split / /, $ready->($queue);
	return ($queue, $id, $token->($id));
}

# A session with an open transaction that has taken the first claim of a queue.
sub taker
{
	my ($queue, @before) = @_;
	my ($session) = hold($node, @before, "SELECT id, token FROM gen_durable.take('$queue', 'host/$queue') \\gset");
	my $its = $session->query("SELECT :'token'");
	ok(!$handed{$its}++, "$queue: a token that nobody had");
	return $session;
}

sub says
{
	my ($session, $statement) = @_;
	$session->{stderr} = '';
	my $out = $session->query("\\set VERBOSITY sqlstate\n$statement");
	my ($error) = $session->{stderr} =~ /ERROR:\s+(\w+)/;
	return $error || $out;
}

sub ends
{
	my ($session, $how) = @_;
	$session->query($how);
	$session->quit;
	return;
}

# The row is claimed by nobody, and whoever takes all of the queue gets it with another token.
sub comes_back
{
	my ($what, $queue, $id, $old, $state) = @_;
	wait_until($what, sub { $token->($id) ne $old });
	is($row->($id) =~ s/executing|runnable/free/r, "free $state", $what);
	# It may be on its way into the buffer.
	wait_until('it is handed out', sub {
		my @got = split /\n/, $q->("SELECT id || ' ' || token FROM gen_durable.take('$queue', 'next', 10)");
		for (@got) { my ($its, $new) = split / /; fail("token $new twice") if $handed{$new}++ }
		return grep { /^$id / } @got });
	return;
}

my $complete = "SELECT gen_durable.complete(:'token', gen_durable.done())";

# What is done to a claim that an open transaction has taken: the statement, its answer, the row then, the answer to the
# outcome in the open transaction, and whether the row comes back when that transaction rolls back.
my @races = (
	[ 'cancel', "SELECT gen_durable.cancel(<id>)", 'requested', 'executing 0 0', 'GD001', 'cancelled' ],
	[ 'force cancel', "SELECT gen_durable.cancel(<id>, force => true)", 'cancelled', 'cancelled 0 0', 'GD001', 'cancelled' ],
	[ 'release', "SELECT gen_durable.release(ARRAY['<token>'::uuid])", '1', 'free 0 0', 'GD001', '0 0' ],
	[ 'reclaim', "SELECT gen_durable.reclaim('<queue>', 'host/', '2 hours')", '1', 'free 0 0', 'GD001', '0 0' ],
	[ 'reap', "SET gen_durable.clock_offset = 7200000; SELECT gen_durable.reap() > 0", 't', 'free 1 1', 'GD001', '1 1' ],
	[ 'heartbeat', "SELECT held FROM gen_durable.heartbeat(ARRAY['<token>'::uuid])", 't', 'executing 0 0', '', '0 0' ],
	[ 'pause', "SELECT gen_durable.pause('<queue>')", '', 'executing 0 0', '', 'paused 0 0' ],
	[ 'set_queue', "SELECT gen_durable.set_queue('<queue>')", '', 'executing 0 0', '', '0 0' ]);
for my $race (@races)
{
	my ($what, $statement, $answer, $state, $outcome, $back) = @$race;
	for my $end ('COMMIT', 'ROLLBACK')
	{
		my ($queue, $id, $old) = fed();
		my $session = taker($queue);
		is($q->($statement =~ s{<id>}{$id}gr =~ s{<token>}{$old}gr =~ s{<queue>}{$queue}gr), $answer, "$what while an open transaction has the claim");
		my $free = $state =~ /free/;
		wait_until('it is seen', sub { $free ? $token->($id) ne $old : $row->($id) eq $state });
		is($row->($id) =~ s/executing|runnable/free/r, $state =~ s/executing/free/r, "$what: the row");
		if ($end eq 'COMMIT')
		{
			is(says($session, $complete), $outcome, "$what: the outcome of who took it");
			ends($session, 'COMMIT');
			is($row->($id), 'done 0 0', "$what: and it is done") if $outcome eq '';
			is(says(my $again = $node->background_psql('postgres', on_error_stop => 0), "SELECT gen_durable.complete('$old', gen_durable.done())"), 'GD001', "$what: the token is of no use any more");
			$again->quit;
		}
		else
		{
			ends($session, 'ROLLBACK');
			if ($back eq 'cancelled')
			{
				wait_until("$what, and a rollback", sub { $row->($id) eq 'cancelled 0 0' });
				pass("$what, and a rollback: it is cancelled");
			}
			else
			{
				$q->("SELECT gen_durable.resume('$queue')") if $back =~ s/paused //;
				comes_back("$what, and a rollback", $queue, $id, $old, $back);
			}
		}
	}
}

# An outcome and its take in one transaction that rolls back; a rollback to a savepoint before, between and after the two.
{
	my ($queue, $id, $old) = fed();
	my $session = taker($queue);
	is(says($session, $complete), '', 'taken and completed');
	ends($session, 'ROLLBACK');
	comes_back('and rolled back', $queue, $id, $old, '0 0');

	($queue, $id, $old) = fed();
	$session = taker($queue);
	$session->query("SAVEPOINT s; $complete; ROLLBACK TO s");
	is($q->("SELECT worker FROM gen_durable.dispatched() WHERE id = $id"), "host/$queue", 'an outcome that a savepoint took back: the claim is held');
	is(says($session, $complete), '', 'and can be completed');
	ends($session, 'COMMIT');
	is($row->($id), 'done 0 0', 'it is done');

	($queue, $id, $old) = fed();
	$session = taker($queue, 'SAVEPOINT outer_one', 'SAVEPOINT inner_one');
	$session->query('RELEASE inner_one');
	$session->query('ROLLBACK TO outer_one');
	comes_back('taken in a savepoint that was released into one that rolled back', $queue, $id, $old, '0 0');
	ends($session, 'COMMIT');

	($queue, $id, $old) = fed();
	is($q->("DO \$\$ BEGIN BEGIN PERFORM gen_durable.take('$queue', 'block', 2); RAISE 'no'; EXCEPTION WHEN raise_exception THEN NULL; END; END \$\$; SELECT 1"), '1', 'a block that raises');
	comes_back('taken in a block that raised', $queue, $id, $old, '0 0');
}

# Two takers: each has its own, and one that rolls back leaves the other's alone.
{
	my ($queue, $id, $old) = fed();
	my ($one, $two) = (taker($queue), taker($queue));
	my $other = $two->query("SELECT :'id'");
	cmp_ok($other, '!=', $id, 'two takers have two claims');
	ends($one, 'ROLLBACK');
	comes_back('one rolls back', $queue, $id, $old, '0 0');
	is(says($two, $complete), '', 'the other completes');
	ends($two, 'COMMIT');
	is($row->($other), 'done 0 0', 'its own');
}

# What is done to a claim that lies ready, and a take at that moment gets the next.
{
	my ($queue, $id, $old) = fed();
	my ($session) = hold($node, "SELECT gen_durable.cancel($id)");
	my $taker = taker($queue);
	cmp_ok($taker->query("SELECT :'id'"), '!=', $id, 'a take gets nothing that is being cancelled');
	ends($session, 'COMMIT');
	is($row->($id), 'cancelled 0 0', 'which is cancelled');
	ends($taker, 'ROLLBACK');

	# The scheduler stands still, and leases run out.
	($queue, $id, $old) = fed(", lease_ttl => '3 s'");
	my $pid = $process->('scheduler');
	my @stopped = ($pid, $process->('maintainer'));
	kill('STOP', @stopped);
	wait_until('the leases run out', sub { $q->("SELECT bool_and(lease_expires_at < clock_timestamp()) FROM gen_durable.instances WHERE queue = '$queue'") eq 't' });
	my ($late) = hold($node, "SELECT count(*) AS got FROM gen_durable.take('$queue', 'late') \\gset");
	is($late->query('SELECT :got'), '0', 'a claim whose lease has run out is not handed out');
	ends($late, 'COMMIT');
	is($q->('SELECT gen_durable.reap()'), '3', 'reap takes such claims back');
	is($q->("SELECT string_agg(attempt || ' ' || crashes, ', ') FROM gen_durable.instances WHERE queue = '$queue'"), '0 0, 0 0, 0 0', 'and counts no attempt: nobody had begun');
	is($q->("SELECT count(*) FROM gen_durable.take('$queue', 'late', 10, '1 h')"), '3', 'they can be had');
	kill('CONT', @stopped);
	$q->("SELECT gen_durable.complete(token, gen_durable.done()) FROM gen_durable.instances WHERE queue = '$queue'");
	is($q->("SELECT string_agg(DISTINCT status::text, ' ') FROM gen_durable.instances WHERE queue = '$queue'"), 'done', 'and the scheduler, when it goes on, leaves them alone');
}

# A prepared transaction with a take: while it is open, and when it rolls back, the claim holds; its lease ends it.
{
	my ($queue, $id, $old) = fed();
	my $session = taker($queue);
	ends($session, "PREPARE TRANSACTION 'taken'");
	is($row->($id), 'executing 0 0', 'prepared: it holds');
	$q->("ROLLBACK PREPARED 'taken'");
	is($q->("SET gen_durable.clock_offset = 7200000; SELECT gen_durable.reap() > 0"), 't', 'rolled back: until its lease ends');
	comes_back('then', $queue, $id, $old, '1 1');
}

# Claims that lie ready hold their slots of a gate, and give them back when they are released or cancelled (D-2).
{
	$q->("SELECT gen_durable.set_concurrency_limit('gate', 2), gen_durable.set_queue('gated', prefetch => 5);
		SELECT count(gen_durable.insert('a', queue => 'gated', concurrency_key => 'gate')) FROM generate_series(1, 4)");
	my $slots = sub { return $q->("SELECT count(*) FILTER (WHERE status = 'executing') || ' ' || count(*) FILTER (WHERE blocked_on IS NOT NULL) FROM gen_durable.instances WHERE queue = 'gated' AND finished_at IS NULL") };
	feeds('gated', 2);
	wait_until('the others are blocked', sub { $q->("SELECT count(*) FROM gen_durable.take('gated', 'w', 10, '1 h')"); $slots->() eq '2 2' });
	is($q->('SELECT gates FROM gen_durable.reconcile()'), '0', 'a gate of two: two lie ready, and hold its slots');
	$q->("SELECT gen_durable.pause('gated')");
	wait_until('a pause releases them', sub { $ready->('gated') eq '' && $slots->() =~ /^0 / });
	# The counter of a gate that is all free is removed, which is the one thing that there is to do.
	is($q->("SELECT gates FROM gen_durable.reconcile(); SELECT count(*) FROM gen_durable.buckets WHERE key = 'gate'"), "1\n0", 'released: their slots are free');
	$q->("SELECT gen_durable.resume('gated')");
	wait_until('two lie ready again', sub { $q->("SELECT gen_durable.take('gated', 'w', 1)"); $slots->() =~ /^2 / });
	$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE queue = 'gated' AND status = 'executing'");
	wait_until('the last two have them', sub { $q->("SELECT gen_durable.take('gated', 'w', 1)"); $slots->() eq '2 0' });
	is($q->('SELECT gates FROM gen_durable.reconcile()'), '0', 'cancelled: their slots are the others\'');
	$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE queue = 'gated' AND finished_at IS NULL; SELECT gen_durable.drop_limit('conc', 'gate')");
}

# More is wanted than there is room for, and more queues are fed than there are places for.
{
	$q->("SELECT gen_durable.set_queue(name) FROM gen_durable.queues; SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
	$q->("SELECT gen_durable.set_queue('big', prefetch => 1000); SELECT count(gen_durable.insert('a', queue => 'big')) FROM generate_series(1, 200)");
	feeds('big', 64);
	is($q->("SELECT count(DISTINCT token) FROM generate_series(1, 25) n, gen_durable.take('big', 'w', 10 + 0 * n)"), '200', 'a full buffer: each row is handed out once');
	is($q->("SELECT count(gen_durable.complete(token, gen_durable.done())) FROM gen_durable.instances WHERE queue = 'big' AND status = 'executing'"), '200', 'with a token that holds');
	$q->("SELECT gen_durable.set_queue('big')");

	my $was = $process->('scheduler');
	$q->('ALTER DATABASE postgres SET gen_durable.prefetch = 1');
	wait_until('the scheduler with the setting', sub { my $now = $process->('scheduler'); $now ne '' && $now ne $was });
	my $come = sub { return $q->("SELECT count(gen_durable.insert('a', queue => 'many ' || n)) FROM generate_series(1, 1500) n") };
	my $go = sub { return $q->("SELECT count(*) FROM generate_series(1, 1500) n, gen_durable.take('many ' || n, 'w')") };
	$come->();
	is($go->(), '1500', '1,500 queues that are fed once somebody takes: each hands its row out');
	$come->();
	my $got = 0;
	# Some may be on their way into the buffer.
	wait_until('all rows once more', sub { ($got += $go->()) >= 1500 });
	is($q->("SELECT count(gen_durable.complete(token, gen_durable.done())) FROM gen_durable.instances WHERE fsm = 'a' AND status = 'executing'"), '3000', 'with tokens that hold');
	$q->('ALTER DATABASE postgres RESET gen_durable.prefetch');
	wait_until('nothing is left', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE queue LIKE 'many%' AND status <> 'done'") == 0 });
}

# The extension is dropped while a taker is open: DROP waits for it, and nothing of the old one is left for the next.
{
	my ($queue, $id, $old) = fed();
	my $session = taker($queue);
	my (undef, undef, $error) = $node->psql('postgres', "SET lock_timeout = '200 ms'; DROP EXTENSION gen_durable");
	like($error, qr/lock timeout/, 'DROP EXTENSION waits for who has taken');
	is($row->($id), 'executing 0 0', 'and one that is given up leaves all as it was');
	is(says($session, $complete), '', 'its outcome');
	ends($session, 'COMMIT');
	my ($next) = split / /, $ready->($queue);
	$q->('BEGIN; DROP EXTENSION gen_durable; ROLLBACK');
	is($q->("SELECT id FROM gen_durable.take('$queue', 'w')"), $next, 'one that rolls back, too');
	$q->('DROP SCHEMA IF EXISTS rig CASCADE; DROP EXTENSION gen_durable');
	is($process->('scheduler'), '', 'dropped: no scheduler') if eval { wait_until('it ends', sub { $process->('scheduler') eq '' }) };
	install($node);
	wait_until('the scheduler', sub { $process->('scheduler') ne '' });
	is($q->('SELECT count(*) FROM gen_durable.dispatched()'), '0', 'the next one begins with an empty buffer');
	($queue, $id, $old) = fed();
	ok($q->("SELECT id FROM gen_durable.take('$queue', 'w')") == $id, 'and is fed');
}

is(broken($node), '', 'no invariant is broken');
unlike(slurp($node->logfile), qr/PANIC|TRAP:|terminated by signal|(ERROR|FATAL):.*(snapshot|leak|spinlock|cache lookup)/, 'nothing untoward in the log');
done_testing();
