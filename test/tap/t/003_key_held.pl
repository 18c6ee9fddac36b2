# The server is killed while a worker that holds a K=1 key is alive (GD-001, GD-063, GD-225, GD-247; D-3, D-9).
#
# The claim is a row: the key stays held through the crash, until the worker ends or its lease does. An outcome that
# comes before the claim is taken back counts; one that comes after is stale.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

my $node = new_node('key');
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $pick = "SELECT coalesce(string_agg(fsm, ' ' ORDER BY fsm), '-') FROM gen_durable.pick('q', 'second', 10)";
my $later = 'SET gen_durable.clock_offset = 120000; ';

for my $how ('immediate', 'kill')
{
	$q->('TRUNCATE gen_durable.instances CASCADE');
	$q->("SELECT gen_durable.insert(n, queue => 'q', concurrency_key => 'key') FROM unnest(ARRAY['a', 'b', 'c']) n");
	my $token = $q->("SELECT token FROM gen_durable.pick('q', 'first', 10, '1 minute')");
	is($q->($pick), '-', "$how: the key is held");

	$how eq 'immediate' ? $node->stop('immediate') : kill_postmaster($node);
	start_again($node);

	is($q->("SELECT fsm || ' ' || status || ' ' || locked_by FROM gen_durable.instances WHERE status = 'executing'"),
		'a executing first', "$how: the claim is there after the crash");
	is($q->($pick), '-', "$how: nobody else has the key");
	is($q->('SELECT reaped FROM gen_durable.tick()'), 0, "$how: a claim whose lease runs is not taken back");
	is($q->("SELECT held FROM gen_durable.heartbeat(ARRAY['$token']::uuid[], '1 minute')"), 't', "$how: the living worker keeps its claim");

	if ($how eq 'immediate')
	{
		$q->($later . "SELECT gen_durable.complete('$token', gen_durable.done())");
		is($q->("SELECT status FROM gen_durable.instances WHERE fsm = 'a'"), 'done',
			"$how: an outcome after the lease's end, before it is taken back, counts");
	}
	else
	{
		is($q->($later . 'SELECT reaped FROM gen_durable.tick()'), 1, "$how: the lease's end frees the row");
		my ($code, $out, $err) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT gen_durable.complete('$token', gen_durable.done())");
		like($err, qr/GD001/, "$how: the worker's outcome is stale from then on");
		is($q->("SELECT fsm || ' ' || attempt || ' ' || crashes FROM gen_durable.instances WHERE fsm = 'a'"), 'a 1 1', "$how: counted as a crash");
	}
	is($q->($pick), $how eq 'immediate' ? 'b' : 'a', "$how: the first in line has the key");
	is($q->($pick), '-', "$how: and nobody beside it");
	is(broken($node), '', "$how: no invariant is broken");
}

is($q->('SELECT rig.finish()'), 0, 'every instance comes to its end');
done_testing();
