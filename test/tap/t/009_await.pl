# A caller that waits for an instance which other sessions bring on (GD-285..291; D-17, D-27; AC-200..203).
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('await');
my $q = sub { return $node->safe_psql('postgres', $_[0]) };

# Calls await in one session, then what it waits for in another; answers its row and how long it took.
sub awaited
{
	my ($call, @then) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('SELECT pg_backend_pid()');
	my $began = time();
	my $answer = send_async($session, "SELECT coalesce(outcome, '') || ' ' || coalesce(status::text, '') || ' ' || coalesce(result ->> 'n', error, '') FROM $call");
	wait_until('the call has begun', sub { $q->("SELECT query LIKE 'SELECT coalesce(outcome%' FROM pg_stat_activity WHERE pid = $pid") eq 't' });
	$q->($_) for @then;
	$answer .= $session->query('SELECT 1');
	my $took = time() - $began;
	$session->quit;
	$answer =~ s/\n1$//;
	return ($answer, $took);
}

my $fresh = sub {
	my ($name) = @_;
	$q->("SELECT gen_durable.insert('$name', queue => '$name')");
	return $q->("SELECT rig.id('$name')");
};
my $claim = sub { $q->("SELECT gen_durable.pick('$_[0]', 'w')") };
my $complete = sub { return "SELECT gen_durable.complete(rig.token('$_[0]'), gen_durable.$_[1])" };

my $id = $fresh->('a');
$claim->('a');
my ($answer, $took) = awaited("gen_durable.await($id, '60s')", $complete->('a', q(done('{"n": 7}'))));
is($answer, 'done done 7', 'finished by another session: its result');
cmp_ok($took, '<', 30, 'long before the timeout');

$id = $fresh->('b');
$claim->('b');
($answer) = awaited("gen_durable.await($id, '60s')", $complete->('b', "stop('broken')"));
is($answer, 'failed failed broken', 'failed: its error');

$id = $fresh->('c');
($answer) = awaited("gen_durable.await($id, '60s')", "SELECT gen_durable.cancel($id, 'unwanted')");
like($answer, qr/^cancelled cancelled/, 'cancelled');

$id = $fresh->('d');
$claim->('d');
($answer) = awaited("gen_durable.await($id, '60s')", $complete->('d', "await_signal(ARRAY['go'], 'woke')"));
is($answer, 'awaiting awaiting_signal ', 'parked: settled');
($answer) = awaited("gen_durable.await($id, '60s', 'terminal')", "SELECT gen_durable.signal($id, 'go')",
	"SELECT gen_durable.pick('d', 'w')", $complete->('d', q(done('{"n": 1}'))));
is($answer, 'done done 1', 'until terminal: a park is not the end');

$id = $fresh->('e');
($answer, $took) = awaited("gen_durable.await($id, '300ms')");
is($answer, 'busy runnable ', 'at the deadline: busy');
cmp_ok($took, '>=', 0.3, 'not before the deadline');

$id = $fresh->('f');
$q->("SELECT gen_durable.cancel($id)");
$q->("SELECT gen_durable.revive($id)");
($answer) = awaited("gen_durable.await($id, '60s', 'terminal')", "SELECT gen_durable.cancel($id)", "SELECT gen_durable.gc('0')");
like($answer, qr/^(cancelled cancelled|not_found )/, 'collected while it waited: not_found, unless it saw the end first');

($answer, $took) = awaited("gen_durable.await(0, '60s')");
is($answer, 'not_found  ', 'unknown: not_found');
cmp_ok($took, '<', 30, 'at once');

# A wait that is interrupted ends at once, and leaves the session usable.
my ($code, $out, $err) = $node->psql('postgres', "SET statement_timeout = '200ms'; SELECT gen_durable.await(" . $fresh->('g') . ", '60s')");
like($err, qr/statement timeout/, 'a wait obeys statement_timeout');

done_testing();
