# shellcheck shell=bash
# A limit and the tool by TLS, or, of packages whose hiredis has none, what they say of it. Run by
# t/packages/in_clean_debian inside a system that is thrown away, as root, with the packages in /packages.
set -euo pipefail
cd /packages
. /src/t/packages/steps.sh

status_of() { curl -s -o /dev/null -w '%{http_code}' -H "X-Client: $1" http://127.0.0.1/limited; }
is_admitted() { [ "$(status_of probe)" = 200 ]; }
by_tls() { quiet redis-cli -p 6380 --tls --cacert "$keys/redis.pem" "$@"; }

ip link set lo up
step 'a Redis that speaks TLS only'
quiet apt-get install -qy ./libnginx-mod-http-sliding-log_*.deb ./sliding-log_*.deb redis-server openssl || fail 'apt-get install'
keys=/etc/redis-tls
mkdir $keys
quiet openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=redis -addext subjectAltName=IP:127.0.0.1 \
    -keyout $keys/redis.key -out $keys/redis.pem || fail 'openssl req'
redis-server --port 0 --tls-port 6380 --tls-cert-file $keys/redis.pem --tls-key-file $keys/redis.key \
    --tls-auth-clients no --save '' --daemonize yes >>log
becomes 'Redis answers by TLS' by_tls PING
cat >/etc/nginx/conf.d/limits.conf <<END
sliding_log_redis { server 127.0.0.1:6380; tls on; tls_trusted_certificate $keys/redis.pem; }
sliding_log_on_error deny;
server {
    listen 127.0.0.1:80;
    location = /limited {
        sliding_log_limit api key=\$http_x_client limit=1 window=1m;
        empty_gif;
    }
}
END

if [[ "$(dpkg-deb -f libnginx-mod-http-sliding-log_*.deb Version Depends)" != *hiredis1.* ]]; then
    step 'a hiredis without TLS: the error says what to do'
    fails '"tls on" is accepted' nginx -t
    holds 'the command' grep -q 'HIREDIS=1\.2 \./build\.sh' log
    exit
fi

step 'a limit holds by TLS'
quiet nginx -t || fail 'nginx -t'
quiet service nginx restart || fail 'service nginx restart'
becomes 'nginx is connected' is_admitted
equal 'the first request' "$(status_of a)" 200
equal 'the second request' "$(status_of a)" 429
sliding-log inspect api a --json --server 127.0.0.1:6380 --tls --cacert $keys/redis.pem >inspected || fail 'sliding-log inspect'
holds "what the tool tells: $(cat inspected)" grep -q '"entries":1,' inspected

step 'a certificate that is not trusted is refused'
quiet openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout $keys/other.key -out $keys/other.pem || fail 'openssl req'
sed -i "s,$keys/redis.pem,$keys/other.pem," /etc/nginx/conf.d/limits.conf
quiet service nginx restart || fail 'service nginx restart'
is_told() { [ "$(status_of b)" = 503 ] && grep -q 'TLS: the server.s certificate' /var/log/nginx/error.log; }
becomes 'it decides nothing, and nginx tells why' is_told

step 'TLS is as it shall be'
