# Limits under load and crashes, checked by a ledger of their own (GD-066, GD-092, GD-093, GD-111, GD-128, GD-136, GD-142; D-2, D-3, D-14;
# R-2, R-7, R-10, R-11, R-22, R-23).
#
# Eight clients claim and end steps under gates and rate limits, while backends are killed, which restarts the server. Every
# worker writes down when it has started a step, after the commit of its claim, and when it is about to end it, before the
# commit of its outcome. So what the ledger says runs is never more than what runs; and at no instant may it be more than
# a gate has slots, nor in all more than a rate limit had tokens. At the end the counters say what is held, and nothing is
# left to put right. GD_LEDGER_STEPS is the number of steps (6000).
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $steps = $ENV{GD_LEDGER_STEPS} || 6000;
my $node = new_node('ledger', conf => "max_connections = 40\n");
$node->safe_psql('postgres', <<'SQL');
SELECT gen_durable.set_concurrency_limit('gate', 5, 2), gen_durable.set_concurrency_limit('one', 1), gen_durable.set_rate_limit('rate', 1, '1000 years', 700, 3);
CREATE TABLE ledger (id bigint, gate text, rate text, weight float8, started timestamptz, ended timestamptz);
CREATE SEQUENCE done_steps;
SELECT count(i.id) FROM generate_series(1, 240) n,
  gen_durable.insert('step', queue => 'q', state => jsonb_build_object('n', n),
    concurrency_key => CASE n % 4 WHEN 0 THEN 'gate:' || n % 3 WHEN 1 THEN 'one:' || n % 5 WHEN 2 THEN 'gate:x' END,
    rate_limit => CASE WHEN n % 3 = 0 THEN 'rate:' || n % 2 END, weight => 0.5 + n % 2) i;
CREATE PROCEDURE work(turns int) LANGUAGE plpgsql AS $$
DECLARE
  claimed uuid[];
  outcomes jsonb;
BEGIN
  FOR turn IN 1 .. turns LOOP
    PERFORM gen_durable.tick() WHERE turn % 20 = 0;
    COMMIT;
    SELECT array_agg(j.token) INTO claimed FROM gen_durable.pick('q', 'w' || pg_backend_pid(), 1 + turn % 4, '3 s') j;
    COMMIT;
    CONTINUE WHEN claimed IS NULL;
    INSERT INTO ledger SELECT i.id, i.concurrency_key, i.rate_limit, i.weight, clock_timestamp()
      FROM gen_durable.instances i WHERE i.token = ANY (claimed);
    COMMIT;
    PERFORM nextval('done_steps') FROM unnest(claimed);
    UPDATE ledger l SET ended = clock_timestamp() FROM gen_durable.instances i
      WHERE i.token = ANY (claimed) AND l.id = i.id AND l.ended IS NULL AND l.started >= clock_timestamp() - interval '3 s';
    SELECT jsonb_agg(CASE WHEN i.id % 7 = 0 THEN gen_durable.retry()
             ELSE gen_durable.next_step('again', rate_limit => i.rate_limit, weight => i.weight) END || jsonb_build_object('token', i.token))
      INTO outcomes FROM gen_durable.instances i WHERE i.token = ANY (claimed);
    PERFORM gen_durable.complete_many(outcomes) WHERE outcomes IS NOT NULL;
    COMMIT;
  END LOOP;
END $$;
SQL

my $crashes = 0;
for my $round (1 .. 200)
{
	my $last = $node->safe_psql('postgres', 'SELECT last_value FROM done_steps');
	last if $last >= $steps && $crashes >= 3;
	my $offset = -s $node->logfile;
	my $script = $node->basedir . '/work.sql';
	append_to_file($script, "CALL work(60);\n") unless -e $script;
	my ($out, $err) = ('', '');
	my $run = IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-c', 8, '-j', 2, '-t', int($steps / 4000) + 1, '-f', $script,
			'-h', $node->host, '-p', $node->port, 'postgres' ], '>', \$out, '2>', \$err);
	if ($crashes < 3)
	{
		usleep(300_000 + 200_000 * $crashes);
		my $pid = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' AND state = 'active' LIMIT 1");
		if ($pid && kill('KILL', $pid))
		{
			$crashes++;
			$run->finish;
			await_restart($node, $offset);
			next;
		}
	}
	$run->finish;
	unlike($err, qr/deadlock|PANIC|cache lookup/, "round $round: nothing went wrong") or diag($err);
}
cmp_ok($crashes, '>=', 3, 'the server crashed in the middle');
cmp_ok($node->safe_psql('postgres', 'SELECT last_value FROM done_steps'), '>=', $steps, "at least $steps steps were run");

# Who lost their worker is taken back, and nothing runs any more.
$node->safe_psql('postgres', "SET gen_durable.clock_offset = 60000; SELECT gen_durable.reap(100000)");
is($node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.instances WHERE status = 'executing' OR concurrency_shard IS NOT NULL"), 0, 'nothing executes');

# The most that ran at one instant: at each start, those that had started and not ended.
is($node->safe_psql('postgres', <<'SQL'), '', 'no gate was ever overrun');
SELECT s.gate, max(running) FROM (
  SELECT l.gate, l.started, sum(e.n) OVER (PARTITION BY l.gate ORDER BY e.at, e.n) AS running
  FROM ledger l, LATERAL (VALUES (l.started, 1), (l.ended, -1)) e (at, n) WHERE l.ended IS NOT NULL AND l.gate IS NOT NULL) s
GROUP BY s.gate HAVING max(running) > CASE WHEN s.gate LIKE 'gate%' THEN 5 ELSE 1 END
SQL
cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM ledger WHERE gate LIKE 'gate%'"), '>', $steps / 10, 'the gates were used');
# Both keys of the rate limit: what was spent is what was there, to the last that fits.
is($node->safe_psql('postgres', 'SELECT rate FROM ledger WHERE rate IS NOT NULL GROUP BY rate HAVING sum(weight) > 700'), '', 'no rate limit was overspent');
is($node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.buckets WHERE available < 0 OR available > capacity OR debt <> 0"), 0, 'every counter is within its bounds');
is($node->safe_psql('postgres', <<'SQL'), '', 'all slots are back');
SELECT k.key, k.available, k.capacity FROM gen_durable.limit_keys k WHERE k.kind = 'conc' AND k.name IS NOT NULL AND k.available <> k.capacity
SQL
$node->safe_psql('postgres', 'SELECT gen_durable.reconcile()');
is($node->safe_psql('postgres', "SELECT count(*) FROM gen_durable.buckets WHERE kind = 'conc'"), 0, 'and the counters of the gates say nothing');
is(broken($node), '', 'all invariants hold');

done_testing();
