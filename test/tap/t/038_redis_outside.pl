# Limits in Redis that programs outside PostgreSQL share, as the guide (docs/limits-redis.md) and the example (examples/api)
# say: its workers and the program without a database call one API, which refuses and counts what is too much; one of the
# latter is killed in a call. And leases: what is forgotten comes back, also after a lease of another length was in use.
# GD-145, GD-146, GD-147; D-32.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(abs_path);
use GenDurable;
use POSIX ();
use PostgreSQL::Test::Utils;
use Redis;
use Test::More;
use Time::HiRes qw(time usleep);

my $dir = PostgreSQL::Test::Utils::tempdir_short();
my $root = abs_path("$FindBin::RealBin/../../..");
plan skip_all => 'no redis-server here' unless Redis::program($dir);
plan skip_all => 'gen_durable was built without hiredis' unless Redis::module();

# The guide's commands, with a lease that is short enough for a test, against a server that nobody else uses.
my $redis = Redis->new($dir);
$redis->start;
my ($shell) = slurp("$root/docs/limits-redis.md") =~ /^```sh\n(script\(\).*?)^```$/ms or die 'the guide has no commands';
(my $quick = $shell) =~ s/^lease=30000000$/lease=300000/m or die 'the guide has another lease';
sub shell
{
	my ($commands) = @_;
	open my $to, '>', "$dir/guide.sh" or die "$dir/guide.sh: $!";
	print $to "set -eu\nredis-cli() { command redis-cli -s '$redis->{socket}' \"\$\@\"; }\ncd '$root'\n$commands";
	close $to;
	return scalar readpipe("bash $dir/guide.sh 2>&1");
}
like(shell($quick), qr/\A-1\n/, 'a Redis that is used for the first time has no slot to give');
my $first;
wait_until('the guide takes a slot', sub { ($first = shell($quick)) =~ /\A[1-9]/ });
like($first, qr/\A[1-9][0-9]*\n1\n1\n\z/, 'the guide takes a slot and a token, keeps it, and gives it back');
is($redis->ask('ZCARD', 'gen_durable:gate:api'), '0', 'and it is back');
is($redis->ask('HEXISTS', 'gen_durable:rate:api', 'tokens'), '1', 'and the token is counted');

# Its own run_id is what a script finds that is given none.
my ($run_id) = $redis->ask('INFO', 'server') =~ /run_id:(\w+)/;
is($redis->ask('HGET', 'gen_durable:era', 'run'), $run_id, 'the era is that of the run of the server');

# A slot that nobody renews comes back, though others came with a shorter lease before, and ask more seldom than that.
sub script { return slurp("$root/src/limiter/redis/common.lua") . slurp("$root/src/limiter/redis/$_[0].lua") }
my $take = sub { my ($gate, $lease) = @_;
	return $redis->ask('EVAL', script('admit'), 2, 'gen_durable:era', "gen_durable:gate:$gate", '', $lease, 1, 'g', 1, 0, 1, 0, 1) };
my $returned = sub {
	my ($gate, $lease) = @_;
	for (1 .. 60)
	{
		return 1 if $take->($gate, $lease) > 0;
		usleep(200_000);
	}
	return 0;
};
$take->('short', 20_000);
ok($returned->('long', 1_000_000), 'a slot is taken');
is($take->('long', 1_000_000), -1, 'and held');
ok($returned->('long', 1_000_000), 'and comes back after its lease, though leases were shorter before');
$redis->kill_it;

# What the programs print; they may not have begun to.
my %running;
sub printed { my $file = "$dir/$_[0].out"; return -e $file ? slurp($file) : '' }
END
{
	local $?;
	kill('KILL', values %running);
	waitpid($_, 0) for values %running;
}

SKIP:
{
	for my $module ('psycopg', 'redis')
	{
		skip "Python has no $module here", 1 if system("/usr/bin/python3 -c 'import $module' 2>/dev/null") != 0;
	}
	$redis->start;

	# 40 in any two seconds: a burst of 8, and 12 a second. The rest is for calls that a busy machine holds up.
	my $node = new_node('outside', bare => 1, conf => <<"CONF");
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.limiter = redis
gen_durable.redis_url = 'unix://$redis->{socket}'
gen_durable.redis_lease = '2s'
gen_durable.poll_interval = '200ms'
CONF
	install($node);
	(my $setup = slurp("$root/examples/api/setup.sql")) =~ s/allowed => 80, period => '1 min', burst => 15/allowed => 12, period => '1 s', burst => 8/
	  or die 'the example has other limits';
	$node->safe_psql('postgres', $setup);
	mkdir $_ or die "$_: $!" for "$dir/examples", "$dir/examples/api";
	symlink("$root/src", "$dir/src") or die "$dir/src: $!";
	my $program = slurp("$root/examples/api/outside.py");
	$program =~ s/^LEASE = 30\b/LEASE = 2/m && $program =~ s{15, 80 / 60$}{8, 12}m && $program =~ s/^APART = 3\b/APART = 0.2/m or die 'the example has other limits';
	open my $to, '>', "$dir/examples/api/outside.py" or die $!;
	print $to $program;
	close $to;

	my $start = sub {
		my ($name, @command) = @_;
		defined(my $pid = fork) or die "fork: $!";
		if ($pid == 0)
		{
			$ENV{PGHOST} = $node->host;
			$ENV{PGPORT} = $node->port;
			$ENV{PGDATABASE} = 'postgres';
			$ENV{no_proxy} = '127.0.0.1';
			open STDOUT, '>', "$dir/$name.out" or POSIX::_exit(1);
			open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
			exec('/usr/bin/python3', @command) or POSIX::_exit(1);
		}
		return $running{$name} = $pid;
	};
	$start->('api', "$root/examples/api/api.py", '0', '--calls', '40', '--seconds', '2', '--at-once', '3', '--takes', '0.1');
	my $url;
	wait_until('the API listens', sub { ($url) = printed('api') =~ m{^(http://\S+)} });
	my $made = sub { my ($name) = @_; my @lines = printed($name) =~ /^\{'sent'/mg; return scalar @lines };

	$start->("worker$_", "$root/examples/api/worker.py", "w$_", $url) for 1 .. 3;
	$start->("outside$_", "$dir/examples/api/outside.py", $url, "unix://$redis->{socket}", $_ == 1 ? 1000 : 20) for 1 .. 2;
	$node->safe_psql('postgres', <<'SQL');
SELECT count(*) FROM gen_durable.insert_all('call', (SELECT jsonb_agg(jsonb_build_object('state', jsonb_build_object('n', n),
  'rate_limit', 'api', 'concurrency_key', 'api')) FROM generate_series(1, 40) n))
SQL
	my $done = sub { return $node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.instances WHERE status = 'done'") };
	wait_until('both make calls', sub { $made->('outside1') >= 3 && $made->('outside2') >= 3 && $done->() >= 5 });
	pass('workers and programs without a database make calls');
	kill('KILL', $running{outside1});
	waitpid(delete $running{outside1}, 0);
	waitpid($running{outside2}, 0);
	is($?, 0, 'the program without a database came to its end') or diag(printed('outside2'));
	delete $running{outside2};
	is($made->('outside2'), 20, 'and made all its calls');
	wait_until('every step is done', sub { $done->() == 40 });
	pass('and so did the workers');

	my $stats = readpipe("/usr/bin/python3 -c 'import urllib.request as r; print(r.build_opener(r.ProxyHandler({})).open(\""
		. ($url =~ s/send$/stats/r) . "\").read().decode())'");
	like($stats, qr/"refused": 0\b/, 'the API had nothing to refuse');
	like($stats, qr/"most_at_once": 3\b/, 'and three calls at once');

	# The slot of the one that was killed, too.
	wait_until('all slots are free', sub {
		$redis->ask('EVAL', script('look'), 2, 'gen_durable:era', 'gen_durable:gate:api', '', 2_000_000, 'g', 3, 0) eq '3' });
	pass('what a killed program held comes back');
	is(broken($node), '', 'no invariant is broken');
	$node->stop;
}
done_testing();
