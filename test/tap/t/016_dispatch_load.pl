# A fed queue under load, while the processes that feed it are ended and killed, backends too, and the server is stopped:
# nothing is lost, and nothing is applied twice. D-25, D-26, GD-251, GD-309.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Workers;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dispatch_load', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
gen_durable.poll_interval = '50ms'
gen_durable.lease_ttl = '700ms'
max_worker_processes = 12
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
$q->(slurp("$FindBin::RealBin/../lib/load.sql"));
my $tops = $ENV{GD_LOAD_TOPS} || 20;
$q->("SELECT gen_durable.set_queue('load', concurrency => 4, prefetch => 8)");
$q->("CALL rig.load($tops)");

# Workers that take, and one that takes and thinks better of it.
my $dir = PostgreSQL::Test::Utils::tempdir();
my $taking = sub {
	my ($name) = @_;
	my $script = Workers::plain_script($name, '1 s');
	$script =~ s/gen_durable\.pick\('load', '$name', 1, '1 s'\)/gen_durable.take('load', '$name')/g or die 'no pick in the script';
	return Workers::start($node, "$dir/$name", $script);
};
my $fickle = "\\set ON_ERROR_STOP 0\n\\o /dev/null\n" . ("BEGIN; SELECT token FROM gen_durable.take('load', 'fickle', 2); ROLLBACK;\nSELECT pg_sleep(0.05);\n" x 100);
my @workers = ((map { $taking->("taking$_") } 1 .. 3), Workers::start($node, "$dir/fickle", $fickle), Workers::start($node, "$dir/driver", Workers::driver_script()));

my $pid_of = sub {
	my ($where) = @_;
	return eval { $q->("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND $where ORDER BY random() LIMIT 1") } };
my $crash = sub {
	my ($pid) = @_;
	my $offset = -s $node->logfile;
	await_restart($node, $offset) if kill('KILL', $pid);
};
my @blows = (
	[ 'SIGTERM of the scheduler', "backend_type = 'gen_durable scheduler'", sub { kill('TERM', $_[0]) } ],
	[ 'SIGKILL of the scheduler', "backend_type = 'gen_durable scheduler'", $crash ],
	[ 'SIGKILL of a worker\'s backend', "backend_type = 'client backend' AND query LIKE '%taking%'", $crash ],
	[ 'SIGTERM of a worker\'s backend', "backend_type = 'client backend' AND query LIKE '%fickle%'", sub { kill('TERM', $_[0]) } ],
	[ 'a fast stop', "backend_type = 'gen_durable launcher'", sub { my $began = time(); $node->stop('fast'); cmp_ok(time() - $began, '<', 10, 'a fast stop ends within drain_timeout, and what the server itself takes'); $node->start } ],
	[ 'another SIGTERM of the scheduler', "backend_type = 'gen_durable scheduler'", sub { kill('TERM', $_[0]) } ]);
my $steps = $tops * (3 + 3 * 20);
my $done = 0;
for my $blow (@blows)
{
	my ($what, $where, $strike) = @$blow;
	my $goal = int($steps * ++$done / (@blows + 1));
	wait_until("$goal outcomes", sub { (eval { $q->('SELECT count(*) FROM rig.ledger') } || 0) >= $goal });
	my $pid;
	wait_until("one for $what", sub { $pid = $pid_of->($where) });
	$strike->($pid);
	wait_until('the server answers', sub { eval { $q->('SELECT 1') } });
	is(broken($node), '', "$what: no invariant is broken");
}
wait_until('all parents end', sub {
	(eval { $q->("SELECT count(*) FROM gen_durable.instances WHERE fsm = 'top' AND status = 'done'") } || 0) == $tops });
Workers::stop(@workers);
is($q->("SELECT * FROM rig.audit($tops)"), '', 'every step has its row in the ledger once');
my %acked = Workers::acked(map { "$dir/taking$_" } 1 .. 3);
my %stored = map { $_ => 1 } split /\n/, $q->('SELECT DISTINCT token FROM rig.ledger');
is(join(' ', grep { !$stored{$_} } keys %acked), '', 'no outcome that was answered is lost');
is($q->('SELECT count(*) FROM gen_durable.dispatched()'), 0, 'no claim is left behind');
note('crashes counted: ' . $q->('SELECT sum(crashes) FROM gen_durable.instances'));
unlike(slurp($node->logfile), qr/PANIC|TRAP:|stuck spinlock|snapshot reference leak|buffer refcount leak/, 'nothing untoward in the log');
done_testing();
