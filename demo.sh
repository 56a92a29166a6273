#!/usr/bin/env bash
# Two nginx nodes and one Redis on free loopback ports: one limit for both. Run by ./build.sh demo, cleans up after.
set -euo pipefail
cd "$(dirname "$0")"

dir=$(mktemp -d)
trap 'kill $(cat "$dir"/*.pid 2>/dev/null) 2>/dev/null; wait 2>/dev/null; rm -rf "$dir"' EXIT

# A port that nobody listens on. (Between this and its use somebody may; then the start below fails and says so.)
free_port() {
    local port
    while port=$((20000 + RANDOM % 10000)); (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; do :; done
    echo $port
}

wait_for() {
    local tries=0
    until (: </dev/tcp/127.0.0.1/"$1") 2>/dev/null; do
        [ $((tries += 1)) -lt 100 ] || { echo "nothing listens on port $1" >&2; cat "$dir"/*.log >&2; exit 1; }
        sleep 0.05
    done
}

redis=$(free_port)
redis-server --bind 127.0.0.1 --port "$redis" --save '' --dir "$dir" --pidfile "$dir/redis.pid" >"$dir/redis.log" &
wait_for "$redis"

start_node() {
    cat >"$dir/$1.conf" <<END
load_module $PWD/build/ngx_http_sliding_log_module.so;
daemon off;
pid $dir/$1.pid;
error_log $dir/$1.log warn;
events { }
http {
    access_log off;
    client_body_temp_path $dir; proxy_temp_path $dir; fastcgi_temp_path $dir; uwsgi_temp_path $dir; scgi_temp_path $dir;
    sliding_log_redis { server 127.0.0.1:$redis; }
    server {
        listen 127.0.0.1:$2;
        location / {
            sliding_log_limit demo key=\$http_x_account limit=5 window=3s;
            empty_gif;
        }
    }
}
END
    nginx -e "$dir/$1.log" -c "$dir/$1.conf" &
    wait_for "$2"
}

one=$(free_port)
start_node one "$one"
two=$(free_port)
start_node two "$two"

ask() {
    curl -s -o /dev/null -D - -H 'X-Account: acct_42' "http://127.0.0.1:$2/" |
        awk -v node="$1" '{ sub(/\r$/, "") }
            /^HTTP/ { status = $2 } /^RateLimit:/ { limit = $0 } /^Retry-After/ { retry = "  " $0 }
            END { printf "  node %s  %s  %s%s\n", node, status, limit, retry }'
}

echo
echo "Limit: 5 requests in any 3 seconds for one account, over two nginx nodes (ports $one and $two):"
for _ in 1 2 3 4; do
    ask one "$one"
    ask two "$two"
done
echo "The log in Redis:"
redis-cli -p "$redis" --raw zrange 'rl:sliding:demo:{acct_42}' 0 -1 withscores | paste - - | sed 's/^/  /'
echo "A window later:"
until [ "$(redis-cli -p "$redis" zcount 'rl:sliding:demo:{acct_42}' "$(($(date +%s%3N) - 3000))" +inf)" = 0 ]; do
    sleep 0.1
done
ask one "$one"
