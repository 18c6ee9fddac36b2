# The scheduler wakes those who wait for rows of the future when these are due, as many as there are rows, and no others.
# D-18, D-25, GD-303. The polls are set to an hour, so that only a wake-up can end a wait in time.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('scheduler', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.poll_interval = '1h'
gen_durable.max_poll_interval = '1h'
autovacuum = off
max_worker_processes = 12
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $scheduler = sub { return $q->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable scheduler'") };
wait_until('the scheduler', sub { $scheduler->() ne '' });
# Who still waits, by application_name.
my $waiting = sub {
	return $q->("SELECT coalesce(string_agg(application_name, ' ' ORDER BY application_name), '') FROM pg_stat_activity WHERE query LIKE 'CALL%' AND state = 'active'") };
my %sessions;

sub waiter
{
	my ($name, $queues) = @_;
	my $session = $sessions{$name} ||= $node->background_psql('postgres', on_error_stop => 0);
	$session->query("SET application_name = '$name'");
	my $pid = $session->query('SELECT pg_backend_pid()');
	send_async($session, "CALL gen_durable.wait('{$queues}', '1h')");
	wait_until("$name waits", sub { $q->("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid AND query LIKE 'CALL%'") eq 'Extension' });
	return;
}

# So many wait still, once that has come to rest: who would be woken wrongly is with the others of its queue.
sub left_count
{
	my ($what, $count) = @_;
	wait_until($what, sub { scalar(split / /, $waiting->()) == $count });
	return pass($what);
}

sub left
{
	my ($what, $names) = @_;
	wait_until($what, sub { $waiting->() eq $names });
	return is($waiting->(), $names, $what);
}

my $insert = sub { return "SELECT gen_durable.insert('a', queue => '$_[0]', schedule_in => '$_[1]', priority => " . ($_[2] || 0) . ')' };

# Rows that are there before anybody waits, and rows that come while somebody does.
$q->($insert->('w', '4 s'));
waiter($_, 'other,w') for 1 .. 4;
left_count('a row that was there wakes one when it is due', 3);
is($q->("SELECT count(*) FROM gen_durable.take('w', 'worker', 10)"), 1, 'it is due');
$q->("SELECT gen_durable.insert('a', queue => 'w', eligible_at => at, priority => p) FROM unnest(ARRAY[7, 0]) p, (SELECT clock_timestamp() + interval '400 ms' AS at) x;"
	. $insert->('w', '3 hours', -1));
left_count('two rows, of different priorities, wake two', 1);
is($q->("SELECT count(*) FROM gen_durable.take('w', 'worker', 10)"), 2, 'both are due');
$q->($insert->('w', '2 hours') . ';' . $insert->('w', '300 ms'));
left('one that comes before those that are known wakes at its time', '');

# Many queues, each with its waiters: each row wakes those of its queue.
$q->("SELECT count(*) FROM gen_durable.take('w', 'worker', 10)");
waiter("$_", "queue $_") for 1 .. 6;
$q->(join ';', map { $insert->("queue $_", '400 ms') } 2, 4, 6);
left('rows of three queues wake those of the three', '1 3 5');

# A pause that ends by its time; it hands nothing out before.
$q->("SELECT gen_durable.pause('queue 1', until => clock_timestamp() + '1 s'); SELECT gen_durable.insert('a', queue => 'queue 1')");
left('the end of a pause by its time wakes', '3 5');
is($q->("SELECT clock_timestamp() >= paused_until FROM gen_durable.queues WHERE name = 'queue 1'"), 't', 'and not before');
is($q->("SELECT count(*) FROM gen_durable.take('queue 1', 'worker', 10)"), 1, 'its row is handed out');

# Without a scheduler the waiters keep their own time, and one that comes back takes over.
my $was = $scheduler->();
$q->("SELECT pg_terminate_backend($was)");
wait_until('it is gone', sub { $scheduler->() ne $was });
$q->($insert->('queue 3', '300 ms'));
left('a row that is due while no scheduler runs', '5');
wait_until('the scheduler is back', sub { $scheduler->() ne '' && $scheduler->() ne $was });
$q->($insert->('queue 5', '300 ms'));
left('the next scheduler wakes', '');

# Waiters of ten queues each.
my @many = map { [ map { "many $_" } ($_ * 10 + 1) .. ($_ * 10 + 10) ] } 0 .. 5;
waiter("$_", join ',', @{ $many[$_] }) for 0 .. $#many;
$q->("SELECT count(gen_durable.insert('a', queue => 'many ' || n, schedule_in => '800 ms')) FROM generate_series(1, 60) n");
left('sixty queues', '');

is($q->("SELECT coalesce(backend_xmin::text, 'none') || ' ' || state FROM pg_stat_activity WHERE pid = " . $scheduler->()), 'none idle', 'it sleeps without a snapshot');
$_->quit for values %sessions;
is(broken($node), '', 'no invariant is broken');
done_testing();
