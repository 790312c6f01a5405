#!/bin/sh
# tools/deps.sh with package managers that only say what they were asked: the list comes first, the
# right manager and names are used, sudo when not root, silence when nothing is missing.
# Needs no build.
set -eu
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
real=$PATH
for tool in sh env cat tr sed sort cut id grep rm mktemp dirname; do
    ln -s "$(command -v $tool)" "$room/$tool"
done
cases=0

fake() { # NAME, body on standard input
    { echo '#!/bin/sh'; cat; } >"$room/$1"
    chmod +x "$room/$1"
}
echo 'exit 0' | fake glslc
# Runs deps with the fake machine alone; output to $room/said, status to $rc.
run() {
    rc=0
    PATH=$room sh tools/deps.sh "$@" >"$room/said" 2>&1 || rc=$?
    cases=$((cases + 1))
}
fail() {
    echo "$1; status $rc, said:"
    cat "$room/said"
    exit 1
}

echo 'exit 0' | fake pkg-config
run
[ $rc -eq 0 ] && [ ! -s "$room/said" ] || fail "nothing is missing, but it was not silent"

# xxhash is missing until something installs it.
rm "$room/pkg-config"
echo '[ "$2" != libxxhash ] || [ -f "${0%/*}/installed" ]' | fake pkg-config
run
[ $rc -eq 1 ] || fail "no manager, but no failure"
grep -q 'libxxhash-dev' "$room/said" || fail "the package is not named"

rm "$room/id"
echo 'echo 0' | fake id
for pair in "apt-get libxxhash-dev" "dnf xxhash-devel" "pacman xxhash" "brew xxhash"; do
    manager=${pair%% *} package=${pair#* }
    rm -f "$room/apt-get" "$room/dnf" "$room/pacman" "$room/brew" "$room/installed"
    # shellcheck disable=SC2016
    echo 'case $* in *-s*) exit 0 ;; esac; echo "$@" >>"${0%/*}/asked"; : >"${0%/*}/installed"' |
        fake "$manager"
    : >"$room/asked"
    run
    [ $rc -eq 0 ] || fail "$manager failed"
    grep -q "^deps: missing here: $package *$" "$room/said" || fail "the list is not shown"
    grep -q "install.* $package$\|^-S .* $package$" "$room/asked" || fail "$manager: other words"
    ! grep -q update "$room/asked" || fail "package lists were fetched for nothing"
done

# What the gpu engine is built with comes along, but is no reason of its own, and no obstacle.
rm -f "$room/brew" "$room/installed" "$room/glslc"
: >"$room/asked"
# shellcheck disable=SC2016
echo 'echo "$@" >>"${0%/*}/asked"; : >"${0%/*}/installed"' | fake pacman
run
[ $rc -eq 0 ] && grep -q -- '-S .* xxhash shaderc$' "$room/asked" || fail "glslc stays behind"
run
[ $rc -eq 0 ] && [ ! -s "$room/said" ] || fail "glslc alone was a reason"
rm "$room/installed"
# shellcheck disable=SC2016
echo 'case $* in *shaderc*) exit 1 ;; esac; : >"${0%/*}/installed"' | fake pacman
run
[ $rc -eq 0 ] && grep -q 'again, without shaderc' "$room/said" || fail "glslc was an obstacle"
run gpu
[ $rc -eq 1 ] && grep -q 'Install by hand: shaderc' "$room/said" || fail "gpu: nothing was wrong"
echo 'exit 0' | fake glslc
rm "$room/pacman"

# Not root: sudo, or a clear refusal.
rm -f "$room/brew" "$room/installed"
echo 'echo 1000' | fake id
# shellcheck disable=SC2016
echo ': >"${0%/*}/installed"' | fake dnf
run
[ $rc -eq 1 ] && grep -q 'needs root' "$room/said" || fail "not root and no sudo, but no refusal"
# shellcheck disable=SC2016
echo 'echo "sudo $*" >>"${0%/*}/asked"; "$@"' | fake sudo
run
[ $rc -eq 0 ] && grep -q '^sudo dnf install' "$room/asked" || fail "sudo was not used"

# A manager that does nothing is found out; one that fails too.
rm -f "$room/installed"
echo 'exit 0' | fake dnf
run
[ $rc -eq 1 ] && grep -q 'still not found: xxhash-devel' "$room/said" || fail "was believed"
echo 'exit 1' | fake dnf
run
[ $rc -eq 1 ] && grep -q 'that failed' "$room/said" || fail "its failure was lost"
run nonsense
[ $rc -eq 2 ] || fail "a wrong word was accepted"
PATH=$real
echo "cases: $cases"
