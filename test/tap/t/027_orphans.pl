# What was claimed ahead before a crash of the server is given back when the next scheduler starts, as soon as two beats
# should have come, with nothing counted; what a worker has is not. GD-235..238, GD-309; D-25.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

my $node = new_node('orphans', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.lease_ttl = '1h'
gen_durable.heartbeat_interval = '10min'
gen_durable.log_events = on
autovacuum = off
max_worker_processes = 12
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $scheduler = sub { return (eval { $q->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable scheduler'") } || '') };
wait_until('the scheduler', sub { $scheduler->() ne '' });
my $buffered = sub { return $q->('SELECT count(*) FROM gen_durable.dispatched() WHERE worker IS NULL') };
my $state = sub { return $q->("SELECT string_agg(n || ' ' || s, ', ' ORDER BY s) FROM (SELECT count(*) n, status || ' ' || attempt || ' ' || crashes || coalesce(' ' || locked_by, '') s FROM gen_durable.instances GROUP BY 2) x") };

# Six lie ready, one is being worked on by a worker that beats, one by a worker that does not, one was picked.
$q->("SELECT gen_durable.set_queue('q', prefetch => 6)");
$q->("SELECT count(gen_durable.insert('a', queue => 'q')) FROM generate_series(1, 9)");
my $beats = $q->("SELECT token FROM gen_durable.take('q', 'beats', 1)");
wait_until('the buffer is filled', sub { $buffered->() == 6 });
my $silent = $q->("SELECT token FROM gen_durable.take('q', 'silent')");
wait_until('and again', sub { $buffered->() == 6 });
my $picked = $q->("SELECT token FROM gen_durable.pick('q', 'picked')");
is($state->(), '1 executing 0 0 beats, 7 executing 0 0 gen_durable scheduler, 1 executing 0 0 picked', 'before the crash');

# Crash: the leases have an hour left, and forty minutes of them would be two beats of silence.
kill_backend($node, $scheduler->());
wait_until('another scheduler', sub { $scheduler->() ne '' });
is($q->('SELECT count(*) FROM gen_durable.dispatched()'), '0', 'the buffer is lost');
my $looks = sub {
	# It has looked when it sleeps: it begins with that.
	my $pid = $scheduler->();
	return $q->("SELECT count(*) FROM pg_stat_activity WHERE pid = '$pid' AND state = 'idle' AND wait_event_type = 'Extension'") == 1;
};
wait_until('it sleeps', sub { $scheduler->() ne '' && $looks->() });
is($state->(), '1 executing 0 0 beats, 7 executing 0 0 gen_durable scheduler, 1 executing 0 0 picked', 'what may be somebody\'s is left alone');

# So it is where two beats are more than an integer of milliseconds.
$node->append_conf('postgresql.conf', "gen_durable.heartbeat_interval = '2000000000ms'\n");
$node->reload;
kill_backend($node, $scheduler->());
wait_until('it has looked again', sub { $scheduler->() ne '' && $looks->() });
is($state->(), '1 executing 0 0 beats, 7 executing 0 0 gen_durable scheduler, 1 executing 0 0 picked', 'and with beats weeks apart');

# A worker that had taken one out of the lost buffer beats: it is no orphan, and can commit.
is($q->("SELECT held FROM gen_durable.heartbeat(ARRAY['$silent'::uuid], '5 minutes')"), 't', 'a beat after the crash');
is($q->("SELECT locked_by FROM gen_durable.instances WHERE token = '$silent'"), 'unknown worker', 'says that somebody has it');

# Two beats are over at once when they are said to be short. One row is locked meanwhile.
my $locked = $q->("SELECT min(id) FROM gen_durable.instances WHERE locked_by = 'gen_durable scheduler'");
my ($session) = hold($node, "SELECT id FROM gen_durable.instances WHERE id = $locked FOR UPDATE");
$node->append_conf('postgresql.conf', "gen_durable.heartbeat_interval = '1ms'\n");
$node->reload;
wait_until('what is nobody\'s is given back', sub { $state->() =~ /5 runnable 0 0/ });
is($state->(), '1 executing 0 0 beats, 1 executing 0 0 gen_durable scheduler, 1 executing 0 0 picked, 1 executing 0 0 unknown worker, 5 runnable 0 0',
	'given back is what nobody has, without an attempt or a crash');
$session->query('COMMIT');
$session->quit;
wait_until('the one that was locked', sub { $state->() =~ /6 runnable 0 0/ });
pass('and what was locked, when it is not any more');
is($q->("SELECT reclaimed FROM gen_durable.stats WHERE queue = 'q'"), '6', 'it is counted');
like(slurp($node->logfile), qr/event=scheduler.reclaimed count=5/, 'and told');
for ($beats, $silent, $picked) { $q->("SELECT gen_durable.complete('$_', gen_durable.done())") }
is($state->(), '3 done 0 0, 6 runnable 0 0', 'workers that live can commit');

# Claims of this scheduler's own are none.
my $own = $q->("SELECT token FROM gen_durable.take('q', 'own')");
wait_until('it is fed', sub { $buffered->() == 5 });
$node->reload;
$q->("SELECT gen_durable.set_queue('other', prefetch => 1)");
is($state->(), '3 done 0 0, 5 executing 0 0 gen_durable scheduler, 1 executing 0 0 own', 'what the buffer has is left alone');
$q->("SELECT gen_durable.complete('$own', gen_durable.done())");
is(broken($node), '', 'no invariant is broken');
done_testing();
