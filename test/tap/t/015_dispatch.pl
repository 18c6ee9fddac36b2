# Queues that are fed: claims made ahead of demand, who gets them, and what becomes of those that nobody has.
#
# GD-244, GD-250, GD-251, GD-300, GD-301, GD-302, GD-304, GD-305, GD-309; D-15, D-19, D-25.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('dispatch', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.poll_interval = '200ms'
autovacuum = off
max_worker_processes = 12
max_prepared_transactions = 5
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $scheduler = sub { return $q->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable scheduler'") };
wait_until('the scheduler', sub { $scheduler->() ne '' });

# As many rows are in these states: '<buffered> <taken> <runnable>' of a queue.
my $count = sub {
	my ($queue) = @_;
	return $q->("SELECT count(*) FILTER (WHERE d.id IS NOT NULL AND d.worker IS NULL) || ' ' || count(d.worker) || ' ' || count(*) FILTER (WHERE i.status = 'runnable')
		FROM gen_durable.instances i LEFT JOIN gen_durable.dispatched() d USING (id) WHERE i.queue = '$queue'") };

sub comes
{
	my ($what, $queue, $counts) = @_;
	my $seen = '';
	eval { wait_until($what, sub { ($seen = $count->($queue)) eq $counts }) };
	return is($seen, $counts, $what);
}

my $fill = sub {
	my ($queue, $n, $more) = @_;
	return $q->("SELECT count(*) FROM gen_durable.insert_all('a', (SELECT jsonb_agg('{\"queue\": \"$queue\"" . ($more || '') . "}'::jsonb) FROM generate_series(1, $n)))") };
my $take = sub {
	my ($queue, $worker, $n) = @_;
	return $q->("SELECT string_agg(token::text, ' ' ORDER BY id) FROM gen_durable.take('$queue', '$worker', " . ($n || 1) . ')') };

# Demand: concurrency + prefetch - (running + buffered); nothing before somebody takes, nothing for a queue that is not fed.
$q->("SELECT gen_durable.set_queue('q', concurrency => 2, prefetch => 3)");
$fill->('q', 20);
$fill->('plain', 5);
is($count->('q'), '0 0 20', 'nothing is claimed while nobody takes');
my $first = $take->('q', 'w1');
comes('a take feeds its queue: one runs, and four wait', 'q', '4 1 15');
is($q->("SELECT string_agg(id::text, ' ' ORDER BY id) FROM gen_durable.dispatched() WHERE queue = 'q' AND worker IS NULL"), '2 3 4 5', 'in the order of picks');
is($take->('plain', 'w1') ne '', 1, 'a queue that is not fed');
is($count->('plain'), '0 0 4', 'is claimed from directly');
my $second = $take->('q', 'w2', 2);
is($q->("SELECT string_agg(id || ' ' || worker, ', ' ORDER BY id) FROM gen_durable.dispatched() WHERE worker IS NOT NULL"), '1 w1, 2 w2, 3 w2', 'the buffer gives its first, and shows who has them');
comes('three run, more than was said, and three wait', 'q', '3 3 14');
$q->("SELECT gen_durable.complete('$first', gen_durable.done())");
comes('an outcome makes no demand above what was said', 'q', '3 2 14');
$q->("SELECT gen_durable.release(ARRAY(SELECT regexp_split_to_table('$second', ' ')::uuid))");
comes('what is released is demand', 'q', '5 0 14');

# A take out of the buffer writes nothing, and hands out the lease of the claim.
is($q->("BEGIN; SELECT count(*) FROM gen_durable.take('q', 'w3'); SELECT coalesce(pg_current_xact_id_if_assigned()::text, 'none'); COMMIT"), "1\nnone", 'a take out of the buffer needs no transaction id');
is($q->("SELECT count(*) FROM gen_durable.take('q', 'w3', 1, '1 hour') t WHERE lease_expires_at > clock_timestamp() + interval '50 minutes'"), 1, 'a take with a lease of its own is a pick');

# why, heartbeat, reclaim.
my $waits = $q->("SELECT id FROM gen_durable.dispatched() WHERE queue = 'q' AND worker IS NULL LIMIT 1");
is($q->("SELECT waits_for || coalesce(held_by, '') FROM gen_durable.why($waits)"), 'a worker on queue "q"', 'why: a claim in the buffer waits for a worker');
my $held = $q->("SELECT id FROM gen_durable.dispatched() WHERE worker = 'w3' LIMIT 1");
is($q->("SELECT held_by FROM gen_durable.why($held)"), 'w3', 'why: who took it');
is($q->("SELECT name || ' ' || claims FROM gen_durable.workers WHERE kind = 'holder' AND 'q' = ANY (queues) ORDER BY name"), "gen_durable scheduler 4\nw3 2", 'the view of workers too');
is($q->("SELECT locked_by FROM gen_durable.instances WHERE id = $held"), 'gen_durable scheduler', 'the row does not know yet');
$q->("SELECT gen_durable.heartbeat(ARRAY(SELECT token FROM gen_durable.instances WHERE id = $held))");
is($q->("SELECT locked_by FROM gen_durable.instances WHERE id = $held"), 'w3', 'and does at the first heartbeat');
$take->('q', 'host/1', 2);
is($q->("SELECT gen_durable.reclaim('q', 'host/', '1 day')"), 2, 'reclaim finds them by the prefix of who took them');
is($q->("SELECT gen_durable.reclaim('q', 'gen_durable', '1 day')"), 0, 'and none by the name in the row, nor what waits');

# A take that rolls back spends its claims: the token is never handed out again (D-25).
my ($session, $its_pid) = hold($node, "SELECT token FROM gen_durable.take('q', 'w4') \\gset", 'SAVEPOINT s', "SELECT token AS second FROM gen_durable.take('q', 'w4') \\gset", 'ROLLBACK TO s');
my $one = $session->query("SELECT :'token'");
my $two = $session->query("SELECT :'second'");
wait_until('the savepoint', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE token = '$two'") == 0 });
pass('a take in a savepoint that is rolled back is released');
is($q->("SELECT count(*) FROM gen_durable.instances WHERE token = '$one'"), 1, 'the one before it is held');
$session->query('ROLLBACK');
$session->quit;
wait_until('the rest', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE token = '$one'") == 0 });
unlike($take->('q', 'w5', 100), qr/$one|$two/, 'their tokens are not handed out again');
is($q->("SELECT count(*) FROM gen_durable.instances WHERE attempt > 0 OR crashes > 0"), 0, 'and it counts as no attempt');

# What a claim was handed: signals up to the claim, not those between the claim and the take.
$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
my $signalled = $q->("BEGIN; SELECT id FROM gen_durable.insert('s', queue => 'q'); SELECT count(gen_durable.signal(id, 'early')) FROM gen_durable.instances WHERE fsm = 's'; COMMIT");
$signalled =~ s/\n.*//s;
wait_until('it is claimed', sub { $q->("SELECT status FROM gen_durable.instances WHERE id = $signalled") eq 'executing' });
$q->("SELECT gen_durable.signal($signalled, 'late')");
is($q->("SELECT jsonb_path_query_array(signals, '\$.name')::text FROM gen_durable.take('q', 'w')"), '["early"]', 'a job has the signals of its claim');
$q->("SELECT gen_durable.complete(token, gen_durable.await_signal(ARRAY['late'], 'woke')) FROM gen_durable.instances WHERE id = $signalled");
is($q->("SELECT status, step FROM gen_durable.instances WHERE id = $signalled") =~ /awaiting/ ? 'parked' : 'woken', 'woken', 'and the later one is news');
$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");

# Cancelling what waits in the buffer: nobody has begun it, so it is cancelled at once (D-15). A rollback of it spends the claim.
$fill->('q', 8);
$take->('q', 'w');
comes('the buffer is full again', 'q', '4 1 3');
my $victim = $q->("SELECT id FROM gen_durable.dispatched() WHERE worker IS NULL ORDER BY id LIMIT 1");
is($q->("SELECT gen_durable.cancel($victim)"), 'cancelled', 'a claim in the buffer is cancelled at once');
is($q->("SELECT status FROM gen_durable.instances WHERE id = $victim"), 'cancelled', 'and is');
$victim = $q->("SELECT id FROM gen_durable.dispatched() WHERE worker IS NULL ORDER BY id LIMIT 1");
my $was = $q->("SELECT token FROM gen_durable.instances WHERE id = $victim");
$q->("BEGIN; SELECT gen_durable.cancel($victim); ROLLBACK");
wait_until('the claim is spent', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE token = '$was'") == 0 });
pass('a cancel that rolls back spends the claim');

# Void tokens are dropped: the row was changed behind the buffer's back.
$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
$fill->('q', 3);
$take->('q', 'w');
comes('two wait', 'q', '2 1 0');
$q->("UPDATE gen_durable.instances SET status = 'failed', token = NULL, locked_by = NULL, lease_expires_at = NULL, finished_at = now() WHERE id = (SELECT min(id) FROM gen_durable.dispatched() WHERE worker IS NULL)");
is($q->("SELECT count(*) FROM gen_durable.take('q', 'w', 10)"), 1, 'a take drops a claim whose token is void');

# Pausing takes the buffer back; resuming fills it.
$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");
$fill->('q', 10);
$take->('q', 'w');
comes('it is fed', 'q', '4 1 5');
$q->("SELECT gen_durable.pause('q', reason => 'r')");
is($q->("SELECT count(*) FROM gen_durable.take('q', 'w', 10)"), 0, 'a paused queue hands nothing out of its buffer');
comes('a pause has the buffer released', 'q', '0 1 9');
$q->("SELECT gen_durable.resume('q')");
comes('resume has it filled', 'q', '4 1 5');
$q->("SELECT gen_durable.set_queue('q')");
comes('a queue that is fed no more: its buffer is released', 'q', '0 1 9');
$q->("SELECT gen_durable.set_queue('q', concurrency => 2, prefetch => 3)");

# min_demand: with some at hand nothing is claimed until that many are wanted.
$q->("SELECT gen_durable.set_queue('m', prefetch => 6, min_demand => 4)");
$fill->('m', 30);
$take->('m', 'w');
comes('min_demand: filled at first', 'm', '6 1 23');
$take->('m', 'w', 3);
is($count->('m'), '3 4 23', 'three are not enough to ask for');
$take->('m', 'w');
comes('the fourth is', 'm', '6 5 19');

# Rows that come while there is demand are claimed without a take or an outcome; what nobody tells of, by the poll.
$q->("SELECT gen_durable.set_queue('p', prefetch => 2)");
$take->('p', 'w');
$fill->('p', 1);
comes('a row that comes', 'p', '1 0 0');
$q->("INSERT INTO gen_durable.instances (fsm, step, queue) VALUES ('sql', 's', 'p')");
comes('one that SQL wrote', 'p', '2 0 0');
# A worker that waits takes by itself.
{
	my $waiter = $node->background_psql('postgres', on_error_stop => 0);
	$q->("SELECT count(*) FROM gen_durable.take('p', 'w', 10)");
	send_async($waiter, "CALL gen_durable.wait('{p}', '1h')");
	wait_until('it waits', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL%' AND wait_event_type = 'Extension'") == 1 });
	$fill->('p', 1);
	$waiter->query('SELECT 1');
	# The scheduler may just have claimed it, and be about to put it into the buffer.
	wait_until('its row', sub { $q->("SELECT count(*) FROM gen_durable.take('p', 'w')") == 1 });
	pass('a wait ends for a row of a fed queue, buffered or not');
	$waiter->quit;
}

# Nobody takes any more: the buffer is released after a third of the lease.
$q->("SELECT gen_durable.set_queue('idle', prefetch => 2, lease_ttl => '1500 ms')");
$fill->('idle', 5);
$q->("SELECT gen_durable.complete(token, gen_durable.done()) FROM gen_durable.take('idle', 'w')");
comes('a queue that nobody takes from any more', 'idle', '0 0 4');
is($q->("SELECT count(*) FROM gen_durable.instances WHERE queue = 'idle' AND attempt > 0"), 0, 'no lease of it ran out');
# While something runs the buffer keeps its leases.
$q->("SELECT gen_durable.set_queue('beat', prefetch => 2, lease_ttl => '1500 ms')");
$fill->('beat', 5);
my $busy = $q->("SELECT token FROM gen_durable.take('beat', 'w')");
comes('two wait', 'beat', '2 1 2');
my $until = time() + 4;
while (time() < $until) { $q->("SELECT count(*) FROM gen_durable.heartbeat(ARRAY['$busy'::uuid])"); }
is($count->('beat'), '2 1 2', 'they wait still, after several leases');
is($q->("SELECT count(*) FROM gen_durable.instances WHERE queue = 'beat' AND attempt > 0"), 0, 'and no lease ran out');
$q->("SELECT gen_durable.cancel(id, force => true) FROM gen_durable.instances WHERE finished_at IS NULL");

# A claim that is bound to its session is given back with it (D-19).
$fill->('q', 3);
$take->('q', 'w');
comes('fed', 'q', '2 1 0');
$q->("SET gen_durable.claim_scope = 'session'; SELECT count(*) FROM gen_durable.take('q', 'bound')");
wait_until('given back', sub { $q->("SELECT count(*) FROM gen_durable.dispatched() WHERE worker = 'bound'") == 0 });
comes('and waits for the next', 'q', '2 1 0');

# The end of the scheduler takes the buffer back, and nothing else; the next one fills it.
my $buffered = sub { return $q->("SELECT string_agg(i.token::text, ' ') FROM gen_durable.dispatched() d JOIN gen_durable.instances i USING (id) WHERE d.queue = 'q' AND d.worker IS NULL") };
my $pid = $scheduler->();
my %before = map { $_ => 1 } split / /, $buffered->();
$q->("SELECT pg_terminate_backend($pid)");
wait_until('another scheduler', sub { my $now = $scheduler->(); $now ne '' && $now ne $pid });
comes('SIGTERM: what was taken is held, and the next scheduler fills the buffer', 'q', '2 1 0');
is((grep { $before{$_} } split / /, $buffered->()), 0, 'with claims of its own: the old ones were released');
is($q->("SELECT count(*) FROM gen_durable.instances WHERE queue = 'q' AND attempt > 0"), 0, 'and none ran out');
$node->append_conf('postgresql.conf', 'gen_durable.enabled = off');
$node->stop('fast');
$node->start;
is($q->("SELECT string_agg(status || ' ' || attempt, ', ' ORDER BY status) FROM gen_durable.instances WHERE queue = 'q' AND finished_at IS NULL"),
	'runnable 0, runnable 0, executing 0', 'a fast stop releases the buffer; what was taken is held');
is($q->("SELECT count(*) FROM gen_durable.take('q', 'w2', 10)"), 2, 'takes go on without a scheduler');
is(broken($node), '', 'no invariant is broken');
unlike(slurp($node->logfile), qr/PANIC|TRAP:|(ERROR|FATAL):.*(snapshot|leak|spinlock)/, 'nothing untoward in the log');
done_testing();
