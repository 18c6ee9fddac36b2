# An independent ledger of what limits let through, and what it must show: never more at once than a gate has slots, and
# never more tokens in a window than the burst and what the rate brings in it.
#
# Workers write lines; each instant is in microseconds:
#   b CLAIM GATE RATE WEIGHT FROM TO LEASE   a claim was granted between FROM and TO, and held until LEASE at least
#   h CLAIM LEASE                            it was kept, and is held until LEASE at least
#   e CLAIM AT                               its worker is about to end it
# So a slot is held for certain from TO to the end or, where no end was written because the worker or the server died, to
# the end of the lease; and a worker that has overslept its lease holds nothing after it. Nothing here errs towards a fault.
package Ledger;

use strict;
use warnings FATAL => 'all';

# Reads files of lines; whatever else is in them is passed over.
sub read
{
	my ($class, @files) = @_;
	my (%claims, $ends);
	for my $file (@files)
	{
		open my $in, '<', $file or die "$file: $!";
		while (my $line = <$in>)
		{
			my ($what, $claim, @rest) = split ' ', $line;
			if ($line =~ /^b (?:\S+ ){6}\d+$/)
			{
				my %row;
				@row{qw(gate rate weight from to until)} = @rest;
				$claims{$claim} = \%row;
			}
			elsif ($line =~ /^h \S+ \d+$/)
			{
				$claims{$claim}{until} = $rest[0] if $claims{$claim} && $claims{$claim}{until} < $rest[0];
			}
			elsif ($line =~ /^e \S+ \d+$/)
			{
				$claims{$claim}{end} = $rest[0];
				$ends++;
			}
		}
		close $in;
	}
	return bless { claims => [ grep { defined $_->{from} } values %claims ], ends => $ends || 0 }, $class;
}

# How many claims were let through, and how many of them have no end.
sub claims { return scalar @{ $_[0]{claims} } }
sub lost   { return scalar grep { !defined $_->{end} } @{ $_[0]{claims} } }

# For each key of a gate, how many held it at once at most.
sub overlaps
{
	my ($self) = @_;
	my (%events, %most);
	for my $claim (@{ $self->{claims} })
	{
		next if $claim->{gate} eq '-';
		my $end = $claim->{until};
		$end = $claim->{end} if defined $claim->{end} && $claim->{end} < $end;
		next if $end <= $claim->{to};
		push @{ $events{ $claim->{gate} } }, [ $claim->{to}, 1 ], [ $end, -1 ];
	}
	for my $gate (keys %events)
	{
		my $held = 0;
		$most{$gate} = 0;
		for my $event (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @{ $events{$gate} })
		{
			$held += $event->[1];
			$most{$gate} = $held if $held > $most{$gate};
		}
	}
	return %most;
}

# How many of the sorted instants are at most this one.
sub upto
{
	my ($sorted, $at) = @_;
	my ($low, $high) = (0, scalar @$sorted);
	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);
		if ($sorted->[$middle] <= $at) { $low = $middle + 1 }
		else { $high = $middle }
	}
	return $low;
}

sub larger { return $_[0] > $_[1] ? $_[0] : $_[1] }

# For a key of a rate limit (tokens a second), what the fullest window has in tokens beyond what the rate brought in it:
# at most the burst. Over all windows that begin at some FROM and end at some TO, of the tokens that were granted within
# for certain. The claims are taken by their TO; a tree over all FROM has the tokens of each window up to there, and maxima.
sub spent
{
	my ($self, $key, $rate) = @_;
	my @grants = sort { $a->{to} <=> $b->{to} } grep { $_->{rate} eq $key } @{ $self->{claims} };
	return 0 unless @grants;
	my @from = sort { $a <=> $b } map { $_->{from} } @grants;
	my $brought = sub { return $rate * ($_[0] - $from[0]) / 1e6 };
	my $leaves = 1;
	$leaves *= 2 while $leaves < @from;
	my @best = (-1e300) x (2 * $leaves);    # in a node, without what was added to its ancestors
	my @added = (0) x (2 * $leaves);        # to all leaves of an inner node
	$best[ $leaves + $_ ] = $brought->($from[$_]) for 0 .. $#from;
	$best[$_] = larger($best[ 2 * $_ ], $best[ 2 * $_ + 1 ]) for reverse 1 .. $leaves - 1;

	my $fullest = 0;
	for my $grant (@grants)
	{
		# It counts in the windows that begin at its FROM or before.
		my $node = $leaves + upto(\@from, $grant->{from}) - 1;
		my $weight = $grant->{weight};
		for ($best[$node] += $weight; $node > 1; $node >>= 1)
		{
			if ($node & 1)
			{
				$best[ $node - 1 ] += $weight;
				$added[ $node - 1 ] += $weight;
			}
			my $parent = $node >> 1;
			$best[$parent] = larger($best[ 2 * $parent ], $best[ 2 * $parent + 1 ]) + $added[$parent];
		}

		# The fullest of those that begin at its TO or before.
		$node = $leaves + upto(\@from, $grant->{to}) - 1;
		my $most = $best[$node];
		for (; $node > 1; $node >>= 1)
		{
			$most = larger($most, $best[ $node - 1 ]) if $node & 1;
			$most += $added[ $node >> 1 ];
		}
		$fullest = larger($fullest, $most - $brought->($grant->{to}));
	}
	return $fullest;
}

# How many tokens of a key were granted.
sub tokens
{
	my ($self, $key) = @_;
	my $sum = 0;
	$sum += $_->{weight} for grep { $_->{rate} eq $key } @{ $self->{claims} };
	return $sum;
}

1;
