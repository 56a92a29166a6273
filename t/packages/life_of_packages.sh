# shellcheck shell=bash
# What a user does with the packages, from the installation to the removal. Run by t/packages/in_clean_debian inside a
# system that is thrown away, as root, with the packages in /packages.
set -euo pipefail
cd /packages
. /src/t/packages/steps.sh

module=libnginx-mod-http-sliding-log
link=/etc/nginx/modules-enabled/50-mod-http-sliding-log.conf
object=/usr/lib/nginx/modules/ngx_http_sliding_log_module.so
current=$(echo "$module"_*.deb)

install() { quiet apt-get install -qy "$@" || fail "apt-get install $*"; }
version_of() { dpkg-query -W -f='${Version}' "$1"; }
status_of() { curl -s -o /dev/null -w '%{http_code}' -H "X-Client: $1" http://127.0.0.1/limited; }
is_limited() { [ "$(status_of probe)" = 200 ] || [ "$(status_of probe)" = 429 ]; }

# repacked PACKAGE.deb NEW.deb SED_SCRIPT: the same with another control file.
repacked() {
    rm -rf unpacked
    dpkg-deb -R "$1" unpacked
    sed -i "$3" unpacked/DEBIAN/control
    quiet dpkg-deb --root-owner-group -b unpacked "$2"
}

# true when all workers of the nginx that runs have the installed file mapped, and no other
runs_the_installed_module() {
    local master worker workers
    master=$(cat /run/nginx.pid 2>>log) && workers=$(cat "/proc/$master/task/$master/children" 2>>log) || return 1
    [ -n "$workers" ] || return 1
    for worker in $workers; do
        grep -q "^[^/]* $(stat -c %i "$object") *$object\$" "/proc/$worker/maps" || return 1
        ! grep -q "$object (deleted)" "/proc/$worker/maps" || return 1
    done
}

ip link set lo up
mkdir -p earlier other
repacked "$current" "earlier/$current" 's/^Version:.*/Version: 0.0.1/'
repacked "$current" "other/$current" 's/nginx-abi-[^,]*/nginx-abi-1.0.0-1/'

step 'the first package on an empty system brings nginx, and nginx starts with the module'
install "./earlier/$current"
equal 'version' "$(version_of $module)" 0.0.1
holds 'the module is enabled' [ -L "$link" ]
equal 'what is enabled' "$(cat "$link")" 'load_module modules/ngx_http_sliding_log_module.so;'
holds 'nginx accepts it' quiet nginx -t
becomes 'nginx runs it' runs_the_installed_module
provided=$(dpkg-query -W -f='${Provides}' nginx | grep -o 'nginx-abi-[^, ]*')
equal 'the ABI it depends on' "$(dpkg-deb -f "$current" Depends | grep -o 'nginx-abi-[^, ]*')" "$provided"

step 'a module for another ABI is refused'
fails 'a module for another ABI was installed' apt-get install -qy "./other/$current"
equal 'version' "$(version_of $module)" 0.0.1

step 'a limit holds'
install redis-server
becomes 'Redis answers' quiet redis-cli ping
cat >/etc/nginx/conf.d/limits.conf <<'END'
sliding_log_redis { server 127.0.0.1:6379; }
server {
    listen 127.0.0.1:80;
    location = /limited {
        sliding_log_limit api key=$http_x_client limit=1 window=1h;
        empty_gif;
    }
}
END
quiet nginx -t || fail 'nginx -t'
quiet service nginx reload || fail 'service nginx reload'
becomes 'the limited location is there' is_limited
equal 'the first request' "$(status_of a)" 200
equal 'the second request' "$(status_of a)" 429

step 'the tool finds the log'
install ./sliding-log_*.deb
quiet sliding-log inspect api a || fail 'sliding-log inspect'
sliding-log inspect api a --json >inspected || fail 'sliding-log inspect --json'
holds "what it tells: $(cat inspected)" grep -q '"entries":1,' inspected
quiet sliding-log doctor || [ $? -eq 1 ] || fail 'sliding-log doctor finds a Redis fit, but for warnings'
holds 'its manual is there' [ -e /usr/share/man/man1/sliding-log.1.gz ]
holds 'its completion is there' bash -n /usr/share/bash-completion/completions/sliding-log
holds "it knows nginx's configuration" quiet sliding-log inspect api a --nginx-conf /etc/nginx/nginx.conf
quiet apt-get purge -qy sliding-log || fail 'apt-get purge sliding-log'
fails 'the tool is still there' [ -e /usr/bin/sliding-log ]

step 'a Redis loads the native module'
install ./redis-sliding-log_*.deb
redis-server --port 0 --unixsocket /run/native.sock --save '' --daemonize yes \
    --loadmodule /usr/lib/redis/modules/redis_sliding_log.so >>log
becomes 'that Redis answers' quiet redis-cli -s /run/native.sock PING
equal 'its answer' "$(redis-cli -s /run/native.sock sliding_log.2 log 1 key name 5 1000 1100 | sed -n '3p')" 4
quiet redis-cli -s /run/native.sock SHUTDOWN NOSAVE || fail 'SHUTDOWN'
quiet apt-get purge -qy redis-sliding-log || fail 'apt-get purge redis-sliding-log'

step 'an upgrade lets nginx go on as it is'
install "./$current"
equal 'version' "$(version_of $module)" "$(dpkg-deb -f "$current" Version)"
equal 'files that differ from the package' "$(dpkg -V $module)" ''
equal 'a key that used up its limit before' "$(status_of a)" 429
equal 'another key' "$(status_of b)" 200

step 'an upgrade of nginx without a pause takes the new module, and the log stays'
quiet service nginx upgrade || fail 'service nginx upgrade'
becomes 'nginx runs the new module' runs_the_installed_module
equal 'a key that used up its limit before' "$(status_of a)" 429
equal 'another key' "$(status_of c)" 200

step 'an older package goes back'
install --allow-downgrades "./earlier/$current"
quiet service nginx upgrade || fail 'service nginx upgrade'
becomes 'nginx runs the older module' runs_the_installed_module
equal 'a key that used up its limit before' "$(status_of a)" 429
install "./$current"
equal 'version' "$(version_of $module)" "$(dpkg-deb -f "$current" Version)"

step 'what the administrator disabled stays disabled'
rm "$link"
install --reinstall "./$current"
fails 'reinstalling enabled it' [ -e "$link" ]
ln -s /usr/share/nginx/modules-available/mod-http-sliding-log.conf "$link"

step 'removed while it is in use: the nginx that runs goes on'
quiet apt-get remove -qy $module || fail 'apt-get remove'
fails 'the module is still there' [ -e "$object" ]
fails 'it is still enabled' [ -e "$link" ]
fails 'nginx knows its directives' nginx -t
equal 'a key that used up its limit' "$(status_of a)" 429

step 'installed again it is enabled again'
install "./$current"
holds 'enabled' [ -L "$link" ]
quiet service nginx upgrade || fail 'service nginx upgrade'
becomes 'nginx runs it' runs_the_installed_module

step 'purged, nothing is left, and nginx starts without it'
rm /etc/nginx/conf.d/limits.conf
quiet apt-get purge -qy $module || fail 'apt-get purge'
equal 'files left' "$(find / -xdev -path /packages -prune -o -path /proc -prune -o -name '*sliding?log*' -print)" ''
quiet service nginx restart || fail 'service nginx restart'
equal 'without it' "$(status_of a)" 404

equal 'alerts of nginx' "$(grep -E '\[(alert|crit)\]' /var/log/nginx/error.log)" ''
step 'all held'
