#!/bin/bash
cat > /app/vowels.pl <<'PERL'
use strict;
use warnings;

my %count;
while (my $line = <STDIN>) {
    $count{lc $1}++ while $line =~ /([aeiou])/gi;
}
print "$_ $count{$_}\n" for sort keys %count;
PERL
