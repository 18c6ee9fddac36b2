# Limits under load and crashes, by a ledger that is not the engine's: no gate ever holds more than its slots, a key of size
# one never two, and no window of time has more tokens than the burst and what the rate brings.
# GD-060, GD-063, GD-093, GD-111, GD-113, GD-117, GD-118, GD-121, GD-122, GD-128, GD-136, GD-137, GD-142, GD-246, GD-252, D-2, D-4,
# D-14, D-32, R-7, R-10, R-11, R-23.
#
# Eight clients: workers that pick, workers that take from a fed queue, one that asks the limiter itself. They oversleep their
# leases, release, roll back, and lose their sessions, while backends, maintainer and scheduler are killed, the server is
# stopped, and the limits change their shards. GD_LIMIT_STEPS says how many steps (default 6000; CI has the time for no more,
# 200000 take some minutes).
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Ledger;
use Workers;
use PostgreSQL::Test::Utils;
use Test::More;

my $steps = $ENV{GD_LIMIT_STEPS} || 6000;
my $lease = 1.5;
my %gates = (wide => 24, 'small:a' => 3, 'small:b' => 3, 'small:c' => 3, one => 1, map { ("key:$_" => 1) } 0 .. 4);
my %rates = ('fast:a' => [ 400, 60 ], 'fast:b' => [ 400, 60 ], slow => [ 40, 8 ], 'slow:c' => [ 40, 8 ]);

my $node = new_node('limits', bare => 1, conf => <<"CONF");
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.poll_interval = '50ms'
gen_durable.lease_ttl = '${lease}s'
gen_durable.gc_interval = '1s'
max_worker_processes = 12
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
$q->(slurp("$FindBin::RealBin/../lib/limits.sql"));
$q->("SELECT gen_durable.set_queue('fed', concurrency => 20, prefetch => 6)");
$q->('CALL rig.limits()');

# One cycle of a worker: claims, work, the end. What it overslept was not ended by it, though it believes so.
my $cycle = sub {
	my ($claim, $between, $end) = @_;
	return <<"SQL";
\\set got false
SELECT count(*) > 0 AS got, string_agg(line, E'\\n') AS lines, array_agg(token) AS tokens, jsonb_agg(outcome) AS outcomes FROM (
  SELECT j.token, rig.again(j.state) || jsonb_build_object('token', j.token) AS outcome,
    format('b %s %s %s %s %s %s %s', j.token, coalesce(j.concurrency_key, '-'), coalesce(j.state ->> 'rate', '-'), j.state ->> 'weight',
      rig.us(statement_timestamp()), rig.us(), rig.us(j.lease_expires_at)) AS line
  FROM gen_durable.$claim j) x \\gset
\\if :got
\\echo :lines
$between
\\set ends ''
SELECT string_agg(format('e %s %s', t, rig.us()), E'\\n') AS ends FROM unnest(:'tokens'::uuid[]) t \\gset
\\echo :ends
$end
\\else
SELECT pg_sleep(0.01) \\g /dev/null
\\endif
SQL
};
my $sleep = sub { return "SELECT pg_sleep($_[0]) \\g /dev/null\n" };
my $complete = "SELECT gen_durable.complete_many(:'outcomes') \\g /dev/null\n";
my $release = "SELECT gen_durable.release(:'tokens') \\g /dev/null\n";
my $beat = <<"SQL";
\\set beats ''
SELECT string_agg(format('h %s %s', token, rig.us(statement_timestamp() + interval '$lease s')), E'\\n') AS beats
  FROM gen_durable.heartbeat(:'tokens', '$lease s') WHERE held \\gset
\\echo :beats
SQL
my $worker = sub {
	my ($name, $claim) = @_;
	my $script = '';
	for my $n (1 .. 120)
	{
		my $between = $n % 60 == 20 ? $sleep->($lease + 0.3)
		  : $n % 60 == 40 ? $sleep->($lease / 2) . $beat . $sleep->($lease - 0.2)
		  : $n % 9 == 0   ? $sleep->(0.02)
		  :                 '';
		$script .= $cycle->($claim, $between, $n % 17 == 0 ? $release : $complete);
		$script .= "BEGIN;\nSELECT * FROM gen_durable.$claim \\g /dev/null\nROLLBACK;\n" if $n % 23 == 0;
	}
	return "\\set ON_ERROR_STOP 0\n" . $script;
};

# The one that asks the limiter itself; a slot is its claim, and a rate without a gate is nothing that is held.
my $asked = <<"SQL";
\\set got false
SELECT count(*) > 0 AS got, string_agg(format('b %s %s %s 1 %s %s %s', coalesce('slot' || (a.slot ->> 'holder'), gen_random_uuid()::text),
    coalesce(e.x ->> 'conc', '-'), coalesce(e.x #>> '{rate,key}', '-'), rig.us(statement_timestamp()), rig.us(), rig.us(statement_timestamp() + interval '$lease s')), E'\\n') AS lines,
    coalesce(jsonb_agg(a.slot) FILTER (WHERE a.slot IS NOT NULL), '[]') AS slots
  FROM jsonb_array_elements('[{"id": 1, "conc": "wide"}, {"id": 2, "conc": "small:a"}, {"id": 3, "conc": "one"},
      {"id": 4, "rate": {"key": "fast:a"}}, {"id": 5, "conc": "small:c", "rate": {"key": "slow:c"}}, {"id": 6, "rate": {"key": "slow"}}]') e (x)
  JOIN gen_durable.admit('[{"id": 1, "conc": "wide"}, {"id": 2, "conc": "small:a"}, {"id": 3, "conc": "one"},
      {"id": 4, "rate": {"key": "fast:a"}}, {"id": 5, "conc": "small:c", "rate": {"key": "slow:c"}}, {"id": 6, "rate": {"key": "slow"}}]') a
    ON a.id = (e.x ->> 'id')::bigint WHERE a.admitted \\gset
\\if :got
\\echo :lines
SELECT pg_sleep(0.005) \\g /dev/null
\\set ends ''
SELECT string_agg(format('e slot%s %s', s ->> 'holder', rig.us()), E'\\n') AS ends FROM jsonb_array_elements(:'slots') s \\gset
\\echo :ends
SELECT gen_durable.credit(:'slots') \\g /dev/null
\\endif
SELECT pg_sleep(0.02) \\g /dev/null
SQL

# Time, and limits that change their shards; what is there in all stays the same.
my $driver = <<'SQL';
SELECT gen_durable.set_concurrency_limit('wide', 24, 1 + floor(random() * 6)::int), gen_durable.set_rate_limit('fast', 400, '1 s', 60, 1 + floor(random() * 5)::int) \g /dev/null
SELECT pg_sleep(0.2) \g /dev/null
SELECT gen_durable.tick(), gen_durable.reconcile() \g /dev/null
SELECT pg_sleep(0.2) \g /dev/null
SQL

my $dir = PostgreSQL::Test::Utils::tempdir();
my @workers = (
	(map { Workers::start($node, "$dir/pick$_", $worker->("pick$_", "pick('picked', 'pick$_', 10)")) } 1 .. 5),
	(map { Workers::start($node, "$dir/take$_", $worker->("take$_", "take('fed', 'take$_', 4)")) } 1 .. 2),
	Workers::start($node, "$dir/asks", "\\set ON_ERROR_STOP 0\n" . $asked x 100),
	Workers::start($node, "$dir/driver", "\\set ON_ERROR_STOP 0\n" . $driver x 20));
my @ledgers = map { "$dir/$_.out" } (map { "pick$_" } 1 .. 5), 'take1', 'take2', 'asks';

my %read;
my $done = sub {
	my $n = 0;
	for my $file (@ledgers)
	{
		open my $in, '<', $file or next;
		seek $in, $read{$file}{at} || 0, 0;
		while (my $line = <$in>)
		{
			$read{$file}{n}++ if $line =~ /^e /;
		}
		$read{$file}{at} = tell $in;
		close $in;
		$n += $read{$file}{n} || 0;
	}
	return $n;
};
my $crash = sub {
	my $offset = -s $node->logfile;
	await_restart($node, $offset) if kill('KILL', $_[0]);
};
my @blows = (
	[ 'SIGKILL of a backend that picks', "query LIKE '%gen_durable.pick(%'", $crash ],
	[ 'the end of a session that takes', "query LIKE '%gen_durable.take(%'", sub { kill('TERM', $_[0]) } ],
	[ 'SIGKILL of the maintainer', "backend_type = 'gen_durable maintainer'", $crash ],
	[ 'an immediate stop', "backend_type = 'gen_durable launcher'", sub { $node->stop('immediate'); $node->start } ],
	[ 'SIGKILL of a backend that completes', "query LIKE '%complete_many%'", $crash ],
	[ 'SIGKILL of the scheduler', "backend_type = 'gen_durable scheduler'", $crash ]);
my $rounds = int($steps / 20_000) || 1;
my $struck = 0;
for my $round (1 .. $rounds)
{
	for my $blow (@blows)
	{
		my ($what, $where, $strike) = @$blow;
		my $goal = int($steps * ++$struck / ($rounds * @blows + 1));
		wait_until("$goal steps", sub { $done->() >= $goal }, 1200);
		my $pid;
		wait_until("one for $what", sub {
			$pid = eval { $q->("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND $where ORDER BY random() LIMIT 1") } });
		$strike->($pid);
		wait_until("the server answers after $what", sub { eval { $q->('SELECT 1') } });
	}
}
wait_until("$steps steps", sub { $done->() >= $steps }, 1200);
Workers::stop(@workers);

# The ledger against the limits.
my $ledger = Ledger->read(@ledgers);
cmp_ok($ledger->claims, '>=', $steps, $ledger->claims . ' claims, ' . $ledger->lost . " of them without an end, over $struck crashes and ends");
my %most = $ledger->overlaps;
for my $gate (sort keys %gates)
{
	cmp_ok($most{$gate} || 0, '<=', $gates{$gate}, "$gate: at most $gates{$gate} at once");
	cmp_ok($most{$gate} || 0, '>=', $gates{$gate} / 2, 'and it was in use: ' . ($most{$gate} || 0));
}
for my $key (sort keys %rates)
{
	my ($rate, $burst) = @{ $rates{$key} };
	my $spent = $ledger->spent($key, $rate);
	cmp_ok($spent, '<=', $burst + 1e-4, sprintf('%s: %g tokens, never more than the rate and %g; the most: %.3f', $key, $ledger->tokens($key), $burst, $spent));
	cmp_ok($spent, '>', $burst / 2, 'and the limit was met');
}

# What is left when all leases have ended: every slot, and no more.
wait_until('all leases end', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE status = 'executing' AND queue <> 'fed'") == 0
	  && $q->('SELECT count(*) FROM gen_durable.slot_holders') == 0 });
$q->("SELECT gen_durable.pause('fed')");
wait_until('nothing is fed', sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE status = 'executing'") == 0 });
is($q->("SELECT string_agg(key || ' ' || available, ' ') FROM gen_durable.limit_keys WHERE kind = 'conc' AND name IS NOT NULL AND available <> capacity"), '',
	'all slots are free');
is($q->("SELECT string_agg(b::text, ' ') FROM gen_durable.buckets b WHERE available < 0 OR available > capacity OR debt <> 0"), '', 'no counter is out of its bounds');
is($q->('SELECT count(*) FROM gen_durable.slot_credits WHERE slots < 1'), 0, 'nor a note of a slot');
is(broken($node), '', 'no invariant is broken');
unlike(slurp($node->logfile), qr/PANIC|TRAP:|deadlock detected|stuck spinlock|snapshot reference leak|buffer refcount leak/, 'nothing untoward in the log');
my @errors = map { my $text = -e "$dir/$_.err" ? slurp("$dir/$_.err") : ''; grep { !/terminat|closed|connection|recovery|starting up|shutting down|before or while|WARNING|DETAIL|HINT|CONTEXT|shared memory/ } split /\n/, $text }
  (map { "pick$_" } 1 .. 5), 'take1', 'take2', 'asks', 'driver';
is(join("\n", @errors), '', 'and no client met an error that it should not');
$node->stop;
done_testing();
