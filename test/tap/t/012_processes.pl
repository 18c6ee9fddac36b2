# The background processes: when they run, what makes them end and return, and what they must not stand in the way of.
#
# D-18: leases and await deadlines take effect by themselves at their time on an idle server. An idle server writes no WAL.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('processes', bare => 1, init => { allows_streaming => 1 }, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
autovacuum = off
max_worker_processes = 12
CONF

sub query
{
	my ($sql, $db) = @_;
	return $node->safe_psql($db || 'postgres', $sql);
}

# The pid of a database's process of a kind; empty if it does not run.
sub process
{
	my ($kind, $db, $on) = @_;
	return ($on || $node)->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable $kind' AND datname = '$db'");
}

my @kinds = ('maintainer', 'scheduler');

sub launcher
{
	my ($on) = @_;
	return ($on || $node)->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable launcher'");
}

# A database has its processes, or none of them.
sub runs
{
	my ($what, $db, $on) = @_;
	wait_until($what, sub { (grep { process($_, $db, $on) ne '' } @kinds) == @kinds });
	return pass($what);
}

sub ends
{
	my ($what, $db) = @_;
	wait_until($what, sub { (grep { process($_, $db) ne '' } @kinds) == 0 });
	return pass($what);
}

sub pids
{
	my ($db) = @_;
	return join ' ', map { process($_, $db) } @kinds;
}

# How many lines of the log match.
sub log_lines
{
	my ($pattern) = @_;
	return scalar(() = slurp($node->logfile) =~ /$pattern/g);
}

# Where it starts and ends.
isnt(launcher(), '', 'the launcher runs');
is(pids('postgres'), ' ', 'no process without the extension');
query('BEGIN; CREATE EXTENSION gen_durable; ROLLBACK');
query('CREATE SCHEMA gen_durable; CREATE TABLE gen_durable.instances (id int)');
query('CREATE DATABASE other');
query('CREATE EXTENSION gen_durable', 'other');
runs('CREATE EXTENSION starts a maintainer and a scheduler', 'other');
is(pids('postgres'), ' ', 'what was rolled back does not, nor does a schema of our name');
query('DROP SCHEMA gen_durable CASCADE');
query('BEGIN; DROP EXTENSION gen_durable; ROLLBACK', 'other');
query('DROP EXTENSION gen_durable', 'other');
ends('DROP EXTENSION ends them', 'other');
query('BEGIN; CREATE EXTENSION gen_durable; COMMIT', 'other');
runs('and they are there again when the extension is', 'other');
install($node);
runs('a second database has its own', 'postgres');
is(query("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'gen_durable%' AND (backend_xmin IS NOT NULL OR state <> 'idle')"),
	0, 'they sleep without a snapshot');

# Commands that need a database for themselves.
my $pids = pids('postgres');
query('CREATE DATABASE copy TEMPLATE other');
runs('CREATE DATABASE ... TEMPLATE: the copy has its processes', 'copy');
runs('and the template still has', 'other');
query('ALTER DATABASE copy RENAME TO renamed');
runs('ALTER DATABASE RENAME: they return', 'renamed');
query('BEGIN; ALTER DATABASE renamed RENAME TO copy; ROLLBACK');
runs('and after a rollback', 'renamed');
mkdir $node->basedir . '/space' or die $!;
query("CREATE TABLESPACE space LOCATION '" . $node->basedir . "/space'");
query('ALTER DATABASE renamed SET TABLESPACE space');
runs('ALTER DATABASE SET TABLESPACE: they return', 'renamed');
my ($session) = $node->background_psql('renamed');
$session->query('SELECT 1');
my ($code, undef, $err) = $node->psql('postgres', 'DROP DATABASE renamed');
like($err, qr/being accessed by other users.*There is 1 other session/s, 'DROP DATABASE fails for a session of a user, and counts only that');
runs('and the processes return', 'renamed');
$session->quit;
query('DROP DATABASE renamed');
query('DROP TABLESPACE space');
pass('DROP DATABASE of a database with processes');
query('CREATE DATABASE plain');
query('DROP DATABASE plain');
is(pids('postgres'), $pids, 'DROP DATABASE of another one does not disturb them');
query('CREATE ROLE gd_stranger LOGIN');
$pids = pids('other');
$node->psql('postgres', 'SET ROLE gd_stranger; DROP DATABASE other');
is(pids('other'), $pids, 'one who may not drop a database does not stop its processes');

# The switch.
query('ALTER DATABASE other SET gen_durable.enabled = off');
ends('gen_durable.enabled = off for a database ends its processes', 'other');
query('ALTER DATABASE other RESET gen_durable.enabled');
runs('RESET starts them', 'other');
$node->append_conf('postgresql.conf', 'gen_durable.enabled = off');
$node->reload;
ends('off in the configuration ends all: the first', 'other');
ends('and the second', 'postgres');
$node->append_conf('postgresql.conf', 'gen_durable.enabled = on');
$node->reload;
runs('and on starts them: the first', 'other');
runs('and the second', 'postgres');

# Signals.
for my $case ([ 'maintainer', sub { process('maintainer', 'postgres') } ], [ 'scheduler', sub { process('scheduler', 'postgres') } ], [ 'launcher', \&launcher ])
{
	my ($kind, $find) = @$case;
	my $was = $find->();
	query("SELECT pg_terminate_backend($was)");
	wait_until("a $kind after SIGTERM", sub { my $is = $find->(); $is ne '' && $is ne $was });
	pass("SIGTERM: the $kind returns");
	$was = $find->();
	kill_backend($node, $was);
	wait_until("a $kind after SIGKILL", sub { my $is = $find->(); $is ne '' && $is ne $was });
	runs("SIGKILL of the $kind restarts the server, and all return: the first", 'postgres');
	runs('the second', 'other');
	isnt(launcher(), '', 'and the launcher');
}

# D-18: what is due takes effect at its time, though the maintainer would sleep for 30 seconds.
query("SELECT gen_durable.insert('lease', queue => 'lease')");
query("SELECT gen_durable.insert('await', queue => 'await')");
query("SELECT gen_durable.complete((SELECT token FROM gen_durable.pick('await', 'w')), gen_durable.await_signal(ARRAY['go'], 'next', timeout => '1500 ms'))");
query("SELECT count(*) FROM gen_durable.pick('lease', 'w', lease_ttl => '1 second')");
my %due = (
	lease => query("SELECT extract(epoch FROM lease_expires_at) FROM gen_durable.instances WHERE fsm = 'lease'"),
	await => query("SELECT extract(epoch FROM await_deadline) FROM gen_durable.instances WHERE fsm = 'await'"));
for my $kind ('lease', 'await')
{
	wait_until("the $kind", sub { query("SELECT status FROM gen_durable.instances WHERE fsm = '$kind'") eq 'runnable' });
	my $late = query("SELECT extract(epoch FROM updated_at) FROM gen_durable.instances WHERE fsm = '$kind'") - $due{$kind};
	note(sprintf '%s: %.1f ms after its time', $kind, $late * 1000);
	cmp_ok($late, '>=', 0, "$kind: not before its time");
	cmp_ok($late, '<', 1, "$kind: at its time");
}
query("SELECT count(*) FROM gen_durable.pick('lease', 'w', lease_ttl => '1 hour')");
query("SELECT gen_durable.insert('old', queue => 'old'); ");
query("SELECT gen_durable.complete((SELECT token FROM gen_durable.pick('old', 'w')), gen_durable.done())");
$node->append_conf('postgresql.conf', "gen_durable.gc_retention = 0\ngen_durable.gc_interval = 200ms");
$node->reload;
wait_until('gc', sub { query("SELECT count(*) FROM gen_durable.instances WHERE fsm = 'old'") == 0 });
pass('a reload of gc_interval and gc_retention counts, and what has ended is deleted');

# Churn: the vacuum comes when steps have left enough behind, though autovacuum would not look for an hour; and it ends
# with its maintainer.
sub vacuums
{
	return query("SELECT vacuum_count FROM pg_stat_user_tables WHERE relid = 'gen_durable.instances'::regclass");
}
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1h\ngen_durable.gc_interval = 60s");
$node->reload;
query("SELECT count(*) FROM gen_durable.insert_all('churn', (SELECT jsonb_agg('{\"queue\": \"churn\"}'::jsonb) FROM generate_series(1, 1000)))");
is(vacuums(), 0, 'nobody has vacuumed');
sub churn
{
	my $update = "UPDATE gen_durable.instances SET priority = 1 - priority WHERE fsm = 'churn'";
	return query("DO \$\$ BEGIN FOR i IN 1..250 LOOP $update; COMMIT; END LOOP; END \$\$");
}
churn();
wait_until('a vacuum', sub { vacuums() > 0 });
pass('enough dead row versions: the maintainer has the instances vacuumed');
query('ALTER DATABASE postgres SET vacuum_cost_delay = 100');
query('ALTER DATABASE postgres SET vacuum_cost_limit = 1');
runs('a database whose vacuums take for ever', 'postgres');
churn();
my $vacuum = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable vacuum'";
my $pid;
wait_until('a vacuum that takes long', sub { ($pid = query($vacuum)) ne '' });
query('CREATE DATABASE copy TEMPLATE postgres', 'other');
isnt(query($vacuum), $pid, 'a command that needs the database for itself ends the vacuum too');
query('DROP DATABASE copy');
query('ALTER DATABASE postgres RESET ALL');
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->reload;

# Idle: nothing is written. At a higher wal_level the server itself writes something now and then.
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0");
$node->restart;
runs('after a restart they run without being told: the first', 'postgres');
runs('the second', 'other');
query('CHECKPOINT');
my $lsn = query('SELECT pg_current_wal_insert_lsn()');
my $until = time() + 3;
wait_until('three seconds', sub { time() > $until });
is(query('SELECT pg_current_wal_insert_lsn()'), $lsn, 'an idle server writes no WAL, with a pass of gc every 200 ms');

# No worker slot left: one is the launcher's of logical replication, one ours, two a database's.
$node->append_conf('postgresql.conf', "wal_level = replica\nmax_wal_senders = 5\nmax_worker_processes = 4");
$node->restart;
wait_until('the line', sub { log_lines(qr/found no free worker slot for its (maintainer|scheduler) of/) > 0 });
wait_until('two processes', sub { query("SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'gen_durable (maintainer|scheduler)'") == 2 });
my $first = query("SELECT datname FROM pg_stat_activity WHERE backend_type = 'gen_durable maintainer' LIMIT 1");
my $second = $first eq 'other' ? 'postgres' : 'other';
query("ALTER DATABASE $first SET gen_durable.enabled = off");
runs('without a worker slot the second waits, and starts when there are free ones', $second);
is(log_lines(qr/found no free worker slot for its/), 1, 'and the log has one line of it');
query("ALTER DATABASE $first RESET gen_durable.enabled");
$node->append_conf('postgresql.conf', 'max_worker_processes = 12');

# Shutdown.
for my $mode ('fast', 'immediate')
{
	my $started = time();
	$node->stop($mode);
	cmp_ok(time() - $started, '<', 10, "shutdown: $mode");
	$node->start;
	runs("they run after it: the first", 'postgres');
	runs('the second', 'other');
}

# A standby.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'gen_durable%'"), 0, 'a standby runs nothing');
$standby->promote;
runs('promotion starts them', 'postgres', $standby);

unlike(slurp($node->logfile), qr/PANIC|TRAP:|(ERROR|FATAL):.*(snapshot|leak)/, 'nothing untoward in the log');
is(broken($node), '', 'no invariant is broken');
done_testing();
