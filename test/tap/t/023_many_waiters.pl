# A thousand sessions that wait on a hundred queues: a commit wakes one of those who wait for its queue, and nobody else.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use Test::More;

$ENV{GD_PRELOAD} = 1;
my $node = new_node('many', conf => "max_connections = 1030\nshared_buffers = 32MB\ngen_durable.max_queues = 200\ngen_durable.poll_interval = '1h'\ngen_durable.max_poll_interval = '1h'\n");
my $q = sub { return $node->safe_psql('postgres', $_[0]) };

# Queue names of any bytes that a text can have.
my $name = q(chr(1 + i) || E'"''\\\\{},%' || repeat('ü', i) || i);
my $dir = PostgreSQL::Test::Utils::tempdir();
append_to_file("$dir/wait.sql", "\\set i :client_id % 100\nCALL gen_durable.wait(ARRAY[" . ($name =~ s/\bi\b/:i::int/gr) . "], '1h');\n");
my ($out, $err) = ('', '');
my $clients = IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-c', 1000, '-j', 2, '-t', 1, '-f', "$dir/wait.sql", '-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err);
my $asleep = "SELECT count(*) FROM gen_durable.workers w JOIN pg_stat_activity a USING (pid) WHERE kind = 'waiter' AND wait_event_type = 'Extension'";
ok($node->poll_query_until('postgres', $asleep, '1000'), 'a thousand wait') or diag($err);
is($q->("SELECT count(*), min(n), max(n) FROM (SELECT queues, count(*) AS n FROM gen_durable.workers WHERE kind = 'waiter' GROUP BY 1) x"), '100|10|10', 'ten for each of a hundred queues');

# A transaction of a waiter is a look at its queue: the others must not have had another one.
$q->("CREATE TABLE look AS SELECT l.pid, l.virtualtransaction, w.queues FROM pg_locks l JOIN gen_durable.workers w USING (pid) WHERE l.locktype = 'virtualxid'");
my $again = "SELECT count(*) FROM look JOIN pg_locks l ON l.pid = look.pid AND l.locktype = 'virtualxid' AND l.virtualtransaction = look.virtualtransaction";
is($q->($again), '1000', 'they sleep');
$q->("SELECT gen_durable.insert('one', queue => $name) FROM generate_series(0, 29) i");
ok($node->poll_query_until('postgres', $asleep, '970'), 'thirty rows wake thirty of them');
is($q->("SELECT count(*) FILTER (WHERE n = 9), count(*) FILTER (WHERE n = 10) FROM (SELECT queues, count(*) AS n FROM gen_durable.workers WHERE kind = 'waiter' GROUP BY 1) x"), '30|70', 'one for each row, of its queue');
is($q->($again), '970', 'and nobody else has looked');
is($q->("SELECT gen_durable.recount(); SELECT count(*), sum(ready) FROM gen_durable.stats s JOIN generate_series(0, 29) i ON s.queue = $name"), "30\n30|30", 'the statistics know these queues');

# Thousands of queues in one transaction, and all who wait at once.
$q->("SELECT count(*) FROM gen_durable.insert_all('all', (SELECT jsonb_agg(jsonb_build_object('queue', $name)) FROM generate_series(0, 99) i, generate_series(1, 10)))");
wait_until('all of them are awake', sub { $clients->pump_nb while $clients->pumpable && $q->($asleep) > 0; $q->($asleep) == 0 });
ok($clients->finish, 'a thousand rows wake the rest') or diag($err);
is($q->("SELECT count(*) FROM gen_durable.insert_all('all', (SELECT jsonb_agg(jsonb_build_object('queue', 'thousands' || i)) FROM generate_series(1, 5000) i)); SELECT count(*) FROM gen_durable.stats WHERE queue LIKE 'thousands%'"), "5000\n5000", 'five thousand queues');
is($q->("SELECT count(*) FROM generate_series(1, 5000, 500) i, LATERAL gen_durable.pick('thousands' || i, 'w')"), '10', 'are picked from');
done_testing();
