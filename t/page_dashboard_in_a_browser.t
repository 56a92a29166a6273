# The dashboard in a real browser: it shows changes as they happen, survives a server that is down, is readable in dark
# mode and on a phone, and never interprets data as markup.
#
# With DASHBOARD_PNG=DIRECTORY it watches a longer load, and leaves pictures of the page there: light, dark and on a
# phone.

use strict;
use warnings;
use JSON::PP ();
use Test::More;
use Time::HiRes qw(sleep time);
use Testbed qw(wait_until);
use Testbed::Browser qw(browser_is_there);
use Testbed::Http qw(get many);
use Testbed::Tool qw(tool);

plan skip_all => 'chromium is not installed' unless browser_is_there();

my $bed   = Testbed->new;
my $redis = $bed->redis;
my $nginx = $bed->serve(
    REDIS   => $redis->address,
    workers => 2,
    store   => 'server %%REDIS%%; timeout 2s; connect_timeout 2s; reconnect 10ms 100ms;',
    http    => 'sliding_log_log_level info;',
    server  => <<'END',
    location /api/    { sliding_log_limit api key=$arg_k limit=60 window=10s algorithm=compact override=name; empty_gif; }
    location /login   { sliding_log_limit login key=$arg_k limit=5 window=1m; sliding_log_limit shadow key=all limit=1000000 window=1m dry_run=on; empty_gif; }
    location /search  { sliding_log_limit search key=$arg_k limit=30 window=10s burst=50 algorithm=bucket store=local; empty_gif; }
    location /trial   { sliding_log_limit trial key=$arg_k limit=1 window=1m; sliding_log_dry_run on; empty_gif; }
    location /limits/ { sliding_log_dashboard; }
END
);
my $port = $nginx->port;
my $url  = "http://127.0.0.1:$port/limits/";

# Realistic clients: few send many requests, many send few, and the load varies.
sub load {
    my ($seconds) = @_;
    my $begin  = time;
    my $client = sub { my ($name, $count) = @_; return sprintf $name, int $count * rand() ** 3 };
    while ((my $past = time - $begin) < $seconds) {
        my $wave = 1 + 0.6 * sin($past / 7) + ($past % 40 > 30 ? 1.2 : 0);
        many([
            (map { [$port, '/api/?k=' . $client->('acct_%03d', 200)] } 1 .. 12 * $wave),
            (map { [$port, '/search?k=' . $client->('192.0.2.%d', 60)] } 1 .. 5 + 3 * cos($past / 11)),
            [$port, '/trial?k=a'],
            (map { [$port, '/login?k=' . $client->('user%d@example.com', 40)] } 1 .. ($past % 50 > 35 ? 8 : 1)),
        ]);
        sleep 0.1;
    }
}
my $watched = $ENV{DASHBOARD_PNG} ? 125 : 4;
my $load = bless { log => '' }, 'Testbed::Process';
push @{ $bed->{processes} }, $load;
$load->spawn_code(sub { load(600) });

my $browser = Testbed::Browser->new($bed);
sub trouble { return map { $_->{params}{entry}{text} // $_->{params}{exceptionDetails}{text} } $browser->events('Runtime.exceptionThrown', 'Log.entryAdded') }
sub shows { my ($what, $expression) = @_; return ok(wait_until($what, 10, sub { $browser->value($expression) }), $what) }

# ---- live

$browser->look(1200, 1000, 'light')->open_page($url);
shows('the page is live', "document.getElementById('state')?.textContent === 'live'");
shows('each limit has a card', "[...document.querySelectorAll('.limit')].map(e => e.dataset.limit).join() === 'api,login,shadow,search,trial'");
shows('each card shows what its limit allows', "[...document.querySelectorAll('.limit h3 + p')].map(e => e.textContent).join() === '60 per 10s \\u00b7 compact \\u00b7 default,5 per 1m \\u00b7 log \\u00b7 default,1,000,000 per 1m \\u00b7 log \\u00b7 default \\u00b7 dry run,30 per 10s, burst 50 \\u00b7 bucket \\u00b7 local,1 per 1m \\u00b7 log \\u00b7 default \\u00b7 dry run'");
shows('a card shows what is admitted', "Number(document.querySelector('[data-limit=api] .admitted').textContent) > 0");
shows('a card shows what is denied', "Number(document.querySelector('[data-limit=login] .denied').textContent) >= 0 && document.querySelector('#denied-keys .key') !== null");
shows('the page shows the keys', "[...document.querySelectorAll('#used-keys .key')].some(e => e.textContent.startsWith('acct_000'))");
shows('the page shows the store', "document.querySelector('#stores tbody .up')?.textContent === 'up'");
shows('the page shows the latency of the store', "/ ms\$/.test(document.querySelector('#stores tbody').rows[0].cells[7].textContent)");
shows('a dry run: a banner says that no request is denied', "document.querySelector('#banners .banner')?.textContent === 'Dry run: nobody is denied by shadow, trial'");
shows('a dry run beside an enforced limit: its card shows the dry run', "document.querySelector('[data-limit=shadow] .rates').textContent.endsWith('over the limit/s, dry run')");
shows('a dry run: what is over the limit is not called denied', "document.querySelector('[data-limit=trial] .rates').textContent.endsWith('over the limit/s, dry run')");
my @at = ('--server', $redis->address);
is(tool('set', 'api', '--all', '--deny', @at)->{status}, 0, 'a record of a NAME is written');
shows('a record of a NAME: a banner shows it', "document.querySelector('#banners .bad')?.textContent === 'All keys of api: deny until unset'");
tool('unset', 'api', '--all', @at);
shows('a record of a NAME that is taken back: there is no banner', "document.querySelector('#banners .bad') === null");
my $painted = <<'END';
(() => { const c = document.querySelector('[data-limit=api] canvas'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
         let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 0) n += (i / 4 % c.width) + 1; return n; })()
END
my $first = $browser->value($painted);
cmp_ok($first, '>', 0, 'a card shows a plot');
ok(wait_until('it to move', 10, sub { $browser->value($painted) != $first }), 'the plot moves');
is($browser->value("performance.getEntriesByType('navigation').length + document.querySelectorAll('script').length"), 2,
    'the plot moves without the page being loaded again');
my $until = time + $watched;
wait_until('the load', $watched + 10, sub { time > $until });
is($browser->value("[...performance.getEntriesByType('resource')].filter(e => !e.name.startsWith(location.origin)).length"), 0,
    'nothing on the page came from another origin');

# ---- how it looks

my $pictures = $ENV{DASHBOARD_PNG} // $bed->dir;
for (['dashboard', 1200, 1000, 'light'], ['dashboard-dark', 1200, 1000, 'dark'], ['dashboard-phone', 390, 844, 'light']) {
    my ($name, $width, $height, $scheme) = @$_;
    $browser->look($width, $height, $scheme);
    sleep 1.2;    # a second sample at this size
    $browser->screenshot("$pictures/$name.png");
    like(Testbed::Process::slurp("$pictures/$name.png"), qr/\A\x89PNG/, "$name.png is a picture of the page");
    cmp_ok(-s "$pictures/$name.png", '<', 250_000, "$name.png is not too large");
}
$browser->look(1200, 1000, 'light');
my $background = "getComputedStyle(document.body).backgroundColor";
my $light = $browser->value($background);
$browser->look(1200, 1000, 'dark');
isnt($browser->value($background), $light, 'the page is dark if dark is preferred');
for my $width (360, 390, 700, 1200) {
    $browser->look($width, 740, 'dark');
    cmp_ok($browser->value('document.documentElement.scrollWidth'), '<=', $width, "nothing overflows at $width pixels");
    my $hidden = $browser->value("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.scroll'))");
    cmp_ok($hidden, '<=', 0, "the stores are read without scrolling sideways at $width pixels") if $width != 700;
}

# ---- a server that is away

sub offline { $browser->call('Network.emulateNetworkConditions', { offline => $_[0] ? JSON::PP::true() : JSON::PP::false(), latency => 0, downloadThroughput => -1, uploadThroughput => -1 }) }
trouble();
offline(1);
shows('a server that is down: the page shows that there is no answer', "document.getElementById('state').textContent.startsWith('no answer')");
ok($browser->value("document.querySelectorAll('.limit').length === 5"), 'a server that is down: the last data stays');
offline(0);
shows('a server that is back: the page is live', "document.getElementById('state').textContent === 'live'");
is(join(' ', grep { !/Failed to load resource/ } trouble()), '', 'a server that was down causes no error in the page');

# ---- Redis is down

$redis->kill;
shows('Redis is down: a banner shows what decides', "/^Redis 127[.0-9:]+ \\(default\\) is down: this node decides alone\$/.test(document.querySelector('#banners .bad')?.textContent)");
is($browser->value("document.getElementById('state').className"), 'degraded', 'Redis is down: the state differs from the normal one');
is($browser->value("document.getElementById('state').textContent"), 'live, Redis is down', 'Redis is down: the state shows it');
is($browser->value("document.getElementById('banners').getAttribute('role')"), 'alert', 'Redis is down: screen readers get the state');

# ---- hostile texts, wherever the data has one

$load->kill;
my $hostile = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>';
my $data = JSON::PP->new->utf8->decode(get($port, '/limits/?format=json')->{body});
$data->{host} = $hostile;
$_->{name} .= $hostile, $_->{algorithm} = $hostile, $_->{store} = $hostile for @{ $data->{limits} };
$_->{store} = $hostile, $_->{node} = qq{"'>$hostile} for @{ $data->{stores} };
$_->{limit} = $hostile, $_->{key} = qq{</table>$hostile\x{202e}\x00} for @{ $data->{used_keys} }, @{ $data->{denied_keys} };
my $text = JSON::PP->new->ascii->encode($data);
$browser->call('Page.addScriptToEvaluateOnNewDocument', { source => "{ const data = $text; window.fetch = async () => { data.now_ms += 1000; return new Response(JSON.stringify(data)); }; }" });
trouble();
$browser->open_page($url);
shows('hostile texts are shown', "document.querySelectorAll('.limit').length === 5 && document.querySelector('#used-keys .key').textContent.includes('<script>')");
is($browser->value("document.querySelector('#stores tbody .key').firstChild.data"), qq{"'>$hostile}, 'hostile texts are shown as texts');
is($browser->value("document.querySelectorAll('img, script, [onerror]').length"), 1, "hostile texts make no element: the only script is the page's own");
sleep 1.5;
is($browser->value('window.hit ?? null'), undef, 'hostile texts run nothing');
is(join(' ', trouble()), '', 'hostile texts cause no error in the page');

# ---- even if a text became markup, the policy forbids it

$browser->value("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit=1\"><p style=\"color: red\">x</p>'); document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.hit = 1' }))");
ok(wait_until('the refusals', 10, sub { (trouble()) > 0 || undef }), 'markup in the page is refused');
is($browser->value('window.hit ?? null'), undef, 'markup in the page does not run');
is($browser->value("new XMLHttpRequest() && new Promise(done => { const r = new XMLHttpRequest(); r.onload = () => done('sent'); r.onerror = () => done('refused'); try { r.open('GET', 'http://localhost:$port/'); r.send(); } catch (e) { done('refused'); } })"), 'refused',
    'the page sends nothing to other origins');

$bed->done;
