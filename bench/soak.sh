#!/bin/bash
# Mixed requests for a while: no request may fail, the same question keeps its answer whatever else
# goes on, and neither the server's memory nor the device's grows.
#
#   bench/soak.sh STORE [SECONDS [flags of serve...]]      300 seconds; --engine gpu, say
#
# Six clients at once: short and long prompts, greedy and drawn, streamed and not, and one that
# leaves in the middle of its answer. Prints requests, and memory after a fifth of the time and at
# the end.
# Needs curl. BUILD=build/release, PORT=18980.
set -euo pipefail
cd "$(dirname "$0")/.."
store=${1:?usage: bench/soak.sh STORE [SECONDS [flags of serve...]]}
seconds=${2:-300}
shift $(($# < 2 ? $# : 2))
ours=${BUILD:-build/release}/cherenkov url=http://127.0.0.1:${PORT:-18980}
room=$(mktemp -d)
"$ours" serve "$store" --listen "127.0.0.1:${PORT:-18980}" "$@" 2>"$room/log" &
server=$!
trap 'kill $server 2>/dev/null || true; wait; rm -rf "$room"' EXIT
for _ in $(seq 1200); do
    curl -sf "$url/health" >/dev/null && break
    kill -0 $server 2>/dev/null || { cat "$room/log"; exit 1; }
    sleep 0.5
done

long=$(for _ in $(seq 40); do printf 'Once upon a time there was a king who had three sons. '; done)
end=$(($(date +%s) + seconds))

body() { # PROMPT TOKENS TEMPERATURE STREAM
    printf '{"messages":[{"role":"user","content":"%s"}],"max_tokens":%d,' "$1" "$2"
    printf '"temperature":%s,"stream":%s}' "$3" "$4"
}
ask() { curl -sf -m 300 -H 'Content-Type: application/json' -d "$1" "$url/v1/chat/completions"; }
answer() {
    ask "$(body 'Tell me of the king.' 24 0 false)" |
        sed 's/.*"content": *"\(\([^"\\]\|\\.\)*\)".*/\1/'
}

# Until the end: a request of its kind; a line for each, and one in `failed` for what went wrong.
client() { # NAME PROMPT TOKENS TEMPERATURE STREAM
    while [ "$(date +%s)" -lt "$end" ]; do
        ask "$(body "${@:2}")" >/dev/null || echo "$1" >>"$room/failed"
        echo "$1" >>"$room/done"
    done
}
leaver() {
    while [ "$(date +%s)" -lt "$end" ]; do
        curl -s -m 0.3 -N -H 'Content-Type: application/json' -d "$(body "$long" 400 0.8 true)" \
            "$url/v1/chat/completions" >/dev/null || true
        echo leaves >>"$room/done"
    done
}
same() {
    while [ "$(date +%s)" -lt "$end" ]; do
        [ "$(answer)" = "$first" ] || echo 'another answer' >>"$room/failed"
        echo same >>"$room/done"
    done
}
memory() { # KiB of the process; MiB that the device has left, where it says
    awk '/^VmRSS/ { printf "%d ", $2 }' /proc/$server/status
    "$ours" devices --json 2>/dev/null |
        awk -F'[:,]' '/"free_bytes"/ && !seen++ { print int($2 / 1048576) }'
}

first=$(answer)
client short 'Hello.' 16 0.8 false &
client streamed 'Who lives in the wood?' 60 0 true &
client drawn 'A story, please.' 120 1.0 false &
client long "$long" 8 0 false &
leaver &
same &
sleep $((seconds / 5))
read -r rss_before free_before <<<"$(memory)"
while [ "$(date +%s)" -lt "$end" ]; do sleep 1; done
for job in $(jobs -p); do [ "$job" = $server ] || wait "$job" || true; done
read -r rss free <<<"$(memory)"

sort "$room/done" | uniq -c
echo "memory of the server: $((rss_before / 1024)) MiB, then $((rss / 1024))"
echo "memory that the device has left: ${free_before:-unknown} MiB, then ${free:-unknown}"
rc=0
if [ -s "$room/failed" ]; then echo "failed:"; sort "$room/failed" | uniq -c; rc=1; fi
kill -0 $server || { echo "the server has ended"; cat "$room/log"; rc=1; }
[ "$rss" -le $((rss_before + rss_before / 20 + 32768)) ] || { echo "the server grew"; rc=1; }
[ -z "${free:-}" ] || [ "$free" -ge $((free_before - 64)) ] || {
    echo "less of the device's memory is left"
    rc=1
}
exit $rc
