# Client programs for the load tests: psql in a loop, which goes on after a lost connection until a file tells it to stop.
package Workers;

use strict;
use warnings FATAL => 'all';

use POSIX qw(WNOHANG);

# A worker in plain calls: claim, then the step's own write and its outcome in one transaction. A line of its output
# is the token of an outcome whose COMMIT has been answered.
sub plain_script
{
	my ($worker, $lease, $cycles) = @_;
	my $cycle = <<"SQL";
SELECT count(*) > 0 AS got, coalesce(max(token::text), '') AS token, coalesce(max(id), 0) AS id, coalesce(max(fsm), '') AS fsm,
  coalesce(max(step), '') AS step, coalesce(max(attempt), 0) AS attempt, coalesce(max(jsonb_array_length(children)), 0) AS children
  FROM gen_durable.pick('load', '$worker', 1, '$lease') \\gset
\\if :got
BEGIN;
SELECT rig.outcome(:'fsm', :'step', :id, :attempt, :children) AS outcome \\gset
INSERT INTO rig.ledger (id, fsm, step, kind, token) VALUES (:id, :'fsm', :'step', :'outcome'::jsonb ->> 'outcome', :'token');
SELECT gen_durable.complete(:'token', :'outcome');
\\set stale :ERROR
COMMIT;
\\if :stale
\\elif :ERROR
\\else
\\echo :token
\\endif
\\else
SELECT pg_sleep(0.02);
\\endif
SQL
	return "\\set ON_ERROR_STOP 0\n\\o /dev/null\n" . ($cycle x ($cycles || 200));
}

# A worker in batches; a line of its output has the tokens of the outcomes of a batch that was answered.
sub batch_script
{
	my ($worker, $size, $lease, $cycles) = @_;
	my $cycle = <<"SQL";
\\set tokens ''
SELECT rig.batch('$worker', $size, '$lease') AS tokens \\gset
SELECT :'tokens' = '' AS idle \\gset
\\if :idle
SELECT pg_sleep(0.02);
\\else
\\echo :tokens
\\endif
SQL
	return "\\set ON_ERROR_STOP 0\n\\o /dev/null\n" . ($cycle x ($cycles || 200));
}

# What is not a worker's: passing time, and the signal that each parent awaits, sent again and again under one key.
sub driver_script
{
	my ($cycles) = @_;
	my $cycle = <<"SQL";
SELECT gen_durable.tick();
SELECT gen_durable.signal(id, 'go', dedup_key => 'publish') FROM gen_durable.instances WHERE fsm = 'top' AND status = 'awaiting_signal';
SELECT pg_sleep(0.1);
SQL
	return "\\set ON_ERROR_STOP 0\n\\o /dev/null\n" . ($cycle x ($cycles || 50));
}

# Starts a program: the script over and over, its standard output appended to a file. Returns what stop and alive take.
sub start
{
	my ($node, $file, $script) = @_;
	open my $out, '>', "$file.sql" or die "$file.sql: $!";
	print $out $script;
	close $out;
	my $psql = $node->installed_command('psql');
	my $connstr = $node->connstr('postgres');
	my $loop = 'while [ ! -e "$1.stop" ]; do "$2" -XAtq -d "$3" -f "$1.sql" >>"$1.out" 2>>"$1.err" || sleep 0.1; done';
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		exec('sh', '-c', $loop, 'worker', $file, $psql, $connstr) or POSIX::_exit(127);
	}
	return { pid => $pid, file => $file };
}

# How many of the programs run.
sub alive
{
	my (@workers) = @_;
	return scalar(grep { waitpid($_->{pid}, WNOHANG) == 0 } @workers);
}

# Tells programs to stop, and waits until their last script has run out or lost its server.
sub stop
{
	my (@workers) = @_;
	for my $worker (@workers)
	{
		open my $file, '>', "$worker->{file}.stop" or die "$worker->{file}.stop: $!";
		close $file;
	}
	waitpid($_->{pid}, 0) for @workers;
	return;
}

# The words that programs have put out, as keys.
sub acked
{
	my (@files) = @_;
	my %words;
	for my $file (@files)
	{
		open my $in, '<', "$file.out" or next;
		while (my $line = <$in>)
		{
			$words{$_} = 1 for split ' ', $line;
		}
		close $in;
	}
	return %words;
}

1;
