package Bench::Docs;

# The measured parts of docs/, and the charts beside them.

use strict;
use warnings;
use POSIX qw(strftime);

use Testbed::Process;
use Bench::Chart;
use Bench::Panels;

# A file, the tables that it shows, what makes its measured part and its charts, and the lines around that part, if it has
# several.
my @files = (
    { name => 'benchmarks.md', tables => [qw(load permits requests blocked memory alone scripts growth)], write => \&benchmarks },
    { name => 'algorithms.md', tables => [qw(errors)],                         write => \&algorithms },
    { name => 'algorithms.md', tables => [qw(worst)], write => \&worst, between => ['<!-- begin: written by ./build.sh bench worst --docs -->', '<!-- end of the longest calls -->'] },
    { name => 'algorithms.md', tables => [qw(attack)], write => \&attack, between => ['<!-- begin: written by ./build.sh bench attack --docs -->', '<!-- end of the attacks -->'] },
    { name => 'operations.md', tables => [qw(fleet)],                          write => \&fleet },
);

my @between = ('<!-- begin: written by ./build.sh bench --docs -->', '<!-- end -->');

# names: the tables that will exist. Refuses a directory without the files before anything is measured.
sub new {
    my ($class, $dir, @names) = @_;
    my %there = map { $_ => 1 } @names;
    my @files = grep { !grep { !$there{$_} } @{ $_->{tables} } } @files or die "bench: no file of $dir has these tables only\n";
    for my $each (@files) {
        my ($begin, $end) = @{ $each->{between} // \@between };
        Testbed::Process::slurp("$dir/$each->{name}") =~ /\Q$begin\E.*\Q$end\E/s or die "bench: no $dir/$each->{name}, or no $begin in it\n";
    }
    return bless { dir => $dir, files => \@files }, $class;
}

# tables: Bench::Table by name; machine: its description; how: the options that measured them
sub write {
    my ($self, $machine, $how, %tables) = @_;
    for my $file (@{ $self->{files} }) {
        my ($begin, $end) = @{ $file->{between} // \@between };
        my @measured = $file->{write}->($self, $machine, $how, %tables);
        my $text     = Testbed::Process::slurp("$self->{dir}/$file->{name}");
        my $part     = join "\n", $begin, '', @measured, map({ $tables{$_}->markdown } @{ $file->{tables} }), $end;
        $text =~ s/\Q$begin\E.*\Q$end\E/$part/s;
        $self->put($file->{name}, $text);
    }
    return;
}

sub benchmarks {
    my ($self, $machine, $how, %tables) = @_;
    my $load   = $tables{load}{pinned};
    my $memory = $tables{memory}{figures};
    $self->put('benchmark-requests.svg', Bench::Chart::bars(
        title  => 'CPU time of one request',
        axis   => 'microseconds of CPU time, user and system, pinned',
        parts  => ['nginx', 'Redis'],
        rows   => [map { $_->{name} } @{ $load->{8} }],
        panels => [map { ["$_ connections", [map { [$_->{nginx}, $_->{redis} // 0] } @{ $load->{$_} }]] } 8, 50],
    ));
    $self->put('benchmark-memory.svg', Bench::Chart::lines(
        title  => 'Memory of one logged request',
        x_axis => 'requests in the log',
        y_axis => 'bytes of Redis per request, whole key',
        series => [map { [$_, $memory->{$_}] } @{ $tables{memory}{names} }],
    ));
    return (
        measured("bench$how", $machine),
        '![CPU time of one request](benchmark-requests.svg)', '',
        '![Memory of one logged request](benchmark-memory.svg)', '',
    );
}

sub algorithms {
    my ($self, $machine, $how, %tables) = @_;
    my $errors = $tables{errors};
    $self->put('algorithms-errors.svg', Bench::Panels::panels(
        title  => 'The most that any window admits',
        x_axis => 'limit per window',
        y_axis => 'percent of the limit (dashed: the exact algorithms)',
        even   => 100,
        series => $errors->{names},
        panels => [map { [$_, $errors->{fullest}{$_}] } 'steady', 'on/off', 'full, then steady'],
    ));
    return ('![The most that any window admits](algorithms-errors.svg)', '');
}

sub fleet {
    my ($self, $machine, $how) = @_;
    return measured("bench fleet$how", $machine);
}

sub attack {
    my ($self, $machine, $how) = @_;
    return measured("bench attack$how", $machine);
}

sub worst {
    my ($self, $machine, $how) = @_;
    return measured("bench worst$how", $machine);
}

sub measured {
    my ($how, $machine) = @_;
    return (
        strftime('Measured on %Y-%m-%d by `./build.sh ', gmtime) . "$how` on:", '',
        '```text', $machine =~ s/\n\z//r, '```', '',
    );
}

sub put {
    my ($self, $name, $text) = @_;
    open my $file, '>', "$self->{dir}/$name" or die "$self->{dir}/$name: $!\n";
    print $file $text or die "$self->{dir}/$name: $!\n";
    close $file or die "$self->{dir}/$name: $!\n";
    return;
}

1;
