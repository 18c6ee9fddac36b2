# What a database that is dropped had still to give back to Redis takes no room from others: a slot that another database
# gives back comes back at once, and not by the end of its lease. D-18, GD-097.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use Redis;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
plan skip_all => 'no redis-server here' unless Redis::program($dir);
plan skip_all => 'gen_durable was built without hiredis' unless Redis::module();

my $redis = Redis->new($dir);
$redis->start;
my $node = new_node('redis_dropped', bare => 1, conf => <<"CONF");
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.limiter = redis
gen_durable.redis_url = 'unix://$dir/redis.sock'
gen_durable.redis_lease = '2s'
autovacuum = off
CONF
my $q = sub { my ($sql, $db) = @_; return $node->safe_psql($db || 'postgres', $sql) };
my $admitted = sub {
	my ($key, $n, $db) = @_;
	return $q->("SELECT count(*) FILTER (WHERE admitted) FROM gen_durable.admit((SELECT jsonb_agg(jsonb_build_object('id', n, 'conc', '$key')) FROM generate_series(1, $n) n))", $db);
};
my $give_back = sub {
	my ($key, $n, $db) = @_;
	return $q->("SELECT gen_durable.credit((SELECT jsonb_agg(jsonb_build_object('key', key, 'shard', shard, 'holder', id)) FROM (SELECT * FROM gen_durable.slot_holders WHERE key = '$key' LIMIT $n) h))", $db);
};

$q->('CREATE DATABASE gone');
install($node, $_) for 'postgres', 'gone';
$q->("SELECT gen_durable.set_concurrency_limit('some', 6000)");
$q->("SELECT gen_durable.set_concurrency_limit('many', 90000)", 'gone');
wait_until('gates open', sub { $admitted->('some', 1) == 1 });

# From now on a lease is longer than this test.
$q->("ALTER SYSTEM SET gen_durable.redis_lease = '10min'");
$q->('SELECT pg_reload_conf()');
wait_until('the lease is long', sub { $q->('SHOW gen_durable.redis_lease') eq '10min' });
$give_back->('some', 1);
my $held = sub { return $redis->ask('ZCARD', 'gen_durable:gate:some') };
wait_until('the slot of before is back', sub { $held->() == 0 });

# In pieces that Redis answers in time, however busy the machine is.
my $hold = sub {
	my ($key, $n, $db) = @_;
	my $count = sub { return $q->("SELECT count(*) FROM gen_durable.slot_holders WHERE key = '$key'", $db) };
	wait_until("$n slots of $key", sub { $admitted->($key, 300, $db); $count->() >= $n });
	return $count->();
};
cmp_ok($hold->('some', 300), '>=', 300, 'one database holds slots of a gate');
my $many = $hold->('many', 8700, 'gone');
cmp_ok($many, '>', 8192, 'another holds more of its own than there is room for on their way back');
$redis->signal('STOP');
is($give_back->('many', $many, 'gone'), $many, 'and gives them back while Redis stands still');
$q->('DROP DATABASE gone');
$redis->signal('CONT');
my $before = $held->();

# The launcher hears of the drop, and the maintainer tries Redis again; what was given back before is lost.
wait_until('a slot is back', sub { $give_back->('some', 1); $held->() < $before }, 60);
pass('a slot that another database gives back is free long before its lease is over');
$node->stop;
done_testing();
