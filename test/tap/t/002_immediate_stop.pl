# Immediate stops of the server under load, with ledgers outside the engine (GD-001, GD-150, GD-153, GD-165, GD-215,
# GD-247; D-1, D-9, D-26).
#
# Four workers run parents and children while the server is stopped with -m immediate again and again. Each outcome
# leaves a row in a table of the worker's own, in the same transaction, and once its commit has answered, a line in a
# plain file. At the end: what a file says is in the table (no outcome lost); no step of an instance was committed twice
# (none applied twice); each parent joined all of its children, after the last; nothing is stuck.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Workers;
use PostgreSQL::Test::Utils;
use Test::More;

my $tops = $ENV{GD_LOAD_TOPS} || 30;
my $stops = $ENV{GD_LOAD_STOPS} || 4;
my $steps = $tops * (3 + 3 * 20);

my $node = new_node('stop');
$node->safe_psql('postgres', slurp("$FindBin::RealBin/../lib/load.sql"));
$node->safe_psql('postgres', "CALL rig.load($tops)");

my $dir = PostgreSQL::Test::Utils::tempdir();
my @workers = (
	Workers::start($node, "$dir/plain1", Workers::plain_script('plain1', '2s')),
	Workers::start($node, "$dir/plain2", Workers::plain_script('plain2', '2s')),
	Workers::start($node, "$dir/batch1", Workers::batch_script('batch1', 5, '2s')),
	Workers::start($node, "$dir/driver", Workers::driver_script()),
);
my $ledger = sub { return eval { $node->safe_psql('postgres', 'SELECT count(*) FROM rig.ledger') } || 0 };
for my $stop (1 .. $stops)
{
	my $goal = int($steps * $stop / ($stops + 1));
	wait_until("$goal outcomes", sub { $ledger->() >= $goal });
	$node->stop('immediate');
	is(Workers::alive(@workers), 4, "stop $stop: the workers go on trying");
	start_again($node);
	is(broken($node), '', "stop $stop: no invariant is broken");
}
wait_until('all parents end', sub {
	(eval { $node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.instances WHERE fsm = 'top' AND status = 'done'") } || 0) == $tops });
Workers::stop(@workers);

is($node->safe_psql('postgres', "SELECT * FROM rig.audit($tops)"), '', 'the ledger and the instances agree');
is(broken($node), '', 'no invariant is broken at the end');

# The files: what was answered as committed is there. A crash may swallow an answer, so there may be more in the table.
my %acked = Workers::acked("$dir/plain1", "$dir/plain2", "$dir/batch1");
my %stored = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', "SELECT DISTINCT token FROM rig.ledger");
is(join(' ', grep { !$stored{$_} } keys %acked), '', 'no outcome that was answered is lost');
cmp_ok(scalar(keys %acked), '>', $steps / 2, scalar(keys %acked) . ' outcomes were answered');

done_testing();
