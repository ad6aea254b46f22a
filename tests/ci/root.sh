#!/usr/bin/env bash
# Another Debian in a directory, for the Ruby that it has: what runs there sees the source tree under the same path as here.
#
#   tests/ci/root.sh SUITE DIR                makes it, unless DIR has it already (root's rights; two minutes, 600 MB)
#   tests/ci/root.sh SUITE DIR COMMAND...     makes it, then runs COMMAND there, in this directory; exit status: COMMAND's
#   tests/ci/root.sh --remove DIR
#   tests/ci/root.sh --possible               exit status 0 if this can be done here at all
#
# SUITE is a release or "experimental", which is sid with the newest Ruby of both. Mirror, proxy and leniency about dates are those of the
# apt of this machine.
# /proc, /dev, /tmp and the source tree are mounted in a namespace of COMMAND's own: however it ends, no mount and no process is left.
set -euo pipefail

packages=(ruby ruby-dev rake ruby-minitest ruby-test-unit bundler build-essential pkg-config protobuf-c-compiler libprotobuf-c-dev
    libjansson-dev libzstd-dev libxxhash-dev zlib1g-dev git asciidoctor ruby-rouge puma ruby-rack ruby-rack-session)
# Of another list of packages the root is made anew.
stamp=.mpp-packages

usage() {
    sed -n 's/^# \{3\}//p' "$0" >&2
    exit 2
}

fail() {
    echo "tests/ci/root.sh: $*" >&2
    exit 1
}

# The archive that this machine takes its own release from; /etc/apt/sources.list and sources.list.d/* have several notations.
mirror() {
    local id='' VERSION_CODENAME='' found=''
    # shellcheck disable=SC1091
    [ ! -r /etc/os-release ] || eval "$(. /etc/os-release && printf 'id=%q VERSION_CODENAME=%q' "${ID:-}" "${VERSION_CODENAME:-}")"
    if [ "$id" = debian ] && command -v apt-get >/dev/null; then
        found=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
            awk -v release="$VERSION_CODENAME" '$1 == release && $2 == "main" { print $3; exit }')
    fi
    echo "${found:-http://deb.debian.org/debian}"
}

# What of this machine's apt configuration decides whether the archive can be reached.
apt_settings() {
    command -v apt-config >/dev/null || return 0
    apt-config dump --format '%F "%v";%n' Acquire |
        grep -E '^Acquire::(http|https)::Proxy(::[^ ]+)? "[^"]+|^Acquire::(Check-Valid-Until|Check-Date|Retries) "' || true
}

make_root() {
    local suite=$1 dir=$2 base=$1 made from proxy options=() more=()
    [ "$(id -u)" = 0 ] || fail "another Debian can only be made by root"
    command -v debootstrap >/dev/null || fail "debootstrap is missing (apt-get install debootstrap)"
    made=$dir.part
    remove "$made"
    mkdir -p "$made"
    from=$(mirror)
    proxy=$(apt_settings | sed -n 's/^Acquire::http::Proxy "\(.*\)";$/\1/p')
    [ -z "$proxy" ] || export http_proxy=$proxy https_proxy=$proxy
    [ "$suite" != experimental ] || base=sid
    # debootstrap knows the suites of its time: newer ones are made like sid
    [ -e "/usr/share/debootstrap/scripts/$base" ] || options=(/usr/share/debootstrap/scripts/sid)
    echo "making $dir: Debian $suite from $from"
    debootstrap --variant=minbase "$base" "$made" "$from" "${options[@]}" >"$made.log" 2>&1 || give_up "debootstrap $base failed"
    apt_settings >"$made/etc/apt/apt.conf.d/90host"
    cp /etc/resolv.conf "$made/etc/resolv.conf" 2>/dev/null || true
    # Nothing in there starts services; what it downloads is not kept; half of the time would be syncs.
    printf '#!/bin/sh\nexit 101\n' >"$made/usr/sbin/policy-rc.d" && chmod 755 "$made/usr/sbin/policy-rc.d"
    echo force-unsafe-io >"$made/etc/dpkg/dpkg.cfg.d/unsafe-io"
    if [ "$suite" = experimental ]; then
        echo "deb $from experimental main" >"$made/etc/apt/sources.list.d/experimental.list"
        more=(-t experimental)
    fi
    enter "$made" / sh -c 'apt-get -q update && apt-get -y -q install --no-install-recommends "$@"' sh "${more[@]}" "${packages[@]}" \
        >>"$made.log" 2>&1 </dev/null || give_up "not all packages could be installed into $suite"
    if [ "$suite" = experimental ]; then
        # A Ruby that is not Debian's default one yet takes its place.
        enter "$made" / sh -c '
            newest=$(apt-cache pkgnames | grep -E "^ruby[0-9]+[.][0-9]+-dev$" | sort -V | tail -n 1)
            newest=${newest%-dev}
            apt-get -y -q install --no-install-recommends -t experimental "$newest" "$newest-dev"
            ln -sf "$newest" /usr/bin/ruby
            ln -sf "gem${newest#ruby}" /usr/bin/gem' >>"$made.log" 2>&1 </dev/null || give_up "the newest Ruby could not be installed into $suite"
    fi
    enter "$made" / apt-get clean
    # Whom this machine trusts (RubyGems asks for it); the packages brought a list of its own.
    [ ! -r /etc/ssl/certs/ca-certificates.crt ] || install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$made/etc/ssl/certs/ca-certificates.crt"
    echo "${packages[*]}" >"$made/$stamp"
    rm -f "$made.log"
    mv "$made" "$dir"
}

give_up() {
    tail -n 20 "$made.log" >&2
    fail "$*"
}

# enter ROOT DIRECTORY COMMAND...: --kill-child ends all that it started, too
enter() {
    ROOT=$1 TREE=$tree DIRECTORY=$2 unshare --mount --pid --fork --kill-child -- bash -euc '
        mount --make-rprivate /
        mount -t proc proc "$ROOT/proc"
        mount --rbind /dev "$ROOT/dev"
        mount -t tmpfs tmpfs "$ROOT/tmp"
        mkdir -p "$ROOT$TREE"
        mount --bind "$TREE" "$ROOT$TREE"
        root=$ROOT directory=$DIRECTORY
        unset ROOT TREE DIRECTORY
        export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
        unset GEM_HOME GEM_PATH RUBYOPT RUBYLIB BUNDLE_GEMFILE LD_PRELOAD TMPDIR
        # Not exec: this shell is the process 1 of the namespace, which reaps what daemons leave.
        chroot "$root" /bin/sh -c "cd \"\$0\" && exec \"\$@\"" "$directory" "$@"
        exit
    ' bash "${@:3}"
}

remove() {
    [ ! -e "$1" ] || rm -rf --one-file-system "$1"
}

tree=$(cd "$(dirname "$0")/../.." && pwd -P)
case ${1:-} in
--remove)
    [ $# = 2 ] || usage
    [ ! -e "$2" ] || [ -e "$2/$stamp" ] || fail "'$2' was not made by this script"
    remove "$2"
    exit
    ;;
--possible)
    [ "$(id -u)" = 0 ] && unshare --mount --pid --fork -- sh -c 'mount --make-rprivate / && mount -t proc proc /proc' 2>/dev/null
    exit
    ;;
'' | -*) usage ;;
esac
[ $# -ge 2 ] || usage
suite=$1 dir=$(realpath -m "$2")
shift 2
if [ "$(cat "$dir/$stamp" 2>/dev/null)" != "${packages[*]}" ]; then
    [ ! -e "$dir" ] || [ -e "$dir/$stamp" ] || fail "'$dir' is there, and was not made by this script"
    remove "$dir"
    mkdir -p "$(dirname "$dir")"
    make_root "$suite" "$dir"
fi
[ $# = 0 ] || enter "$dir" "$tree" "$@"
