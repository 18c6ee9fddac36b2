# A queue whose head is worn: thousands of entries that an old snapshot keeps. Picks start behind them, and yet give every
# row in its place, whoever made it runnable. GD-053, D-5, D-25.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

# With shared memory, through which the sessions tell each other, and without.
for my $preload (1, 0)
{
$ENV{GD_PRELOAD} = $preload;
my $node = new_node("worn$preload", conf => "autovacuum = off\nmax_prepared_transactions = 5\n");
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $pick = sub { return $q->("SELECT coalesce(string_agg(fsm, ' '), '') FROM gen_durable.pick('w', 'worker', $_[0])") };
my $insert = sub {
	my ($name, $more) = @_;
	return "SELECT gen_durable.insert('$name', queue => 'w'" . ($more || '') . ')' };
# Buffers that a pick of one row reads, in a session that has its caches.
my $warm = $node->background_psql('postgres');
$warm->query($insert->('warm') =~ s/'w'/'other'/r);
$warm->query("SELECT count(*) FROM gen_durable.pick('other', 'worker')");
my $cost = sub {
	my $plan = $warm->query("BEGIN; EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF) SELECT FROM gen_durable.pick('w', 'worker'); ROLLBACK");
	return $plan =~ /shared hit=(\d+)(?: read=(\d+))?/ ? $1 + ($2 || 0) : 0;
};

my ($old) = $node->background_psql('postgres');
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM gen_durable.instances');
for my $priority (0, 5)
{
	$q->("SELECT count(*) FROM gen_durable.insert_all('dead', (SELECT jsonb_agg('{\"queue\": \"w\", \"priority\": $priority}'::jsonb) FROM generate_series(1, 2000)))");
	$q->("SELECT count(*) FROM gen_durable.complete_many((SELECT jsonb_agg(gen_durable.done() || jsonb_build_object('token', token)) FROM gen_durable.pick('w', 'worker', 2000)))");
}
$q->($insert->("n$_")) for 1 .. 9;
$q->($insert->("l$_", ', priority => 5')) for 1 .. 3;
my $worn = $cost->();
cmp_ok($worn, '>', 50, "the head is worn: $worn buffers for a row");
# The first such walk has the queue watched, the second finds where its rows begin.
is($pick->(1), 'n1', 'a pick of a worn queue');
is($pick->(1), 'n2', 'and another');
my $short = $cost->();
cmp_ok($short, '<', $preload ? 50 : 1000, "then picks start behind it: $short buffers");

# What comes back has its place.
my ($one, $pid) = hold($node, "SELECT count(*) FROM gen_durable.pick('w', 'one', 2)");
is($pick->(1), 'n5', 'rows of an open transaction are passed over');
$one->query('ROLLBACK');
is($pick->(1), 'n3', 'a rollback brings its rows back to their place');
$one->query('BEGIN; SAVEPOINT s');
$one->query("SELECT count(*) FROM gen_durable.pick('w', 'one', 1)");
is($pick->(1), 'n6', 'the same with a savepoint');
$one->query('ROLLBACK TO s');
is($pick->(1), 'n4', 'that is rolled back');
$one->query('COMMIT');
$q->("SELECT gen_durable.release(ARRAY[rig.token('n1'), rig.token('n3')])");
is($pick->(2), 'n1 n3', 'released rows');
$q->("SELECT gen_durable.complete(rig.token('n5'), gen_durable.next_step('two'))");
is($pick->(1), 'n7', 'a step that went on is behind those that wait');
$q->($insert->('urgent', ', priority => -1'));
is($pick->(1), 'urgent', 'a more urgent row');
$q->($insert->('early', ", eligible_at => '2000-01-01'"));
is($pick->(1), 'early', 'a row that was due before all others');
is($q->("BEGIN; " . $insert->('own', ", eligible_at => '2000-01-01'") . "; SELECT fsm FROM gen_durable.pick('w', 'worker'); ROLLBACK") =~ /own$/ ? 'own' : '', 'own', 'the transaction\'s own');

# One that commits while others have gone past it; one that somebody has locked meanwhile.
$one->query('BEGIN');
$one->query($insert->('slow', ", eligible_at => '2000-01-01'"));
is($pick->(1), 'n8', 'not committed yet');
$one->query('COMMIT');
is($pick->(1), 'slow', 'a row that was committed late is not missed');
$one->query("BEGIN; SELECT FROM gen_durable.instances WHERE fsm = 'n9' FOR UPDATE");
is($pick->(1), 'n5', 'a locked row is passed over');
$one->query('ROLLBACK');
is($pick->(1), 'n9', 'and not forgotten');

# The next priority is worn too.
is($pick->(1), 'l1', 'the next priority');
is($pick->(1), 'l2', 'and another of it');
my $next = $cost->();
cmp_ok($next, '<', $preload ? 50 : 1000, "starts behind its dead entries too: $next buffers");
$q->($insert->('last', ', priority => 0'));
is($pick->(5), 'last l3', 'all are found');
is($pick->(5), '', 'and no more');

# Vacuumed: a queue like any other.
$old->query('COMMIT');
$old->quit;
$q->('VACUUM gen_durable.instances');
$q->($insert->('new'));
is($pick->(5), 'new', 'after a vacuum');
is(broken($node), '', 'no invariant is broken');
$warm->quit;
$one->quit;
$node->stop;
}
done_testing();
