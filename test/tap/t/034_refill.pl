# A row that waits for tokens goes on at the instant at which they suffice: the maintainer promotes it and wakes a worker,
# though it would sleep for long, and where there is no maintainer the next pick does. D-3, D-18, GD-117.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('refill', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.poll_interval = '30s'
gen_durable.max_poll_interval = '60s'
autovacuum = off
max_worker_processes = 12
CONF
my $q = sub { my ($sql, $db) = @_; return $node->safe_psql($db || 'postgres', $sql) };
$q->('CREATE DATABASE alone');
$q->('ALTER DATABASE alone SET gen_durable.enabled = off');
$q->("ALTER DATABASE alone SET gen_durable.poll_interval = '100ms'");
for my $db ('postgres', 'alone')
{
	install($node, $db);
	$q->("SELECT gen_durable.set_rate_limit('r', 2, '1 s', 1)", $db);
}
wait_until('a maintainer', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gen_durable maintainer' AND state = 'idle'") == 1 });

# Two rows of a key: the first takes its token, the second waits for the next. Returns the instant of that.
my $two = sub {
	my ($key, $db) = @_;
	$q->("SELECT count(gen_durable.insert('$key', jsonb_build_object('n', n), queue => '$key', rate_limit => '$key')) FROM generate_series(1, 2) n", $db);
	my ($picked, $at) = split /\n/, $q->("SELECT count(*) FROM gen_durable.pick('$key', 'w', 10);
		SELECT extract(epoch FROM refill_at) FROM gen_durable.instances WHERE fsm = '$key' AND blocked_on = 'rate:$key'", $db);
	is($picked, 1, "$key: one of two is claimed");
	return $at };

my @late;
for my $n (1 .. 5)
{
	my $key = "r:$n";
	my $worker = $node->background_psql('postgres', on_error_stop => 0);
	my $at = $two->($key);
	send_async($worker, "CALL gen_durable.wait(ARRAY['$key'], '50s')");
	wait_until("$key is promoted", sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE fsm = '$key' AND status = 'runnable' AND blocked_on IS NULL") == 1 });
	push @late, $q->("SELECT extract(epoch FROM updated_at) - $at FROM gen_durable.instances WHERE fsm = '$key' AND status = 'runnable'");
	cmp_ok($late[-1], '>=', 0, sprintf('%s: not before its instant; %.1f ms after it', $key, $late[-1] * 1000));
	$worker->query('SELECT 1');
	cmp_ok(time - $at, '<', 10, "$key: and a waiting worker is woken");
	$worker->quit;
	is($q->("SELECT string_agg(state ->> 'n', ' ') FROM gen_durable.pick('$key', 'w', 10)"), '2', "$key: it is claimed");
}
@late = sort { $a <=> $b } @late;
cmp_ok($late[2], '<', 0.1, 'at its instant: the median is within 100 ms');
cmp_ok($late[4], '<', 2, 'and none is far off');

# Nobody is there to promote it but those who pick.
my $at = $two->('r', 'alone');
isnt($at, '', 'without a maintainer it knows its instant, too');
my $tries = 0;
wait_until('it is claimed', sub { $tries++;
	return $q->("CALL gen_durable.wait(ARRAY['r'], '1s'); SELECT string_agg(state ->> 'n', ' ') FROM gen_durable.pick('r', 'w', 10)", 'alone') eq '2' });
cmp_ok($q->("SELECT extract(epoch FROM updated_at) - $at FROM gen_durable.instances WHERE state = '{\"n\": 2}'", 'alone'), '>=', 0, 'not before its instant');
cmp_ok(time - $at, '<', 10, "and soon after it, by a pick ($tries)");
is(broken($node, $_), '', "no invariant is broken in $_") for 'postgres', 'alone';
$node->stop;
done_testing();
