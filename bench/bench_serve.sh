#!/bin/bash
# The server beside the program without it, in one run; figures are ratios of medians, since what
# else the machine does meanwhile hits both halves of a pair alike. What is asked of each:
#
#   overhead   processor time per token, all threads and the system's part, streamed over HTTP,
#              beside `cherenkov run`                                            under 1.03
#   together   tokens a second of 8 requests at once, of one                    at least 2.5
#   disk       the same with a pool of 40 % of the experts, beside what 8
#              sequences with prompts as long gain in `cherenkov bench`          at least 0.9
#   turn       time to the first token of a second turn behind 2,000 tokens, of
#              the first turn's                                                  under 0.05
#
#   bench/bench_serve.sh [PART...]    the parts above; needs curl
#
# STORE (full-shape weights: `cherenkov synth tests/data/vectors/config.json DIR --layers 8
# --mtp no --ngram-base 20011 --tokenizer models/demo`, 12.5 GB; without it the demonstration model
# alone is measured), ENGINE=cpu, ROUNDS=5, THREADS=2, TOKENS=48 of an answer.
set -euo pipefail
: "${CHERENKOV_BUILD:=build/release}" "${CHERENKOV_BIN:=$CHERENKOV_BUILD/cherenkov}"
: "${ENGINE:=cpu}" "${ROUNDS:=5}" "${THREADS:=2}" "${TOKENS:=48}" "${STORE:=}"
parts=${*:-overhead together disk turn}
dir=$(mktemp -d "${TMPDIR:-/tmp}/cherenkov-bench-XXXXXX")
server=
stop() {
    [ -z "$server" ] || { kill "$server" && wait "$server" || true; }
    server=
}
trap 'stop; rm -rf "$dir"' EXIT
"$CHERENKOV_BIN" pack models/demo --output "$dir/demo" 2>/dev/null

median() {
    sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a / b }'; }

start() { # STORE flags
    : >"$dir/log" # the last server was ready too
    "$CHERENKOV_BIN" serve "$1" --listen 127.0.0.1:0 --no-ranking --threads "$THREADS" \
        --drafts 0 --engine "$ENGINE" "${@:2}" 2>"$dir/log" &
    server=$!
    until grep -q 'cherenkov: ready' "$dir/log"; do
        kill -0 "$server" || { cat "$dir/log" >&2; exit 1; }
        sleep 0.1
    done
    url=$(sed -n 's/.*listening on \(http[^;]*\);.*/\1/p' "$dir/log")
}
ask() { curl -sS -N "$url$1" -d @- >"$2"; } # PATH FILE, body on stdin
# Words that are another prompt each time.
words() { awk -v seed="$1" -v n="$2" 'BEGIN { srand(seed)
    split("the king went into a wood and there he saw an old woman with her cat", w, " ")
    for (i = 0; i < n; i++) printf "%s ", w[int(rand() * 15) + 1] }'; }
completion() { # SEED TOKENS STREAM
    printf '{"prompt": "%s", "max_tokens": %d, "temperature": 0, "ignore_eos": true, ' \
        "$(words "$1" 8)" "$2"
    printf '"cache_prompt": false, "stream": %s}' "$3"
}

# Nanoseconds of processor that the threads of a process have had.
used() { cat /proc/"$1"/task/*/schedstat | awk '{ n += $1 } END { printf "%.0f\n", n }'; }

# Processor time of the program, in nanoseconds.
run_used() { # STORE TOKENS flags
    local times
    times=$( { TIMEFORMAT='%U %S'; time "$CHERENKOV_BIN" run "$1" --engine "$ENGINE" \
        --raw --greedy --ignore-eos --threads "$THREADS" --drafts 0 --no-ranking \
        --max-tokens "$2" "${@:3}" "$(words 3 8)" \
        >"$dir/out" 2>"$dir/err"; } 2>&1)
    awk '{ printf "%.0f", ($1 + $2) * 1e9 }' <<<"$times"
}
serve_used() { # TOKENS
    local a
    a=$(used "$server")
    completion 3 "$1" true | ask /v1/completions "$dir/out"
    sleep 0.2
    echo $(($(used "$server") - a))
}
# Per token: what a longer answer costs more than a short one, so that the start falls out.
overhead_of() { # NAME STORE SHORT LONG flags
    local i a b
    rm -f "$dir"/cli "$dir"/server "$dir"/each
    start "$2" --sequences 1 "${@:5}"
    serve_used "$3" >/dev/null
    for i in $(seq "$ROUNDS"); do
        a=$(($(run_used "$2" "$4" "${@:5}") - $(run_used "$2" "$3" "${@:5}")))
        b=$(($(serve_used "$4") - $(serve_used "$3")))
        echo "$a" >>"$dir/cli"
        echo "$b" >>"$dir/server"
        ratio "$b" "$a" >>"$dir/each"
        echo >>"$dir/each"
    done
    stop
    echo "overhead $1: $(ratio "$(median <"$dir/server")" "$(median <"$dir/cli")") of the" \
        "program's processor time a token ($(awk -v n="$(median <"$dir/cli")" \
            -v k=$(($4 - $3)) 'BEGIN { printf "%.3f ms", n / k / 1e6 }')); each pair" \
        "$(tr '\n' ' ' <"$dir/each")"
}
overhead() {
    overhead_of demo "$dir/demo" 50 1050
    # In place from the page cache, so that neither reads what the other has in its pool.
    [ -z "$STORE" ] || overhead_of full-shape "$STORE" 8 $((8 + TOKENS)) --pool map
}

# Tokens a second of N requests at once, each with a prompt of its own.
rate() { # N
    local i from pids=()
    from=$(date +%s%N)
    for i in $(seq "$1"); do
        completion "$RANDOM" "$TOKENS" false | ask /v1/completions "$dir/out$i" &
        pids+=($!)
    done
    wait "${pids[@]}"
    awk -v n=$(($1 * TOKENS)) -v ns=$(($(date +%s%N) - from)) \
        'BEGIN { printf "%.3f\n", n / ns * 1e9 }'
}
gain() { # NAME STORE flags; sets $gained
    local i a b
    rm -f "$dir"/one "$dir"/eight "$dir"/each
    start "$2" --sequences 8 "${@:3}"
    printf '{"prompt": "%s", "max_tokens": 1}' "$(words 1 600)" | ask /v1/completions "$dir/out"
    for i in $(seq "$ROUNDS"); do
        a=$(rate 1) b=$(rate 8)
        echo "$a" >>"$dir/one"
        echo "$b" >>"$dir/eight"
        ratio "$b" "$a" >>"$dir/each"
        echo >>"$dir/each"
    done
    stop
    gained=$(ratio "$(median <"$dir/eight")" "$(median <"$dir/one")")
    echo "$1: 8 requests have $gained times the throughput of one" \
        "($(median <"$dir/eight") and $(median <"$dir/one") tok/s); each pair" \
        "$(tr '\n' ' ' <"$dir/each")"
}
together() {
    gain "together, demo" "$dir/demo"
    [ -z "$STORE" ] || gain "together, full-shape, resident" "$STORE" --pool-slots $((512 * 8))
}

# Tokens a second of sequences in `cherenkov bench`: with their prompts' time, as a server's clients
# see it, and of decoding alone.
bench_rate() { # SEQUENCES SLOTS
    "$CHERENKOV_BIN" bench "$STORE" --engine "$ENGINE" --threads "$THREADS" --no-machine --json \
        --prompt-tokens 10 --tokens "$TOKENS" --sequences "$1" --repetitions 1 --pool-slots "$2" \
        2>/dev/null |
        awk -v n="$TOKENS" '/"prefill"/ { part = 0 } /"decode"/ { part = 1 }
            /"median"/ { gsub(/[^0-9.e+-]/, "", $2); rate[part] = $2 }
            END { printf "%.3f %.3f\n", n / (10 / rate[0] + n / rate[1]), rate[1] }'
}
# The server and bench in turn, so that what the disk's own caches hold is the same for all.
disk() {
    [ -n "$STORE" ] || return 0
    local slots=$((512 * 8 * 40 / 100)) i n
    local -A by name=([s]=server [b]="bench with prompts" [d]="bench, decoding alone")
    rm -f "$dir"/s1 "$dir"/s8 "$dir"/[bd][18]
    start "$STORE" --sequences 8 --pool-slots $slots
    for n in 1 8; do rate $n >/dev/null; done
    for i in $(seq "$ROUNDS"); do
        for n in 1 8; do
            rate $n >>"$dir/s$n"
            bench_rate $n $slots >"$dir/b"
            cut -d' ' -f1 "$dir/b" >>"$dir/b$n"
            cut -d' ' -f2 "$dir/b" >>"$dir/d$n"
        done
    done
    stop
    for i in s b d; do
        by[$i]=$(ratio "$(median <"$dir/${i}8")" "$(median <"$dir/${i}1")")
        echo "disk, full-shape, pool of 40 %, ${name[$i]}: ${by[$i]} times with 8" \
            "($(median <"$dir/${i}8") and $(median <"$dir/${i}1") tok/s)"
    done
    echo "disk: the server has $(ratio "${by[s]}" "${by[b]}") of bench's gain with prompts," \
        "$(ratio "${by[s]}" "${by[d]}") of that without"
}

field() { sed -n "s/.*\"$1\":\\([0-9.e+-]*\\).*/\\1/p" "$2"; }
turn_of() { # NAME STORE
    local i first text
    rm -f "$dir"/first "$dir"/second
    start "$2" --sequences 1
    for i in $(seq "$ROUNDS"); do
        text=$(words $((i * 7)) 1990)
        first='{"role": "user", "content": "'$text'"}'
        printf '{"messages": [%s], "max_tokens": 16, "temperature": 0}' "$first" |
            ask /v1/chat/completions "$dir/out"
        field prompt_ms "$dir/out" >>"$dir/first"
        field prompt_n "$dir/out" >"$dir/n"
        text=$(sed -n 's/.*"content":\("\([^"\\]\|\\.\)*"\).*/\1/p' "$dir/out")
        printf '{"messages": [%s, {"role": "assistant", "content": %s}, %s], %s}' "$first" "$text" \
            '{"role": "user", "content": "And then?"}' '"max_tokens": 2, "temperature": 0' |
            ask /v1/chat/completions "$dir/out"
        field prompt_ms "$dir/out" >>"$dir/second"
    done
    stop
    echo "turn, $1: the second turn's first token after $(ratio "$(median <"$dir/second")" \
        "$(median <"$dir/first")") of the first's time" \
        "($(median <"$dir/second") and $(median <"$dir/first") ms, prompt of" \
        "$(cat "$dir/n") tokens, then $(field prompt_n "$dir/out") more)"
}
turn() {
    turn_of demo "$dir/demo"
    [ -z "$STORE" ] || turn_of full-shape "$STORE"
}

for part in $parts; do $part; done
