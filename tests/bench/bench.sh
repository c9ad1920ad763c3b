#!/usr/bin/env bash
# make bench: speed and memory of the commands and of sim, in one run. Times
# are medians of RUNS (default 5); ratios are against the baseline named beside
# them, measured here as well.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build/release}
program=$build/spectune
runs=${RUNS:-5}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export SPECTUNE_CACHE=$folder/cache

# timed COMMAND...: seconds of one run, "failed" when it fails.
timed() {
    local begin end
    begin=$(date +%s%N)
    "$@" >"$folder/log" 2>&1 </dev/null || { echo failed; return; }
    end=$(date +%s%N)
    awk -v n=$((end - begin)) 'BEGIN { printf "%.4f\n", n / 1e9 }'
}

# median COMMAND...: over all runs.
median() {
    for ((i = 0; i < runs; i++)); do timed "$@"; done | sort |
        awk '/failed/ { bad = 1 } { v[NR] = $1 }
            END { print bad ? "failed" : v[int((NR + 1) / 2)] }'
}

# row NAME SECONDS BASELINE_NAME BASELINE_SECONDS
row() {
    awk -v name="$1" -v s="$2" -v base="$3" -v b="$4" 'BEGIN {
        if (s == "failed") { printf "%-36s failed\n", name; exit }
        printf "%-36s %9.3f s", name, s
        if (b + 0 > 0) printf "  %8.2f x %s", s / b, base
        printf "\n" }'
}

peak_kb() {
    python3 - "$@" <<'PY'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL,
               stderr=subprocess.DEVNULL, check=False)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
PY
}

main=("$program" --arch sm90 --heads 64/8 -o "$folder/out" --quiet)
cores=$(nproc)
echo "spectune bench: $cores cores, median of $runs runs unless said"

start=$(median "$program" --version)
row "program start" "$start" "" ""
cold=$(timed "${main[@]}")
row "main command, cold (one run)" "$cold" "" ""
warm=$(median "${main[@]}")
row "main command, warm" "$warm" "of cold" "$cold"
for sweeps in tests/data/*_sweeps.csv; do
    printf '%-36s %s\n' "draft lengths, $(basename "$sweeps" .csv)" \
        "$("$program" model check "$sweeps" | grep '^lost')"
done
if [ -x "$build/bench/bench_first" ]; then
    "$build/bench/bench_first"
fi
if [ -x "$build/bench/bench_sim" ]; then
    "$build/bench/bench_sim"
fi
if [ -x "$build/bench/bench_serve" ]; then
    "$build/bench/bench_serve" | grep '^serve'
fi
if [ -x "$build/bench/bench_kernels" ]; then
    "$build/bench/bench_kernels"
fi
if command -v python3 >/dev/null; then
    rm -rf "$SPECTUNE_CACHE"
    printf '%-36s %9.1f MiB\n' "peak memory, main command cold" \
        "$(peak_kb "${main[@]}" | awk '{ print $1 / 1024 }')"
fi

# Accuracy of the time model, on times that its constants were not fitted to.
for times in attention gemm; do
    printf '\n'
    "$program" model check "tests/data/held_$times.csv"
done
if [ -x "$build/bench/bench_linear" ]; then
    "$build/bench/bench_linear"
fi

# The engine: tokens/s are sim's, on this host; times of a GPU are modelled.
model=deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -e "$model" ]; then
    printf '\ndecode at D = 0, 48 tokens\n'
    "$program" run -m "$model" --device sim --board h200_sxm -c 256 -n 48 \
        -p "The history of the Roman empire begins" 2>&1 >"$folder/text" |
        grep -E '^(answer|modelled)'
    for preset in llama-3.1-8b qwen3-8b qwen3-32b; do
        "$program" why --board h200_sxm --model "$preset" |
            awk -v name="$preset" '$1 == "verify" {
                print "modelled for h200_sxm: " name " " $2, $3 " per token" }'
    done
fi

# Acceptance of drafts by kind of prompt: n-gram, and the model with some of its
# layers.
if [ -e "$model" ] && command -v python3 >/dev/null; then
    printf '\nacceptance on SmolLM2-135M, 24 tokens of one prompt of each kind\n'
    python3 tests/bench/fewer_layers.py "$model" 0-12,19-29 \
        "$folder/24-layers.gguf"
    python3 tests/bench/acceptance.py "$build/bench/bench_accept" "$model" \
        "$folder/answers" prompts=1 tokens=24 drafts="$folder/24-layers.gguf"
fi
