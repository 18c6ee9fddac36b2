# Two-phase commit: what an outcome does to other rows rides the prepared transaction (D-26; GD-184, GD-215).
#
# A transaction that completed a child, freed a key and delivered a signal is prepared; the server is killed; then it is
# committed, or rolled back. Everything of it happens, or nothing.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

my $node = new_node('prepared', conf => "max_prepared_transactions = 5\n");
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $state = "SELECT string_agg(fsm || ' ' || status || ' ' || children_pending, ', ' ORDER BY id) FROM gen_durable.instances WHERE fsm IN ('top', 'kid', 'kit', 'held', 'parked')";

for my $end ('COMMIT', 'ROLLBACK')
{
	$q->('TRUNCATE gen_durable.instances CASCADE');
	$q->('CALL rig.prepare()');
	my $before = $q->($state);
	$q->(<<"SQL");
BEGIN;
SELECT gen_durable.complete(rig.token('kid'), gen_durable.done());
SELECT gen_durable.complete_many(rig.entry('kit', gen_durable.stop('no')));
SELECT gen_durable.complete(rig.token('held'), gen_durable.done());
SELECT gen_durable.signal(rig.id('parked'), 'go');
PREPARE TRANSACTION 'both';
SQL
	is($q->($state), $before, "$end: prepared, nothing is seen");
	is($q->("SELECT coalesce(string_agg(fsm, ' ' ORDER BY id), '-') FROM gen_durable.pick('q-free', 'w', 10) WHERE fsm = 'twin'"), '-', "$end: the key is still held");
	$node->stop('immediate');
	start_again($node);
	is($q->($state), $before, "$end: nor after a crash");
	is($q->('SELECT reaped FROM gen_durable.tick()'), 1, "$end: the sweeps do not wait for it");
	$q->("$end PREPARED 'both'");
	is($q->($state), $end eq 'COMMIT' ? 'held done 0, parked runnable 0, top runnable 0, kid done 0, kit failed 0' : $before, "$end: all of it, or nothing");
	$q->('SELECT gen_durable.tick()');
	is($q->("SELECT coalesce(string_agg(fsm, ' ' ORDER BY id), '-') FROM gen_durable.pick('q-free', 'w', 10) WHERE fsm = 'twin'"),
		$end eq 'COMMIT' ? 'twin' : '-', "$end: the key");
	is(broken($node), '', "$end: no invariant is broken");
	is($q->('SELECT rig.finish()'), 0, "$end: every instance comes to its end");
}

done_testing();
