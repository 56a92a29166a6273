# The limits of a location: its own, or those of the level above. A location that answers itself (sliding_log_metrics,
# sliding_log_dashboard) has only its own, and does not pass limits to inner locations. An inner `if` or `limit_except`
# is a part of the location. Random trees of locations against these rules.

use strict;
use warnings;
use List::Util qw(shuffle);
use Test::More;
use Testbed qw(seed);
use Testbed::Http qw(get request field);

seed();

my $bed   = Testbed->new;
my $limit = 0;
my @expected;    # [path, names of its limits, the content type of what it answers]

sub limits { my (@names) = @_; return join ' ', map { "sliding_log_limit $_ key=all limit=1000000 window=1h;" } @names }

# A location and those inside it. `above`: the limits that it would inherit.
sub location {
    my ($path, $depth, @above) = @_;
    my $kind   = (qw(plain own off metrics metrics_own dashboard dashboard_own))[rand 7];
    my @own    = $kind =~ /own/ ? map { 'limit' . ++$limit } 0 .. rand 2 : ();
    my $itself = $kind =~ /^(metrics|dashboard)/ ? $1 : undef;
    my @has    = @own ? @own : $itself || $kind eq 'off' ? () : @above;
    my @passed = @own ? @own : $kind eq 'off' ? () : @above;
    my $type   = !$itself ? 'image/gif' : $itself eq 'metrics' ? 'text/plain' : 'text/html';
    push @expected, [$path, \@has, $type];
    my @inside = (limits(@own), $kind eq 'off' ? 'sliding_log_limit off;' : '', $itself ? "sliding_log_$itself;" : 'empty_gif;');
    push @inside, 'if ($arg_if) { set $ignored 1; } limit_except GET { allow all; }' if $itself;
    @inside = shuffle(@inside);
    push @inside, map { location("$path/" . chr(96 + $_), $depth - 1, @passed) } 1 .. ($depth ? 1 + int rand 3 : 0);
    return "location $path { @inside }\n";
}

for my $round (1 .. 4) {
    @expected = ();
    my @http   = map { 'limit' . ++$limit } 1 .. rand 2;
    my @server = map { 'limit' . ++$limit } 1 .. rand 2;
    my @above  = @server ? @server : @http;
    my $locations = join '', map { location("/$_", 3, @above) } 'a' .. 'c';
    my $nginx = $bed->serve(
        HTTP_LIMITS => limits(@http), SERVER_LIMITS => limits(@server), LOCATIONS => $locations,
        http        => '%%HTTP_LIMITS%%',
        server      => <<'END',
    %%SERVER_LIMITS%%
    %%LOCATIONS%%
END
    );
    my (@wrong, $asked);
    for (@expected) {
        my ($path, $has, $type) = @$_;
        for my $query ('', '?if=1') {
            my $answer = get($nginx->port, $path . $query);
            my $names  = join ' ', (field($answer, 'RateLimit-Policy') // '') =~ /"(\w+)"/g;
            my ($is)   = (field($answer, 'Content-Type') // '') =~ /^([^;]*)/;
            push @wrong, "$path$query: $answer->{status} $is $names, expected 200 $type @$has" if "$answer->{status} $is $names" ne "200 $type @$has";
            $asked++;
        }
        next if $type eq 'image/gif';
        my $answer = request($nginx->port, $path, method => 'POST', body => 'x');
        my $names  = join ' ', (field($answer, 'RateLimit-Policy') // '') =~ /"(\w+)"/g;
        push @wrong, "POST $path: $answer->{status} $names, expected 405 @$has" if "$answer->{status} $names" ne "405 @$has";
    }
    is(join("\n", @wrong), '', "tree $round: $asked answers of " . @expected . ' locations are by their limits') or diag($locations);
}

$bed->done;
