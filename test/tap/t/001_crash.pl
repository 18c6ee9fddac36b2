# SIGKILL of a backend in the middle of each function (GD-001, GD-150, GD-184, GD-210; D-26).
#
# Three kinds of middle: called in a transaction that is still open; waiting for a lock half way through; and somewhere
# in a long statement. In the first two everything must be as it was before; in the third the statement happened whole
# or not at all. The server restarts itself each time. At the end every instance can still be brought to its end.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(usleep);

my $node = new_node('crash');
$node->safe_psql('postgres', 'CALL rig.prepare()');

# Called, and the transaction open.
my %called = (
	insert            => "SELECT gen_durable.insert('new', correlation_key => 'fresh')",
	insert_all        => "SELECT gen_durable.insert_all('new', '[{\"correlation_key\": \"fresh\"}, {}]')",
	signal            => "SELECT gen_durable.signal(rig.id('parked'), 'go', dedup_key => 'd')",
	signal_key        => "SELECT gen_durable.signal_key('name', 'go')",
	pick              => "SELECT gen_durable.pick('q-free', 'w', 10)",
	take              => "SELECT gen_durable.take('q-free', 'w', 10)",
	next_step         => "SELECT gen_durable.complete(rig.token('held'), gen_durable.next_step('two', release_key => true))",
	retry             => "SELECT gen_durable.complete(rig.token('held'), gen_durable.retry())",
	await_signal      => "SELECT gen_durable.complete(rig.token('held'), gen_durable.await_signal(ARRAY['go'], 'woke'))",
	schedule_children => "SELECT gen_durable.complete(rig.token('held'), gen_durable.schedule_children('joined', '[{\"fsm\": \"a\"}, {\"fsm\": \"b\"}]'))",
	done              => "SELECT gen_durable.complete(rig.token('held'), gen_durable.done())",
	done_of_a_child   => "SELECT gen_durable.complete(rig.token('kid'), gen_durable.done())",
	joins_applied     => "SET LOCAL gen_durable.defer_effects = off; SELECT gen_durable.complete(rig.token('kid'), gen_durable.done())",
	stop              => "SELECT gen_durable.complete(rig.token('kit'), gen_durable.stop('no'))",
	fail              => "SELECT gen_durable.complete(rig.token('held'), gen_durable.fail('no'))",
	complete_many     => "SELECT gen_durable.complete_many(rig.entry('kid', gen_durable.done()) || rig.entry('kit', gen_durable.done()))",
	complete_and_take => "SELECT gen_durable.complete_and_take(rig.entry('held', gen_durable.done()), 'q-free', 'w', 10)",
	commit_and_take   => "CALL gen_durable.commit_and_take(rig.entry('held', gen_durable.done()), 'q-free', 'w', 10)",
	heartbeat         => "SELECT gen_durable.heartbeat(ARRAY[rig.token('held')], '2 hours')",
	release           => "SELECT gen_durable.release(ARRAY[rig.token('held'), rig.token('end1')])",
	reap              => "SELECT gen_durable.reap()",
	fire_timeouts     => "SELECT gen_durable.fire_timeouts()",
	reclaim           => "SELECT gen_durable.reclaim('q', 'w', '2 hours')",
	gc                => "SELECT gen_durable.gc('0')",
	tick              => "SELECT gen_durable.tick()",
	cancel            => "SELECT gen_durable.cancel(rig.id('parked'))",
	cancel_requested  => "SELECT gen_durable.cancel(rig.id('held'))",
	cancel_cascade    => "SELECT gen_durable.cancel(rig.id('top'), cascade => true, force => true)",
	revive            => "SELECT gen_durable.revive(rig.id('ended'), 'anew')",
	pause             => "SELECT gen_durable.pause('q-free', reason => 'no')",
	register_fsm      => "SELECT gen_durable.register_fsm('machine', version => 2)",
	grant_usage       => "CREATE ROLE gd_crash; SELECT gen_durable.grant_usage('gd_crash', 'worker')",
);
my $before = image($node);
for my $name (sort keys %called)
{
	my ($session, $pid) = hold($node, split(/; /, $called{$name}));
	kill_backend($node, $pid);
	eval { $session->quit };
	is(image($node), $before, "killed after $name, before its commit: nothing happened");
}
is(broken($node), '', 'no invariant is broken');

# Waiting for a lock, half way through.
my @waiting = (
	[ 'insert, on a rival for its key', "SELECT gen_durable.insert('rival', correlation_key => 'fresh')",
		"SELECT gen_durable.insert('new', correlation_key => 'fresh')" ],
	[ 'insert_all, with entries before it', "SELECT gen_durable.insert('rival', correlation_key => 'm')",
		"SELECT gen_durable.insert_all('new', '[{\"correlation_key\": \"a\"}, {\"correlation_key\": \"m\"}, {\"correlation_key\": \"z\"}]')" ],
	[ 'a fan-out, between two children', "SELECT gen_durable.insert('rival', correlation_key => 'm')",
		"SELECT gen_durable.complete(rig.token('held'), gen_durable.schedule_children('joined', '[{\"fsm\": \"a\", \"correlation_key\": \"a\"}, {\"fsm\": \"b\", \"correlation_key\": \"m\"}]'))" ],
	[ 'a batch, between two fan-outs', "SELECT gen_durable.insert('rival', correlation_key => 'm')",
		"SELECT gen_durable.complete_many(rig.entry('end1', gen_durable.schedule_children('joined', '[{\"fsm\": \"a\"}]')) || rig.entry('end2', gen_durable.schedule_children('joined', '[{\"fsm\": \"b\", \"correlation_key\": \"m\"}]')))" ],
	[ 'signal, on its target', "SELECT 1 FROM gen_durable.instances WHERE fsm = 'parked' FOR UPDATE",
		"SELECT gen_durable.signal(rig.id('parked'), 'go')" ],
	[ 'complete, on its row', "SELECT 1 FROM gen_durable.instances WHERE fsm = 'held' FOR UPDATE",
		"SELECT gen_durable.complete(rig.token('held'), gen_durable.done())" ],
	[ 'complete_many, on its second row', "SELECT 1 FROM gen_durable.instances WHERE fsm = 'end2' FOR UPDATE",
		"SELECT gen_durable.complete_many(rig.entry('end1', gen_durable.done()) || rig.entry('end2', gen_durable.done()))" ],
	[ 'the commit of a child, on its parent', "SELECT 1 FROM gen_durable.instances WHERE fsm = 'top' FOR UPDATE",
		"SELECT gen_durable.complete(rig.token('kid'), gen_durable.done())" ],
	[ 'cancel with its children, on one of them', "SELECT 1 FROM gen_durable.instances WHERE fsm = 'kid' FOR UPDATE",
		"SELECT gen_durable.cancel(rig.id('top'), cascade => true, force => true)" ],
	[ 'revive, on its row', "SELECT 1 FROM gen_durable.instances WHERE fsm = 'ended' FOR UPDATE",
		"SELECT gen_durable.revive(rig.id('ended'))" ],
);
for my $case (@waiting)
{
	my ($name, $rival, $statement) = @$case;
	my ($rivals) = hold($node, $rival);
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('SELECT pg_backend_pid()');
	send_async($session, $statement);
	wait_until("$name waits for a lock", sub {
		$node->safe_psql('postgres', "SELECT wait_event_type FROM pg_stat_activity WHERE pid = $pid") eq 'Lock' });
	kill_backend($node, $pid);
	eval { $session->quit };
	eval { $rivals->quit };
	is(image($node), $before, "killed in $name: nothing happened");
}
is(broken($node), '', 'no invariant is broken');

# Somewhere in a long statement: whole, or not at all. N rows each; the count is of what the statement does.
my $N = 4000;
my @long = (
	[ 'insert_all', '', "SELECT count(*) FROM gen_durable.insert_all('long', (SELECT jsonb_agg(jsonb_build_object('queue', 'long', 'correlation_key', 'k' || n)) FROM generate_series(1, $N) n))",
		"status = 'runnable'" ],
	[ 'pick', '', "SELECT count(*) FROM gen_durable.pick('long', 'w', $N)", "status = 'executing'" ],
	[ 'heartbeat', '', "SELECT count(*) FROM gen_durable.heartbeat(ARRAY(SELECT token FROM gen_durable.instances WHERE queue = 'long'), '1 day')",
		"lease_expires_at > now() + interval '23 hours'" ],
	[ 'release', '', "SELECT gen_durable.release(ARRAY(SELECT token FROM gen_durable.instances WHERE queue = 'long'))", "status = 'runnable'" ],
	[ 'complete_many', "SELECT count(*) FROM gen_durable.pick('long', 'w', $N, '0')",
		"SELECT count(*) FROM gen_durable.complete_many((SELECT jsonb_agg(gen_durable.next_step('two') || jsonb_build_object('token', token)) FROM gen_durable.instances WHERE queue = 'long'))",
		"step = 'two'" ],
	[ 'reap', "SELECT count(*) FROM gen_durable.pick('long', 'w', $N, '0')", "SELECT gen_durable.reap(2 * $N)", "crashes = 1" ],
	[ 'signal', "SELECT count(*) FROM gen_durable.pick('long', 'w', $N), gen_durable.complete(token, gen_durable.await_signal(ARRAY['go'], 'woke', timeout => '1 microsecond'))",
		"SELECT count(gen_durable.signal(id, 'stay')) FROM gen_durable.instances WHERE queue = 'long'",
		"EXISTS (SELECT 1 FROM gen_durable.signals s WHERE s.target_id = i.id)" ],
	[ 'fire_timeouts', '', "SELECT gen_durable.fire_timeouts(2 * $N)", "status = 'runnable'" ],
	[ 'cancel', '', "SELECT count(gen_durable.cancel(id)) FROM gen_durable.instances WHERE queue = 'long'", "status = 'cancelled'" ],
	[ 'revive', '', "SELECT count(gen_durable.revive(id)) FROM gen_durable.instances WHERE queue = 'long'", "status = 'runnable'" ],
	[ 'a fan-out', "SELECT gen_durable.insert('fan', queue => 'fan')",
		"SELECT count(gen_durable.complete(j.token, gen_durable.schedule_children('joined', (SELECT jsonb_agg(jsonb_build_object('fsm', 'kid', 'queue', 'fans')) FROM generate_series(1, $N))))) FROM gen_durable.pick('fan', 'w') j",
		"", "SELECT count(*) FROM gen_durable.instances c WHERE c.queue = 'fans' AND (SELECT p.status = 'awaiting_children' AND p.children_pending = $N FROM gen_durable.instances p WHERE p.queue = 'fan')" ],
	[ 'a join', "SELECT count(*) FROM gen_durable.pick('fans', 'w', $N)",
		"SELECT count(*) FROM gen_durable.complete_many((SELECT jsonb_agg(gen_durable.done() || jsonb_build_object('token', token)) FROM gen_durable.instances WHERE queue = 'fans'))",
		"", "SELECT count(*) FROM gen_durable.instances c WHERE c.queue = 'fans' AND c.status = 'done' AND (SELECT p.status = 'runnable' AND p.children_pending = 0 FROM gen_durable.instances p WHERE p.queue = 'fan')" ],
	[ 'gc', "SELECT count(gen_durable.cancel(id)) FROM gen_durable.instances WHERE queue = 'long'",
		"SELECT gen_durable.gc('0')", "", "SELECT CASE WHEN count(*) = 0 THEN $N ELSE 0 END FROM gen_durable.instances WHERE queue = 'long'" ],
);
srand(4711);
for my $case (@long)
{
	my ($name, $setup, $statement, $where, $count) = @$case;
	$count ||= "SELECT count(*) FROM gen_durable.instances i WHERE queue = 'long' AND $where";
	$node->safe_psql('postgres', $setup) if $setup;
	my @seen;
	for my $round (1 .. 4)
	{
		my $session = $node->background_psql('postgres', on_error_stop => 0);
		my $pid = $session->query('SELECT pg_backend_pid()');
		send_async($session, $statement);
		usleep(int(rand(50_000 * $round)));
		kill_backend($node, $pid);
		eval { $session->quit };
		push @seen, $node->safe_psql('postgres', $count);
		last if $seen[-1] == $N;
	}
	is(join(' ', grep { $_ != 0 && $_ != $N } @seen), '', "killed somewhere in $name: whole or not at all (" . join(' ', @seen) . ')');
	$node->safe_psql('postgres', $statement) if $seen[-1] != $N;
	is($node->safe_psql('postgres', $count), $N, "$name works afterwards");
}
is(broken($node), '', 'no invariant is broken');

is($node->safe_psql('postgres', 'SELECT rig.finish()'), 0, 'every instance comes to its end');
is(broken($node), '', 'no invariant is broken at the end');

done_testing();
