#!/bin/sh
# Proves the two commands of the README on a fresh Debian 12: makes a root directory that holds only
# Debian's minimal base, git, make and gcc; clones the last commit into it; runs `make demo` and
# `make test` there as a new user would, and says how long each took.
#
#   tools/fresh.sh [DIR]      DIR (default /var/tmp/cherenkov-fresh) keeps base.tar, the fresh root,
#                             for the next run; the rest is removed
#   MIRROR=URL                where packages come from; default: where this machine's own come from
#   TARGETS="demo test"       what to make
#
# Needs root (chroot, mounts in a private namespace), debootstrap, and the network. Not part of
# `make test`. Exits 1 if a target fails.
set -eu
cd "$(dirname "$0")/.."
dir=${1:-/var/tmp/cherenkov-fresh}
targets=${TARGETS:-demo test}
root=$dir/root
suite=bookworm

[ "$(id -u)" = 0 ] || { echo "fresh: needs root"; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: needs debootstrap"; exit 1; }
[ -z "$(git status --porcelain)" ] || echo "fresh: note: what is not committed is not tried"

# The first Debian archive that apt here uses.
archives() {
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN)' 'Created-By: Packages'
}
mirror=${MIRROR:-$(archives | awk '$2 == "Debian" && !/security/ { print $1; exit }')}
[ -n "$mirror" ] || { echo "fresh: apt here has no Debian archive; set MIRROR=URL"; exit 1; }

mkdir -p "$dir"
rm -rf "$root"
if [ ! -f "$dir/base.tar" ]; then
    echo "== making the fresh root"
    start=$(date +%s)
    debootstrap --variant=minbase --include=git,make,gcc,libc6-dev,ca-certificates \
        $suite "$root" "$mirror" >"$dir/debootstrap.log" 2>&1 || {
        tail -n 5 "$dir/debootstrap.log"
        exit 1
    }
    tar -C "$root" -cf "$dir/base.tar.new" .
    mv "$dir/base.tar.new" "$dir/base.tar"
    echo "   $(($(date +%s) - start)) s"
else
    mkdir "$root"
    tar -C "$root" -xf "$dir/base.tar"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
git clone -q --bare . "$root/srv/cherenkov.git"

cat >"$root/srv/user.sh" <<'USER'
set -u
cd /root
rc=0
stamp() { date +%s; }
start=$(stamp)
git clone -q /srv/cherenkov.git
cd cherenkov
echo "== git clone: $(($(stamp) - start)) s"
for t in "$@"; do
    start=$(stamp)
    make "$t" && said=ok || { said=FAILED; rc=1; }
    figures="${figures-}make $t: $said in $(($(stamp) - start)) s
"
done
echo
echo "== fresh Debian $(cat /etc/debian_version), $(getconf _NPROCESSORS_ONLN) processors"
echo "revision $(git rev-parse --short HEAD)"
printf '%s' "$figures"
exit $rc
USER

rc=0
# shellcheck disable=SC2086,SC2016 # the words of targets; the inner shell expands the rest
unshare -m sh -c '
    mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount -t tmpfs tmpfs "$0/tmp" &&
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
            chroot "$0" sh /srv/user.sh "$@"' "$root" $targets || rc=1
rm -rf "$root"
exit $rc
