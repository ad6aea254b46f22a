#!/bin/sh
# What the build, the tests and the checks need from the system.
#
#   tests/ci/deps.sh --check [GROUP...]   says nothing and exits 0 when all is there; else names what is missing, exit 1. No network.
#   tests/ci/deps.sh --list [GROUP...]    the Debian packages, one a line
#   tests/ci/deps.sh [GROUP...]           installs what is missing, where it can: with apt-get, as root or through `sudo -n`
#
# Groups: build test check demo fuzz bench rubies. Without one: build test check demo.
#
# To add a dependency, add a line to the table: group, Debian package, and how to see that it is there, whoever installed it:
# cmd:NAME a program, pc:NAME a module of pkg-config, h:NAME a C header, fuzzer:CC a compiler with libFuzzer,
# gem:NAME a library of the ruby in use, rubyh:ruby.h the headers of that ruby.
set -u

table='
build gcc                    cmd:cc
build libc6-dev              h:stdio.h
build make                   cmd:make
build binutils               cmd:ar
build pkg-config             cmd:pkg-config
build protobuf-c-compiler    cmd:protoc-c
build libprotobuf-c-dev      pc:libprotobuf-c
build libjansson-dev         pc:jansson
build libxxhash-dev          pc:libxxhash
build libzstd-dev            pc:libzstd
build zlib1g-dev             pc:zlib
build ruby                   cmd:ruby
build ruby-dev               rubyh:ruby.h
test  libcmocka-dev          pc:cmocka
test  ruby-minitest          gem:minitest
test  git                    cmd:git
test  bundler                cmd:bundle
test  golang-go              cmd:go
test  puma                   gem:puma
test  ruby-rack              gem:rack
test  ruby-railties          gem:railties
test  ruby-activerecord      gem:activerecord
test  ruby-sqlite3           gem:sqlite3
test  asciidoctor            gem:asciidoctor
test  ruby-rouge             gem:rouge
test  man-db                 cmd:man
test  groff                  cmd:groff
test  valgrind               cmd:valgrind
check clang-format           cmd:clang-format
check clang-tidy             cmd:clang-tidy
demo  puma                   cmd:puma
demo  ruby-rack              gem:rack
fuzz  clang                  cmd:clang
fuzz  libclang-rt-dev        fuzzer:clang
bench heaptrack              cmd:heaptrack
bench ruby-stackprof         gem:stackprof
bench ruby-memory-profiler   gem:memory_profiler
bench asciidoctor            gem:asciidoctor
bench ruby-rouge             gem:rouge
rubies debootstrap           cmd:debootstrap
'
CC=${CC:-cc}
RUBY=${RUBY:-ruby}

present() { # one probe of the table
    case $1 in
    cmd:cc) command -v "${CC%% *}" ;;
    cmd:ruby) command -v "${RUBY%% *}" ;;
    cmd:*) command -v "${1#cmd:}" ;;
    pc:*) pkg-config --exists "${1#pc:}" ;;
    fuzzer:*) echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | ${1#fuzzer:} -fsanitize=fuzzer -x c - -o /dev/null ;;
    h:*) printf '#include <%s>\n' "${1#h:}" | $CC -E -x c - ;;
    rubyh:*) $RUBY -rrbconfig -e 'exit File.exist?(File.join(RbConfig::CONFIG["rubyhdrdir"], ARGV[0]))' "${1#rubyh:}" ;;
    gem:*) $RUBY -e 'begin; gem ARGV[0]; rescue LoadError; require ARGV[0]; end' "${1#gem:}" ;;
    *) echo "tests/ci/deps.sh: unknown probe '$1'" >&2 && exit 2 ;;
    esac >/dev/null 2>&1
}

rows() { # the rows of the groups asked for; a package that stands in several is told once. The shell alone: nothing may be missing for this.
    seen=' '
    echo "$table" | while read -r group package probe; do
        case " $groups " in *" $group "*) ;; *) continue ;; esac
        case $seen in *" $package "*) continue ;; esac
        seen="$seen$package "
        echo "$package $probe"
    done
}

missing() {
    rows | while read -r package probe; do present "$probe" || echo "$package"; done
}

mode=install
case ${1:-} in
--check) mode=check && shift ;;
--list) mode=list && shift ;;
-*) echo "usage: tests/ci/deps.sh [--check|--list] [GROUP...]" >&2 && exit 2 ;;
esac
groups=${*:-build test check demo}

if [ $mode = list ]; then
    rows | while read -r package probe; do echo "$package"; done
    exit 0
fi

# shellcheck disable=SC2046,SC2116 # the lines joined to one
absent=$(echo $(missing))
[ -z "$absent" ] && exit 0
if [ $mode = check ]; then
    echo "missing: $absent" >&2
    exit 1
fi

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    sudo='sudo -n'
else
    sudo=none
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$sudo" = none ]; then
    {
        echo "cannot install packages here (no apt-get, or neither root nor sudo without a password)."
        echo "Please install these, here by their names in Debian:"
        printf '  %s\n' $absent
    } >&2
    exit 1
fi

echo "installing: $absent"
apt() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0 "$@" </dev/null; }
# The package lists may be absent (a fresh container) or too old for the mirror: one update, then one more try.
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of names
if ! apt install --no-install-recommends $absent >"$log" 2>&1; then
    if ! { apt update && apt install --no-install-recommends $absent; } >"$log" 2>&1; then
        cat "$log" >&2
        echo "could not install: $absent" >&2
        exit 1
    fi
fi
# shellcheck disable=SC2046,SC2116
absent=$(echo $(missing))
if [ -n "$absent" ]; then
    echo "installed, and still not found: $absent (is another ruby or compiler first in PATH?)" >&2
    exit 1
fi
