package Testbed::Script;

# A script as the module sends it, called without nginx: the file of an algorithm as a function, followed by decide.lua.

use strict;
use warnings;
use Cwd ();
use Exporter 'import';
use File::Basename ();
use IO::Socket::UNIX;
use Testbed::Algorithm qw(%ALL_SCRIPTS %PLAIN is_plain_of_hash);
use Testbed::Process;

our @EXPORT_OK = qw(source);

my $lua   = Cwd::abs_path(File::Basename::dirname(__FILE__) . '/../../../lua');
my %base  = (    # the function that the algorithm calls: its name, and its file
    (map { $_ => [exact_log => 'sliding_log'] } qw(sampled_log inflight)),
    (map { $_ => [blocks_of_hash => 'hash_block'] } qw(sliding_counter token_bucket)),
);
my $names = 0;

sub source {
    my ($name) = @_;
    my @functions = ($base{$name} ? function(@{ $base{$name} }) : (), function(algorithm => $name), function(overrides => 'override'));
    my @plain     = is_plain_of_hash($name) ? (function(plain_of_hash => $PLAIN{$name}), file('plain_hash')) : $PLAIN{$name} ? file($PLAIN{$name}) : ();
    return join '', file('prelude'), $name eq 'inflight' ? file('renewal') : (), @plain, @plain ? file('plain_rest') : (), @functions, file('decide');
}

sub function { my ($name, $file) = @_; return "local function $name(...) " . file($file) . "end\n" }

sub file { my ($name) = @_; return Testbed::Process::slurp("$lua/$name.lua") || die "no $name.lua\n" }

# A call that the module would send as a plain one is sent so. Options: frame => 1: none is; front => of another size, so that short compact logs meet what long ones do; step => other bytes between their marks; own_clock => 1: the time of a call is
# what this server's own clock says, which may so step back by milliseconds, and plain calls have one, too; at_once => how many entries leave in a call;
# native => 1: the command of the native module in its place, and short calls where the module would send one, unless {short} is undef; before_runs => 1: the script of version 0.10, which reads runs and writes none of its own
sub new {
    my ($class, $redis, $name, %options) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => $redis->path) or die "Redis: $!";
    my $self   = bless { redis => $redis, socket => $socket }, $class;
    my $source = source($name);
    if ($options{front}) {
        $source =~ s/FRONT = \d+/FRONT = $options{front}/g or die "$name: no FRONT\n";
        $source =~ s/(FRONT, HEAD, SOON = )\d+, \d+/"$1$options{front}, " . (37 + $options{front})/e or die "$name: no HEAD\n";
        $source =~ s/(LONGEST, HEAD_LAST = 7, costs and )'\d+' or '\d+'/"$1'" . (36 + $options{front} + int $options{front} \/ 2) . "' or '" . (36 + $options{front}) . "'"/e or die "$name: no HEAD_LAST\n";
    }
    if ($options{step}) {
        $source =~ s/\bSTEP, (\w.*?) = 1024\b/STEP, $1 = $options{step}/ or die "$name: no STEP\n";
    }
    if ($options{before_runs}) {
        $source =~ s/^.*-- the version before does without this line\n//mg or die "$name: no such line\n";
    }
    if ($options{at_once}) {
        $source =~ s/AT_ONCE_TEXT = \d+, '\d+'/AT_ONCE_TEXT = $options{at_once}, '$options{at_once}'/g or die "$name: no AT_ONCE\n";
    }
    if ($options{own_clock}) {
        $source =~ s/^local own_clock = now_text == ''\nif own_clock then/local own_clock = true\nif now_text == '' then/m or die "$name: no own_clock\n";
        # Redis's true clock does not step back
        $source =~ s/(call\('PEXPIRE', key, log.ttl, 'GT'\)) == 0/($1 or true)/;
        $source =~ s/(call\('PEXPIRE', key, ttl, 'GT'\))/$1 * 0/g;
        if ($PLAIN{$name}) {    # the last argument is the time
            $self->{given} = $source =~ s/^local KEYS, ARGV = KEYS, ARGV\n\K/local given = (#ARGV == 4 or #ARGV == 5 or #ARGV == #KEYS + 4 or #ARGV == #KEYS + 5 or ARGV[#ARGV - 1] == 'two') and table.remove(ARGV)\n/m or die "$name: no arguments\n";
            $source =~ s/local time = redis\.call\('TIME'\)$/local time = { string.sub(given, 1, -4), string.sub(given, -3) .. '000' }/m
                or die "$name: no TIME\n";
            $source =~ s/^  KEYS, ARGV = \{\}, \{ \K''/given/m or die "$name: no time is left to the frame\n";
        }
    }
    $self->{plain}         = $options{frame} ? undef : $PLAIN{$name};
    $self->{plain_options} = $name ne 'inflight';
    $options{native} //= $ENV{TEST_NATIVE} && !grep { $options{$_} } qw(front step at_once own_clock frame before_runs);
    my ($algorithm) = grep { $ALL_SCRIPTS{$_} eq $name } keys %ALL_SCRIPTS;
    $self->{has_short} = !is_plain_of_hash($name);
    $self->{short}     = $algorithm if $options{native};
    $self->{command} = $options{native} ? ['sliding_log.2', $algorithm] : ['EVALSHA', $self->call('SCRIPT', 'LOAD', $source)];
    return $self;
}

# The words of a call before its number of keys.
sub command { my ($self) = @_; return @{ $self->{command} } }

# The reply to a command; arrays as references, errors as text that begins with "error ".
sub call {
    my ($self, @words) = @_;
    $self->send(@words);
    return $self->reply;
}

sub send {
    my ($self, @words) = @_;
    print { $self->{socket} } '*', scalar @words, "\r\n", map { ('$', length, "\r\n", $_, "\r\n") } @words;
    push @{ $self->{sent} }, $words[0] eq 'EVALSHA' ? \@words : undef;
    return;
}

sub reply { my ($self) = @_; return $self->at_length($self->as_sent) }

# The reply as Redis has sent it, and the words of its call if that is one of a script.
sub as_sent {
    my ($self) = @_;
    $self->{socket}->flush;
    my $words = shift @{ $self->{sent} };
    return ($self->next_reply, @{ $words // [] });
}

# The reply to a plain call, in which requests may be told briefly, as another one.
sub at_length {
    my ($self, $reply, undef, undef, $keys, @rest) = @_;
    my @arguments = splice @rest, $keys // 0;
    pop @arguments if $self->{given};    # the time
    my $has_two  = @arguments && $arguments[-1] eq 'two';
    my $requests = $has_two ? $keys / 2 : $keys // 0;
    return $reply if !$requests || ref $reply ne 'ARRAY' || @$reply != $requests + 1 || ref $reply->[-1] || $reply->[-1] !~ /^\d+$/;
    pop @arguments if $has_two;
    my $of_limit = $arguments[-1] =~ /[a-z]/ ? 4 : 3;    # limit, window, time to live, options
    my @units    = map { 2 * $arguments[1 - $of_limit * $_] } $has_two ? (2, 1) : 1;
    my $now      = pop @$reply;
    for my $batch (@$reply) {
        next if ref $batch ? !$has_two || @$batch != 2 : !defined $batch || $batch !~ /^\d+$/;
        my @logs = map { ref $batch ? $batch->[$_] : $batch } 0 .. $#units;
        $batch = [1, $now, (map { (int($logs[$_] / $units[$_]), $logs[$_] % $units[$_], 0) } 0 .. $#units), $arguments[-1] =~ /override/ ? (-1, 0) : ()];
    }
    return $reply;
}

sub next_reply {
    my ($self) = @_;
    my $line = readline($self->{socket}) // die "Redis is gone\n";
    my ($kind, $rest) = $line =~ /^(.)(.*?)\r\n/ or die "Redis said $line\n";
    return "error $rest"                             if $kind eq '-';
    return [map { $self->next_reply } 1 .. $rest]    if $kind eq '*';
    return $rest                                     if $kind ne '$';
    return undef                                     if $rest < 0;
    read $self->{socket}, my $text, $rest + 2;
    my $whole = substr $text, 0, $rest;
    return $whole =~ /^[01](?: -?\d+){4}$/ ? [[split / /, $whole]] : $whole;    # of a short call, as of another one
}

# The words of a call. Groups: [requests, log, ...], where the requests are their number, their names, or, if there is none,
# { asks => the name of the permits that are asked for }; a log:
# { key, limit, window, cap, ttl, options, ids } or [key, limit, window, cap, ttl, id of each request].
sub words {
    my ($self, $now, @groups) = @_;
    my @plain = $self->{plain} && (!ref $now && $now eq '' || $self->{given}) ? $self->plain($now, @groups) : ();
    return @plain if @plain;
    my (@keys, @arguments);
    my $latest = '';
    for my $group (@groups) {
        my ($requests, @logs) = @$group;
        my @names = ref $requests eq 'ARRAY' ? @$requests : ref $requests ? () : map { 'u' . ++$names } 1 .. $requests;
        push @arguments, scalar @logs, scalar @names, @names ? @names : $requests->{asks};
        for (@logs) {
            my %log = (cap => 0, ttl => 11000, options => '', ref eq 'HASH' ? %$_ : log_of(@$_));
            push @keys, $log{key};
            my @settings = @log{qw(limit window cap ttl options)};
            push @arguments, "@settings" eq $latest ? '' : @settings, @{ $log{ids} // [] };
            $latest = "@settings";
        }
    }
    return ($self->command, scalar @keys, @keys, ref $now ? @$now : $now, @arguments);
}

# The words of a plain call; empty if it is not one. Costs are sent if not all are 1, then options if there are any.
sub plain {
    my ($self, $now, @groups) = @_;
    return                                       if ref $now;
    return $self->plain_of_two($now, @groups)    if @groups && @{ $groups[0] } == 3;
    my (@keys, @names, @costs, $latest);
    for my $group (@groups) {
        my ($requests, $log, @others) = @$group;
        my %log = (ttl => 11000, options => '', ref $log eq 'HASH' ? %$log : log_of(@$log));
        my ($cost, $sparing) = $log{options} =~ /^(?:cost=([1-9]\d*)(?: |$))?((?:(?:delay=\d+|ahead=\d+|block=[\d,]+|escalates|override|burst=\d+)(?: |$))*)$/ or return;
        return if ($cost && $self->{plain} eq 'plain_log') || (length $sparing && !$self->{plain_options});
        return if @others || ref $requests eq 'HASH' || (ref $requests ? @$requests : $requests) != 1;
        my $numbers = "@log{qw(limit window ttl)} $sparing";
        return if $latest && $numbers ne $latest;
        $latest = $numbers;
        push @keys,  $log{key};
        push @names, ref $requests ? @$requests : undef;
        push @costs, $cost || 1;
    }
    $_ //= 'u' . ++$names for @names;
    my ($limit, $window, $ttl, $options) = split / /, $latest, 4;
    if ($self->{short} && $self->{has_short} && @keys == 1 && $now eq '' && $options eq '') {
        return ('sliding_log.2', "$self->{short} $limit $window $ttl" . ($costs[0] == 1 ? '' : " $costs[0]"), @keys, $self->{plain} eq 'plain_log' ? @names : ());
    }
    my @each = $self->{plain} eq 'plain_log' ? @names : (grep { $_ != 1 } @costs) ? @costs : ();
    return ($self->command, scalar @keys, @keys, @each, $limit, $window, $ttl, length $options ? $options : (), $now eq '' ? () : $now);
}

# The same of two limits.
sub plain_of_two {
    my ($self, $now, @groups) = @_;
    my (@keys, @names, $latest);
    for my $group (@groups) {
        my ($requests, @logs) = @$group;
        return if @logs != 2 || ref $requests eq 'HASH' || (ref $requests ? @$requests : $requests) != 1;
        my @all = map { +{ ttl => 11000, options => '', ref eq 'HASH' ? %$_ : log_of(@$_) } } @logs;
        return if $all[0]{key} eq $all[1]{key} || grep { $_->{options} !~ /^(?:burst=\d+)?$/ } @all;
        my $numbers = join ' ', map { (@$_{qw(limit window ttl)}, length $_->{options} ? $_->{options} : ()) } @all;
        return if $latest && $numbers ne $latest;
        $latest = $numbers;
        push @keys,  map { $_->{key} } @all;
        push @names, ref $requests ? @$requests : 'u' . ++$names;
    }
    return ($self->command, scalar @keys, @keys, $self->{plain} eq 'plain_log' ? @names : (), split(/ /, $latest), 'two', $now eq '' ? () : $now);
}

sub log_of {
    my ($key, $limit, $window, $cap, $ttl, @ids) = @_;
    return (key => $key, limit => $limit, window => $window, cap => $cap // 0, ttl => $ttl // 11000,
        @ids ? (options => 'ids', ids => \@ids) : ());
}

# One request of these logs: the reply without its time.
sub ask { my ($self, $now, @logs) = @_; return $self->ask_groups($now, [1, @logs]) }

# Batches are separated by " | ".
sub ask_groups {
    my ($self, $now, @groups) = @_;
    return $self->told($now, $self->call($self->words($now, @groups)));
}

sub told {
    my ($self, $now, $reply) = @_;
    return $reply if !ref $reply;
    return join ' | ', map {
        my ($admitted, $at, @rest) = ref ? @$_ : ($_, $now);
        $now eq '' || $at == $now ? join ' ', $admitted, @rest : "another time: $at";
    } @$reply;
}

# Takes back the request of that name. Returns the number of logs that it left. $at: the time of all three, or
# { now, logged, taken } where these differ.
sub take_back {
    my ($self, $at, $name, @logs) = @_;
    return $self->call($self->words(taking_back($at), [[$name], @logs]));
}

# Takes back several requests in one call at that time; each { name, logged, taken, logs }. Returns the reply, an array of
# what take_back() returns if there are several.
sub take_back_all {
    my ($self, $now, @requests) = @_;
    my (@keys, @arguments);
    for my $request (@requests) {
        my ($command, $count, @words) = splice(@{ [$self->words([], [[$request->{name}], @{ $request->{logs} }])] }, scalar $self->command - 1);
        push @keys, splice @words, 0, $count;
        push @arguments, @$request{qw(logged taken)}, @words;
    }
    return $self->call($self->command, scalar @keys, @keys, 'take back', $now, @arguments);
}

# The time argument of such a call.
sub taking_back {
    my ($at) = @_;
    return ['take back', ref $at ? @$at{qw(now logged taken)} : ($at) x 3];
}

# The name of the latest request.
sub latest { return "u$names" }

1;
