# pg_dump and pg_restore of a database with live instances and runs (design §4 of the tables; D-10, D-11, D-24; DK-009, DK-018, DK-075).
#
# Plain, custom and directory format with two jobs give the same rows, sequences, machines, queues, policies, tenants and
# privileges, and work goes on in the copy: the claims are held, ids do not collide, everything comes to its end.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('dump');
my $q = sub { my ($db, $sql) = @_; return $node->safe_psql($db, $sql) };

$q->('postgres', 'CALL rig.prepare(); CALL rig.prepare_runs()');
$q->('postgres', <<'SQL');
CREATE ROLE gd_dump_client LOGIN;
SELECT gen_durable.grant_usage('gd_dump_client', 'client');
CREATE ROLE gd_dump_tenant LOGIN;
SELECT gen_durable.grant_tenant('gd_dump_tenant', 'x');
INSERT INTO gen_durable.queues (name, lease_ttl) VALUES ('slow', '10 minutes');
SELECT gen_durable.pause('halted', now() + interval '1 day', 'until tomorrow');
INSERT INTO gen_durable.bucket_configs (kind, name, rate, capacity) VALUES ('rate', 'api', 5, 10), ('conc', 'gpu', NULL, 2);
INSERT INTO gen_durable.buckets (kind, key, shard, capacity, available) VALUES ('conc', 'gpu:1', 0, 2, 1);
SELECT gen_durable.register_fsm('machine', version => 2, queue => 'slow', initial => 'begin', max_attempts => 3);
SELECT gen_durable.cancel(rig.id('end4'), 'unwanted');
SELECT gen_durable.signal(rig.id('parked'), 'other', '{"x": "\u00e9''\\n"}');
SELECT gen_durable.insert('texts', state => '{"text": "tab\t, quote '', backslash \\"}', queue => 'naïve "q"');
-- A consumed signal whose key is remembered, and a child that has ended.
SELECT gen_durable.signal(rig.id('parked'), 'go', dedup_key => 'used');
SELECT gen_durable.pick('q', 'w', 10, '1 hour');
SELECT gen_durable.complete(rig.token('parked'), gen_durable.next_step('after'));
SELECT gen_durable.complete(rig.token('kid'), gen_durable.done('{"n": 1}'));
SELECT gen_durable.pick('q-free', 'w2', 1);
SQL
my $image = image($node);
like($image, qr/executing/, 'the dump has claims in it');
my $sequences = "SELECT gen_durable.insert('probe', queue => 'probe') IS NOT NULL, count(*) FROM gen_durable.instances";
my $tokens = $q->('postgres', "SELECT fsm, token FROM gen_durable.instances WHERE status = 'executing' ORDER BY id");
my $claim = $q->('postgres', "SELECT claim_token FROM gen_durable.runs WHERE run_id = 'claimed'");
my $next = "SELECT nextval(pg_get_serial_sequence('gen_durable.instances', 'id')), nextval(pg_get_serial_sequence('gen_durable.signals', 'id')), nextval(pg_get_serial_sequence('gen_durable.runs', 'id'))";

my $dir = PostgreSQL::Test::Utils::tempdir();
my @source = ('--no-sync', '-d', $node->connstr('postgres'), '--exclude-schema=rig');
my %way = (
	plain => [ sub { $node->command_ok([ 'pg_dump', @source, '-f', "$dir/plain.sql" ], 'plain: pg_dump') },
		sub { $node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-o', "$dir/out", '-d', $node->connstr($_[0]), '-f', "$dir/plain.sql" ], 'plain: psql') } ],
	custom => [ sub { $node->command_ok([ 'pg_dump', @source, '-Fc', '-f', "$dir/custom" ], 'custom: pg_dump') },
		sub { $node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr($_[0]), "$dir/custom" ], 'custom: pg_restore') } ],
	directory => [ sub { $node->command_ok([ 'pg_dump', @source, '-Fd', '-j2', '-f', "$dir/directory" ], 'directory: pg_dump -j2') },
		sub { $node->command_ok([ 'pg_restore', '-e', '-j2', '-d', $node->connstr($_[0]), "$dir/directory" ], 'directory: pg_restore -j2') } ],
);
$_->[0]->() for map { $way{$_} } sort keys %way;
my $expected_next = $q->('postgres', $next);

for my $name (sort keys %way)
{
	my $db = "copy_$name";
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$way{$name}[1]->($db);
	$q->($db, slurp("$FindBin::RealBin/../lib/rig.sql"));

	is(image($node, $db), $image, "$name: the same rows");
	is($q->($db, $next), $expected_next, "$name: the sequences go on where they were");
	is($q->($db, "SELECT fsm, token FROM gen_durable.instances WHERE status = 'executing' ORDER BY id"), $tokens, "$name: the same claims");
	is($q->($db, "SELECT count(*) FROM gen_durable.pick('q-free', 'w3', 10) WHERE fsm = 'twin'"), 0, "$name: a held key is held in the copy");
	is($q->($db, "SET ROLE gd_dump_client; SELECT created FROM gen_durable.insert('by client')"), 't', "$name: the levels' privileges are there");
	is($q->($db, "SELECT gen_durable.signal(rig.id('parked'), 'go', dedup_key => 'used')"), 'duplicate', "$name: a used dedup key is remembered");
	$q->($db, "SELECT gen_durable.insert('machine')");
	is($q->($db, "SELECT step || ' ' || queue || ' ' || fsm_version FROM gen_durable.instances WHERE fsm = 'machine'"),
		'begin slow 2', "$name: the machine's newest version is the one that was registered");
	$q->($db, "SELECT gen_durable.complete(rig.token('kit'), gen_durable.done())");
	is($q->($db, "SELECT status FROM gen_durable.instances WHERE fsm = 'top'"), 'runnable', "$name: the join that was half counted is counted out");
	is($q->($db, "SET ROLE gd_dump_tenant; SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM gen_durable.run_list('system')"), 'claimed poisoned sleeps',
		"$name: a role is confined to its tenant in the copy");
	is($q->($db, "SELECT gen_durable.run_refresh_claim('claimed', '$claim'); SELECT checkpoint_seq FROM gen_durable.run_commit('tenant:x', 'claimed', '$claim', 1, 'c', 'retain', 'running', 1, 'x')"),
		"\n2", "$name: a run's claim is held by its token");
	is($q->($db, "SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM gen_durable.run_claim_due(10, '1 h', 5)"), 'of y ready', "$name: claims of runs go on");
	is($q->($db, "SELECT status FROM gen_durable.run_retry_poisoned('system', 'poisoned'); SELECT status FROM gen_durable.run_commit_unclaimed('system', 'waiting', 2, 'c', 'immediate', 'running', 4, '');
		SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM gen_durable.run_claim_due(10, '1 h', 5)"), "running\nrunning\npoisoned waiting", "$name: and runs that were out of the way come back");
	is(broken($node, $db), '', "$name: no invariant is broken");
	is($q->($db, 'SELECT rig.finish()'), 0, "$name: every instance comes to its end");
	is(broken($node, $db), '', "$name: no invariant is broken at the end");
}

# A copy of the copy is the same again, and the extension can be dropped from it.
$node->command_ok([ 'pg_dump', '--no-sync', '-Fc', '-d', $node->connstr('copy_plain'), '-f', "$dir/again" ], 'a restored database can be dumped');
$node->safe_psql('copy_plain', 'DROP SCHEMA rig CASCADE; DROP EXTENSION gen_durable CASCADE');
is($q->('copy_plain', "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'gen_durable'"),
	0, 'DROP EXTENSION leaves nothing');

done_testing();
