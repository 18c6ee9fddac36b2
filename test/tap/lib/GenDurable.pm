# What the TAP tests share: nodes that find the extension, sessions, crashes, a fixture, and the engine's invariants.
#
# An extension installed outside the system's folders is found through the environment: GD_EXTENSION_DESTDIR and
# GD_DYNAMIC_LIBRARY_PATH become the settings extension_destdir and dynamic_library_path. GD_PRELOAD=1 preloads it, with
# the background processes off: most tests decide themselves when time passes.
package GenDurable;

use strict;
use warnings FATAL => 'all';

use Exporter 'import';
use File::Basename qw(dirname);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep time);

our @EXPORT = qw(settings new_node install image broken hold send_async kill_backend await_restart kill_postmaster start_again wait_until slurp);

# Lines of configuration by which a server finds the extension.
sub settings
{
	my $conf = '';
	$conf .= "extension_destdir = '$ENV{GD_EXTENSION_DESTDIR}'\n" if $ENV{GD_EXTENSION_DESTDIR};
	$conf .= "dynamic_library_path = '$ENV{GD_DYNAMIC_LIBRARY_PATH}'\n" if $ENV{GD_DYNAMIC_LIBRARY_PATH};
	$conf .= "shared_preload_libraries = 'gen_durable'\ngen_durable.enabled = off\n" if $ENV{GD_PRELOAD};
	return $conf;
}

# A server of its own, started, with the extension and the fixture in database postgres.
sub new_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(%{ $opt{init} || {} });
	$node->append_conf('postgresql.conf', settings() . "log_statement = none\nrestart_after_crash = on\n");
	$node->append_conf('postgresql.conf', $opt{conf}) if $opt{conf};
	$node->start;
	install($node) unless $opt{bare};
	return $node;
}

# The extension and the fixture (schema rig) in a database.
sub install
{
	my ($node, $db) = @_;
	$db ||= 'postgres';
	$node->safe_psql($db, "SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS gen_durable;");
	$node->safe_psql($db, slurp(dirname(__FILE__) . '/rig.sql'));
	return;
}

sub slurp
{
	my ($path) = @_;
	return PostgreSQL::Test::Utils::slurp_file($path);
}

# All rows of the engine's tables, as text that compares.
sub image
{
	my ($node, $db) = @_;
	return $node->safe_psql($db || 'postgres', 'SELECT line FROM rig.image() line');
}

# The engine's invariants that do not hold, one a line; empty when all is well.
sub broken
{
	my ($node, $db) = @_;
	return $node->safe_psql($db || 'postgres', 'SELECT * FROM rig.broken()');
}

# A session that has run the statements in a transaction and keeps it open; returns it with its backend's pid.
sub hold
{
	my ($node, @statements) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $session->query('SELECT pg_backend_pid()');
	$session->query('BEGIN');
	for my $statement (@statements)
	{
		$session->{stderr} = '';
		$session->query($statement);
		die "$statement: $session->{stderr}" if $session->{stderr} =~ /ERROR/;
	}
	return ($session, $pid);
}

# Starts a statement in a session without waiting for its answer; returns when psql has come to it, with as much of the
# answer as is there already.
sub send_async
{
	my ($session, $statement) = @_;
	my $output = $session->query_until(qr/begun/, "\\echo begun\n$statement;\n");
	return $output =~ /begun\n?(.*)/s ? $1 : '';
}

# SIGKILL for one backend, which makes the server restart all of them; returns when it accepts connections again.
sub kill_backend
{
	my ($node, $pid) = @_;
	my $offset = -s $node->logfile;
	kill('KILL', $pid) or die "no backend $pid to kill";
	await_restart($node, $offset);
	return;
}

# SIGKILL for the postmaster. Where nobody collects it (in a container whose first process is no init) its zombie looks
# alive to the next start, so its lock files are taken away; the interlock on shared memory stays.
sub kill_postmaster
{
	my ($node) = @_;
	my $pid_file = $node->data_dir . '/postmaster.pid';
	my ($pid) = split /\n/, slurp($pid_file);
	$node->kill9;
	wait_until('the postmaster is gone', sub {
		return 1 unless kill(0, $pid);
		return -r "/proc/$pid/stat" && slurp("/proc/$pid/stat") =~ /\) Z / });
	unlink $pid_file, $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

# Starts a server again after its postmaster was killed, as soon as its orphans let go of the shared memory.
sub start_again
{
	my ($node) = @_;
	wait_until('the server starts again', sub {
		run_log([ $node->installed_command('pg_ctl'), '-w', '-D', $node->data_dir, '-l', $node->logfile, 'start' ]) });
	$node->_update_pid(1);
	return;
}

# Returns when a server that restarts itself accepts connections; offset is the length of its log beforehand.
sub await_restart
{
	my ($node, $offset) = @_;
	wait_until('the server is back', sub { slurp_from($node->logfile, $offset) =~ /ready to accept connections/ });
	$node->poll_query_until('postgres', 'SELECT true') or die 'the server did not come back';
	return;
}

sub slurp_from
{
	my ($path, $offset) = @_;
	open my $file, '<', $path or die "$path: $!";
	seek $file, $offset, 0;
	local $/;
	my $text = <$file>;
	close $file;
	return defined $text ? $text : '';
}

# Waits for a condition, with a deadline.
sub wait_until
{
	my ($what, $condition, $seconds) = @_;
	my $deadline = time() + ($seconds || $PostgreSQL::Test::Utils::timeout_default);
	until ($condition->())
	{
		die "timed out waiting: $what" if time() > $deadline;
		usleep(20_000);
	}
	return 1;
}

1;
