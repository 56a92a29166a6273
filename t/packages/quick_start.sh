# shellcheck shell=bash
# Does what README's quick start tells, word by word. Run by t/packages/in_clean_debian inside a system that is thrown
# away, as root, with this tree in /src, and without what it is built with.
set -euo pipefail
cd /src
. t/packages/steps.sh

quick_start=$(sed -n '/^## Quick start/,/^## [^Q]/p' README.md)

# fenced LANGUAGE [NTH]: what stands between ``` in the quick start, of that language for the nth time
fenced() {
    awk -v language="$1" -v nth="${2-1}" \
        '/^```/ { is_fenced = !is_fenced; wanted = is_fenced && $0 == "```" language && ++seen == nth; next } wanted' \
        <<<"$quick_start"
}

mapfile -t commands < <(awk '/^```/ { is_fenced = !is_fenced } !is_fenced && sub(/^    /, "")' <<<"$quick_start")

answers() { quiet curl -s -o answer "$@"; }
counted() { bash -c "$1" >answer 2>>log && grep -q '"source":"redis"' answer; }

ip link set lo up
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/yes # a user would say so at the keyboard
ran=
for command in "${commands[@]}"; do
    step "\$ $command"
    case $command in
        './build.sh deb')
            quiet bash -c "$command" || fail "$command"
            fails 'what it was built with runs no server' curl -s localhost
            ;;
        *' | grep -i ratelimit')
            becomes 'the new configuration is in use' answers 'localhost:8000'
            equal 'what README shows' "$(bash -c "$command" 2>>log | tr -d '\r')" "$(fenced text)"
            ;;
        *' | uniq -c') equal 'what README shows' "$(bash -c "$command" 2>>log)" "$(fenced text 2)" ;;
        *'/api/v1/query?'*) becomes 'Prometheus has what nginx counted' counted "$command" ;;
        'service redis-server start')
            fenced nginx >/etc/nginx/conf.d/limits.conf
            quiet bash -c "$command" || fail "$command"
            ;;
        *) quiet bash -c "$command" || fail "$command" ;;
    esac
    ran+=" ${command%% *}"
done
equal 'commands' "$ran" ' ./build.sh apt service service service curl curl apt cp service curl'
equal 'alerts of nginx' "$(grep -E '\[(alert|crit)\]' /var/log/nginx/error.log)" ''

step 'the quick start works'
