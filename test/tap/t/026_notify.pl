# Listeners hear of queues that have work: one NOTIFY without a payload for each, sent by the scheduler, never in the
# transaction of a client. D-23, GD-306, GD-308. The polls are set to an hour: nothing comes by chance.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('notify', bare => 1, conf => <<'CONF');
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

# What the listener has heard: how often of each channel; and of whom, with what.
my $listener = $node->background_psql('postgres');
my (%heard, %senders, @payloads);

sub hear
{
	my $text = $listener->query('SELECT 1');
	while ($text =~ /Asynchronous notification "(.*?)"( with payload "(.*?)")? received from server process with PID (\d+)/gs)
	{
		$heard{$1}++;
		push @payloads, $3 if $2;
		$senders{$4}++;
	}
	return;
}

sub hears
{
	my ($what, $channel) = @_;
	wait_until($what, sub { hear(); $heard{$channel} });
	return pass($what);
}
my $heard = sub { my $text = join ' ', map { "$_ $heard{$_}" } sort keys %heard; %heard = (); return $text };
my $insert = sub { my ($queue, $more) = @_; return "SELECT id FROM gen_durable.insert('a', queue => '$queue'" . ($more || '') . ')' };
my $drop = sub { return $q->('SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL') };
$listener->query(qq(LISTEN "gen_durable.$_")) for 'a', 'b', 'c', 'fed', 'later', 'end';

# Another queue is told of twice, which takes as long as listeners may have to wait for what they have heard of already:
# so nothing more was to come.
sub no_more
{
	my ($what, @expected) = @_;
	for my $times (1, 2)
	{
		$q->($insert->('end'));
		wait_until($what, sub { hear(); ($heard{'gen_durable.end'} || 0) >= $times });
		$q->("SELECT gen_durable.take('end', 'w', 10)");
	}
	return is($heard->(), join(' ', sort 'gen_durable.end 2', map { "$_ 1" } @expected), $what);
}

# Off, nobody hears of anything; switched on, of what is there, once.
$q->($insert->('a'));
$q->($insert->('b'));
$q->("SELECT gen_durable.take('b', 'w')");
my $first = $scheduler->();
$q->('ALTER DATABASE postgres SET gen_durable.notify = on');
wait_until('the scheduler with the setting', sub { my $now = $scheduler->(); $now ne '' && $now ne $first });
hears('switched on, it tells of what has come before', 'gen_durable.a');
no_more('and of nothing that has been taken', 'gen_durable.a');
$drop->();

# One transaction, one notification, whatever it does and to however many rows.
$q->("BEGIN; SELECT count(gen_durable.insert('a', queue => 'a')) FROM generate_series(1, 1000); SAVEPOINT s; SELECT gen_durable.insert('a', queue => 'b'); ROLLBACK TO s;
	SELECT gen_durable.insert('a', queue => 'c'); COMMIT");
hears('a transaction', 'gen_durable.c');
no_more('tells of each queue once, and of none whose rows it took back', 'gen_durable.a', 'gen_durable.c');
$q->('BEGIN; ' . $insert->('a') . '; ROLLBACK');
$q->("BEGIN; SELECT count(*) FROM gen_durable.take('a', 'w', 1000); SELECT gen_durable.complete(token, gen_durable.next_step('x')) FROM gen_durable.instances WHERE queue = 'a' AND status = 'executing';
	SELECT count(*) FROM gen_durable.take('a', 'w', 1000); COMMIT");
no_more('a transaction that rolls back, and one that takes its rows itself, tell nobody');

# Many transactions: the first is told of at once, then one notification in 100 ms.
my $began = time();
$q->(join ';', ($insert->('b')) x 300);
my $took = time() - $began;
hears('many transactions', 'gen_durable.b');
wait_until('the window ends', sub { time() - $began > $took + 0.3 });
hear();
cmp_ok($heard{'gen_durable.b'}, '<=', 2 + ($took + 0.3) / 0.1, "300 transactions in $took s: " . $heard{'gen_durable.b'} . ' notifications');
%heard = ();
$drop->();

# All came from the scheduler's process.
is(join(' ', keys %senders), $scheduler->(), 'clients sent none');
is("@payloads", '', 'and there are no payloads');

# Whatever makes a row runnable is news.
my $id = $q->($insert->('a'));
hears('an insert', 'gen_durable.a');
$heard->();
my $token = $q->("SELECT token FROM gen_durable.take('a', 'w')");
$q->("SELECT gen_durable.release(ARRAY['$token'::uuid])");
hears('a release', 'gen_durable.a');
$heard->();
$q->("SELECT gen_durable.complete(token, gen_durable.await_signal(ARRAY['s'], 'woke')) FROM gen_durable.take('a', 'w')");
no_more('a row that parks is no news');
$q->("SELECT gen_durable.signal($id, 's')");
hears('a signal', 'gen_durable.a');
$heard->();
$drop->();
$q->("SELECT gen_durable.pause('a')");
$q->($insert->('a'));
no_more('a row of a paused queue is no news');
$q->("SELECT gen_durable.resume('a')");
hears('resume', 'gen_durable.a');
$q->("SELECT gen_durable.take('a', 'w')");
$heard->();
$q->("SELECT gen_durable.pause('b', until => clock_timestamp() + '500 ms')");
$q->($insert->('b'));
hears('the end of a pause', 'gen_durable.b');
is($q->("SELECT clock_timestamp() >= paused_until FROM gen_durable.queues WHERE name = 'b'"), 't', 'not before it');
$drop->();
$heard->();

# Rows of the future, when they are due: one that is near, one that is far, one that comes before those that are known.
$q->($insert->('later', ", schedule_in => '2 days'") . ';' . $insert->('later', ", schedule_in => '1 s'"));
$q->($insert->('c', ", schedule_in => '400 ms'"));
hears('a row of the future', 'gen_durable.c');
is($q->("SELECT eligible_at <= clock_timestamp() FROM gen_durable.instances WHERE queue = 'c' AND status = 'runnable'"), 't', 'when it is due');
hears('another', 'gen_durable.later');
is($q->("SELECT eligible_at <= clock_timestamp() FROM gen_durable.instances WHERE queue = 'later' ORDER BY eligible_at LIMIT 1"), 't', 'when that is');
no_more('each once, and the one that is far not at all', 'gen_durable.c', 'gen_durable.later');
$drop->();

# A queue that is fed: what the scheduler has claimed ahead is work too.
$q->("SELECT gen_durable.set_queue('fed', concurrency => 1, prefetch => 5)");
$q->($insert->('fed'));
hears('a queue that is fed', 'gen_durable.fed');
$q->("SELECT gen_durable.take('fed', 'w')");
$heard->();
$q->($insert->('fed'));
hears('once more', 'gen_durable.fed');
wait_until('it is claimed ahead', sub { $q->("SELECT count(*) FROM gen_durable.dispatched() WHERE queue = 'fed' AND worker IS NULL") == 1 });
$q->("SELECT gen_durable.set_queue('fed')");
$drop->();
$heard->();

# Names that are long, and odd.
my @odd = (' ', '"', q('), "\n", '%s', '.', "\x{c3}\x{9f}", 'x' x 51, 'x' x 52, "\x{e2}\x{82}\x{ac}" x 85);
my $list = "ARRAY[" . join(',', map { my $t = s/'/''/gr; "'$t'" } @odd) . ']';
$listener->query("SELECT format('LISTEN %I', gen_durable.channel(n)) FROM unnest($list) n \\gexec");
$q->("SELECT gen_durable.insert('a', queue => n) FROM unnest($list) n");
wait_until('all are told of', sub { hear(); keys %heard == @odd });
is(join('', map { "$_\n" } sort keys %heard) . "\n", $q->("SELECT string_agg(gen_durable.channel(n), E'\\n' ORDER BY gen_durable.channel(n) COLLATE \"C\") || E'\\n' FROM unnest($list) n") . "\n", 'each on its channel');
$drop->();
$heard->();

# More queues than there are places for.
$listener->query("SELECT format('LISTEN %I', gen_durable.channel('many ' || n)) FROM generate_series(1, 1500) n \\gexec");
$q->("SELECT count(gen_durable.insert('a', queue => 'many ' || n)) FROM generate_series(1, 1500) n");
wait_until('1,500 queues', sub { hear(); keys %heard == 1500 });
pass('1,500 queues are told of');
$drop->();
$heard->();
$q->("SELECT count(gen_durable.insert('a', queue => 'many ' || n, schedule_in => '1 s')) FROM generate_series(1, 1500) n");
wait_until('rows of the future of 1,500 queues', sub { hear(); keys %heard == 1500 });
is($q->("SELECT count(*) FROM gen_durable.instances WHERE status = 'runnable' AND eligible_at > clock_timestamp()"), '0', 'when they are due');
$drop->();
hear();
$heard->();

# A scheduler that begins looks by itself; what came while there was none is told of.
my $was = $scheduler->();
$q->("SELECT pg_terminate_backend($was)");
wait_until('it is gone', sub { $scheduler->() ne $was });
$q->($insert->('a'));
hears('the next scheduler tells', 'gen_durable.a');
$q->("SELECT gen_durable.take('a', 'w')");
$heard->();

# It holds no snapshot when it sleeps, and an idle server sends nothing.
no_more('nothing is left');
is($q->("SELECT coalesce(backend_xmin::text, 'none') || ' ' || state FROM pg_stat_activity WHERE pid = " . $scheduler->()), 'none idle', 'it sleeps without a snapshot');

# Off again.
$was = $scheduler->();
$q->('ALTER DATABASE postgres RESET gen_durable.notify');
wait_until('the scheduler without the setting', sub { my $now = $scheduler->(); $now ne '' && $now ne $was });
$q->($insert->('a'));
$was = $scheduler->();
$q->('ALTER DATABASE postgres SET gen_durable.notify = on; SELECT gen_durable.take(\'a\', \'w\')');
wait_until('the scheduler with it', sub { my $now = $scheduler->(); $now ne '' && $now ne $was });
no_more('switched off, it told of nothing');
$listener->quit;
is(broken($node), '', 'no invariant is broken');
done_testing();
