# shellcheck shell=bash
# Asks what runs in the images: each of them alone, as pods of Kubernetes, and together as compose.yaml says. Run by
# t/images/in_podman, where no address but those of containers is reached.
set -euo pipefail
. t/images/podman.sh

# run NAME OPTION... IMAGE COMMAND...: in a network that has nothing but its own loopback
run() { quiet_in_log podman run --detach --name "$1" --network "${network-none}" "${@:2}"; }
quiet_in_log() { "$@" >>"$work/log" 2>&1 || fail "$*"; }
# ask NAME CURL_ARGUMENT...: from inside the network of the container
ask() {
    local process
    process=$(podman inspect --format '{{.State.Pid}}' "$1")
    [ "$process" -ne 0 ] || fail "$1 has ended"
    nsenter --net="/proc/$process/ns/net" curl -s "${@:2}"
}
answers() { ask "$@" -o /dev/null; }
# statuses NAME PORT TIMES: of requests in one connection
statuses() { ask "$1" -o /dev/null -w '%{http_code} ' "http://127.0.0.1:$2/?[1-$3]"; }
# ends NAME: it is told to, as its image says, and does so before it is killed.
ends() {
    quiet_in_log podman stop --time 20 "$1"
    equal "how $1 ends" "$(podman inspect --format '{{.State.ExitCode}}' "$1")" 0
    quiet_in_log podman rm "$1"
}
# command_of FILE NAME: sets $command to that of the container in a Deployment.
command_of() {
    perl -It/lib -MTestbed::Manifests=manifest -e '
        Testbed::Manifests::is_available() or die "no YAML::XS\n";
        my $pod = manifest($ARGV[0], "Deployment", $ARGV[1])->{spec}{template}{spec};
        print map { "$_\0" } @{ $pod->{containers}[0]{command} }' "$@" >"$work/command" || fail "the command of $2"
    mapfile -d '' -t command <"$work/command"
}

ip link set lo up
# What another run left, which was killed. podman refuses to remove a container while others are in its network, and
# removes these.
podman rm --all --force --time 1 >"$work/log" 2>&1 || quiet_in_log podman rm --all --force --time 1
quiet_in_log podman network prune --force

cat >"$work/limits.conf" <<CONF
server { listen 8080; location / { sliding_log_limit demo key=\$remote_addr limit=2 window=1h; empty_gif; } }
CONF
version=$(sed -n 's/.*kVersion = "\(.*\)".*/\1/p' src/version.hpp)
for image in nginx official; do
    step "$image-sliding-log denies, and has the tool"
    run "$image" --volume "$work/limits.conf:/etc/nginx/conf.d/limits.conf:ro" "localhost/$image-sliding-log"
    becomes "$image answers" answers "$image" http://127.0.0.1:8080/none
    equal "$image" "$(statuses "$image" 8080 2)" '200 429 ' # after the first one
    ends "$image"
    equal "$image: the tool" "$(podman run --rm --network none "localhost/$image-sliding-log" sliding-log --version)" \
        "sliding-log $version"
done

step 'an image for a controller has the module, and does not load it'
controller=(podman run --rm --network none localhost/controller-sliding-log)
equal 'its user' "$("${controller[@]}" id -u)" 101
equal 'its configuration' "$("${controller[@]}" grep -c load_module /etc/nginx/nginx.conf || true)" 0
# shellcheck disable=SC2016
"${controller[@]}" sh -c 'printf "%s\n" "load_module modules/ngx_http_sliding_log_module.so;" "pid /tmp/pid;" "events { }" >/tmp/conf
    nginx -t -e /tmp/log -c /tmp/conf' >>"$work/log" 2>&1 || fail 'its module'

mkdir "$work/secret" "$work/configuration"
echo secret-of-redis >"$work/secret/password"
cp packaging/kubernetes/nginx.conf "$work/configuration/"
echo '127.0.0.1 localhost sliding-log-redis' >"$work/hosts"
restricted=(--read-only --read-only-tmpfs=false --tmpfs /tmp --cap-drop all --security-opt no-new-privileges
    --volume "$work/secret:/etc/sliding-log-redis:ro" --volume "$work/hosts:/etc/hosts:ro" --entrypoint '')
metrics() { ask "$1" http://127.0.0.1:9145/metrics; }
uses_redis() { metrics "$1" | grep -q '^sliding_log_store_up{.*} 1$'; }
step 'pods of Kubernetes, with what their containers may do'
command_of redis.yaml sliding-log-redis
run redis --user 999:999 "${restricted[@]}" docker.io/library/redis:8 "${command[@]}"
command_of nginx.yaml nginx-sliding-log
for image in nginx official; do
    pod=pod-$image
    network=container:redis run "$pod" --user 101:101 "${restricted[@]}" \
        --volume "$work/configuration:/etc/nginx/sliding-log:ro" "localhost/$image-sliding-log" "${command[@]}"
    becomes "$pod is ready" answers "$pod" --fail http://127.0.0.1:9145/healthz
    becomes "$pod uses Redis" uses_redis "$pod"
    quiet_in_log podman exec redis redis-cli -a secret-of-redis --no-auth-warning FLUSHALL
    equal "$pod: the limit" "$(statuses "$pod" 8080 6)" '200 200 200 200 200 429 '
    metrics "$pod" >"$work/metrics"
    holds "$pod: Redis decided" grep -qxF 'sliding_log_requests_total{limit="demo",result="passed",source="redis"} 5' "$work/metrics"
    podman exec "$pod" sliding-log doctor --nginx-conf /etc/nginx/sliding-log/nginx.conf >>"$work/log" 2>&1 || [ $? -eq 1 ] ||
        fail "$pod: doctor" # 1: warnings
    ends "$pod"
done
ends redis

step 'compose.yaml'
quiet_in_log podman-compose up --detach redis node1 node2 prometheus
node_answers() { curl -s -o /dev/null "http://127.0.0.1:$1/none"; }
becomes 'node1 answers' node_answers 8001
becomes 'node2 answers' node_answers 8002
decided() { for port in 8001 8002 8001 8002 8001 8002; do curl -s -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:$port/"; done | paste -sd ' '; }
is_shared() { [ "$(decided)" = '200 200 200 200 200 429' ]; }
becomes 'one limit of both nodes' is_shared # once the first requests left the window
query() { curl -s -G http://127.0.0.1:9090/api/v1/query --data-urlencode "query=$1" | grep -q "\"$2\"\]"; }
becomes 'Prometheus asks both nodes' query 'count(sliding_log_store_up == 1)' 2
curl -s http://127.0.0.1:9090/api/v1/rules >"$work/rules"
holds 'Prometheus has the alert rules' grep -q SlidingLogStoreDown "$work/rules"
quiet_in_log podman-compose down

step 'all images do what they shall'
