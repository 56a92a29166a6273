# sliding-log --nginx-conf reads a configuration as nginx does: words, quotes, comments, blocks and includes. What nginx
# cannot read is refused at the same line.

use strict;
use warnings;
use Test::More;
use Testbed qw(conf seed);
use Testbed::Process;
use Testbed::Tool qw(tool tool_json);

seed();

my $bed   = Testbed->new;
my $redis = $bed->redis;
my @at    = ('--server', $redis->address);
my @names = map { "n.$_" } 1 .. 12;
$redis->cli('ZADD', "rl:sliding:$_:{sha1-" . 'a' x 40 . '}', time * 1000, 'x') for @names;

sub one_of { return $_[rand @_] }

# ---- random configurations: what nginx accepts, with these limits

my @blanks = (' ', "\n", "\t", "\r\n", "  # a comment; { \" '\n", "\n#\n");
sub blank { return join '', one_of(@blanks), rand() < 0.2 ? one_of(@blanks) : () }

# The word in one of its possible forms.
sub written {
    my ($word) = @_;
    return $word if rand() < 0.5;
    my $quote = one_of('"', "'");
    return $quote . join('', map { $_ eq $quote || $_ eq '\\' ? "\\$_" : $_ eq "\t" ? '\t' : $_ } split //, $word) . $quote;
}

sub directive { return join(blank(), map { written($_) } @_) . one_of('', blank()) . ';' }

my @keys = ('$remote_addr', 'a;b', 'a{b}', '${uri}x', '"}', "it's", '#', "a\tb", '\\\\', '$arg_a$arg_b', '${uri}{', 'x"y');

# A limit; some of these keys must be quoted.
sub limit {
    my ($name, $is_secret) = @_;
    my $key   = 'key=' . one_of(@keys);
    my @words = ('window=1m', 'limit=5', $is_secret ? 'secret=on' : one_of('secret=off', ()));
    @words = sort { $a cmp $b } @words if rand() < 0.5;
    my $quoted = '"' . ($key =~ s/(["\\])/\\$1/gr) . '"';
    return join blank(), 'sliding_log_limit', written($name), $quoted, directive(@words);
}

# Contexts of limits: [text with %s for them, number]
my @places = (
    "%s server { listen 127.0.0.1:%%%%PORT%%%%; }\n",
    "server { listen 127.0.0.1:%%%%PORT%%%%; if (\$request_method = \"}\") { set \$x '{'; } location ~ \"^/a{1,3}\" { %s } }\n",
    "map \$uri \$mapped { default '}'; ~^/x\\{ \"a;b\"; }\n server { listen 127.0.0.1:%%%%PORT%%%%; location / { location /b {%s} } }\n",
    "geo \$where { 10.0.0.0/8 1; } %s server { error_page 404 '/{' ; return 404 \"a\\\"b\"; listen 127.0.0.1:%%%%PORT%%%%; }\n",
);

my @accepted;
for my $round (1 .. 15) {
    my %is_secret = map { $_ => int rand 2 } @names;
    my @limits = map { limit($_, $is_secret{$_}) } @names;
    my $dir;
    my @body;
    while (my @some = splice @limits, 0, 1 + rand 4) {
        push @body, sprintf one_of(@places), join blank(), @some;
    }
    # some of it in other files, by name or by pattern, some deeper
    my %files;
    for my $i (0 .. $#body) {
        next if rand() < 0.5;
        my $name = one_of('', 'conf.d/') . "part$i.conf";
        $files{$name} = $body[$i];
        $body[$i] = directive('include', one_of($name, $name =~ s/part/p?rt/r, $name =~ s/part/[p]art/r));
        if (rand() < 0.3) {
            $files{"deep$i"} = $body[$i];
            $body[$i] = "include deep$i; include none*.conf;";
        }
    }
    my $nginx = $bed->configuration(conf(http => join blank(), @body));
    mkdir $nginx->dir . '/conf.d';
    for my $name (keys %files) {
        open my $file, '>', $nginx->dir . "/$name" or die $!;
        print $file $files{$name} =~ s/%%PORT%%/$nginx->port/ger;
    }
    my ($accepted, $printed) = $nginx->check;
    ok($accepted, "configuration $round: nginx reads it") or diag($printed);
    my $top = tool('top', '--nginx-conf', $nginx->dir . '/nginx.conf', '--json', @at);
    is($top->{status}, 0, "configuration $round: the tool reads it") or diag($top->{err});
    my %seen = map { /^rl:sliding:(.*):\{sha1-(a+)\}$/ ? ($1 => length $2 == 8 ? 1 : 0) : () } map { $_->{key} } @{ JSON::PP::decode_json($top->{out})->{logs} };
    is_deeply(\%seen, \%is_secret,
        "configuration $round: the tool knows the limits with secret=on") or diag(Testbed::Process::slurp($nginx->dir . '/nginx.conf'));
    push @accepted, $nginx;
}

# ---- one byte added, removed or changed: the tool reports a syntax error in the same line as nginx

my $refused = 0;
for my $round (1 .. 100) {
    my $nginx = one_of(@accepted);
    my $path  = one_of(("$nginx->{dir}/nginx.conf") x 2, glob "$nginx->{dir}/{conf.d/,}part*.conf");
    my $text  = Testbed::Process::slurp($path);
    my $from  = $path =~ /nginx\.conf$/ ? index $text, 'access_log off' : 0;
    my $wrong = $text;
    substr $wrong, $from + int rand(length($text) - $from), one_of(0, 1), one_of('', split //, ";{}\"'#\$\\ \n");
    write_to($path, $wrong);
    write_to("$nginx->{dir}/error.log", '');    # printed before
    my ($accepted, $printed) = $nginx->check;
    my $ran = tool('top', '--nginx-conf', "$nginx->{dir}/nginx.conf", @at);
    write_to($path, $text);
    if ($accepted) {
        is($ran->{status}, 0, "change $round: nginx reads it, and so does the tool") or diag($ran->{err}, $wrong);
    }
    elsif ($printed =~ /\[emerg\] .*?(unexpected (?:"[^{]"|end of file))(?! in condition).* in (\S+:\d+)$/m) {    # map refuses any block
        $refused++;
        my ($why, $place) = ($1, $2);
        $why =~ s/\\/\\x5c/;
        like("$ran->{status} $ran->{err}", qr/^3 sliding-log: \Q$place: $why\E/, "change $round: $why") or diag($printed, $wrong);
    }
}
cmp_ok($refused, '>', 0, 'some of the changes are refused');

sub write_to {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!";
    print $file $text;
    close $file;
    return;
}

# ---- directives of missing modules, and unreadable files

my $lua = <<'END';
http {
    init_by_lua_block {
        -- it's a comment } "
        --[[ of several
        lines }]]
        local t = { a = "}", b = '\'}', c = [[}"]], d = [==[ ]] }]==], #"x" }
    }
    server { location / { content_by_lua_block { if #t > 0 then t[1] = {} end } sliding_log_limit n.1 key=a limit=1 window=1s secret=on; } }
}
END
write_to("$bed->{dir}/lua.conf", $lua);
like(tool('top', 'n.1', '--nginx-conf', "$bed->{dir}/lua.conf", @at)->{out}, qr/^rl:sliding:n\.1:\{sha1-a{8}\} /m, 'blocks of Lua are skipped');
for my $row (
    ["$lua }",                                 qr{wrong\.conf:10: unexpected "\}"}],
    ["init_by_lua_block {\n '}'\n",            qr{wrong\.conf:3: unexpected end of file in a block of Lua}],
    ["\ninclude none.conf;",                   qr{wrong\.conf:2: "\S+/none\.conf" cannot be read}],
    ["include $bed->{dir};",                   qr{wrong\.conf:1: "\S+" cannot be read}],
    ["\n\ninclude wrong.conf;",                qr{wrong\.conf:3: includes are nested too deeply}],
    ["sliding_log_limit a\e]0;x\a\"b key=a;;", qr{wrong\.conf:1: unexpected ";"}],
    ["a \"\e[1m\"\e;",                         qr{wrong\.conf:1: unexpected "\\x1b"}],
) {
    my ($text, $message) = @$row;
    write_to("$bed->{dir}/wrong.conf", $text);
    my $ran = tool('top', '--nginx-conf', "$bed->{dir}/wrong.conf", @at);
    is("$ran->{status}$ran->{out}", '3', 'refused: ' . ($text =~ s/[^ -~]/?/gr));
    like($ran->{err}, qr/^sliding-log: \S*$message\n\z/, 'the message has the place: ' . ($text =~ s/[^ -~]/?/gr));
}
like(tool('top', '--nginx-conf', "$bed->{dir}/none.conf", @at)->{err}, qr/"--nginx-conf" has invalid value "\S+", expected a readable file/,
    'refused: no file');

$bed->done;
