# A real pg_upgrade with live instances, machines and runs (D-24; DK-018, DK-075).
#
# OLD_BINDIR and NEW_BINDIR name the program folders of two versions, both of which have the extension installed; the
# test runs with the newer version's Test modules and is skipped where they are not given. The rows, the sequences, the
# claims and the machines come over, and work goes on.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use Test::More;

my ($old_bin, $new_bin) = @ENV{qw(OLD_BINDIR NEW_BINDIR)};
plan skip_all => 'OLD_BINDIR and NEW_BINDIR are not set: there are no two versions to upgrade between'
  unless $old_bin && $new_bin;
for my $bin ($old_bin, $new_bin)
{
	plan skip_all => "$bin has no PostgreSQL server" unless -x "$bin/postgres";
	my $share = `$bin/pg_config --sharedir`;
	chomp $share;
	plan skip_all => "$bin has no gen_durable installed" unless -e "$share/extension/gen_durable.control";
}

# The two clusters are made by hand: each needs its own version's programs.
my $dir = PostgreSQL::Test::Utils::tempdir_short();
my %data = (old => "$dir/old", new => "$dir/new");
my %bin = (old => $old_bin, new => $new_bin);
$ENV{PGHOST} = $dir;
$ENV{PGPORT} = 50432;
$ENV{PGUSER} = 'postgres';
$ENV{PGDATABASE} = 'postgres';

sub run_ok
{
	my ($what, @command) = @_;
	my $out = '';
	my $ok = IPC::Run::run(\@command, '<', \'', '>&', \$out);
	ok($ok, $what) or diag($out);
	return $ok;
}

sub start
{
	my ($which) = @_;
	return run_ok("the $which server starts", "$bin{$which}/pg_ctl", '-D', $data{$which}, '-l', "$dir/$which.log", '-w', 'start');
}

sub stop
{
	my ($which) = @_;
	return run_ok("the $which server stops", "$bin{$which}/pg_ctl", '-D', $data{$which}, '-w', '-m', 'fast', 'stop');
}

sub query
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	IPC::Run::run([ "$new_bin/psql", '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', '-' ], '<', \$sql, '>', \$out, '2>', \$err) or die "$sql: $err";
	chomp $out;
	return $out;
}

for my $which ('old', 'new')
{
	run_ok("the $which cluster is made", "$bin{$which}/initdb", '-N', '-A', 'trust', '-U', 'postgres', '--locale=C', '-E', 'UTF8', '-k', '-D', $data{$which});
	open my $conf, '>>', "$data{$which}/postgresql.conf" or die $!;
	print $conf "unix_socket_directories = '$dir'\nlisten_addresses = ''\nfsync = off\n", settings();
	close $conf;
}

start('old');
query('SET client_min_messages = warning; CREATE EXTENSION gen_durable');
query(slurp("$FindBin::RealBin/../lib/rig.sql"));
query('CALL rig.prepare(); CALL rig.prepare_runs()');
query("INSERT INTO gen_durable.queues (name, lease_ttl) VALUES ('slow', '10 minutes')");
query("INSERT INTO gen_durable.bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'api', 5, 10)");
query("SELECT gen_durable.register_fsm('machine', version => 2, queue => 'slow', initial => 'begin')");
query('CREATE ROLE gd_upgrade_client LOGIN');
query("SELECT gen_durable.grant_usage('gd_upgrade_client', 'client')");
query('CREATE ROLE gd_upgrade_tenant LOGIN');
query("SELECT gen_durable.grant_tenant('gd_upgrade_tenant', 'x')");
my $image = query('SELECT line FROM rig.image() line');
my $token = query("SELECT rig.token('held')");
my $claim = query("SELECT claim_token FROM gen_durable.runs WHERE run_id = 'claimed'");
my $last = query("SELECT max(id) FROM gen_durable.instances");
stop('old');

chdir $dir or die $!;
run_ok('pg_upgrade', "$new_bin/pg_upgrade", '--old-bindir', $old_bin, '--new-bindir', $new_bin, '--old-datadir', $data{old},
	'--new-datadir', $data{new}, '--username', 'postgres', '--socketdir', $dir, '--old-port', 50432, '--new-port', 50433)
  or BAIL_OUT('pg_upgrade failed');
start('new');

is(query('SELECT line FROM rig.image() line'), $image, 'the same rows');
isnt(query("SELECT current_setting('server_version_num')::int / 10000"), '15', 'on the new version') if $old_bin =~ m{/15/};
is(query("SELECT created AND id > $last FROM gen_durable.insert('machine')"), 't', 'the sequence goes on');
is(query("SELECT step || ' ' || queue || ' ' || fsm_version FROM gen_durable.instances WHERE fsm = 'machine'"), 'begin slow 2', 'the machine is the one that was registered');
is(query("SET ROLE gd_upgrade_client; SELECT created FROM gen_durable.insert('by client')"), 't', 'the levels are granted');
is(query("SELECT held FROM gen_durable.heartbeat(ARRAY['$token']::uuid[])"), 't', 'a claim is held by its token');
query("SELECT gen_durable.complete('$token', gen_durable.done())");
is(query("SELECT string_agg(fsm, ' ' ORDER BY id) FROM gen_durable.pick('q-free', 'w', 10)"), 'free1 free2 free3 twin', 'claims go on');
is(query("SET ROLE gd_upgrade_tenant; SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM gen_durable.run_list('system')"), 'claimed poisoned sleeps', 'a role is confined to its tenant');
is(query("SELECT checkpoint_seq FROM gen_durable.run_commit('tenant:x', 'claimed', '$claim', 1, 'c', 'retain', 'running', 1, 'x')"), '2', 'a claim of a run is held by its token');
query("SELECT gen_durable.run_insert('tenantless', 'new', 'g', 'h', '', '2020-01-01')");
is(query("SELECT run_id FROM gen_durable.runs ORDER BY id DESC LIMIT 1"), 'new', 'the ids of runs go on');
is(query("SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM gen_durable.run_claim_due(10, '1 h', 5)"), 'new of y ready', 'claims of runs go on');
is(query('SELECT * FROM rig.broken()'), '', 'no invariant is broken');
is(query('SELECT rig.finish()'), '0', 'every instance comes to its end');
is(query('SELECT * FROM rig.broken()'), '', 'no invariant is broken at the end');
stop('new');

done_testing();
