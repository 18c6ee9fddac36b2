# The run store on a server with the extension preloaded: which calls wake who waits for runs, and what is counted of each.
# DK-031, DK-103, DK-155..158, DK-220, DK-221; D-23. The polls are set to an hour, so that only a wake-up can end a wait.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use Test::More;
use Time::HiRes qw(time);

$ENV{GD_PRELOAD} = 1;
my $node = new_node('runs', conf => "max_prepared_transactions = 5\ngen_durable.poll_interval = '1h'\ngen_durable.max_poll_interval = '1h'\n");
my $q = sub { return $node->safe_psql('postgres', $_[0]) };
my $waiting = sub { return $q->("SELECT wait_event_type FROM pg_stat_activity WHERE pid = $_[0]") eq 'Extension' };

$q->(<<'SQL');
CREATE SCHEMA t;
-- A run that is ready, unless its time is given.
CREATE FUNCTION t.run(name text, wake_at timestamptz DEFAULT '2020-01-01', scope text DEFAULT 'tenantless') RETURNS text LANGUAGE sql AS $$
  SELECT status FROM gen_durable.run_insert(scope, name, 'g', 'h', '', wake_at);
$$;
CREATE FUNCTION t.claim(rows int DEFAULT 1000, ttl interval DEFAULT '1 h', attempts int DEFAULT 5, preference text DEFAULT NULL) RETURNS bigint LANGUAGE sql AS $$
  SELECT count(*) FROM gen_durable.run_claim_due(rows, ttl, attempts, preference);
$$;
CREATE FUNCTION t.token(name text) RETURNS uuid LANGUAGE sql AS $$
  SELECT claim_token FROM gen_durable.runs WHERE run_id = name;
$$;
-- The next commit of a run, by its claim or without one.
CREATE FUNCTION t.commit(name text, schedule text, status text DEFAULT 'running', wake_at timestamptz DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
  SELECT (gen_durable.run_commit('system', name, t.token(name), checkpoint_seq, 'c', schedule, $3, 1, '', $4)).status FROM gen_durable.runs WHERE run_id = name;
$$;
CREATE FUNCTION t.unclaimed(name text, schedule text, status text DEFAULT 'running', wake_at timestamptz DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
  SELECT (gen_durable.run_commit_unclaimed('system', name, checkpoint_seq, 'c', schedule, $3, 1, '', $4)).status FROM gen_durable.runs WHERE run_id = name;
$$;
CREATE FUNCTION t.decide(run gen_durable.run, arg jsonb) RETURNS gen_durable.run_decision LANGUAGE plpgsql AS $$
BEGIN
  run.status := 'running';
  run.checkpoint_seq := run.checkpoint_seq + 1;
  RETURN ROW(arg ->> 0, run, 'c', 'immediate', NULL, NULL)::gen_durable.run_decision;
END $$;
CREATE PROCEDURE t.poison(name text) LANGUAGE sql AS $$
  UPDATE gen_durable.runs SET wake_at = NULL, claim_token = NULL, claimed_at = NULL, poisoned_at = now(), poison_reason = 'x' WHERE run_id = name;
$$;
SQL

# A session that has come to sleep in run_wait; answers it and its pid.
sub waiter
{
	my (@before) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query($_) for @before;
	my $pid = $session->query('SELECT pg_backend_pid()');
	send_async($session, "CALL gen_durable.run_wait('1h')");
	wait_until('waits for runs', sub { $waiting->($pid) });
	return ($session, $pid);
}

# The statements wake one who waits for runs.
sub wakes
{
	my ($what, @statements) = @_;
	my ($session) = waiter();
	my $began = time();
	$q->($_) for @statements;
	$session->query('SELECT 1');
	cmp_ok(time() - $began, '<', 60, "woken by $what");
	$session->quit;
	$q->('TRUNCATE gen_durable.runs');
	return;
}

# Runs of that name that are claimed, ended, waiting, or poisoned, so that none is ready.
sub claimed { $q->("SELECT t.run('$_[0]'); SELECT t.claim()"); return }
sub poisoned { $q->("SELECT t.run('$_[0]'); CALL t.poison('$_[0]')"); return }
sub parked { claimed($_[0]); $q->("SELECT t.commit('$_[0]', 'external', 'waiting')"); return }

wakes('a due insert', "SELECT t.run('a')");
wakes('an insert of a tenant', "SELECT t.run('a', scope => 'tenant:x')");
wakes('a run that is due soon, when it is', "SELECT t.run('a', now() + interval '300 ms')");
wakes('a run that became due in a long transaction, whose session would poll sooner',
	"SET gen_durable.poll_interval = '10ms'; SET gen_durable.max_poll_interval = '10ms'; BEGIN; SELECT t.run('a', clock_timestamp() + interval '300 ms'); SELECT pg_sleep(0.4); COMMIT");
claimed('a');
wakes('an immediate commit', "SELECT t.commit('a', 'immediate')");
claimed('a');
wakes('a commit at a time that has come', "SELECT t.commit('a', 'at', wake_at => '2020-01-01')");
parked('a');
wakes('an unclaimed commit', "SELECT t.unclaimed('a', 'immediate')");
parked('a');
wakes('an unclaimed commit at a time that has come', "SELECT t.unclaimed('a', 'at', wake_at => '2020-01-01')");
parked('a');
wakes('a mutation', "SELECT gen_durable.run_mutate('system', 'a', 't.decide(gen_durable.run, jsonb)', '[\"commit\"]')");
poisoned('a');
wakes('a recovery', "SELECT gen_durable.run_retry_poisoned('system', 'a')");
wakes('the rest of a transaction whose savepoint was rolled back', "BEGIN; SAVEPOINT s; SELECT t.run('a'); ROLLBACK TO s; SELECT t.run('b'); COMMIT");

# What wakes nobody: a waiter's transactions are counted by their virtual ids, one a look. At the end it is woken, which
# shows that it slept and was to be reached.
{
	claimed($_) for 'released', 'abandoned', 'abandoned too', 'later', 'parked', 'ended', 'kept', 'stays';
	my ($session, $pid) = waiter();
	my $transaction = "SELECT virtualxid FROM pg_locks WHERE pid = $pid AND locktype = 'virtualxid'";
	my $before = $q->($transaction);
	my @silent = (
		[ 'a release', "SELECT gen_durable.run_release_claim('released', t.token('released'))" ],
		[ 'a claim', 'SELECT t.claim()' ],
		[ 'an abandon', "SELECT gen_durable.run_abandon_claim('abandoned', t.token('abandoned'), 1, '2999-01-01', 5)" ],
		[ 'an abandon to now', "SELECT gen_durable.run_abandon_claim('abandoned too', t.token('abandoned too'), 1, '2020-01-01', 5, now => '2020-01-01')" ],
		[ 'a commit at a later time', "SELECT t.commit('later', 'at', wake_at => '2999-01-01')" ],
		[ 'a commit to waiting', "SELECT t.commit('parked', 'external', 'waiting')" ],
		[ 'an end', "SELECT t.commit('ended', 'terminal', 'done')" ],
		[ 'a commit that keeps the claim', "SELECT t.commit('kept', 'retain')" ],
		[ 'a recovery of a healthy run', "SELECT gen_durable.run_retry_poisoned('system', 'stays')" ],
		[ 'a mutation that changes nothing', "SELECT gen_durable.run_mutate('system', 'stays', 't.decide(gen_durable.run, jsonb)', '[\"no_change\"]')" ],
		[ 'an insert of a run of the future', "SELECT t.run('future', '2999-01-01')" ],
		[ 'an insert that is rolled back', "BEGIN; SELECT t.run('lost'); ROLLBACK" ],
		[ 'an insert that is prepared', "BEGIN; SELECT t.run('prepared'); PREPARE TRANSACTION 'p'" ],
		[ 'COMMIT PREPARED', "COMMIT PREPARED 'p'" ],
		[ 'an instance', "SELECT gen_durable.insert('a', queue => 'w')" ],
	);
	for my $case (@silent)
	{
		my ($what, $statement) = @$case;
		$q->($statement);
		is($q->($transaction), $before, "$what wakes nobody");
	}
	is($q->("SELECT coalesce(backend_xmin::text, 'none') || ' ' || coalesce(backend_xid::text, 'none') FROM pg_stat_activity WHERE pid = $pid"),
		'none none', 'who waits for runs holds no snapshot');
	$q->("SELECT t.run('due')");
	my $began = time();
	$session->query('SELECT 1');
	cmp_ok(time() - $began, '<', 60, 'but a due insert does');
	$session->quit;
	$q->('TRUNCATE gen_durable.runs');
}

# A tenant's waiter is woken by its tenant's runs and by no others; each run wakes one.
{
	$q->("CREATE ROLE gd_runs_x LOGIN; SELECT gen_durable.grant_tenant('gd_runs_x', 'x'); CREATE ROLE gd_runs_y LOGIN; SELECT gen_durable.grant_tenant('gd_runs_y', 'y')");
	my %session;
	my %pid;
	($session{$_}, $pid{$_}) = waiter("SET ROLE gd_runs_$_") for 'x', 'y';
	$q->("SELECT t.run('for x', scope => 'tenant:x')");
	$session{x}->query('SELECT 1');
	pass('the waiter of tenant x is woken by its run');
	ok($waiting->($pid{y}), 'and the one of tenant y sleeps on');
	$q->("SELECT t.run('for y', scope => 'tenant:y')");
	$session{y}->query('SELECT 1');
	pass('until its own run comes');
	$_->quit for values %session;
	$q->('SELECT t.claim()');
	my @all = map { [ waiter() ] } 1 .. 3;
	my $asleep = sub { return $q->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL gen_durable.run_wait%' AND state = 'active'") };
	is($asleep->(), 3, 'three wait');
	$q->("SELECT t.run('one')");
	wait_until('one is woken', sub { $asleep->() == 2 });
	$q->("SELECT t.claim(); SELECT t.run('two'), t.run('three')");
	wait_until('the others too', sub { $asleep->() == 0 });
	pass('a run wakes one waiter, and two runs two');
	$_->[0]->quit for @all;
	$q->('TRUNCATE gen_durable.runs');
}

# What a waiter does not hear of its poll finds.
{
	my ($session) = waiter("SET gen_durable.poll_interval = '50 ms'", "SET gen_durable.max_poll_interval = '100 ms'");
	my $began = time();
	$q->("INSERT INTO gen_durable.runs (run_id, graph_id, graph_hash, state, started_at, updated_at, wake_at) VALUES ('sql', 'g', 'h', '', now(), now(), now())");
	$session->query('SELECT 1');
	cmp_ok(time() - $began, '<', 60, 'the poll finds what SQL has written');
	$session->quit;
	$q->('TRUNCATE gen_durable.runs');
}

# The counters.
sub counter { return $q->("SELECT $_[0] FROM gen_durable.run_stats") }

# The statements move the counters by so much, each of them that is named, and no other but those of time.
my @names = split /\n/, $q->(<<'SQL');
SELECT attname FROM pg_attribute WHERE attrelid = 'gen_durable.run_stats'::regclass AND attnum > 0 AND atttypid = 'bigint'::regtype ORDER BY attnum
SQL
my $line = 'concat_ws(\'|\', ' . join(', ', @names) . ')';

sub counts
{
	my ($what, $statements, %expected) = @_;
	my @before = split /\|/, counter($line);
	my (undef, undef, $error) = $node->psql('postgres', $statements, on_error_stop => 0);
	my @after = split /\|/, counter($line);
	my %moved = map { ($names[$_] => $after[$_] - $before[$_]) } grep { $after[$_] != $before[$_] } 0 .. $#names;
	is_deeply(\%moved, \%expected, "counted: $what") or diag(explain(\%moved), $error);
	return;
}

counts('inserts', "SELECT t.run('a'), t.run('b', '2999-01-01')", inserted => 2);
counts('an insert of a name that is taken', "SELECT t.run('a')");
counts('a rollback', "BEGIN; SELECT t.run('x'), t.claim(); ROLLBACK");
counts('savepoints', "BEGIN; SELECT t.run('c'); SAVEPOINT s; SELECT t.run('d'), t.claim(); ROLLBACK TO s; SAVEPOINT u; SELECT t.run('d'); RELEASE u; COMMIT", inserted => 2);
counts('claims', 'SELECT t.claim(2)', claim_calls => 1, wanted => 2, ready_candidates => 2, ready_outcomes => 2, acquired => 2, attempts => 2);
counts('the next claim', 'SELECT t.claim(10)', claim_calls => 1, wanted => 10, ready_candidates => 1, ready_outcomes => 1, acquired => 1, attempts => 1);
counts('a claim that finds nothing', 'SELECT t.claim(10)', claim_calls => 1, wanted => 10);
counts('steals', "SELECT t.claim(10, '0')", claim_calls => 1, wanted => 10, expired_candidates => 3, expired_outcomes => 3, reacquired => 3, steals => 3, attempts => 6);
counts('poison', "SELECT t.claim(10, '0', 2)", claim_calls => 1, wanted => 10, expired_candidates => 3, expired_outcomes => 3, poisoned_attempts => 3);
counts('recoveries', "SELECT gen_durable.run_retry_poisoned('system', n) FROM unnest(ARRAY['a', 'b', 'c', 'd']) n", recovered => 3, recovery_healthy => 1);
counts('a fallback', "SELECT t.claim(1, '0', preference => 'expired')", claim_calls => 1, wanted => 1, ready_candidates => 1, ready_outcomes => 1, acquired => 1, attempts => 1, fallbacks => 1);
counts('a preference', "SELECT t.claim(1, '1 h', preference => 'ready')", claim_calls => 1, wanted => 1, ready_candidates => 1, ready_outcomes => 1, acquired => 1, attempts => 1);
$q->('SELECT t.claim()');
counts('a refresh', "SELECT gen_durable.run_refresh_claim('a', t.token('a'))", refreshed => 1);
counts('a refresh that came too late', "SELECT gen_durable.run_refresh_claim('a', gen_random_uuid())", refresh_lost => 1);
counts('releases', "SELECT gen_durable.run_release_claim('a', t.token('a')); SELECT gen_durable.run_release_claim('a', gen_random_uuid())", released => 1, release_missed => 1);
counts('abandons', "SELECT gen_durable.run_abandon_claim('c', t.token('c'), 1, '2020-01-01', 1, now => '2020-01-01'); SELECT gen_durable.run_abandon_claim('c', gen_random_uuid(), 1, '2999-01-01', 1)", rescheduled => 1, abandon_stale => 1);
counts('an abandon too many', "SELECT t.claim(); SELECT gen_durable.run_abandon_claim('c', t.token('c'), 1, '2999-01-01', 1)",
	claim_calls => 1, wanted => 1000, ready_candidates => 2, ready_outcomes => 2, acquired => 1, reacquired => 1, attempts => 3, poisoned_abandons => 1);
counts('commits', "SELECT t.commit('a', 'retain'); SELECT t.commit('a', 'immediate'); SELECT t.commit('d', 'at', wake_at => '2999-01-01')", commit_retain => 1, commit_immediate => 1, commit_at => 1);
counts('commits without a claim', "SELECT t.unclaimed('b', 'external', 'waiting'); SELECT t.unclaimed('b', 'terminal', 'cancelled')", commit_external => 1, commit_terminal => 1, commit_unclaimed => 2);
counts('a mutation', "SELECT gen_durable.run_mutate('system', 'a', 't.decide(gen_durable.run, jsonb)', to_jsonb(ARRAY[action])) FROM unnest(ARRAY['commit', 'no_change']) action", commit_immediate => 1, commit_unclaimed => 1);
counts('a commit behind a lost fence', "SELECT gen_durable.run_commit('system', 'a', gen_random_uuid(), 1, 'c', 'retain', 'running', 1, ''); SELECT gen_durable.run_commit_unclaimed('system', 'a', 1, 'c', 'immediate', 'running', 1, '')", stale_commits => 2);
counts('a commit that is invalid', "SELECT t.unclaimed('a', 'external')");
counts('a recovery of a run that has ended', "SELECT gen_durable.run_retry_poisoned('system', 'b')", recovery_inactive => 1);
counts('what gc deletes', "SELECT gen_durable.gc('0')", collected => 1);
is($q->(q(SELECT count(*) FROM gen_durable.run_stats WHERE claim_time BETWEEN '1 us' AND '1 h' AND refresh_time BETWEEN '0' AND '1 h' AND release_time BETWEEN '0' AND '1 h'
	AND abandon_time BETWEEN '0' AND '1 h' AND recovery_time BETWEEN '0' AND '1 h' AND since BETWEEN now() - interval '1 h' AND now() AND oldest_claim_age IS NULL AND due_next = '2999-01-01')), '1', 'and their times');
is($q->("SELECT count(*) FROM gen_durable.stats WHERE queue = ''"), '0', 'the run store is no queue');
my $counted = counter($line);
$q->('SELECT gen_durable.recount()');
is(counter($line), $counted, 'a count of the queues leaves the counters as they are');

# Another database has its own; a restart begins anew.
$node->safe_psql('template1', 'CREATE EXTENSION gen_durable');
is($node->safe_psql('template1', 'SELECT inserted, claim_calls, since IS NOT NULL FROM gen_durable.run_stats'), '0|0|t', 'another database counts for itself');
$node->safe_psql('template1', 'DROP EXTENSION gen_durable');
$node->restart;
is(counter('inserted'), '0', 'they count since the start of the server');
# Without the preload nothing is counted, and everything else works.
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\n");
$node->restart;
$q->("SELECT t.run('bare'); SELECT t.claim()");
is($q->('SELECT inserted IS NULL, since IS NULL, oldest_claim_age IS NOT NULL FROM gen_durable.run_stats'), 't|t|t', 'without the preload nothing is counted');
$node->stop;
done_testing();
