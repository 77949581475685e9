#!/usr/bin/env bash
# What is kept of a card under benches/results, made again: tables of rates, products beside the vendor's library, the tuner's
# answers; and the proofs that need a card. `cargo xtask card` packs this script with all that it runs, for a machine without
# cargo; what measures alone needs only the program `polywarp` (cargo build --release --bin polywarp).
#
#   benches/card.sh prove OUT [NAME...]     the harness on every device, then the backends' tests (minutes; NAME: cuda-native ...)
#   benches/card.sh sanitize OUT [TOOL...]  compute-sanitizer over the native kernels, its pool off
#   benches/card.sh tune OUT [DTYPE...]     answers of the tuner for cuda:0 (f16: 5 s), and OUT/shipped.json of all
#   benches/card.sh overview OUT            every suite on every device of the machine, side by side (minutes)
#   benches/card.sh gemm OUT [KIND...]      all products on cuda:0 beside cuBLASLt, one file per kind (about 30 s each); further
#                                           kinds, by themselves: sparse24, grouped, blocks
#   benches/card.sh torch OUT SCRIPT        PyTorch's rates by SCRIPT, as OUT/torch.txt
#
# First tune: OUT/shipped.json becomes core/src/tuner/shipped.json (docs/tuner.md). A program built with it tunes nothing on this
# card, so that the tables take less time. Afterwards: cargo xtask rates benches/results/FOLDER.
# Variables: POLYWARP (the program), DEVICE (cuda:0), SECONDS_EACH (a limit for each command, 170), and those of the tests.
set -uo pipefail

step=${1:?prove, sanitize, overview, gemm, tune or torch} out=${2:?a folder for the results}
shift 2
here=$(cd "$(dirname "$0")" && pwd)
[ -x "$here/polywarp" ] && program=$here/polywarp || program=target/release/polywarp
program=${POLYWARP:-$program} device=${DEVICE:-cuda:0} limit=${SECONDS_EACH:-170}
mkdir -p "$out"

bench() { # NAME ARGUMENTS...: a table as text, JSON lines and a page
    local name=$1
    shift
    timeout "$limit" "$program" bench "$@" --json "$out/$name.jsonl" --html "$out/$name.html" >"$out/$name.txt" 2>"$out/$name.err"
    echo "$name: exit code $?, $SECONDS s so far"
}

run() { # NAME COMMAND...: what it prints goes to a file; its end and how it ended are shown
    local name=$1
    shift
    timeout "$limit" "$@" >"$out/$name.txt" 2>&1
    echo "$name: exit code $?, $SECONDS s so far: $(grep -aE 'test result|passed|ERROR SUMMARY|panicked' "$out/$name.txt" | tail -2 | tr '\n' ' ')"
}

case $step in
prove)
    export POLYWARP_REQUIRE_CUDA=1
    if [ $# = 0 ]; then
        for each in $("$program" devices --json | grep -oE '"(cuda|wgpu):[0-9]+"' | tr -d '"' | sort -u); do
            run "check-${each/:/}" "$program" check --device "$each"
        done
    fi
    for test in "$here"/cuda-* "$here"/wgpu-*; do
        name=$(basename "$test")
        if [ $# = 0 ] || [[ " $* " == *" $name "* ]]; then run "$name" "$test" --test-threads 4; fi
    done
    ;;
sanitize)
    # What the pool hands out again, the sanitizer takes for initialised and in bounds.
    export POLYWARP_REQUIRE_CUDA=1 POLYWARP_CUDA_POOL=off POLYWARP_NATIVE_SHAPES=${POLYWARP_NATIVE_SHAPES:-20}
    for tool in "${@:-memcheck racecheck synccheck initcheck}"; do
        for each in $tool; do
            run "sanitize-$each" compute-sanitizer --tool "$each" --error-exitcode 9 "$here/cuda-native" --test-threads 1
        done
    done
    ;;
overview) bench polywarp --sustained 0 "$@" ;;
gemm)
    for kind in "${@:-f16 bf16 f32 f32-high f32-medium f64 i8-nt f8e4m3-nt}"; do
        for each in $kind; do
            # The blank keeps `f32` from meaning `f32-high` too.
            case $each in
            sparse24 | grouped | blocks) only="$each " ;;
            *) only="gemm $each " ;;
            esac
            bench "gemm-$each" --device "$device" --alone --suite gemm --only "$only" --budget 0.1 --sustained 0.3
        done
    done
    ;;
tune)
    # From nothing: answers of earlier kernels must not survive.
    export POLYWARP_CACHE=$out/cache
    rm -rf "$out/cache"
    for dtype in "${@:-f16 bf16 i8 f8e4m3 f32 f64}"; do
        for each in $dtype; do
            timeout "$limit" "$program" tune --device "$device" --size large --common --dtype "$each" --budget 300 \
                --export "$out/tune-$each.json" >"$out/tune-$each.txt" 2>&1
            echo "tune $each: exit code $?, $SECONDS s so far"
        done
    done
    # What a run past its limit found is in the cache too.
    "$program" tune --list --export "$out/shipped.json" --winners >"$out/tune-list.txt" 2>&1
    tail -1 "$out/tune-list.txt"
    rm -rf "$out/cache"
    ;;
torch) timeout "$limit" python3 "${1:?the script}" --only "${ONLY:-gemm,memory}" >"$out/torch.txt" 2>"$out/torch.err" ;;
*)
    echo "no step is called $step" >&2
    exit 2
    ;;
esac
