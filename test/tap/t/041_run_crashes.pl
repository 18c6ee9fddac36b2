# Runs under SIGKILL: of their workers, which is what poison is for, and of backends. DK-070, DK-071, DK-073..076, DK-130..133, DK-144.
#
# A worker is psql in a loop. Its launches are lines in a file, written outside of the database before it works; its
# commits are rows of the caller's own table, in the transaction of the checkpoint.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Workers;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('run_crashes');
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $dir = PostgreSQL::Test::Utils::tempdir();
$q->('CREATE TABLE ledger (run_id text, seq bigint, worker text)');

# A worker that takes a run and commits its next checkpoint, until the fourth ends it. What the run's name says kills it,
# by SIGKILL: at once, within the transaction of a checkpoint, or after one that keeps the claim.
sub script
{
	my ($worker, $ttl, $attempts) = @_;
	my $cycle = <<"SQL";
SELECT count(*) > 0 AS leased, coalesce(max(run_id), '') AS run, coalesce(max(scope), '') AS scope, coalesce(max(checkpoint_seq), 0) AS seq,
  coalesce(max(claim_token::text), '') AS token, coalesce(max(run_id), '') LIKE 'at once%' AS at_once, coalesce(max(run_id), '') LIKE 'within%' AS within,
  coalesce(max(run_id), '') LIKE 'after%' AS after
  FROM gen_durable.run_claim_due(1, '$ttl', $attempts) WHERE kind = 'lease' \\gset
\\if :leased
\\setenv RUN :run
\\! echo "\$RUN" >>"$dir/$worker.launches"
\\if :at_once
\\! kill -9 \$PPID
\\endif
SELECT CASE WHEN :seq >= 4 THEN 'terminal' WHEN :'after' THEN 'retain' ELSE 'immediate' END AS schedule, CASE WHEN :seq >= 4 THEN 'done' ELSE 'running' END AS status \\gset
BEGIN;
INSERT INTO ledger VALUES (:'run', :seq + 1, '$worker');
SELECT gen_durable.run_commit(:'scope', :'run', :'token', :seq, 'step', :'schedule', :'status', :seq, convert_to(:'run' || :seq, 'UTF8'));
\\set stale :ERROR
\\if :within
\\! kill -9 \$PPID
\\endif
COMMIT;
\\if :stale
\\elif :ERROR
\\else
SELECT replace(:'run', ' ', '_') || '/' || :seq + 1 AS answered \\gset
\\echo :answered
\\endif
\\if :after
\\! kill -9 \$PPID
\\endif
\\else
SELECT pg_sleep(0.02);
\\endif
SQL
	return "\\set ON_ERROR_STOP 0\n\\o /dev/null\n" . ($cycle x 50);
}

sub launches
{
	my ($name) = @_;
	my $count = 0;
	for my $file (glob "$dir/*.launches")
	{
		$count += grep { $_ eq $name } split /\n/, slurp($file);
	}
	return $count;
}

sub insert_runs
{
	my (@names) = @_;
	$q->("SELECT count(gen_durable.run_insert(CASE n % 4 WHEN 0 THEN 'tenantless' ELSE 'tenant:t' || n % 4 END, name, 'g', 'h', '', now()))
		FROM unnest(ARRAY['" . join("', '", @names) . "']) WITH ORDINALITY AS r (name, n)");
	return;
}

# What the ledger, the runs and the answers say of each other: nothing, when all is well.
sub audit
{
	my ($what) = @_;
	is($q->('SELECT run_id, seq, count(*) FROM ledger GROUP BY 1, 2 HAVING count(*) > 1'), '', "$what: no checkpoint was committed twice");
	is($q->("SELECT run_id, checkpoint_seq, coalesce(max(seq), 1) FROM gen_durable.runs LEFT JOIN ledger USING (run_id)
		GROUP BY 1, 2 HAVING checkpoint_seq <> count(seq) + 1 OR checkpoint_seq <> coalesce(max(seq), 1)"), '', "$what: the ledger has all of each run, and no more");
	is($q->("SELECT run_id FROM gen_durable.runs WHERE status = 'done' AND (checkpoint_seq <> 5 OR convert_from(state, 'UTF8') <> run_id || 4)"), '', "$what: a run ends with its last document");
	my %stored = map { $_ => 1 } split /\n/, $q->("SELECT replace(run_id, ' ', '_') || '/' || seq FROM ledger");
	my %acked = Workers::acked(map { s/\.out$//r } glob "$dir/*.out");
	is(join(' ', grep { !$stored{$_} } keys %acked), '', "$what: no commit that was answered is lost");
	# The direct path is not checked by the table's constraints: they are asked here.
	is($q->('WITH u AS (UPDATE gen_durable.runs SET step = step RETURNING 1) SELECT count(*) > 0 FROM u'), 't', "$what: each row has the shape that it must have");
	return;
}

# Workers die of their runs, of some at each launch. Each such run is launched exactly max times, whoever's turn it is.
{
	my $max = 3;
	my @good = map { "good $_" } 1 .. 20;
	my @bad = map { ("at once $_", "within $_") } 1 .. 3;
	my @slow = map { "after $_" } 1 .. 3;
	insert_runs(@good, @bad, @slow);
	my @workers = map { Workers::start($node, "$dir/dies$_", script("dies$_", '1 s', $max)) } 1 .. 4;
	wait_until('the runs that kill are poisoned', sub { $q->("SELECT count(*) FROM gen_durable.runs WHERE poisoned_at IS NOT NULL AND run_id ~ '^(at|within)'") == @bad });
	wait_until('the others end', sub { $q->("SELECT count(*) FROM gen_durable.runs WHERE status = 'done'") == @good + @slow });
	is(join(' ', map { launches($_) } @bad), join(' ', ($max) x @bad), "each run that kills is launched $max times, and then poisoned");
	is($q->("SELECT DISTINCT claim_attempts, poison_reason, checkpoint_seq, claim_token, wake_at FROM gen_durable.runs WHERE poisoned_at IS NOT NULL"),
		"$max|max_claim_attempts_exceeded|1||", 'its attempts stay, and nothing of it was committed');
	is(join(' ', map { launches($_) } @slow), join(' ', (4) x @slow), 'one that gets on before it kills is launched for each step, and never poisoned');
	audit('workers that die');

	# A poisoned run stays where it is, until it is recovered: then it has as many launches again.
	$q->("SELECT gen_durable.run_retry_poisoned('system', 'at once 1')");
	wait_until('it is poisoned anew', sub { $q->("SELECT count(*) FROM gen_durable.runs WHERE run_id = 'at once 1' AND poisoned_at IS NOT NULL") });
	is(launches('at once 1') . ' ' . launches('at once 2'), 2 * $max . " $max", 'a recovered run is launched as often again, and the others are left alone');
	# Healed by a commit from outside, which moves it on.
	$q->("SELECT gen_durable.run_commit_unclaimed('system', 'within 1', 1, 'c', 'terminal', 'cancelled', 1, '')");
	is($q->("SELECT status, poisoned_at IS NULL FROM gen_durable.runs WHERE run_id = 'within 1'"), 'cancelled|t', 'and one that is cancelled is healed');
	Workers::stop(@workers);
}

# Backends die under load, and once the postmaster; leases so short that claims are stolen from those who still work.
{
	$q->('TRUNCATE gen_durable.runs, ledger');
	unlink glob "$dir/*.out";
	my $runs = $ENV{GD_LOAD_RUNS} || 60;
	insert_runs(map { "run $_" } 1 .. $runs);
	my @workers = map { Workers::start($node, "$dir/load$_", script("load$_", '50 ms', 1000000)) } 1 .. 4;
	my $kills = $ENV{GD_LOAD_STOPS} || 4;
	for my $kill (1 .. $kills)
	{
		my $goal = int(4 * $runs * $kill / ($kills + 1));
		wait_until("$goal checkpoints", sub { (eval { $q->('SELECT count(*) FROM ledger') } || 0) >= $goal });
		if ($kill == $kills)
		{
			kill_postmaster($node);
			start_again($node);
		}
		else
		{
			my $pid = eval { $q->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1") };
			next unless $pid;
			my $offset = -s $node->logfile;
			next unless kill('KILL', $pid);
			await_restart($node, $offset);
		}
	}
	wait_until('all runs end', sub { (eval { $q->("SELECT count(*) FROM gen_durable.runs WHERE status = 'done'") } || 0) == $runs });
	Workers::stop(@workers);
	is($q->('SELECT count(*) FROM gen_durable.runs'), $runs, 'no run is lost');
	audit('backends that die');
}

done_testing();
