#!/usr/bin/env bash
# What is kept of a card under benches/results, made again: tables of rates, products beside the vendor's library, the tuner's
# answers; and the proofs that need a card. `cargo xtask card` packs this script with all that it runs, for a machine without
# cargo; what measures alone needs only the program `polywarp` (cargo build --release --bin polywarp).
#
#   benches/card.sh prove OUT [NAME...]     the harness on every device, then the backends' tests (minutes; NAME: cuda-native ...)
#   benches/card.sh sanitize OUT [native|portable] [TOOL...]
#                                           compute-sanitizer with the pool off over the kernels in CUDA C++ (cuda-native) and over
#                                           the portable ones (the harness, one process per family); OUT/sanitize.txt sums up
#   benches/card.sh differential OUT        10,000 random programs against the digests of interpreted PTX (a minute on 16 cores)
#   benches/card.sh tune OUT [DTYPE...]     answers of the tuner for cuda:0 (f16: 5 s), and OUT/shipped.json of all
#   benches/card.sh overview OUT [OPTION...] every suite on every device of the machine, side by side (minutes); options of `bench`
#   benches/card.sh gemm OUT [KIND...]      all products on cuda:0 beside cuBLASLt, one file per kind (about 30 s each); further
#                                           kinds, by themselves: sparse24, grouped, blocks, reduced
#   benches/card.sh torch OUT SCRIPT        PyTorch's rates by SCRIPT, as OUT/torch.txt
#
# First tune: OUT/shipped.json becomes core/src/tuner/shipped.json (docs/tuner.md). A program built with it tunes nothing on this
# card, so that the tables take less time. Afterwards: cargo xtask rates benches/results/FOLDER.
# Variables: POLYWARP (the program), DEVICE (cuda:0), SECONDS_EACH (a limit for each command, 170; 500 of sanitize and
# differential), JOBS (processes at once of these two, one per core), PARTS (what sanitize takes instead of all: names of native
# kernels or families, `matmul:f16` those cases of one), PROGRAMS (of differential, all), and those of the tests.
set -uo pipefail

step=${1:?prove, sanitize, differential, overview, gemm, tune or torch} out=${2:?a folder for the results}
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

beside() { # COMMAND...: in the background, when less than JOBS others are
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-$(nproc)}" ]; do wait -n; done
    "$@" &
}

sanitized() { # TOOL KIND PART: one process under the sanitizer, and its line in OUT/sanitize.txt
    local tool=$1 kind=$2 part=$3 start=$SECONDS settings=() say='[0-9]+ passed' code errors passed count state=clean
    local file=$out/sanitize-$tool-$kind-${part/:/-}.txt
    case $kind in
    native)
        [ "$part" = all ] || settings=("POLYWARP_NATIVE_FILTER=$part")
        set -- "$here/cuda-native" --test-threads 1
        ;;
    portable)
        # Neither kernels in CUDA C++ nor the tuner, which would run all there are.
        settings=("POLYWARP_TEST_FAMILY=${part%%:*}" POLYWARP_TUNE=off "POLYWARP_KERNELS=${POLYWARP_KERNELS-off}")
        [ "$part" = "${part#*:}" ] || settings+=("POLYWARP_TEST_FILTER=${part#*:}")
        say='[0-9]+ cases passed'
        set -- "$here/cuda-conformance" --exact cuda_conforms_and_nothing_is_unsupported --nocapture
        ;;
    esac
    env "${settings[@]}" timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$file" 2>&1
    code=$?
    errors=$(grep -aoE '(ERROR|RACECHECK) SUMMARY: .*' "$file" | tail -1)
    passed=$(grep -aoE "$say" "$file" | tail -1)
    # Both must be there: what checked nothing is not clean.
    count=${passed%% *}
    [ $code = 0 ] && [ "${count:-0}" -gt 0 ] && grep -qE ': 0 (errors|hazards .*\(0 errors)' <<<"$errors" || state='NOT CLEAN'
    # The tool's own error, of which it says so: what it did see was clean.
    if [ "$code" = 9 ] && [ "$(grep -ac 'failure to track a kernel launch' "$file")" = "$(grep -aoE '[0-9]+ error' <<<"$errors" | tail -1 | cut -d' ' -f1)" ]; then
        state=UNTRACKED
    fi
    printf '%-9s %-8s %-16s %-9s  %s; %s; exit code %d; %d s\n' "$tool" "$kind" "$part" "$state" \
        "${errors:-no summary}" "${passed:-nothing passed}" $code $((SECONDS - start)) | tee -a "$out/sanitize.txt"
}

compared() { # FIRST COUNT: random programs on the card, against the digests that are kept
    # It ends by itself in time, unless one program does not.
    timeout $((limit + 60)) "$differential" compare --file "$expected" --routes "${ROUTES:-cuda}" --seed "$1" --programs "$2" \
        --seconds "$limit" >"$out/differential-$1.txt" 2>&1
    echo "exit code $?" >>"$out/differential-$1.txt"
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
    kinds='native portable' limit=${SECONDS_EACH:-500}
    case ${1:-} in native | portable) kinds=$1 && shift ;; esac
    families=
    if [[ $kinds == *portable* && -z ${PARTS:-} ]]; then
        # The program names its families when it is asked for one that there is not.
        families=$("$program" check --op '?' 2>&1 | sed -n 's/.*there are //p')
        [ -n "$families" ] || { echo "$program names no families" >&2 && exit 1; }
    fi
    : >"$out/sanitize.txt"
    for tool in ${*:-memcheck racecheck synccheck initcheck}; do
        for kind in $kinds; do
            [ "$kind" = native ] && all=all || all=$families
            for part in ${PARTS:-$all}; do beside sanitized "$tool" "$kind" "$part"; done
        done
    done
    wait
    sort -o "$out/sanitize.txt" "$out/sanitize.txt"
    echo "$(wc -l <"$out/sanitize.txt") runs, $(grep -cE 'NOT CLEAN|UNTRACKED' "$out/sanitize.txt") of them not clean, $SECONDS s" | tee -a "$out/sanitize.txt"
    ! grep -qE 'NOT CLEAN|UNTRACKED' "$out/sanitize.txt"
    ;;
differential)
    export POLYWARP_CACHE=off
    limit=${SECONDS_EACH:-500} differential=$here/naga-ptx-differential expected=$here/expected-10000.txt
    [ -x "$differential" ] || differential=target/release/naga-ptx-differential expected=testing/differential/expected-10000.txt
    rm -f "$out"/differential*.txt
    programs=${PROGRAMS:-$(grep -vc '^#' "$expected")} jobs=${JOBS:-$(nproc)}
    each=$(((programs + jobs - 1) / jobs))
    for ((first = 0; first < programs; first += each)); do
        beside compared $first $((first + each < programs ? each : programs - first))
    done
    wait
    cat "$out"/differential-*.txt |
        awk -v all="$programs" '/ equal, / { for (i = 2; i <= NF; i++) if ($i == "equal,") equal += $(i - 1) }
            / wrong: / { wrong += $1 } /^exit code/ { runs++; if ($3 != 0) failed++ }
            END { printf "%d programs: %d equal, %d wrong, %d without a result; %d of %d processes failed\n",
                all, equal, wrong, all - equal - wrong, failed, runs; exit equal != all || failed }' |
        tee "$out/differential.txt"
    code=${PIPESTATUS[1]}
    grep -ahE '^seed |^[1-9][0-9]* wrong' "$out"/differential-*.txt | head -20
    exit "$code"
    ;;
overview) bench polywarp --sustained 0 "$@" ;;
gemm)
    for kind in "${@:-f16 bf16 f32 f32-high f32-medium f64 i8-nt f8e4m3-nt}"; do
        for each in $kind; do
            # The blank keeps `f32` from meaning `f32-high` too.
            case $each in
            sparse24 | grouped | blocks | reduced) only="$each " ;;
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
