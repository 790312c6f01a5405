#!/bin/sh
# What `make demo` does once everything is built: packs the demonstration model and prints a story.
set -eu
: "${B:=build/release}"
model=models/demo
prompt="Once upon a time there was a little girl who"

step() {
    echo
    echo "== $1"
    echo "\$ $2"
}

if [ -f $model/packed/manifest.json ]; then
    echo "== $model/packed is there already"
else
    step "packing the demonstration model" "$B/cherenkov pack $model"
    "$B/cherenkov" pack $model
fi
step "a story; another --seed tells another" \
    "$B/cherenkov run $model --raw --seed 5 --max-tokens 160 '$prompt'"
printf '%s' "$prompt"
"$B/cherenkov" run $model --raw --seed 5 --max-tokens 160 "$prompt"
echo
echo "== next: $B/cherenkov chat $model"
