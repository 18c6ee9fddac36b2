# Places for executors come free again when their database is dropped, busy or in want of more as they are: another database's
# steps find room. There is room for one executor and eight crews. D-9, D-18, GD-345.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

my $node = new_node('executor_slots', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.max_executors = 1
gen_durable.lease_ttl = '2s'
autovacuum = off
max_worker_processes = 12
CONF
my $q = sub { my ($sql, $db) = @_; return $node->safe_psql($db || 'postgres', $sql) };
my $machine = sub {
	my ($db) = @_;
	install($node, $db);
	$q->("CREATE FUNCTION run(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN IF ctx.step = ''long'' THEN PERFORM pg_sleep(600); END IF; RETURN gen_durable.done(); END';"
		. "SELECT gen_durable.register_fsm('m', 'run(gen_durable.job)')", $db);
};
$machine->('postgres');

# One long step has the only place, and more crews want one than there are slots for.
my $crowd = sub {
	my ($db) = @_;
	$q->("CREATE DATABASE $db");
	$machine->($db);
	$q->("SELECT gen_durable.insert('m', step => 'long')", $db);
	wait_until('a long step runs', sub { $q->("SELECT count(*) FROM pg_stat_activity WHERE datname = '$db' AND query LIKE 'step long%'") eq '1' });
	$q->("SELECT gen_durable.insert('m', step => 'long', queue => 'q' || i) FROM generate_series(1, 8) i", $db);
};
my $runs = sub {
	my ($what) = @_;
	$q->("SELECT gen_durable.insert('m')");
	wait_until($what, sub { $q->("SELECT count(*) FROM gen_durable.instances WHERE status <> 'done'") eq '0' }, 60);
	return pass("$what: a step of another database runs");
};
$runs->('while there is room');
for my $round (1, 2)
{
	$crowd->('gone');
	$q->('DROP DATABASE gone');
	$runs->("a database was dropped, $round");
}
unlike(slurp($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
$node->stop;
done_testing();
