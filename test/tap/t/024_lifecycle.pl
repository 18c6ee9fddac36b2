# The extension and its databases come and go while clients work; more databases than there is room for; the SQL of
# another version; settings reloaded; a copy whose work must not go on; pg_upgrade's mode.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX qw();
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('lifecycle', conf => "shared_preload_libraries = 'gen_durable'\ngen_durable.enabled = on\ngen_durable.max_databases = 2\nmax_worker_processes = 20\n");
my $dir = PostgreSQL::Test::Utils::tempdir();

sub query
{
	my ($sql, $db) = @_;
	return $node->safe_psql($db || 'postgres', $sql);
}

sub log_lines
{
	my ($pattern) = @_;
	return scalar(() = slurp($node->logfile) =~ /$pattern/g);
}

# How many processes a database has.
sub processes
{
	my ($db) = @_;
	return query("SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('gen_durable maintainer', 'gen_durable scheduler') AND datname = '$db'");
}

sub runs { my ($what, $db) = @_; wait_until($what, sub { processes($db) == 2 }); return pass($what) }
sub ends { my ($what, $db) = @_; wait_until($what, sub { processes($db) == 0 }); return pass($what) }

runs('the first database', 'postgres');

# Clients that go on whatever happens to their database.
append_to_file("$dir/load.sql", <<'SQL');
SELECT gen_durable.insert('load', queue => 'load', correlation_key => 'key' || (random() * 50)::int);
BEGIN;
SELECT gen_durable.complete(token, gen_durable.done()) FROM gen_durable.take('load', 'w', 2);
COMMIT;
SQL
sub load_on
{
	my ($db) = @_;
	my $loop = 'while [ ! -e "$1.stop" ]; do "$2" -n -c 3 -T 1 -f "$1" -h "$3" -p "$4" "$5" >/dev/null 2>&1 || sleep 0.05; done';
	my $pid = fork();
	die "fork: $!" unless defined $pid;
	exec('sh', '-c', $loop, 'load', "$dir/load.sql", $node->installed_command('pgbench'), $node->host, $node->port, $db) or POSIX::_exit(127) if $pid == 0;
	return $pid;
}

sub load_ends
{
	append_to_file("$dir/load.sql.stop", '');
	waitpid($_[0], 0);
	unlink "$dir/load.sql.stop";
	return;
}

my $busy = sub { my ($db) = @_; wait_until('the clients work', sub { (eval { query("SELECT sum(outcome_done) FROM gen_durable.stats", $db) } || 0) > 5 }); return };
query('CREATE DATABASE app');
query('CREATE EXTENSION gen_durable', 'app');
my $load = load_on('app');
for my $round (1 .. 3)
{
	$busy->('app');
	# A client's lock and ours may meet; then one of the two is told of a deadlock, and tries again.
	wait_until('DROP EXTENSION', sub { ($node->psql('app', 'DROP EXTENSION gen_durable'))[0] == 0 });
	ends("DROP EXTENSION under load, $round: the processes end", 'app');
	query('CREATE EXTENSION gen_durable', 'app');
	runs("CREATE EXTENSION under load, $round: they run", 'app');
}
my ($code, undef, $notice) = $node->psql('app', 'ALTER EXTENSION gen_durable UPDATE');
is($code, 0, 'ALTER EXTENSION UPDATE under load');
$busy->('app');
runs('leaves the processes where they are', 'app');

# A third database finds no place, until another has gone; which it does at once, however busy.
query('CREATE DATABASE third');
query('CREATE EXTENSION gen_durable', 'third');
wait_until('the line', sub { log_lines(qr/gen_durable has no place for 1 more databases/) > 0 });
is(processes('third'), 0, 'beyond max_databases a database has no processes');
like(slurp($node->logfile), qr/HINT:  Raise gen_durable.max_databases above 2/, 'the log says what to do');
is(query("SELECT created FROM gen_durable.insert('a'); SELECT count(*) FROM gen_durable.take('default', 'w')", 'third'), "t\n1", 'and works without');
my $began = time();
query('DROP DATABASE app WITH (FORCE)');
cmp_ok(time() - $began, '<', 15, 'DROP DATABASE under load');
runs('its place goes to the database that waits', 'third');
is(log_lines(qr/has no place for/), 1, 'which was one line in the log');
load_ends($load);
query('DROP DATABASE third');

# The SQL is of another version than the library: one line, nothing runs, and all goes on when they agree.
my $version = query("SELECT extversion FROM pg_extension WHERE extname = 'gen_durable'");
query("UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'gen_durable'");
$node->reload;
wait_until('the lines', sub { log_lines(qr/in database "postgres": its version there is 0\.0\.9/) > 0 });
query("SELECT gen_durable.insert('late', queue => 'late'); SELECT gen_durable.pick('late', 'w', 1, '0')");
my $lines = log_lines(qr/its version there is 0\.0\.9/);
$node->reload;
is(query("SELECT status FROM gen_durable.instances WHERE fsm = 'late'"), 'executing', 'with the SQL of another version no maintenance is done');
cmp_ok($lines, '<=', 2, 'one line for each process says so');
query("UPDATE pg_extension SET extversion = '$version' WHERE extname = 'gen_durable'");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT status = 'runnable' FROM gen_durable.instances WHERE fsm = 'late'"), 'when the versions agree it is');

# A dump restored into a database that is switched off: nothing there goes on by itself.
query("SELECT gen_durable.pick('late', 'w', 1, '1 h')");
my $image = image($node);
query('CREATE DATABASE copy');
query('ALTER DATABASE copy SET gen_durable.enabled = off');
$node->command_ok([ 'pg_dump', '--no-sync', '-Fc', '-d', $node->connstr('postgres'), '-f', "$dir/dump" ], 'a dump with a claim');
$node->command_ok([ 'pg_restore', '-d', $node->connstr('copy'), "$dir/dump" ], 'restored where the extension is switched off');
is(image($node, 'copy'), $image, 'as it was dumped');
my $end = "SELECT gen_durable.heartbeat(array_agg(token), '0') FROM gen_durable.instances WHERE fsm = 'late'";
query($end, 'copy');
$image = image($node, 'copy');
query($end);
ok($node->poll_query_until('postgres', "SELECT status = 'runnable' FROM gen_durable.instances WHERE fsm = 'late'"), 'a claim that ends is taken back in the original');
is(processes('copy'), 0, 'the copy has no processes');
is(image($node, 'copy'), $image, 'and nothing goes on there');
query('ALTER DATABASE copy RESET gen_durable.enabled');
ok($node->poll_query_until('copy', "SELECT status = 'runnable' FROM gen_durable.instances WHERE fsm = 'late'"), 'switched on, it goes on');
query('DROP DATABASE copy');

# Every setting with bounds that a session can set takes its least and its largest value by a reload, and refuses what is beyond.
my @settings = map { [ split /\|/ ] } split /\n/, query("SET client_min_messages = error; LOAD 'gen_durable';
	SELECT name, vartype, min_val, max_val, enumvals[1], enumvals[array_length(enumvals, 1)] FROM pg_settings
	WHERE name LIKE 'gen\\_durable.%' AND context IN ('user', 'superuser') AND vartype <> 'string' AND name NOT IN ('gen_durable.enabled', 'gen_durable.clock_offset') ORDER BY name");
cmp_ok(scalar(@settings), '>', 10, scalar(@settings) . ' settings');
my $conf = slurp($node->data_dir . '/postgresql.conf');
my $configure = sub {
	my (@lines) = @_;
	my $path = $node->data_dir . '/postgresql.conf';
	unlink $path;
	append_to_file($path, join("\n", $conf, @lines, ''));
	$node->reload;
	return;
};
for my $end (0, 1)
{
	my %value = map { my ($name, $type, @v) = @$_; $name => $type eq 'bool' ? ('off', 'on')[$end] : $type eq 'enum' ? $v[ 2 + $end ] : $v[$end] } @settings;
	$configure->(map { "$_ = '$value{$_}'" } sort keys %value);
	wait_until('the settings', sub { query('SHOW ' . $settings[-1][0]) eq query("SELECT set_config('$settings[-1][0]', '$value{ $settings[-1][0] }', true)") });
	is(join(' ', grep { query("SHOW $_") ne query("SELECT set_config('$_', '$value{$_}', true)") } sort keys %value), '', 'the ' . ('least', 'largest')[$end] . ' value of each setting');
	runs('the processes run on with them', 'postgres');
}
my @bounded = grep { $_->[1] eq 'integer' || $_->[1] eq 'real' } @settings;
$configure->(map { "$_->[0] = '" . ($_->[2] - 1) . "'" } @bounded);
wait_until('the refusals', sub { log_lines(qr/ outside the valid range for parameter "gen_durable/) >= @bounded });
is(join(' ', grep { my ($name, undef, $least) = @$_; query("SHOW $name") eq $least - 1 } @bounded), '', 'a value below the least is refused, with the bound in the log');
$configure->();
runs('the processes run on', 'postgres');

# pg_upgrade starts a server in a mode in which nothing may work on its own.
$node->stop;
my $pg_ctl = sub { return run_log([ 'pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, @_ ]) };
ok($pg_ctl->('-o', '-b', 'start'), 'a server in the mode of pg_upgrade');
is(query("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'gen_durable%'"), '0', 'registers nothing');
is(query("SELECT count(*) FROM gen_durable.instances WHERE fsm = 'late'"), '1', 'and the tables can be read');
ok($pg_ctl->('stop'), 'stop');
$node->start;
runs('started as usual, all are back', 'postgres');

unlike(slurp($node->logfile), qr/PANIC|TRAP:|terminated by signal|(ERROR|FATAL):.*(snapshot|leak|cache lookup)/, 'nothing untoward in the log');
is(broken($node), '', 'no invariant is broken');
done_testing();
