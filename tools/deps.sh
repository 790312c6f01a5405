#!/bin/sh
# Installs the libraries that cherenkov needs and this machine lacks. Shows the list first.
set -eu
need="pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libedit-dev libcmocka-dev"
missing=""
for p in $need; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing"
sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get update -qq
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing
