# Limits in Redis: two databases share them, and Redis is missing, killed, stopped, and false meanwhile.
# GD-090, GD-093, GD-094, GD-097, GD-145, GD-146, GD-147, GD-148, D-2, D-3, D-32; AC-100.
#
# The ledger is what the workers print: when a step started, after its claim had been committed, and when it ended, before
# its outcome was sent. So a step is held at least from its start to its end.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use POSIX ();
use Redis;
use Test::More;
use Time::HiRes qw(time usleep);

my $dir = PostgreSQL::Test::Utils::tempdir_short();
plan skip_all => 'no redis-server here' unless Redis::program($dir);
plan skip_all => 'gen_durable was built without hiredis' unless Redis::module();

my $redis = Redis->new($dir, '--requirepass', 's@cret');
$redis->{login} = [ '--no-auth-warning', '-a', 's@cret', '-n', '3' ];
my $node = new_node('redis', bare => 1, conf => <<"CONF");
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.limiter = redis
gen_durable.redis_url = 'unix://:s%40cret\@$dir/redis.sock?db=3'
gen_durable.redis_lease = '2s'
gen_durable.poll_interval = '200ms'
max_worker_processes = 12
autovacuum = off
CONF
my @databases = ('postgres', 'second');
$node->safe_psql('postgres', 'CREATE DATABASE second');
install($node, $_) for @databases;
my $q = sub { my ($sql, $db) = @_; return $node->safe_psql($db || 'postgres', $sql) };
for my $db (@databases)
{
	$q->(<<'SQL', $db);
SELECT gen_durable.set_concurrency_limit('g', 3), gen_durable.set_concurrency_limit('one', 1), gen_durable.set_rate_limit('r', 40, '1s', burst => 5), gen_durable.set_rate_limit('slow', 10, '1h');
SELECT gen_durable.set_queue('plain', prefetch => 0);
SQL
}
wait_until('both maintainers', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'gen_durable maintainer'") == 2 });

# Unlimited work goes on, and quickly; returns how long it took.
my $plain = sub {
	my ($what) = @_;
	my $begun = time;
	is($q->("SELECT gen_durable.insert('p', queue => 'plain') \\gset x_\nSELECT count(gen_durable.complete(token, gen_durable.done())) FROM gen_durable.pick('plain', 'p')"),
		1, "$what: unlimited work goes on");
	cmp_ok(time - $begun, '<', 5, "$what: and does not wait");
	return;
};
my $fate = sub { return $q->("SELECT coalesce(string_agg(DISTINCT status || ' ' || coalesce(blocked_on, '-'), ' '), '') FROM gen_durable.instances WHERE queue = '$_[0]'") };

# Not there at all: what is limited waits, and can be seen to.
$q->("SELECT gen_durable.insert('f', queue => 'early', concurrency_key => 'one:early'), gen_durable.insert('f', queue => 'early2', rate_limit => 'r:early')");
is($q->("SELECT count(*) FROM gen_durable.pick('early', 'w')"), 0, 'no Redis: a gate admits nobody');
is($q->("SELECT count(*) FROM gen_durable.pick('early2', 'w')"), 0, 'no Redis: a rate limit admits nobody');
is($q->("SELECT waits_for, until > now() - interval '10 s' FROM gen_durable.instances i, gen_durable.why(i.id) WHERE queue = 'early2'"), 'rate limit "r:early"|t',
	'why tells what it waits for, and when that is asked for again');
is($q->("SELECT count(*), count(available), sum(blocked) FROM gen_durable.limits"), '4|0|2', 'and the view how many wait, but not what is left');
is($fate->('early'), 'runnable conc:one:early', 'and its row is blocked on the gate');
is($fate->('early2'), 'runnable rate:r:early', 'and its row is blocked on the rate limit');
$plain->('no Redis');

$redis->start;
my $first_start = time;
for my $queue ('early', 'early2')
{
	wait_until("$queue goes on by itself", sub {
		$q->("SELECT count(gen_durable.complete(token, gen_durable.done())) FROM gen_durable.pick('$queue', 'w')") == 1 });
	pass("Redis is there: $queue goes on by itself");
}
cmp_ok(time - $first_start, '>=', 2, 'but not before every database had the time to tell what it holds');

# The limiter by itself (AC-100), with tickets as slots.
my $admit = sub { my ($key, $n) = @_;
	return $q->("SELECT count(*) FILTER (WHERE admitted) FROM gen_durable.admit((SELECT jsonb_agg(jsonb_build_object('id', n, 'conc', '$key')) FROM generate_series(1, $n) n))") };
is($admit->('g:alone', 4), 3, 'a gate of 3 admits 3 of 4');
is($admit->('g:alone', 1), 0, 'and is full');
is($admit->('g:other', 1), 1, 'another key is not');
is($q->("SELECT gen_durable.credit((SELECT jsonb_agg(jsonb_build_object('key', key, 'shard', shard, 'holder', id)) FROM (SELECT * FROM gen_durable.slot_holders WHERE key = 'g:alone' LIMIT 1) h))"),
	1, 'a slot is given back');
wait_until('it comes back', sub { $admit->('g:alone', 1) == 1 });
is($admit->('g:alone', 1), 0, 'as one slot');
is($admit->('unknown', 1), 0, 'a gate without a policy admits nobody');
my $before = $redis->ask('ZRANGE', 'gen_durable:gate:g:alone', '0', '-1', 'WITHSCORES');
wait_until('leases are renewed', sub { $redis->ask('ZRANGE', 'gen_durable:gate:g:alone', '0', '-1', 'WITHSCORES') ne $before });
is($redis->ask('ZCARD', 'gen_durable:gate:g:alone'), 3, 'what is held is renewed');
$q->("DELETE FROM gen_durable.slot_holders WHERE key = 'g:alone'");
wait_until('what nobody renews expires', sub { $admit->('g:alone', 1) == 1 });
cmp_ok($redis->ask('PTTL', 'gen_durable:rate:r:early'), '<=', 1_000 + 1_000, 'an idle rate limit expires');

# What Redis may have forgotten, the tokens, it does not give out a second time; the first time is no other.
my $spend = sub { return $q->("SELECT count(*) FILTER (WHERE admitted) FROM gen_durable.admit('[{\"id\": 1, \"rate\": {\"key\": \"slow\"}}]')") };
is($spend->(), 0, 'a rate limit begins empty, not with its burst');

# While Redis stands still nobody can renew: afterwards no slot is taken away before everybody had the time. This one is of
# a program that is not there to renew it, so that only this rule can keep it.
my $now = join '', map { sprintf '%06d', $_ } split /\n/, $redis->ask('TIME');
$redis->ask('ZADD', 'gen_durable:gate:one:still', $now + 1_000_000, '7');
is($admit->('one:still', 1), 0, 'a slot of another program is held');
$redis->signal('STOP');
my $still = time;
wait_until('Redis stood still for longer than a lease', sub { time - $still > 2.5 });
$redis->signal('CONT');
wait_until('Redis answers', sub { $redis->ask('PING') eq 'PONG' });
wait_until('the databases are there again', sub { $admit->('g:again', 1) == 1 });
is($admit->('one:still', 1), 0, 'and still is, when Redis stood still for longer than its lease');
wait_until('it expires', sub { $admit->('one:still', 1) == 1 });
pass('but not for ever');

# A claim that rolls back gives its slot back; one that is late, or prepared, does not commit.
$q->("SELECT gen_durable.insert('f', queue => 'tx', concurrency_key => 'one:tx')");
$q->("BEGIN; SELECT count(*) FROM gen_durable.pick('tx', 'w'); ROLLBACK");
wait_until('the slot is back', sub { $redis->ask('ZCARD', 'gen_durable:gate:one:tx') eq '0' });
pass('a claim that rolls back gives its slot back');
my $err;
$node->psql('postgres', "BEGIN; SELECT count(*) FROM gen_durable.pick('tx', 'w'); SELECT pg_sleep(1.2); COMMIT", stderr => \$err, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($err, qr/40001.*claimed too long before the commit/, 'a claim that is committed too late is refused');
wait_until('and the row is claimed again', sub { $q->("SELECT count(*) FROM gen_durable.pick('tx', 'w', lease_ttl => '0')") == 1 });
$q->('SELECT gen_durable.reap()');
wait_until('a reaped row', sub { $q->("SELECT count(gen_durable.complete(token, gen_durable.done())) FROM gen_durable.pick('tx', 'w')") == 1 });
pass('a row that was taken from its holder is not in its own way');

# Secrets.
$q->('CREATE ROLE reader');
$node->psql('postgres', 'SET ROLE reader; SHOW gen_durable.redis_url', stderr => \$err);
like($err, qr/must be superuser|permission denied/, 'the URL is not for everybody to read');
for my $url ('http://x', 'redis://', 'redis://h:0', 'redis://h/x', 'unix://rel', 'redis://:%zz@h')
{
	$node->psql('postgres', "ALTER SYSTEM SET gen_durable.redis_url = '$url'", stderr => \$err);
	like($err, qr/invalid value for parameter "gen_durable.redis_url"/, "$url is refused");
}

# The load. What Redis forgot at its restart must not let more in than may be.
my $rows = 150;
for my $db (@databases)
{
	$q->("SELECT count(gen_durable.insert('f', queue => 'gate', concurrency_key => 'g:shared')) FROM generate_series(1, $rows);
		SELECT count(gen_durable.insert('f', queue => 'rate', rate_limit => 'r:shared')) FROM generate_series(1, $rows)", $db);
}
my @workers;
for my $db (@databases)
{
	for my $name ('gate1', 'gate2', 'rate1')
	{
		my $queue = substr($name, 0, 4);
		my $cycle = <<"SQL";
SELECT count(*) > 0 AS got, coalesce(max(token::text), '') AS token FROM gen_durable.pick('$queue', '$name', 2) \\gset
\\if :got
SELECT 'begin $queue ' || id || ' ' || extract(epoch FROM clock_timestamp()) FROM gen_durable.instances WHERE queue = '$queue' AND status = 'executing' AND locked_by = '$name';
SELECT pg_sleep(0.01) \\gset
SELECT 'end $queue ' || id || ' ' || extract(epoch FROM clock_timestamp()) FROM gen_durable.instances WHERE queue = '$queue' AND status = 'executing' AND locked_by = '$name';
SELECT count(gen_durable.complete(token, gen_durable.done())) AS n FROM gen_durable.instances WHERE queue = '$queue' AND status = 'executing' AND locked_by = '$name' \\gset
\\else
SELECT pg_sleep(0.02) \\gset
\\endif
SQL
		my $script = "$dir/$db.$name.sql";
		open my $to, '>', $script or die "$script: $!";
		print $to $cycle x 3000;
		close $to;
		my $ledger = "$dir/$db.$name.out";
		defined(my $pid = fork) or die "fork: $!";
		if ($pid == 0)
		{
			open STDOUT, '>', $ledger or POSIX::_exit(1);
			open STDERR, '>', "$ledger.err" or POSIX::_exit(1);
			exec('psql', '-XAtq', '-d', $node->connstr($db), '-f', $script) or POSIX::_exit(1);
		}
		push @workers, { pid => $pid, ledger => $ledger, db => $db };
	}
}
my $done = sub { my $n = 0;
	$n += $q->("SELECT count(*) FROM gen_durable.instances WHERE queue IN ('gate', 'rate') AND status = 'done'", $_) for @databases;
	return $n };
wait_until('work is done', sub { $done->() >= 30 });
my $offset = -s $node->logfile;
$redis->kill_it;
wait_until('the log tells', sub { substr(slurp($node->logfile), $offset) =~ /limits in Redis admit nothing/ });
pass('the log tells that Redis is gone');
$plain->('Redis is killed');
$redis->start;
my $at_restart = $done->();
wait_until('work is done after the restart', sub { $done->() > $at_restart + 30 });
pass('work goes on when Redis is back');
like(substr(slurp($node->logfile), $offset), qr/Redis answers again/, 'and the log tells it');
$redis->signal('STOP');
my $stopped = time;
$plain->('Redis stands still');
wait_until('it stood still for longer than a lease', sub { time - $stopped > 2.5 });
$redis->signal('CONT');
wait_until('everything is done', sub { $done->() == 4 * $rows });
pass('everything limited was done');
for my $worker (@workers)
{
	kill('TERM', $worker->{pid});
	waitpid($worker->{pid}, 0);
}

# The ledger.
my (@gate, @rate, %begun);
for my $worker (@workers)
{
	for my $line (split /\n/, slurp($worker->{ledger}))
	{
		my ($what, $queue, $id, $at) = split / /, $line;
		next unless defined $at;
		my $step = "$worker->{db} $queue $id";
		$begun{$step}++ if $what eq 'begin';
		push @rate, $at if $what eq 'begin' && $queue eq 'rate';
		push @gate, [ $at, $what eq 'begin' ? 1 : -1 ] if $queue eq 'gate';
	}
}
is(scalar(keys %begun), 4 * $rows, 'the ledger has every step');
my ($held, $most) = (0, 0);
for my $event (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @gate)
{
	$held += $event->[1];
	$most = $held if $held > $most;
}
is($held, 0, 'what began ended');
is($most, 3, 'the gate was full, and never held more than its slots, in both databases together');
my ($n, $over) = (0, 0);
for my $at (sort { $a <=> $b } @rate) { $over++ if ++$n > 5 + 40 * ($at - $first_start) + 1 }
is($over, 0, 'no more steps began than there were tokens');

# Nonsense, and silence.
$q->("SELECT gen_durable.insert('f', queue => 'late', concurrency_key => 'one:late')");
for my $case ([ 'words', "+OK\r\n" ], [ 'what is no protocol', "HTTP/1.1 400 Bad Request\r\n\r\n" ], [ 'an endless length', "\$-77\r\n*9999999999\r\n" ], [ 'silence', '' ])
{
	my ($name, $answer) = @$case;
	$redis->kill_it;
	$redis->start_false($answer);
	for (1 .. 3)
	{
		is($q->("SELECT count(*) FROM gen_durable.pick('late', 'w')"), 0, "$name: nobody is admitted");
	}
	is($fate->('late'), 'runnable conc:one:late', "$name: the row is blocked");
	$plain->($name);
}
$redis->kill_it;
$redis->start;
wait_until('the row goes on', sub { $q->("SELECT count(gen_durable.complete(token, gen_durable.done())) FROM gen_durable.pick('late', 'w')") == 1 });
pass('a true Redis again: the row goes on');
is(broken($node, $_), '', "no invariant is broken in $_") for @databases;
$node->stop;
done_testing();
