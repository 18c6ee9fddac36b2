# Exactly once: what SQL steps write to a ledger, through SIGKILLs of executors, of other backends, and of the server, under load.
# D-9, D-15, GD-225. GD_CRASH_ROUNDS says how many crashes of each commit_group (default 3; 60 takes some ten minutes).
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{GD_CRASH_ROUNDS} || 3;
my $node = new_node('executor_crashes', bare => 1, conf => <<'CONF');
shared_preload_libraries = 'gen_durable'
gen_durable.enabled = on
max_worker_processes = 16
CONF
install($node);
my $q = sub { return $node->safe_psql('postgres', $_[0]) };

# Each instance goes through ten steps, in a fan-out at one of them, keyed at another; each step writes its line.
$q->(<<'SQL');
CREATE SCHEMA s;
CREATE TABLE s.ledger (id bigint, n int);
CREATE FUNCTION s.run(ctx gen_durable.job) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  n int := (ctx.state->>'n')::int;
BEGIN
  INSERT INTO s.ledger VALUES (ctx.id, n);
  IF n % 7 = 3 AND ctx.attempt = 0 THEN RAISE 'now and then'; END IF;
  IF n = 9 THEN RETURN gen_durable.done(); END IF;
  IF n = 5 AND ctx.fsm = 'm' THEN
    RETURN gen_durable.schedule_children('x', '[{"fsm": "child", "state": {"n": 8}, "queue": "default"}, {"fsm": "child", "state": {"n": 8}, "queue": "default"}]', jsonb_build_object('n', n + 1));
  END IF;
  RETURN gen_durable.next_step('x', jsonb_build_object('n', n + 1), concurrency_key => CASE WHEN n = 1 THEN 'key' || ctx.id % 5 END, release_key => n <> 1, inline_execution => n % 2 = 0);
END $$;
SELECT gen_durable.register_fsm(m, 's.run(gen_durable.job)', backoff_base => '1 ms', max_crashes => NULL) FROM unnest('{m,child}'::text[]) m;
SQL

for my $group (1, 60)
{
	my $instances = $rounds * ($group == 1 ? 300 : 1500);
	$q->('TRUNCATE gen_durable.instances, s.ledger CASCADE');
	$q->("ALTER SYSTEM SET gen_durable.commit_group = $group");
	$node->reload;
	$q->("SELECT count(*) FROM gen_durable.insert_all('m', (SELECT jsonb_agg('{\"state\": {\"n\": 0}}'::jsonb) FROM generate_series(1, $instances)))");
	for my $round (1 .. $rounds)
	{
		usleep(100_000 + rand(300_000));
		my ($pid) = split /\n/, $q->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'gen_durable executor' ORDER BY random() LIMIT 1");
		if ($round % 3 == 0 || !$pid)
		{
			kill_postmaster($node);
			start_again($node);
		}
		elsif ($round % 3 == 1)
		{
			kill_backend($node, $pid);
		}
		else
		{
			$q->("SELECT pg_terminate_backend($pid)");
		}
	}
	wait_until("all have ended, commit_group $group", sub { $q->('SELECT count(*) FROM gen_durable.instances WHERE finished_at IS NULL') eq '0' }, 180 + 10 * $rounds);
	is($q->("SELECT fsm, status, count(*) FROM gen_durable.instances GROUP BY 1, 2 ORDER BY 1"), "child|done|" . 2 * $instances . "\nm|done|$instances", "all are done, commit_group $group");
	is($q->('SELECT count(*), count(DISTINCT (id, n)) FROM s.ledger'), 14 * $instances . '|' . 14 * $instances, 'each step has written its line exactly once');
	is(broken($node), '', 'and nothing is broken');
	note($q->('SELECT max(crashes), sum(attempt) FROM gen_durable.instances'));
}
$node->stop;
done_testing();
