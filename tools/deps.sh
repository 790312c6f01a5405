#!/bin/sh
# Installs what cherenkov needs and this machine lacks, through apt, dnf, pacman or brew.
#
#   tools/deps.sh       the libraries that building and testing need; with them, where there are
#                       packages, what the gpu engine is built with
#   tools/deps.sh gpu   these, the gpu engine's being needed
#   tools/deps.sh ci    these, a software GPU for tests, the tools of `make tidy`, `make fuzz` and
#                       `make valgrind`, a compiler and an emulator for 64-bit ARM, and a browser
#                       for the test of the web page
#
# When nothing is missing it says nothing, touches no network and takes some milliseconds.
# Otherwise it shows the list and the command before running it. It asks sudo when it is not run
# as root.
set -eu

# What is looked for, and the package that brings it:  probe  apt  dnf  pacman  brew
#
#   pc:NAME     pkg-config knows it         linux:NAME   the same, on Linux alone
#   cmd:NAME    a command                   fuzzer:      clang can link libFuzzer
#   browser:    Chromium, by any of its names
#   arm64:WHAT  compiling, linking, running programs for 64-bit ARM
#
# A dash: the manager has no such package.
libraries='
cmd:pkg-config  pkg-config       pkgconf-pkg-config  pkgconf   pkg-config
pc:jansson      libjansson-dev   jansson-devel       jansson   jansson
pc:libpcre2-8   libpcre2-dev     pcre2-devel         pcre2     pcre2
pc:libutf8proc  libutf8proc-dev  utf8proc-devel      libutf8proc utf8proc
pc:libxxhash    libxxhash-dev    xxhash-devel        xxhash    xxhash
linux:liburing  liburing-dev     liburing-devel      liburing  -
pc:libedit      libedit-dev      libedit-devel       libedit   libedit
pc:libmicrohttpd libmicrohttpd-dev libmicrohttpd-devel libmicrohttpd libmicrohttpd
pc:ncurses      libncurses-dev   ncurses-devel       ncurses   -
pc:libconfig    libconfig-dev    libconfig-devel     libconfig libconfig
pc:cmocka       libcmocka-dev    libcmocka-devel     cmocka    cmocka
'
# What the gpu engine is built with. Everything but that engine is built without, so that these
# alone are no reason to ask the network for something.
gpu='
pc:vulkan       libvulkan-dev    vulkan-loader-devel vulkan-devel      vulkan-loader
cmd:glslc       glslc            glslc               shaderc           shaderc
'
tools='
cmd:clang         clang            clang              clang     llvm
fuzzer:           libclang-rt-dev  compiler-rt        compiler-rt llvm
cmd:clang-format  clang-format     clang-tools-extra  clang     clang-format
cmd:clang-tidy    clang-tidy       clang-tools-extra  clang     llvm
cmd:valgrind      valgrind         valgrind           valgrind  valgrind
arm64:cc          gcc-aarch64-linux-gnu  gcc-aarch64-linux-gnu  aarch64-linux-gnu-gcc   -
arm64:link        libc6-dev-arm64-cross  -                      aarch64-linux-gnu-glibc -
arm64:run         qemu-user              qemu-user              qemu-user               -
vulkan:lavapipe   mesa-vulkan-drivers    mesa-vulkan-drivers    vulkan-swrast           -
vulkan:layer      vulkan-validationlayers vulkan-validation-layers vulkan-validation-layers -
cmd:spirv-val     spirv-tools            spirv-tools            spirv-tools             -
cmd:spirv-cross   spirv-cross            spirv-cross            spirv-cross             -
browser:          chromium               chromium               chromium                -
'

present() {
    case $1 in
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    linux:*) [ ! -e /proc/version ] || pkg-config --exists "${1#linux:}" 2>/dev/null ;;
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    fuzzer:) links "$fuzz_target" clang -fsanitize=fuzzer ;;
    browser:) any_command chromium chromium-browser google-chrome ;;
    vulkan:lavapipe) ls /usr/share/vulkan/icd.d/lvp_icd.*json >/dev/null 2>&1 ;;
    vulkan:layer) ls /usr/share/vulkan/explicit_layer.d/*hronos_validation.json >/dev/null 2>&1 ;;
    arm64:cc) command -v aarch64-linux-gnu-gcc >/dev/null ;;
    arm64:link) links "int main(void) { return 0; }" aarch64-linux-gnu-gcc -static ;;
    arm64:run) command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null ;;
    esac
}

any_command() {
    for c in "$@"; do
        ! command -v "$c" >/dev/null || return 0
    done
    return 1
}

fuzz_target='int LLVMFuzzerTestOneInput(const char *p, long n) { return p && n < 0; }'

# Whether the compiler call $2... makes a program of source $1.
links() {
    o=$(mktemp) || return 1
    text=$1
    shift
    echo "$text" | "$@" -x c - -o "$o" 2>/dev/null
    rc=$?
    rm -f "$o"
    return $rc
}

# The missing packages of list $2, in the words of manager $1; one line.
missing() {
    echo "$2" | while read -r probe apt dnf pacman brew; do
        [ -n "$probe" ] && ! present "$probe" || continue
        case $1 in
        apt) echo "$apt" ;;
        dnf) echo "$dnf" ;;
        pacman) echo "$pacman" ;;
        brew) echo "$brew" ;;
        esac
    done | grep -vx -e - | sort -u | tr '\n' ' '
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "deps: this needs root and there is no sudo; as root run: $*" >&2
        exit 1
    fi
}

apt_install() {
    # Fresh machines have no package lists; others need not fetch them again.
    if ! apt-get install -s "$@" >/dev/null 2>&1; then
        as_root apt-get update -qq
    fi
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

case ${1:-} in
'') needed=$libraries wanted=$gpu ;;
gpu) needed=$libraries$gpu wanted= ;;
ci) needed=$libraries$gpu$tools wanted= ;;
*) echo "usage: tools/deps.sh [gpu | ci]" >&2; exit 2 ;;
esac
[ -n "$(missing apt "$needed")" ] || exit 0

if command -v apt-get >/dev/null; then
    manager=apt install=apt_install shown="apt-get install"
elif command -v dnf >/dev/null; then
    manager=dnf install="as_root dnf install -y" shown="dnf install"
elif command -v pacman >/dev/null; then
    manager=pacman install="as_root pacman -S --needed --noconfirm" shown="pacman -S"
elif command -v brew >/dev/null; then
    manager=brew install="brew install" shown="brew install"
else
    echo "deps: no apt-get, dnf, pacman or brew here; install by hand (the names are Debian's):" >&2
    echo "    $(missing apt "$needed$wanted")" >&2
    exit 1
fi
list=$(missing $manager "$needed")
[ -n "$list" ] || exit 0
also=$(missing $manager "$wanted")
echo "deps: missing here: $list$also"
echo "deps: $shown $list$also"
# shellcheck disable=SC2086 # one word per package
ask() {
    $install $list $also && return
    [ -n "$also" ] && echo "deps: again, without $also" && $install $list
}
ask || {
    echo "deps: that failed; is the network there? Install by hand: $list" >&2
    exit 1
}
list=$(missing $manager "$needed")
[ -z "$list" ] || {
    echo "deps: installed, but still not found: $list" >&2
    exit 1
}
