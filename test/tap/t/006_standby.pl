# A hot standby, and its promotion (D-27; the errors of decisions.md: 25006 in recovery).
#
# On the standby what reads works and what writes raises 25006. After promotion work goes on where it was: the claims
# are held by the tokens that the workers have, signals arrive, joins are counted, everything comes to its end.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Cluster;
use Test::More;

my $primary = new_node('primary', init => { allows_streaming => 1 });
$primary->safe_psql('postgres', 'CALL rig.prepare(); CALL rig.prepare_runs()');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', "SELECT gen_durable.signal(rig.id('held'), 'streamed')");
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
is(image($standby), image($primary), 'the standby has the same rows');

my %reads = (
	"SELECT gen_durable.find('name') = rig.id('held')" => 't',
	"SELECT outcome FROM gen_durable.await(rig.id('parked'), '0')" => 'awaiting',
	"SELECT outcome FROM gen_durable.await(rig.id('ended'))" => 'cancelled',
	"SELECT outcome FROM gen_durable.await(rig.id('free1'), '100 ms')" => 'busy',
	"SELECT outcome FROM gen_durable.await(0)" => 'not_found',
	"SELECT count(*) FROM gen_durable.children(rig.id('top'))" => '2',
	"SELECT name FROM gen_durable.inbox(rig.id('held')) ORDER BY 1" => "early\nstreamed",
	"SELECT status FROM gen_durable.why(rig.id('held'))" => 'executing',
	"SELECT gen_durable.done() ->> 'outcome'" => 'done',
	"SELECT convert_from(state, 'UTF8') FROM gen_durable.run_fetch('tenant:x', 'claimed')" => 'document of claimed',
	"SELECT poison_reason FROM gen_durable.run_inspect('system', 'poisoned')" => 'max_claim_attempts_exceeded',
	"SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM gen_durable.run_list('tenant:x')" => 'claimed poisoned sleeps',
	"SELECT oldest_ready_age > '1 year', due_next = '2999-01-01', oldest_claim_age > '1 year' FROM gen_durable.run_stats" => 't|t|t',
	"SELECT count(*) FROM gen_durable.blocked_instances" => '0',
	"SELECT count(*) FROM gen_durable.unkeyed_instances" => '0',
);
is($standby->safe_psql('postgres', $_), $reads{$_}, "standby: $_") for sort keys %reads;

my @writes = (
	"SELECT gen_durable.insert('new')", "SELECT gen_durable.insert_all('new', '[{}]')",
	"SELECT gen_durable.signal(rig.id('parked'), 'go')", "SELECT gen_durable.signal_key('name', 'go')",
	"SELECT gen_durable.pick('q-free', 'w')", "SELECT gen_durable.pick('empty', 'w')", "SELECT gen_durable.take('q-free', 'w')",
	"SELECT gen_durable.complete(rig.token('held'), gen_durable.done())",
	"SELECT gen_durable.complete_many(rig.entry('held', gen_durable.done()))",
	"SELECT gen_durable.complete_and_take(rig.entry('held', gen_durable.done()), 'q', 'w')",
	"CALL gen_durable.commit_and_take(rig.entry('held', gen_durable.done()), 'q', 'w')",
	"SELECT gen_durable.heartbeat(ARRAY[rig.token('held')])", "SELECT gen_durable.release(ARRAY[rig.token('held')])",
	"SELECT gen_durable.reap()", "SELECT gen_durable.fire_timeouts()", "SELECT gen_durable.reclaim('q', 'w', '1 hour')",
	"SELECT gen_durable.gc('0')", "SELECT gen_durable.tick()", "SELECT gen_durable.cancel(rig.id('held'))",
	"SELECT gen_durable.revive(rig.id('ended'))", "SELECT gen_durable.register_fsm('new')",
	"SELECT gen_durable.run_insert('tenantless', 'new', 'g', 'h', '', now())", "SELECT gen_durable.run_lock('system', 'ready')",
	"SELECT * FROM gen_durable.run_claim_due(1, '1 h', 5)", "SELECT * FROM gen_durable.run_claim_due(1, '1 h', 5, now => '1999-01-01')",
	"SELECT gen_durable.run_commit('system', 'claimed', (SELECT claim_token FROM gen_durable.runs WHERE run_id = 'claimed'), 1, 'c', 'retain', 'running', 1, '')",
	"SELECT gen_durable.run_commit_unclaimed('system', 'ready', 1, 'c', 'immediate', 'running', 1, '')",
	"SELECT gen_durable.run_refresh_claim('claimed', gen_random_uuid())", "SELECT gen_durable.run_release_claim('claimed', gen_random_uuid())",
	"SELECT gen_durable.run_abandon_claim('claimed', gen_random_uuid(), 1, '2999-01-01', 1)", "SELECT gen_durable.run_retry_poisoned('system', 'poisoned')",
	"SELECT gen_durable.run_mutate('system', 'ready', NULL)", "SELECT gen_durable.grant_tenant('pg_monitor', 'x')",
);
for my $statement (@writes)
{
	my ($code, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY sqlstate\n$statement");
	like($err, qr/ERROR:\s+25006/, "standby: 25006 from $statement");
}
is(image($standby), image($primary), 'and nothing has changed');

my $token = $primary->safe_psql('postgres', "SELECT rig.token('held')");
my $claim = $primary->safe_psql('postgres', "SELECT claim_token FROM gen_durable.runs WHERE run_id = 'claimed'");
$primary->stop('immediate');
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
is($standby->safe_psql('postgres', "SELECT held FROM gen_durable.heartbeat(ARRAY['$token']::uuid[])"), 't', 'promoted: a claim is held by its token');
$standby->safe_psql('postgres', "SELECT gen_durable.complete('$token', gen_durable.done('{\"kept\": true}'))");
is($standby->safe_psql('postgres', "SELECT result ->> 'kept' FROM gen_durable.instances WHERE fsm = 'held'"), 'true', 'promoted: its outcome counts');
is($standby->safe_psql('postgres', "SELECT string_agg(fsm, ' ' ORDER BY id) FROM gen_durable.pick('q-free', 'w', 10)"),
	'free1 free2 free3 twin', 'promoted: claims go on, and the key that was freed is taken');
is($standby->safe_psql('postgres', "SELECT gen_durable.signal(rig.id('parked'), 'go')"), 'delivered', 'promoted: signals arrive');
is($standby->safe_psql('postgres', "SELECT created AND id > (SELECT max(id) FROM gen_durable.instances) FROM gen_durable.insert('new', queue => 'q')"),
	't', 'promoted: new instances have new ids');
is($standby->safe_psql('postgres', "SELECT checkpoint_seq FROM gen_durable.run_commit('tenant:x', 'claimed', '$claim', 1, 'c', 'retain', 'running', 1, 'x')"), '2', 'promoted: a claim of a run is held by its token');
is($standby->safe_psql('postgres', "SELECT string_agg(run_id, ' ' ORDER BY run_id) FROM gen_durable.run_claim_due(10, '1 h', 5)"), 'of y ready', 'promoted: claims of runs go on');
is(broken($standby), '', 'no invariant is broken');
is($standby->safe_psql('postgres', 'SELECT rig.finish()'), 0, 'every instance comes to its end');
is(broken($standby), '', 'no invariant is broken at the end');

done_testing();
