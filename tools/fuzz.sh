#!/bin/sh
# Runs the fuzz targets of $B (or that of $T) for $1 seconds each, as many at once as there are
# processors. New inputs gather in build/corpus/STEM; an input that crashes, leaks, hangs or takes
# too much memory is kept in fuzz/seeds/STEM, where `make test` replays it for ever. Prints
# executions.
set -u
: "${B:=build/fuzz}" "${T:=}"
export B LSAN_OPTIONS="suppressions=$PWD/tools/leaks.txt:print_suppressions=0"

run_one() {
    stem=$1 seconds=$2
    seeds=fuzz/seeds/$stem corpus=build/corpus/$stem log=$DIR/$stem.log
    mkdir -p "$seeds" "$corpus"
    dict=""
    [ ! -f "fuzz/$stem.dict" ] || dict=-dict=fuzz/$stem.dict
    "$B/fuzz_$stem" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$seeds/" $dict "$corpus" "$seeds" >"$log" 2>&1
    rc=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    if [ $rc -eq 0 ]; then
        echo "ok    fuzz_$stem: ${runs:-?} executions, ${rate:-?}/s" >"$log.shown"
        echo "${runs:-0}" >"$DIR/$stem.passed"
    else
        : >"$DIR/$stem.failed"
        echo "FAIL  fuzz_$stem (exit $rc), input kept in $seeds:" >"$log.shown"
        tail -n 40 "$log" >>"$log.shown"
    fi
    echo "$log.shown"
}

if [ "${1:-}" = --one ]; then
    run_one "$3" "$2"
    exit 0
fi

seconds=${1:-60}
DIR=$(mktemp -d) || exit 1
export DIR
trap 'rm -rf "$DIR"' EXIT
trap 'exit 130' INT TERM
: "${J:=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}"
for f in fuzz/fuzz_*.c; do
    stem=$(basename "$f" .c)
    stem=${stem#fuzz_}
    [ -f "$f" ] || continue
    [ -z "$T" ] || [ "$T" = "$stem" ] || continue
    echo "$stem"
done | xargs -r -P "$J" -n 1 "$0" --one "$seconds" | xargs -r -n 1 cat
passed=$(ls "$DIR" | grep -c '\.passed$')
failed=$(ls "$DIR" | grep -c '\.failed$')
runs=$(cat "$DIR"/*.passed 2>/dev/null | awk '{ n += $1 } END { print n + 0 }')
[ $((passed + failed)) -gt 0 ] || echo "no fuzz target is called '$T'"
echo "$runs executions, $seconds s a target: $passed targets clean, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
