use strict;
use warnings;

my %count;
while (my $line = <STDIN>) {
    # to do: count
}
