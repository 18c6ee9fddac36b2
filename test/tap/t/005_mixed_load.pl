# Everything at once in many sessions: no deadlock, and nothing broken (D-4, D-6, D-26; GD-170, GD-225, GD-243; R-3,
# R-13, R-27).
#
# GD_LOAD_SECONDS (30) of inserts, signals, claims, outcomes of every kind, cancellations, reaping and collecting on few
# rows and few keys, so that they meet. The server's log must not say "deadlock detected", nor any error that the
# scripts do not expect; the invariants hold while it runs; afterwards everything that lives comes to its end. No
# transaction makes two calls that take rows or keys of its own choosing: the order of such calls is the client's.
use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";
use GenDurable;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{GD_LOAD_SECONDS} || 30;
my $clients = $ENV{GD_LOAD_CLIENTS} || 8;
my $node = new_node('load', conf => "deadlock_timeout = '100ms'\nlog_lock_waits = on\nautovacuum_naptime = '5s'\n");
$node->safe_psql('postgres', slurp("$FindBin::RealBin/../lib/mixed.sql"));

my $dir = PostgreSQL::Test::Utils::tempdir();
my %script = (
	insert    => [ 3, "SELECT mixed.insert();\n" ],
	batch     => [ 1, "SELECT mixed.insert_all();\n" ],
	work      => [ 8, "SELECT mixed.claim('w' || :client_id, 5);\nSELECT mixed.commit('w' || :client_id);\n" ],
	# Claim and commit in one transaction that keeps its rows between the two.
	long      => [ 3, "BEGIN;\nSELECT mixed.claim('l' || :client_id, 3);\nSELECT mixed.watch();\nSELECT mixed.commit('l' || :client_id, keyed => false);\nCOMMIT;\n" ],
	# Claims left over: their leases run out.
	drop      => [ 1, "SELECT mixed.claim('d' || :client_id, 2);\n" ],
	signal    => [ 4, "SELECT mixed.signal();\n" ],
	heartbeat => [ 2, "SELECT mixed.heartbeat();\n" ],
	release   => [ 1, "SELECT mixed.release();\n" ],
	cancel    => [ 1, "SELECT mixed.cancel();\n" ],
	revive    => [ 1, "SELECT mixed.revive();\n" ],
	reap      => [ 1, "SELECT gen_durable.reap(), gen_durable.fire_timeouts();\n" ],
	gc        => [ 1, "SELECT gen_durable.gc('1 second', 100);\n" ],
	tick      => [ 1, "SELECT gen_durable.tick();\n" ],
	rolled    => [ 1, "BEGIN;\nSELECT mixed.claim('r' || :client_id, 3);\nSELECT mixed.commit('r' || :client_id, keyed => false);\nROLLBACK;\n" ],
	watch     => [ 1, "SELECT mixed.watch();\n" ],
);
my @files;
for my $name (sort keys %script)
{
	my ($weight, $text) = @{ $script{$name} };
	open my $file, '>', "$dir/$name.sql" or die $!;
	print $file $text;
	close $file;
	push @files, '-f', "$dir/$name.sql\@$weight";
}
my ($out, $err) = ('', '');
my $ok = IPC::Run::run([ $node->installed_command('pgbench'), '-n', '-c', $clients, '-j', 2, '-T', $seconds, @files,
	$node->connstr('postgres') ], '>', \$out, '2>', \$err);
ok($ok, 'the load ran to its end') or diag($err);
my ($done) = $out =~ /number of transactions actually processed: (\d+)/;
cmp_ok($done || 0, '>', 100, ($done || 0) . ' transactions');

my $log = slurp($node->logfile);
is(scalar(() = $log =~ /deadlock detected/g), 0, 'no deadlock detected')
  or diag(join("---\n", $log =~ /^(.*ERROR:  deadlock detected\n(?:.*\n){12})/mg));
is(join("\n", $log =~ /^.*(?:(?:WARNING|ERROR|FATAL|PANIC):|was terminated by signal).*$/mg), '', 'no error that nobody expected, no warning, no crash');
is(broken($node), '', 'no invariant is broken');
is($node->safe_psql('postgres', 'SELECT string_agg(what, E\'\n\') FROM mixed.trouble'), '', 'and none was while it ran');
is($node->safe_psql('postgres', 'SELECT rig.finish()'), 0, 'every instance comes to its end');
is(broken($node), '', 'no invariant is broken at the end');
note($node->safe_psql('postgres', 'SELECT kind, sum(n) FROM mixed.counts GROUP BY 1 ORDER BY 1'));

done_testing();
