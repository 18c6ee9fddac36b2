# Limits in Redis by TLS: a server with a certificate of an authority of our own, one that another authority signed, and one
# that is spoken to without. GD-090, GD-145, GD-146.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Redis;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir_short();
plan skip_all => 'no redis-server here' unless Redis::program($dir);
plan skip_all => 'no openssl here' unless grep { -x "$_/openssl" } split /:/, $ENV{PATH};
my $module = Redis::module();
plan skip_all => 'gen_durable was built without hiredis' unless $module;
plan skip_all => 'gen_durable was built without hiredis_ssl' unless slurp($module) =~ /hiredis_ssl/;

# An authority, a server's certificate that it signed, and another authority that did not.
sub openssl { PostgreSQL::Test::Utils::system_or_bail('openssl', @_) }
for my $name ('ca', 'other')
{
	openssl('req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', "/CN=$name", '-keyout', "$dir/$name.key", '-out', "$dir/$name.crt");
}
openssl('req', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=127.0.0.1', '-keyout', "$dir/redis.key", '-out', "$dir/redis.csr");
openssl('x509', '-req', '-in', "$dir/redis.csr", '-CA', "$dir/ca.crt", '-CAkey', "$dir/ca.key", '-CAcreateserial', '-days', '2', '-out', "$dir/redis.crt");

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $redis = Redis->new($dir, '--requirepass', 's@cret', '--bind', '127.0.0.1', '--tls-port', $port, '--tls-cert-file', "$dir/redis.crt",
	'--tls-key-file', "$dir/redis.key", '--tls-ca-cert-file', "$dir/ca.crt", '--tls-auth-clients', 'no');
$redis->{login} = [ '--no-auth-warning', '-a', 's@cret', '-n', '3' ];
$redis->start;
my $url = "rediss://:s%40cret\@127.0.0.1:$port/3?ca=$dir";
my $node = new_node('tls', bare => 1, conf => <<"CONF");
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.limiter = redis
gen_durable.redis_url = '$url/ca.crt'
gen_durable.redis_lease = '1s'
gen_durable.redis_timeout = '1s'
gen_durable.poll_interval = '200ms'
max_worker_processes = 12
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
$q->("SELECT gen_durable.set_concurrency_limit('g', 2), gen_durable.set_rate_limit('r', 100, '1s')");
my $work = sub {
	my ($what) = @_;
	$q->("SELECT count(gen_durable.insert('f', queue => 'q', concurrency_key => 'g', rate_limit => 'r')) FROM generate_series(1, 6)");
	wait_until($what, sub {
		$q->("SELECT count(gen_durable.complete(token, gen_durable.done())) FROM gen_durable.pick('q', 'w', 10)");
		return $q->("SELECT count(*) FROM gen_durable.instances WHERE status <> 'done'") == 0 });
	return pass($what);
};
$work->('by TLS, work under a gate and a rate limit is done');
is($redis->ask('EXISTS', 'gen_durable:rate:r'), 1, 'and Redis counted it, in the database of the URL');
wait_until('a gate admits', sub { $q->("SELECT count(*) FILTER (WHERE admitted) FROM gen_durable.admit('[{\"id\": 1, \"conc\": \"g:x\"}, {\"id\": 2, \"conc\": \"g:x\"}, {\"id\": 3, \"conc\": \"g:x\"}]')") == 2 });
is($redis->ask('ZCARD', 'gen_durable:gate:g:x'), 2, 'a gate of 2 admits 2 of 3');
# More than one record of TLS in one question.
is($q->("SELECT count(*) FILTER (WHERE admitted) FROM gen_durable.admit((SELECT jsonb_agg(jsonb_build_object('id', n, 'conc', 'g:' || repeat('k', 200) || n)) FROM generate_series(1, 1000) n))"),
	1000, 'a thousand keys in one question');

my $refused = sub {
	my ($what, $other, $words) = @_;
	my $offset = -s $node->logfile;
	$q->("ALTER SYSTEM SET gen_durable.redis_url = '$other'");
	$node->reload;
	wait_until($what, sub {
		$q->("SELECT count(*) FROM gen_durable.admit('[{\"id\": 1, \"rate\": {\"key\": \"r\"}}]') WHERE admitted");
		return substr(slurp($node->logfile), $offset) =~ /limits in Redis admit nothing/ });
	like(substr(slurp($node->logfile), $offset), $words, $what);
	is($q->("SELECT count(*) FROM gen_durable.admit('[{\"id\": 1, \"rate\": {\"key\": \"r\"}}]') WHERE admitted"), 0, 'and nothing is admitted');
	unlike(substr(slurp($node->logfile), $offset), qr/limits in Redis.*s%40cret|limits in Redis.*s\@cret/, 'nor the password told');
	$q->('ALTER SYSTEM RESET gen_durable.redis_url');
	$node->reload;
	return $work->('and with the right URL work goes on');
};
$refused->('a certificate that is not of our authority is refused', "$url/other.crt", qr/limits in Redis admit nothing: (?:the TLS handshake failed|.*certificate verify failed)/);
$refused->('an authority that is not there, too', "$url/none.crt", qr/limits in Redis admit nothing: TLS cannot be set up/);
$refused->('nor does it go without TLS', "redis://:s%40cret\@127.0.0.1:$port/3", qr/limits in Redis admit nothing: /);

for my $bad ("redis://h?ca=/x", "rediss://h?ca=x", "rediss://h?cert=/x", "rediss://h?ca=")
{
	my $err;
	$node->psql('postgres', "ALTER SYSTEM SET gen_durable.redis_url = '$bad'", stderr => \$err);
	like($err, qr/invalid value for parameter "gen_durable.redis_url"/, "$bad is refused");
}
is(broken($node), '', 'no invariant is broken');
$node->stop;
done_testing();
