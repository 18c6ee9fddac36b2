# A base backup and a failover while workers work: the backup is whole, and after the promotion of a standby that had
# confirmed every commit the work goes on, with nothing lost and nothing done twice. What lay in the buffer of the old
# primary's scheduler is given back by the new one's. D-25, D-27; GD-236, GD-309.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Workers;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $preload = "shared_preload_libraries = 'gen_durable'\ngen_durable.enabled = on\ngen_durable.heartbeat_interval = '1s'\n";
my $primary = new_node('primary', init => { allows_streaming => 1 }, conf => $preload);
my $q = sub { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) };
my ($early, $tops) = (8, 20);
my $steps = $tops * (3 + 3 * 20);
$q->($primary, slurp("$FindBin::RealBin/../lib/load.sql"));
$q->($primary, "SELECT gen_durable.set_queue('load', concurrency => 2, prefetch => 10, lease_ttl => '4 s')");
$q->($primary, "CALL rig.load($early)");
my $dir = PostgreSQL::Test::Utils::tempdir();

# Workers of both kinds on one server; what is not theirs is the maintainer's and a driver's.
sub work_on
{
	my ($node, $name) = @_;
	my $takes = Workers::plain_script("${name}1", '2 s', 20);
	$takes =~ s/gen_durable\.pick\('load', '${name}1', 1, '2 s'\)/gen_durable.take('load', '${name}1')/g or die 'no pick in the script';
	return (Workers::start($node, "$dir/${name}1", $takes), Workers::start($node, "$dir/${name}2", Workers::plain_script("${name}2", '2 s', 20)),
		Workers::start($node, "$dir/${name}3", Workers::batch_script("${name}3", 5, '2 s', 20)),
		Workers::start($node, "$dir/${name}_driver", Workers::driver_script(5)));
}

my $outcomes = sub { return (eval { $q->($_[0], 'SELECT count(*) FROM rig.ledger') } || 0) };
my @workers = work_on($primary, 'before');
wait_until('work has begun', sub { $outcomes->($primary) > 0 });
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'\n");
$primary->reload;
$primary->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'") or die 'the standby does not follow';
$q->($primary, "SELECT count(*) FROM gen_durable.insert_all('top', (SELECT jsonb_agg('{}'::jsonb) FROM generate_series($early + 1, $tops)))");
my $now = $outcomes->($primary);
wait_until('work goes on', sub { $outcomes->($primary) > $now + 20 });

# The primary dies in the middle of it, with claims in its buffer.
wait_until('the buffer has some', sub { $q->($primary, 'SELECT count(*) FROM gen_durable.dispatched() WHERE worker IS NULL') > 0 });
$primary->stop('immediate');
Workers::stop(@workers);
cmp_ok($outcomes->($standby), '<', $steps, 'there is work left');
is($q->($standby, "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'gen_durable%'"), '0', 'nothing of ours runs on a standby');
$standby->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
$standby->promote;
is(broken($standby), '', 'promoted: no invariant is broken');
my $left = $q->($standby, "SELECT array_agg(id) FROM gen_durable.instances WHERE locked_by = 'gen_durable scheduler'");
note("claimed ahead by the old primary: $left");
my %stored = map { $_ => 1 } split /\n/, $q->($standby, 'SELECT DISTINCT token FROM rig.ledger');
my %acked = Workers::acked(map { "$dir/before$_" } 1 .. 3);
is(join(' ', grep { !$stored{$_} } keys %acked), '', 'every outcome that was answered is there');
@workers = work_on($standby, 'after');
wait_until('all parents end', sub { $q->($standby, "SELECT count(*) FROM gen_durable.instances WHERE fsm = 'top' AND status = 'done'") == $tops });
Workers::stop(@workers);
is($q->($standby, "SELECT count(*) FROM gen_durable.instances WHERE id = ANY ('$left') AND finished_at IS NULL"), '0', 'what lay in the buffer of the old primary is done too') if $left ne '';
is($q->($standby, "SELECT * FROM rig.audit($tops)"), '', 'every step has its row in the ledger once');
is(broken($standby), '', 'no invariant is broken at the end');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($primary, 'base');
$copy->start;
is(broken($copy), '', 'a backup under load: no invariant is broken');
ok($copy->poll_query_until('postgres', "SELECT array_agg(kind) \@> '{maintainer,scheduler}' FROM gen_durable.workers"), 'and its processes run');
$copy->stop('immediate');

ok($standby->poll_query_until('postgres', 'SELECT count(*) > 0 FROM gen_durable.stats WHERE counted_at IS NOT NULL'), 'the new primary has counted');
done_testing();
