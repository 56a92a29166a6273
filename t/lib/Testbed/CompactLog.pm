package Testbed::CompactLog;

# A log of algorithm=compact, read and written without the scripts: its times, and the marks behind its ring, which the
# next version writes.

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(sum0);

our @EXPORT_OK = qw(add_marks log_of numbers times_of untrue_marks written_by_hand);

use constant { FRONT => 64, STATE => 37, BLOCKED => 29, LONGEST => 7, MARK => 7, STEP => 1024 };

sub bytes_of  { my ($number, $size) = @_; return substr pack('Q>', $number), 8 - $size }
sub number_of { my ($bytes) = @_; return unpack 'Q>', substr "\0" x 8 . $bytes, -8 }

sub number {
    my ($ms) = @_;
    my $bytes = chr $ms % 128;
    $bytes = chr(128 + $ms % 128) . $bytes while $ms = int $ms / 128;
    return $bytes;
}

# The numbers of these times, in ascending order. runs: of more than three equal ones.
sub numbers {
    my ($times, $runs) = @_;
    my $bytes = '';
    for (my $i = 1; $i < @$times; $i++) {
        my $same = 0;
        $same++ while $runs && $i + $same < @$times && $times->[$i + $same] == $times->[$i - 1];
        $bytes .= $same >= 3 ? "\x80" . number($same) : number($times->[$i] - $times->[$i - 1]);
        $i += $same - 1 if $same >= 3;
    }
    return $bytes;
}

# A log of these times, all of them in its ring. Options: runs => 1; begin => where the ring begins; spare => its bytes that
# are not used; touched => when its time to live was set; blocked => until when.
sub log_of {
    my ($times, %options) = @_;
    my $bytes = numbers($times, $options{runs});
    my $ends  = bytes_of($times->[0], 6) . ($options{runs} ? bytes_of($times->[-1] - $times->[0], 5) . bytes_of(scalar @$times, 5) : bytes_of($times->[-1], 6) . bytes_of(scalar @$times, 4));
    return chr($options{runs} ? 4 : 2) . bytes_of($options{blocked}, 6) . bytes_of(3_600_000, 6) . $ends . $bytes if $options{blocked};
    my $size = length($bytes) + ($options{spare} // 500);
    my $ring = $bytes . "\xff" x ($size - length $bytes);
    my $begin = $options{begin} // 0;
    $ring = substr($ring, $size - $begin) . substr($ring, 0, $size - $begin) if $begin;
    return chr($options{runs} ? 3 : 1) . $ends . bytes_of($options{touched} // $times->[-1], 6) . pack('NNNCC', $size, $begin, length $bytes, 0, 0) . "\0" x FRONT . $ring;
}

# What a log says of itself, and its numbers: [value, bytes, whether it is a run].
sub parse {
    my ($log, $front) = @_;
    my $format = ord $log;
    my %log    = (runs => $format > 2);
    my $ends   = substr $log, $format % 2 ? 1 : 13, 16;
    $log{oldest} = number_of(substr $ends, 0, 6);
    $log{newest} = $log{runs} ? $log{oldest} + number_of(substr $ends, 6, 5) : number_of(substr $ends, 6, 6);
    $log{used}   = number_of($log{runs} ? substr($ends, 11, 5) : substr($ends, 12, 4));
    if ($format % 2 == 0) {
        @log{qw(size begin filled next ring latest)} = (0, 0, 0, '', substr($log, BLOCKED), '');
    }
    else {
        my ($next, $latest);
        (@log{qw(size begin filled)}, $next, $latest) = unpack 'NNNCC', substr $log, 23, 14;
        $log{next}   = substr $log, STATE, $next;
        $log{latest} = substr $log, STATE + $next, $latest;
        my $ring = $log{size} ? substr $log, STATE + ($front // FRONT), $log{size} : '';
        $log{ring} = substr $ring . $ring, $log{begin}, $log{filled};
    }
    for my $part (qw(next ring latest)) {
        $log{numbers}{$part} = [map { number_in($_, $log{runs}) } $log{$part} =~ /[\x80-\xff]*[\0-\x7f]/g];
        sum0(map { $_->[1] } @{ $log{numbers}{$part} }) == length $log{$part} or die "no whole numbers in the $part\n";
    }
    return \%log;
}

sub number_in {
    my ($bytes, $runs) = @_;
    my $value = 0;
    $value = $value * 128 + ord($_) % 128 for split //, $bytes;
    return [$value, length $bytes, $runs && ord $bytes == 128];
}

# The times of its entries. Dies if the log does not have what it says.
sub times_of {
    my ($bytes, $front) = @_;
    my $log   = parse($bytes, $front);
    my @times = $log->{used} ? $log->{oldest} : ();
    for (map { @{ $log->{numbers}{$_} } } qw(next ring latest)) {
        my ($value, undef, $is_run) = @$_;
        push @times, $is_run ? ($times[-1]) x $value : $times[-1] + $value;
    }
    @times == $log->{used} && (!@times || $times[-1] == $log->{newest}) or die "a log of $log->{used} entries up to $log->{newest} has " . @times . " up to $times[-1]\n";
    return \@times;
}

# The marks of the places that the ring holds, in their order: the number of the place, the bytes of the ring in front of it, the time and the offset.
sub true_marks {
    my ($log, $step) = @_;
    my ($time, $at, $next, @marks) = ($log->{oldest}, 0, 0);
    $time += $_->[2] ? 0 : $_->[0] for @{ $log->{numbers}{next} };
    my @places = sort { $a->{bytes} <=> $b->{bytes} } grep { $_->{bytes} < $log->{filled} }
        map { { place => $_, bytes => ($_ * $step - $log->{begin}) % $log->{size} } } 0 .. int(($log->{size} - 1) / $step);
    for my $number (@{ $log->{numbers}{ring} }, [0, 0]) {
        while ($next < @places && $places[$next]{bytes} <= $at) {
            push @marks, { %{ $places[$next] }, time => $time, offset => $at - $places[$next]{bytes} };
            $next++;
        }
        my ($value, $bytes, $is_run) = @$number;
        $time += $value if !$is_run;
        $at += $bytes;
    }
    return @marks;
}

# A log that has a ring, with a mark of each place of which wanted->(number) is true. It keeps what marks it has.
# front, step: other sizes than usual.
sub add_marks {
    my ($bytes, $wanted, %sizes) = @_;
    my ($front, $step) = ($sizes{front} // FRONT, $sizes{step} // STEP);
    my $log = parse($bytes, $front);
    return $bytes if !$log->{size};
    my $behind = STATE + $front + $log->{size};
    my $marks  = substr $bytes, $behind;
    $marks .= "\0" x (MARK * int(($log->{size} + $step - 1) / $step) - length $marks);
    for my $mark (grep { $wanted->($_->{place}) } true_marks($log, $step)) {
        substr $marks, MARK * $mark->{place}, MARK, bytes_of($mark->{time}, 6) . chr($mark->{offset});
    }
    return substr($bytes, 0, $behind) . $marks;
}

# What is wrong with the marks that a reader would believe: '' if nothing is; and how many these are.
sub untrue_marks {
    my ($bytes, %sizes) = @_;
    my ($front, $step) = ($sizes{front} // FRONT, $sizes{step} // STEP);
    my $log = parse($bytes, $front);
    return ('', 0) if !$log->{size};
    my $marks = substr $bytes, STATE + $front + $log->{size};
    my $first = $log->{oldest} + sum0(map { $_->[2] ? 0 : $_->[0] } @{ $log->{numbers}{next} });
    my ($believed, @untrue) = 0;
    for my $true ($marks eq '' ? () : true_marks($log, $step)) {
        my ($time, $offset) = map { number_of($_) } unpack 'a6a1', substr $marks, MARK * $true->{place}, MARK;
        next if !($time > $first && $time <= $log->{newest} && $offset < LONGEST && $true->{bytes} + $offset <= $log->{filled});
        $believed++;
        push @untrue, "mark $true->{place} says $time + $offset, not $true->{time} + $true->{offset}" if "$time $offset" ne "$true->{time} $true->{offset}";
    }
    return (join(', ', @untrue), $believed);
}

# ---- logs with runs in random places

# The numbers of the entries of one time after the first: some are in runs, some are not.
sub in_runs {
    my ($left) = @_;
    my @numbers;
    while ($left > 0) {
        my $some = rand() < 0.5 ? $left : 1 + int rand $left;
        push @numbers, rand() < 0.7 ? "\x80" . number($some) : ("\0") x $some;
        $left -= $some;
    }
    return @numbers;
}

# The log of entries [time, count] in order, with runs or without. %layout: touched, when its time to live was set; begin, a
# part of the ring; spare, bytes of it; next and latest, the bytes in these; or blocked, until when, and length.
sub written_by_hand {
    my ($has_runs, $entries, %layout) = @_;
    my ($first, @others) = @$entries;
    my $used    = sum0(map { $_->[1] } @$entries);
    my $newest  = $entries->[-1][0];
    my $ends    = bytes_of($first->[0], 6) . ($has_runs ? bytes_of($newest - $first->[0], 5) . bytes_of($used, 5) : bytes_of($newest, 6) . bytes_of($used, 4));
    my $more    = sub { my ($count) = @_; return $has_runs ? in_runs($count - 1) : ("\0") x ($count - 1) };
    my @numbers = $more->($first->[1]);
    my $before  = $first->[0];
    for (@others) {
        push @numbers, number($_->[0] - $before), $more->($_->[1]);
        $before = $_->[0];
    }
    return chr($has_runs ? 4 : 2) . bytes_of($layout{blocked}, 6) . bytes_of($layout{length}, 6) . $ends . join '', @numbers if $layout{blocked};
    my ($next, $latest) = ('', '');
    $next   .= shift @numbers while @numbers && length $next < $layout{next};
    $latest = pop(@numbers) . $latest while @numbers && length $latest < $layout{latest};
    my ($ring, $size, $begin) = (join('', @numbers), 0, 0);
    if (length $ring) {
        $size  = length($ring) + $layout{spare};
        $begin = int $layout{begin} * $size;
    }
    my $text = chr($has_runs ? 3 : 1) . $ends . bytes_of($layout{touched}, 6) . pack('NNNCC', $size, $begin, length $ring, length $next, length $latest) . $next . $latest;
    return $text if !$size;
    my $places = "\0" x $size;
    substr $places, ($begin + $_) % $size, 1, substr $ring, $_, 1 for 0 .. length($ring) - 1;
    return $text . "\0" x (STATE + FRONT - length $text) . $places;
}

1;
