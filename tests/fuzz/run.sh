#!/bin/sh
# One fuzz target for some seconds: tests/fuzz/run.sh BUILD fuzz_NAME SECONDS. What libFuzzer learns is kept in BUILD/corpus/NAME; a crash ends it, and
# stands in BUILD/crashes.
set -eu
build=$1 target=$2 seconds=$3
name=${target#fuzz_}
case $name in reader | replay | commands) seeds=fixtures/corpus/log ;; *) seeds=fixtures/corpus/$name ;; esac
mkdir -p "$build/corpus/$name" "$build/crashes"
echo "== $target, $seconds s"
# -max_len: small inputs say more a second. The time limit of one input is far above any that was seen.
"$build/tests/fuzz/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$build/crashes/$name-" "$build/corpus/$name" "$seeds"
