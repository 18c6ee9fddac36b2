# Redis servers for the tests: real ones on a Unix socket, and false ones that answer nonsense or nothing.
package Redis;

use strict;
use warnings FATAL => 'all';

use GenDurable;
use IO::Socket::UNIX;
use POSIX ();

# The server's program. Debian has it under another name, too, in the package that starts no service.
sub program
{
	my ($dir) = @_;
	for my $name (qw(redis-server redis-check-rdb))
	{
		for my $path (map { "$_/$name" } split(/:/, $ENV{PATH}), '/usr/bin')
		{
			next unless -x $path;
			return $path if $name eq 'redis-server';
			my $link = "$dir/redis-server";
			-l $link or symlink($path, $link) or die "$link: $!";
			return $link;
		}
	}
	return;
}

# The file of the module gen_durable_redis, if it was built.
sub module
{
	chomp(my $libdir = readpipe(($ENV{PG_CONFIG} || 'pg_config') . ' --pkglibdir'));
	my ($file) = grep { -e $_ } map { s/\$libdir/$libdir/r . '/gen_durable_redis.so' } split /:/, $ENV{GD_DYNAMIC_LIBRARY_PATH} || '$libdir';
	return $file;
}

sub new
{
	my ($class, $dir, @options) = @_;
	return bless { dir => $dir, socket => "$dir/redis.sock", options => [@options] }, $class;
}

# Starts a server that keeps nothing on disk; what was there before is forgotten.
sub start
{
	my ($self) = @_;
	my $program = program($self->{dir});
	unlink $self->{socket};
	defined($self->{pid} = fork) or die "fork: $!";
	if ($self->{pid} == 0)
	{
		open STDOUT, '>>', "$self->{dir}/redis.log" or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec($program, '--port', '0', '--unixsocket', $self->{socket}, '--dir', $self->{dir}, '--save', '',
			@{ $self->{options} }) or POSIX::_exit(1);
	}
	wait_until('Redis listens', sub { IO::Socket::UNIX->new(Peer => $self->{socket}) });
	return;
}

# A false server: gives the same answer to whatever is sent, or none.
sub start_false
{
	my ($self, $answer) = @_;
	unlink $self->{socket};
	my $listener = IO::Socket::UNIX->new(Local => $self->{socket}, Listen => 100) or die "$self->{socket}: $!";
	defined($self->{pid} = fork) or die "fork: $!";
	if ($self->{pid} == 0)
	{
		local $SIG{CHLD} = 'IGNORE';
		local $SIG{PIPE} = 'IGNORE';
		while (my $client = $listener->accept)
		{
			next if fork;
			while (sysread($client, my $command, 65536)) { syswrite($client, $answer) if length $answer }
			POSIX::_exit(0);
		}
		POSIX::_exit(0);
	}
	return;
}

sub signal
{
	my ($self, $signal) = @_;
	kill($signal, $self->{pid}) or die "Redis is not there to get $signal";
	return;
}

sub kill_it
{
	my ($self) = @_;
	return unless $self->{pid};
	kill('KILL', $self->{pid});
	waitpid($self->{pid}, 0);
	delete $self->{pid};
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);
	kill_it($self);
	return;
}

# The answer to one command, as redis-cli prints it.
sub ask
{
	my ($self, @command) = @_;
	open my $out, '-|', 'redis-cli', '-s', $self->{socket}, @{ $self->{login} || [] }, @command or die "redis-cli: $!";
	my $text = do { local $/; <$out> };
	close $out;
	$text = '' unless defined $text;
	chomp $text;
	return $text;
}

1;
