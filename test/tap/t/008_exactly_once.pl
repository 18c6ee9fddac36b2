# The caller's writes and the outcome in one transaction: exactly once, whatever is killed (GD-150, GD-153; D-1, D-9).
#
# Workers pay: each step adds a row to the caller's own table and completes in the same transaction. A claim that was
# taken away makes both roll back; so does SIGKILL of a backend. At the end every step has its payment once.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Workers;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('once');
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
$q->('CREATE TABLE paid (id bigint, step text)');

# One by one: stale by the reaper, by a cancellation, by an earlier outcome; an outcome that is not valid; a savepoint.
$q->("SELECT gen_durable.insert('pay', queue => 'q')");
my $token = $q->("SELECT token FROM gen_durable.pick('q', 'w', 1, '0')");
my $id = $q->('SELECT id FROM gen_durable.instances');
my $pay = sub {
	my ($outcome) = @_;
	my ($code, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY sqlstate\nBEGIN; INSERT INTO paid VALUES ($id, 'start'); SELECT gen_durable.complete('$token', $outcome); COMMIT;");
	return $err =~ /(?:ERROR|FATAL):\s+(\w+)/ ? $1 : 'committed';
};
is($pay->(q('{"outcome": "no such"}')), '22023', 'an outcome that is none is refused');
is($q->('SELECT count(*) FROM paid'), 0, 'and the payment with it');
$q->('SELECT gen_durable.reap()');
is($pay->('gen_durable.done()'), 'GD001', 'taken away by the reaper: stale');
is($q->('SELECT count(*) FROM paid'), 0, 'and nothing was paid');
$token = $q->("SELECT token FROM gen_durable.pick('q', 'w', 1)");
$q->("SELECT gen_durable.cancel($id)");
is($pay->('gen_durable.done()'), 'GD001', 'cancelled meanwhile: stale');
is($q->('SELECT count(*) FROM paid'), 0, 'and nothing was paid');
$q->("SELECT gen_durable.release(ARRAY['$token']::uuid[]); SELECT gen_durable.revive($id)");
$token = $q->("SELECT token FROM gen_durable.pick('q', 'w', 1)");
is($pay->("gen_durable.next_step('two')"), 'committed', 'held: committed');
is($pay->("gen_durable.next_step('two')"), 'GD001', 'the same outcome again: stale');
is($q->('SELECT count(*) FROM paid'), 1, 'paid once');
$token = $q->("SELECT token FROM gen_durable.pick('q', 'w', 1)");
$q->(<<"SQL");
BEGIN;
SAVEPOINT a;
INSERT INTO paid VALUES ($id, 'undone');
SELECT gen_durable.complete('$token', gen_durable.done());
ROLLBACK TO a;
INSERT INTO paid VALUES ($id, 'two');
SELECT gen_durable.complete('$token', gen_durable.next_step('three'));
COMMIT;
SQL
is($q->("SELECT string_agg(step, ' ' ORDER BY step) FROM paid"), 'start two', 'a savepoint takes the payment and the outcome back together');

# Many at once, under SIGKILL of random backends, with leases so short that workers lose claims.
$q->('TRUNCATE gen_durable.instances CASCADE');
$q->(slurp("$FindBin::RealBin/../lib/load.sql"));
my $tops = $ENV{GD_LOAD_TOPS} || 20;
$q->("CALL rig.load($tops)");
my $dir = PostgreSQL::Test::Utils::tempdir();
my @workers = (
	(map { Workers::start($node, "$dir/plain$_", Workers::plain_script("plain$_", '60 ms')) } 1 .. 3),
	Workers::start($node, "$dir/driver", Workers::driver_script()));
my $steps = $tops * (3 + 3 * 20);
my $kills = $ENV{GD_LOAD_STOPS} || 6;
for my $kill (1 .. $kills)
{
	my $goal = int($steps * $kill / ($kills + 1));
	wait_until("$goal outcomes", sub { (eval { $q->('SELECT count(*) FROM rig.ledger') } || 0) >= $goal });
	my $pid = eval { $q->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1") };
	next unless $pid;
	my $offset = -s $node->logfile;
	next unless kill('KILL', $pid);
	await_restart($node, $offset);
	is(broken($node), '', "kill $kill: no invariant is broken");
}
wait_until('all parents end', sub {
	(eval { $q->("SELECT count(*) FROM gen_durable.instances WHERE fsm = 'top' AND status = 'done'") } || 0) == $tops });
Workers::stop(@workers);
is($q->("SELECT * FROM rig.audit($tops)"), '', 'every step has its row in the ledger once');
is(broken($node), '', 'no invariant is broken at the end');
my %acked = Workers::acked(map { "$dir/plain$_" } 1 .. 3);
my %stored = map { $_ => 1 } split /\n/, $q->('SELECT DISTINCT token FROM rig.ledger');
is(join(' ', grep { !$stored{$_} } keys %acked), '', 'no outcome that was answered is lost');
note('crashes counted: ' . $q->('SELECT sum(crashes) FROM gen_durable.instances'));

done_testing();
