# Workers through PgBouncer in transaction mode: many more clients than server connections, each call on whichever is free.
# Claims go by tokens, so it does not matter on which. D-1, D-31.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($pgbouncer) = grep { -x } '/usr/sbin/pgbouncer', split(/:/, $ENV{PATH}) ? map { "$_/pgbouncer" } split(/:/, $ENV{PATH}) : ();
plan skip_all => 'PgBouncer is not installed' unless $pgbouncer;

my $node = new_node('behind', conf => "shared_preload_libraries = 'gen_durable'\ngen_durable.enabled = on\n");
my $dir = PostgreSQL::Test::Utils::tempdir();
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $user = $node->safe_psql('postgres', 'SELECT current_user');
append_to_file("$dir/users", qq("$user" ""\n));
append_to_file("$dir/pgbouncer.ini", <<"INI");
[databases]
postgres = host=@{[ $node->host ]} port=@{[ $node->port ]} dbname=postgres
[pgbouncer]
listen_addr =
listen_port = $port
unix_socket_dir = $dir
auth_type = trust
auth_file = $dir/users
pool_mode = transaction
default_pool_size = 4
max_client_conn = 100
logfile = $dir/log
INI
my $bouncer = IPC::Run::start([ $pgbouncer, '-q', "$dir/pgbouncer.ini" ], '>', '/dev/null', '2>', '/dev/null');
END { $bouncer->kill_kill if $bouncer }
wait_until('PgBouncer listens', sub { -S "$dir/.s.PGSQL.$port" });

# Each of 24 clients inserts two, takes one, and in transactions of their own beats and completes it.
append_to_file("$dir/load.sql", <<'SQL');
SELECT count(*) FROM gen_durable.insert_all('step', '[{"queue": "pool"}, {"queue": "pool"}]');
SELECT coalesce(max(token::text), '00000000-0000-0000-0000-000000000000') AS token, coalesce(max(id), 0) AS id FROM gen_durable.take('pool', 'client' || :client_id, 1, '1h') \gset
SELECT count(*) FROM gen_durable.heartbeat(ARRAY[CAST(:token AS uuid)], '1h');
BEGIN;
INSERT INTO ledger SELECT :id WHERE :id > 0;
SELECT gen_durable.complete(CAST(:token AS uuid), gen_durable.done()) WHERE :id > 0;
COMMIT;
SQL
$node->safe_psql('postgres', 'CREATE TABLE ledger (id bigint)');
my @pgbench = ($node->installed_command('pgbench'), '-n', '-h', $dir, '-p', $port, '-U', $user, '-c', 24, '-t', 20, '-M', 'extended', '-f', "$dir/load.sql", 'postgres');
my ($out, $err) = ('', '');
ok(IPC::Run::run(\@pgbench, '>', \$out, '2>', \$err), 'twenty-four clients on four server connections') or diag($err);
like($out, qr/number of transactions actually processed: 480\/480/, 'all of it was done');
is($node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.instances WHERE queue = 'pool'"), '960', 'every insert is there');
my $done = $node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.instances WHERE queue = 'pool' AND status = 'done'");
cmp_ok($done, '>', 0, 'steps were done');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM ledger'), "$done|$done", 'each step that was done has its write, once');
is($node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.workers WHERE kind = 'holder' AND name LIKE 'client%'"), '0', 'and no claim is left');

# A wait holds its server connection, and works.
my $waiter = IPC::Run::start([ $node->installed_command('psql'), '-X', '-h', $dir, '-p', $port, '-U', $user, '-c', "CALL gen_durable.wait('{wanted}', '1h')", 'postgres' ], '>', \$out, '2>', \$err);
ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM gen_durable.workers WHERE queues = '{wanted}')"), 'a wait through the pooler');
$node->safe_psql('postgres', "SELECT gen_durable.insert('a', queue => 'wanted')");
ok($waiter->finish, 'is woken') or diag($err);
$bouncer->kill_kill;
undef $bouncer;
done_testing();
