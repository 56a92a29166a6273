package Bench::Docs;

# The measured part of docs/benchmarks.md, and the charts beside it.

use strict;
use warnings;
use POSIX qw(strftime);

use Testbed::Process;
use Bench::Chart;

my ($begin, $end) = ('<!-- begin: written by ./build.sh bench --docs -->', '<!-- end -->');

# Refuses a directory without the file before anything is measured.
sub new {
    my ($class, $dir) = @_;
    my $file = "$dir/benchmarks.md";
    Testbed::Process::slurp($file) =~ /\Q$begin\E.*\Q$end\E/s or die "bench: no $file, or no $begin in it\n";
    return bless { dir => $dir, file => $file }, $class;
}

# tables by name; machine: its description
sub write {
    my ($self, $machine, $how, %tables) = @_;
    my $requests = $tables{requests}{figures};
    my $memory   = $tables{memory}{figures};
    $self->put('benchmark-requests.svg', Bench::Chart::bars(
        title => 'CPU time of one request',
        axis  => 'microseconds of CPU time, user and system',
        parts => ['nginx', 'Redis'],
        rows  => [map { [@$_{qw(name nginx redis)}] } @$requests],
    ));
    $self->put('benchmark-memory.svg', Bench::Chart::lines(
        title  => 'Memory of one logged request',
        x_axis => 'requests in the log',
        y_axis => 'bytes of Redis per request, whole key',
        series => [map { [$_, $memory->{$_}] } @{ $tables{memory}{names} }],
    ));
    my $measured = join "\n", $begin, '', strftime('Measured on %Y-%m-%d by `./build.sh bench', gmtime) . "$how` on:",
        '', '```', $machine =~ s/\n\z//r, '```', '',
        '![CPU time of one request](benchmark-requests.svg)', '',
        '![Memory of one logged request](benchmark-memory.svg)', '',
        map({ $tables{$_}->markdown } qw(requests memory scripts growth)), $end;
    my $text = Testbed::Process::slurp($self->{file});
    $text =~ s/\Q$begin\E.*\Q$end\E/$measured/s;
    $self->put('benchmarks.md', $text);
    return;
}

sub put {
    my ($self, $name, $text) = @_;
    open my $file, '>', "$self->{dir}/$name" or die "$self->{dir}/$name: $!\n";
    print $file $text or die "$self->{dir}/$name: $!\n";
    close $file or die "$self->{dir}/$name: $!\n";
    return;
}

1;
