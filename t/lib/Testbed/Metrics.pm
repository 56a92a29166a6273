package Testbed::Metrics;

# The output of a sliding_log_metrics location, as numbers by name and labels.

use strict;
use warnings;
use Exporter 'import';
use Test::More;
use Testbed::Http qw(get);

our @EXPORT_OK = qw(scrape new_results promtool);

sub scrape {
    my ($port, $path) = @_;
    my $answer = get($port, $path // '/metrics');
    $answer->{status} == 200 or die "no metrics: $answer->{text}\n";
    return __PACKAGE__->new($answer->{body});
}

sub new {
    my ($class, $text) = @_;
    my @samples;
    for my $line (grep { !/^#/ } split /\n/, $text) {
        my ($name, $labels, $value) = $line =~ /^(\w+)(?:\{(.*)\})? (\S+)$/ or die "no sample: $line\n";
        my %labels;
        while (($labels // '') =~ /\G(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)/gc) {
            my ($label, $text) = ($1, $2);
            $labels{$label} = $text =~ s/\\(.)/$1 eq 'n' ? "\n" : $1/ger;
        }
        push @samples, { name => $name, labels => \%labels, value => $value };
    }
    return bless { text => $text, samples => \@samples }, $class;
}

sub text { return $_[0]{text} }

# The samples with this name and these labels.
sub those {
    my ($self, $name, %labels) = @_;
    return grep {
        my $one = $_;
        $one->{name} eq $name && !grep { ($one->{labels}{$_} // '') ne $labels{$_} } keys %labels
    } @{ $self->{samples} };
}

# Their sum; undef if there are none.
sub value {
    my ($self, @which) = @_;
    my $sum;
    $sum += $_->{value} for $self->those(@which);
    return $sum;
}

# The names of all families: those of histograms without _bucket, _sum and _count.
sub families { my ($self) = @_; return $self->{text} =~ /^# TYPE (\w+) /mg }

# `result/source:number` of one limit, those that are not 0.
sub results {
    my ($self, $limit) = @_;
    return join ' ', sort map { "$_->{labels}{result}/$_->{labels}{source}:$_->{value}" }
        grep { $_->{value} } $self->those('sliding_log_requests_total', limit => $limit);
}

# `result:number` of one limit, from all sources; `before`: of an earlier scrape, whose numbers are taken off.
sub result_counts {
    my ($self, $limit, $before) = @_;
    my %count;
    for ([1, $self], $before ? [-1, $before] : ()) {
        my ($sign, $metrics) = @$_;
        $count{ $_->{labels}{result} } += $sign * $_->{value} for $metrics->those('sliding_log_requests_total', limit => $limit);
    }
    return join ' ', map { "$_:$count{$_}" } grep { $count{$_} > 0 } sort keys %count;
}

# The same of a node, since the last call for this limit.
my %last;
sub new_results {
    my ($port, $limit) = @_;
    my $now = scrape($port);
    my $before = $last{"$port $limit"};
    $last{"$port $limit"} = $now;
    return $now->result_counts($limit, $before);
}

# promtool with these arguments: (its exit status, its output). `input` is its standard input.
sub promtool {
    my ($bed, $input, @arguments) = @_;
    my $said = $bed->dir . '/promtool';
    open my $tool, '|-', "promtool @arguments >$said 2>&1" or die "promtool: $!\n";
    print {$tool} $input;
    close $tool;
    return ($?, Testbed::Process::slurp($said));
}

1;
