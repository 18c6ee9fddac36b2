# The view workers: processes, sessions that wait, holders of claims; and that nobody stays in it who is gone.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;

$ENV{GD_PRELOAD} = 1;
my $node = new_node('workers', conf => "gen_durable.enabled = on\ngen_durable.poll_interval = '1h'\ngen_durable.max_poll_interval = '1h'\n");
my $q = sub { return $node->safe_psql('postgres', $_[0]) };

# A session that sleeps in a statement; answers it and its pid.
sub waiter
{
	my ($statement) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('SELECT pg_backend_pid()');
	send_async($session, $statement);
	$node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM gen_durable.workers WHERE kind = 'waiter' AND pid = $pid)") or die "does not wait: $statement";
	return ($session, $pid);
}

ok($node->poll_query_until('postgres', "SELECT array_agg(kind) \@> '{launcher,maintainer}' FROM gen_durable.workers"), 'the processes are there');
is($q->("SELECT count(*) FROM gen_durable.workers w JOIN pg_stat_activity a USING (pid)
	WHERE w.kind = 'maintainer' AND a.backend_type = 'gen_durable maintainer' AND a.application_name = a.backend_type AND w.since = a.backend_start AND w.state IS NOT NULL"),
	'1', 'as pg_stat_activity has them');

my ($one, $one_pid) = waiter("CALL gen_durable.wait(ARRAY['a', E'tab\\tand \"quotes\", \\'ä\\''], '1h')");
is($q->("SELECT queues = ARRAY['a', E'tab\\tand \"quotes\", \\'ä\\''], instance IS NULL, now() - since < '1 minute' FROM gen_durable.workers WHERE pid = $one_pid"),
	't|t|t', 'a waiter of two queues');
my $names = join(', ', map { "repeat('x', 250) || $_" } 1 .. 9);
my ($many, $many_pid) = waiter("CALL gen_durable.wait(ARRAY[$names], '1h')");
is($q->("SELECT array_length(queues, 1), length(queues[1]), queues[2] FROM gen_durable.workers WHERE pid = $many_pid"), '2|251|... and 8 more', 'names beyond the room are counted');
my $id = $q->("SELECT id FROM gen_durable.insert('awaited', queue => 'b')");
my ($await, $await_pid) = waiter("SELECT gen_durable.await($id, '1h')");
is($q->("SELECT instance, queues IS NULL FROM gen_durable.workers WHERE pid = $await_pid"), "$id|t", 'a caller that awaits an instance');
is($node->safe_psql('template1', "CREATE EXTENSION gen_durable; SELECT count(*) FROM gen_durable.workers WHERE kind = 'waiter'; DROP EXTENSION gen_durable"), '0', 'another database does not show them');

# Who is gone.
kill('TERM', $many_pid);
$q->("SELECT gen_durable.insert('a', queue => 'a')");
$one->query('SELECT 1');
$q->("SELECT pg_cancel_backend($await_pid)");
$await->query('SELECT 1');
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM gen_durable.workers WHERE pid IN ($one_pid, $many_pid, $await_pid)"), 'terminated, woken and left: they wait no longer')
	or diag($q->('SELECT * FROM gen_durable.workers'));

# Holders.
$q->("SELECT gen_durable.pick(q, 'h', 10, l::interval) FROM (VALUES ('a', '1h'), ('b', '1h')) x (q, l)");
$q->("SELECT gen_durable.insert('a', queue => 'c'); SELECT gen_durable.pick('c', 'other', 10, '1h')");
is($q->("SELECT name, queues, claims, overdue, pid IS NULL, since < lease_expires_at FROM gen_durable.workers WHERE kind = 'holder' ORDER BY name"),
	"h|{a,b}|2|0|t|t\nother|{c}|1|0|t|t", 'holders by name');
$q->('SELECT gen_durable.release(array_agg(token)) FROM gen_durable.instances WHERE status = \'executing\'');
is($q->("SELECT count(*) FROM gen_durable.workers WHERE kind = 'holder'"), '0', 'until they give back');
$_->quit for $one, $await;
done_testing();
