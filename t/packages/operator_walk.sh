# shellcheck shell=bash
# What an operator changes while nginx runs: raises one customer, blocks an abuser, lifts it, and rotates the password. No
# step reloads nginx. Run by t/packages/in_clean_debian inside a system that is thrown away, as root, with the packages in
# /packages.
set -euo pipefail
cd /packages
. /src/t/packages/steps.sh

status_of() { curl -s -o /dev/null -w '%{http_code}' -H "X-Customer: $1" http://127.0.0.1/api; }
# statuses CUSTOMER TIMES
statuses() { for _ in $(seq "$2"); do status_of "$1"; echo; done | paste -sd ' '; }
passes() { [ "$(status_of "$1")" = 200 ]; }
is_denied() { [ "$(status_of "$1")" = 429 ]; }
# tool ARGUMENT...: with what is in /etc/sliding-log.conf
tool() { quiet sliding-log "$@" || fail "sliding-log $*"; }
# shows TEXT ARGUMENT...: what the tool prints has it
shows() { sliding-log "${@:2}" >shown 2>>log || true; grep -q "$1" shown; }
password() {
    install -o root -g www-data -m 640 /dev/null /etc/nginx/limiter.new
    echo "$1" >/etc/nginx/limiter.new
    mv /etc/nginx/limiter.new /etc/nginx/limiter.password
}
workers_of_nginx() {
    local master
    master=$(cat /run/nginx.pid)
    cat "/proc/$master/task/$master/children"
}
logins() { redis-cli INFO commandstats | sed -n 's/^cmdstat_auth:calls=\([0-9]*\).*/\1/p'; }
are_authenticated_again() { [ "$(logins)" -ge $((before + $(wc -w <<<"$workers"))) ]; }

ip link set lo up
step 'limits that may be changed, of a Redis with a user'
quiet apt-get install -qy ./libnginx-mod-http-sliding-log_*.deb ./sliding-log_*.deb redis-server || fail 'apt-get install'
becomes 'Redis answers' quiet redis-cli ping
sliding-log acl --algorithms log --override | sed 's/PASSWORD/first/' | redis-cli >answer
equal 'the rule' "$(cat answer)" OK
password first
cat >/etc/nginx/conf.d/limits.conf <<'END'
sliding_log_redis { server 127.0.0.1:6379; username limiter; password_file limiter.password; reconnect 50ms 500ms; }
sliding_log_on_error deny;
server {
    listen 127.0.0.1:80;
    location = /api {
        sliding_log_limit api key=$http_x_customer limit=3 window=1h block=1m,10m override=on;
        empty_gif;
    }
}
END
quiet nginx -t || fail 'nginx -t'
quiet service nginx restart || fail 'service nginx restart'
becomes 'requests are decided' passes ready
workers=$(workers_of_nginx)

step 'one customer is raised'
equal 'as configured' "$(statuses acme 4)" '200 200 200 429'
tool unblock api acme
tool set api acme --limit 10 --for 2h --why ticket-4711
becomes 'the larger limit' passes acme
holds 'the list names it' shows 'ticket-4711' overrides
tool unset api acme
becomes 'the end' is_denied acme

step 'an abuser is blocked, and let in again'
equal 'as configured' "$(statuses mallory 4)" '200 200 200 429'
holds 'the list names it' shows '{mallory}' blocked api
tool set api mallory --deny --why scraping
equal 'denied' "$(statuses mallory 2)" '429 429'
tool unset api mallory
tool reset api mallory
becomes 'let in' passes mallory

step 'the password is rotated'
redis-cli ACL SETUSER limiter '>second' >>log
before=$(logins)
password second
becomes 'workers have looked at the file' are_authenticated_again # once a minute
equal 'meanwhile' "$(status_of rotated)" 200
redis-cli ACL SETUSER limiter '<first' >>log
redis-cli CLIENT KILL USER limiter >>log
becomes 'requests are decided with the new one' passes after
equal 'what was refused' "$(redis-cli ACL LOG | grep -c auth || true)" 0
equal 'workers' "$(workers_of_nginx)" "$workers"
equal 'alerts of nginx' "$(grep -E '\[(alert|crit)\]' /var/log/nginx/error.log)" ''

step 'the operator has changed what was to be changed'
