# Waiting workers and callers on a server with the extension preloaded: who is woken by which commit, and what ends a wait.
# GD-172, GD-173, GD-285..290; D-23, D-25, D-27. The polls are set to an hour, so that only a wake-up can end a wait in time.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

$ENV{GD_PRELOAD} = 1;
my $node = new_node('wait', conf => "max_prepared_transactions = 5\nmax_connections = 100\ngen_durable.poll_interval = '1h'\ngen_durable.max_poll_interval = '1h'\n");
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $waiting = sub { return $q->("SELECT count(*) FROM pg_stat_activity WHERE pid IN (" . join(', ', @_) . ") AND wait_event_type = 'Extension'") == @_ };

# A session that has come to sleep in a statement; answers it and its pid.
sub waiter
{
	my ($statement, @before) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query($_) for @before;
	my $pid = $session->query('SELECT pg_backend_pid()');
	send_async($session, $statement);
	wait_until("waits: $statement", sub { $waiting->($pid) });
	return ($session, $pid);
}

# Returns when the session's statement has ended; answers what it said.
sub ended
{
	my ($session) = @_;
	return $session->query('SELECT 1');
}

# The statements wake a waiter of queue w, if they are to; and it is shown that it slept until then.
sub wakes
{
	my ($what, @statements) = @_;
	my ($session, $pid) = waiter("CALL gen_durable.wait('{other,w}', '1h')");
	my $began = time();
	$q->($_) for @statements;
	ended($session);
	cmp_ok(time() - $began, '<', 60, "woken by $what");
	$session->quit;
	$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
	return;
}

wakes('insert', "SELECT gen_durable.insert('a', queue => 'w')");
wakes('insert with a correlation key', "SELECT gen_durable.insert('a', queue => 'w', correlation_key => 'once')");
wakes('insert_all', q(SELECT gen_durable.insert_all('a', '[{"queue": "x"}, {"queue": "w"}]')));
wakes('insert of a row due soon, when it is due', "SELECT gen_durable.insert('a', queue => 'w', schedule_in => '300 ms')");

# Brings an instance of queue w to where it executes; answers the expression of its token.
sub executing
{
	my ($name, $more) = @_;
	$q->("SELECT gen_durable.insert('$name', queue => 'w'" . ($more || '') . ")");
	$q->("SELECT gen_durable.pick('w', 'worker', 10, '1h')");
	return "rig.token('$name')";
}
my $complete = sub { return "SELECT gen_durable.complete($_[0], gen_durable.$_[1])" };

wakes('complete with next', $complete->(executing('n'), "next_step('two')"));
wakes('complete_many', "SELECT gen_durable.complete_many(rig.entry('m', gen_durable.next_step('two')))") if executing('m');
wakes('retry', $complete->(executing('r'), 'retry()'));
wakes('release', 'SELECT gen_durable.release(ARRAY[' . executing('l') . '])');
$q->($complete->(executing('s'), "await_signal(ARRAY['go'], 'woke')"));
wakes('signal', "SELECT gen_durable.signal(rig.id('s'), 'go')");
$q->($complete->(executing('t'), "await_signal(ARRAY['go'], 'woke', timeout => '1 microsecond')"));
wakes('a timeout', 'SELECT gen_durable.fire_timeouts()');
my $held = executing('k', ", concurrency_key => 'key'");
$q->("SELECT gen_durable.insert('blocked', queue => 'w', concurrency_key => 'key')");
is($q->("SELECT count(*) FROM gen_durable.pick('w', 'worker')"), '0', 'a row is blocked on its key');
wakes('a promotion', $complete->($held, 'done()'));
$q->($complete->(executing('p'), q(schedule_children('joined', '[{"fsm": "kid", "queue": "kids"}]'))));
$q->("SELECT gen_durable.pick('kids', 'worker', 1, '1h')");
wakes('the last child of a parent', $complete->("rig.token('kid')", 'done()'));
$q->('SELECT gen_durable.cancel(' . (executing('c') =~ s/token/id/r) . ', force => true)');
wakes('revive', "SELECT gen_durable.revive(rig.id('c'))");
executing('reaped');
wakes('reap', "SET gen_durable.clock_offset = 7200000; SELECT gen_durable.reap()");
$q->("SELECT gen_durable.pause('w'); SELECT gen_durable.insert('paused', queue => 'w')");
wakes('resume', "SELECT gen_durable.resume('w')");
wakes('the rest of a transaction whose savepoint was rolled back',
	"BEGIN; SAVEPOINT s; SELECT gen_durable.insert('lost', queue => 'w'); ROLLBACK TO s; SELECT gen_durable.insert('kept', queue => 'w'); COMMIT");

# What does not concern a waiter does not wake it: its session's transactions are counted by their virtual ids, one a look.
{
	my ($session, $pid) = waiter("CALL gen_durable.wait('{w}', '1h')");
	my $transaction = "SELECT virtualxid FROM pg_locks WHERE pid = $pid AND locktype = 'virtualxid'";
	my $before = $q->($transaction);
	$q->("SELECT gen_durable.insert('a', queue => 'elsewhere')");
	$q->("BEGIN; SELECT gen_durable.insert('a', queue => 'w'); ROLLBACK");
	$q->("BEGIN; SAVEPOINT s; SELECT gen_durable.insert('a', queue => 'w'); ROLLBACK TO s; SELECT gen_durable.insert('a', queue => 'elsewhere'); COMMIT");
	$q->("DO \$\$ BEGIN PERFORM gen_durable.insert('a', queue => 'w'); RAISE 'no'; EXCEPTION WHEN OTHERS THEN NULL; END \$\$");
	$q->("SELECT gen_durable.insert('a', queue => 'w', schedule_in => '3h')");
	$q->("BEGIN; SELECT gen_durable.insert('own', queue => 'w'); SELECT gen_durable.pick('w', 'worker', 10, '1h'); COMMIT");
	$node->safe_psql('template1', 'CREATE EXTENSION gen_durable; SELECT gen_durable.insert(\'a\', queue => \'w\'); DROP EXTENSION gen_durable');
	is($q->($transaction), $before, 'another queue, rollbacks, another database and rows taken again wake nobody');
	is($q->("SELECT coalesce(backend_xmin::text, 'none') || ' ' || coalesce(backend_xid::text, 'none') FROM pg_stat_activity WHERE pid = $pid"),
		'none none', 'a wait holds no snapshot');
	is($q->("SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype <> 'virtualxid'"), '0', 'and no lock');

	# One that was prepared wakes nobody either; a poll finds it.
	$q->("BEGIN; SELECT gen_durable.insert('prepared', queue => 'w'); PREPARE TRANSACTION 'p'");
	$q->("COMMIT PREPARED 'p'");
	is($q->($transaction), $before, 'COMMIT PREPARED wakes nobody');
	$q->("SELECT pg_cancel_backend($pid)");
	ended($session);
	$session->{stderr} = '';
	$session->quit;
	$q->("SELECT gen_durable.pick('w', 'worker', 10, '1h')");
	($session) = waiter("CALL gen_durable.wait('{w}', '1h')", "SET gen_durable.poll_interval = '100 ms'", "SET gen_durable.max_poll_interval = '200 ms'");
	$q->("BEGIN; SELECT gen_durable.insert('prepared', queue => 'w'); PREPARE TRANSACTION 'p'");
	$q->("COMMIT PREPARED 'p'");
	my $began = time();
	ended($session);
	cmp_ok(time() - $began, '<', 60, 'the poll finds what was prepared');
	$session->quit;
	$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
}

# Many waiters: a row wakes one of its queue, n rows wake n, and those of other queues sleep on.
{
	my @waiters = map { my $n = $_; map { [ waiter("CALL gen_durable.wait('{many$n,more$n}', '1h')") ] } 1 .. 3 } 1 .. 4;
	my $asleep = sub { return $q->('SELECT count(*) FROM pg_stat_activity WHERE query LIKE \'CALL gen_durable.wait%\' AND state = \'active\'') };
	my ($wide, $wide_pid) = waiter("CALL gen_durable.wait('{" . join(',', map { "wide $_" } 1 .. 100) . "}', '1h')");
	is($asleep->(), 13, 'thirteen wait');
	$q->("SELECT gen_durable.insert('a', queue => 'many2')");
	wait_until('one is woken', sub { $asleep->() == 12 });
	# Whoever would be woken wrongly has been by the time that a later wake-up has arrived.
	$q->(q(SELECT gen_durable.insert_all('a', '[{"queue": "many3"}, {"queue": "more3"}]')));
	wait_until('two more are woken', sub { $asleep->() == 10 });
	$q->("SELECT gen_durable.insert('a', queue => 'wide 77')");
	wait_until('the one of many queues is woken', sub { $asleep->() == 9 });
	ok(!$waiting->($wide_pid), 'it waited for more queues than a waiter has nodes');
	my @left = grep { $waiting->($_->[1]) } @waiters;
	is(scalar(@left), 9, 'the others sleep on');

	# One that was woken and is cancelled before it looks passes the wake on: whoever is left is told in the end.
	$q->("SELECT gen_durable.pick('many2', 'w', 10), gen_durable.pick('many3', 'w', 10), gen_durable.pick('more3', 'w', 10)");
	my ($first) = grep { $q->("SELECT query FROM pg_stat_activity WHERE pid = $_->[1]") =~ /many1/ } @left;
	kill('STOP', $first->[1]);
	$q->("SELECT gen_durable.insert('a', queue => 'many1')");
	$q->("SELECT pg_cancel_backend($first->[1])");
	kill('CONT', $first->[1]);
	wait_until('another of its queue is woken', sub {
		$q->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%many1%' AND query LIKE 'CALL%' AND state = 'active'") == 1 });
	pass('a wake-up that a cancelled waiter had goes to the next');

	# A backend that ends while it waits leaves nothing behind: the next wake-up reaches who is there.
	$q->("SELECT gen_durable.pick('many1', 'w', 10)");
	my ($gone) = grep { $q->("SELECT query FROM pg_stat_activity WHERE pid = $_->[1]") =~ /many4/ } @left;
	$q->("SELECT pg_terminate_backend($gone->[1])");
	wait_until('it is gone', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE pid = $gone->[1]") == 0 });
	$q->("SELECT gen_durable.insert('a', queue => 'many4')");
	wait_until('another is woken', sub {
		$q->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%many4%' AND query LIKE 'CALL%' AND state = 'active'") == 1 });
	pass('a terminated waiter is not waited for');
	$q->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL gen_durable.wait%'");
	$_->{run}->kill_kill for $wide, map { $_->[0] } @waiters;
}

# A row that becomes runnable ends the wait of the one that it wakes, without a look, so even if the row is taken meanwhile. What
# may be gone, or is not due, or is of a paused queue, ends none: the waiter looks, a transaction of its own, and sleeps on.
{
	my $look = sub { return $q->("SELECT virtualtransaction FROM pg_locks WHERE pid = $_[0] AND locktype = 'virtualxid'") };
	my $sleeps_on = sub {
		my ($what, $pid, $before) = @_;
		wait_until("$what: has looked and waits", sub { my $now = $look->($pid); $now ne $before && $waiting->($pid) && $look->($pid) eq $now });
		return pass("$what: looks and sleeps on");
	};
	my $stopped = sub {
		my ($pid, @statements) = @_;
		kill('STOP', $pid);
		$q->($_) for @statements;
		return kill('CONT', $pid);
	};

	my ($session, $pid) = waiter("CALL gen_durable.wait('{told}', '1h')");
	$stopped->($pid, "SELECT gen_durable.insert('a', queue => 'told')", "SELECT gen_durable.pick('told', 'w')");
	wait_until('it returns', sub { $q->("SELECT state FROM pg_stat_activity WHERE pid = $pid") eq 'idle' });
	pass('who is told of a row returns, whoever has the row');
	$session->quit;

	($session, $pid) = waiter("CALL gen_durable.wait('{later}', '1h')");
	my $before = $look->($pid);
	$q->("SELECT gen_durable.insert('a', queue => 'later', schedule_in => '30 min')");
	$sleeps_on->('a row that is due later', $pid, $before);
	$q->("SELECT gen_durable.insert('a', queue => 'later')");
	ended($session);
	$session->quit;

	($session, $pid) = waiter("CALL gen_durable.wait('{halted}', '1h')");
	$before = $look->($pid);
	$stopped->($pid, "SELECT gen_durable.pause('halted')", "SELECT gen_durable.insert('a', queue => 'halted')");
	$sleeps_on->('a queue that was paused just before', $pid, $before);
	$before = $look->($pid);
	$q->("SELECT gen_durable.insert('a', queue => 'halted')");
	$sleeps_on->('a paused queue', $pid, $before);
	$q->("SELECT gen_durable.resume('halted')");
	ended($session);
	$session->quit;

	($session, $pid) = waiter("CALL gen_durable.wait('{passed}', '1h')");
	my ($next, $next_pid) = waiter("CALL gen_durable.wait('{passed}', '1h')");
	$before = $look->($next_pid);
	$stopped->($pid, "SELECT gen_durable.insert('a', queue => 'passed')", "SELECT gen_durable.pick('passed', 'w')", "SELECT pg_cancel_backend($pid)");
	ended($session);
	$session->{stderr} = '';
	$session->quit;
	$sleeps_on->('a wake-up that was passed on', $next_pid, $before);
	$q->("SELECT gen_durable.insert('a', queue => 'passed')");
	ended($next);
	$next->quit;
	$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
}

# await: each way to settle wakes it, and all who await.
{
	$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
	my $await = sub {
		my ($id, $until, @statements) = @_;
		my @callers = map { [ waiter("SELECT outcome FROM gen_durable.await($id, '1h', '$until')") ] } 1 .. 2;
		my $began = time();
		$q->($_) for @statements;
		my $answers = join ' ', map { my $said = ended($_->[0]); $_->[0]->quit; $said =~ s/\n1$//r } @callers;
		return time() - $began < 60 ? $answers : 'too late';
	};
	executing('x');
	is($await->($q->("SELECT rig.id('x')"), 'settled', $complete->("rig.token('x')", 'done()')), 'done done', 'awaited: done');
	executing('y');
	is($await->($q->("SELECT rig.id('y')"), 'settled', $complete->("rig.token('y')", "await_signal(ARRAY['go'], 'two')")), 'awaiting awaiting', 'awaited: parked');
	executing('parks');
	is($await->($q->("SELECT rig.id('parks')"), 'terminal', $complete->("rig.token('parks')", "await_signal(ARRAY['go'], 'two')"), "SELECT gen_durable.signal(rig.id('parks'), 'go')",
		'SELECT gen_durable.' . "pick(queue, 'w') FROM gen_durable.instances WHERE fsm = 'parks'", $complete->("rig.token('parks')", 'done()')), 'done done', 'awaited to the end: a park is none, and does not keep the end from waking');
	executing('z');
	is($await->($q->("SELECT rig.id('z')"), 'terminal', "SELECT gen_durable.cancel(rig.id('z'), force => true)"), 'cancelled cancelled', 'awaited: cancelled');
}

# What ends a wait: a timeout of the statement, a cancel, a terminate, a fast stop.
{
	my ($code, $out, $err) = $node->psql('postgres', "SET statement_timeout = '200ms'; CALL gen_durable.wait('{none}', '1h')");
	like($err, qr/statement timeout/, 'statement_timeout ends a wait');
	my ($session, $pid) = waiter("CALL gen_durable.wait('{none}', '1h')");
	my $began = time();
	$q->("SELECT pg_cancel_backend($pid)");
	ended($session);
	cmp_ok(time() - $began, '<', 60, 'a cancel ends a wait');
	like($session->{stderr}, qr/canceling statement due to user request/, 'and says so');
	$session->{stderr} = '';
	send_async($session, "CALL gen_durable.wait('{none}', '1h')");
	wait_until('it waits again', sub { $waiting->($pid) });
	$began = time();
	$node->stop('fast');
	cmp_ok(time() - $began, '<', 60, 'a fast stop does not wait for it');
	$session->{run}->kill_kill;
}

done_testing();
