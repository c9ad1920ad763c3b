#!/usr/bin/env bash
# On a machine with a GPU: builds, proves kernels on it, times them, saves all
# of it in a folder. Under 8 minutes; each part has its own limit, and what is
# done is saved when a later part fails.
#
#   tests/device.sh [OUT]     (default: $OUT, else out/device)
#
# ARCH and HEADS choose what is tuned (default: the GPU's arch, 64/8).
set -u
cd "$(dirname "$0")/.." || exit 1
out=${1:-${OUT:-out/device}}
heads=${HEADS:-64/8}
mkdir -p "$out" || exit 1
failed=0
begin=$SECONDS
program=build/spectune

# part NAME SECONDS COMMAND...: its output goes to OUT/NAME.txt.
part() {
    local name=$1 limit=$2 status=0
    shift 2
    timeout -k 5 "$limit" "$@" >"$out/$name.txt" 2>&1 || status=$?
    echo "$name: exit status $status, at $((SECONDS - begin)) s" |
        tee -a "$out/summary.txt"
    if [ "$status" != 0 ]; then
        failed=$((failed + 1))
        tail -n 5 "$out/$name.txt"
    fi
    return "$status"
}

: >"$out/summary.txt"
part machine 20 nvidia-smi -q
# Builds from a tree that is set up (make deps needs a network).
part build 110 make -j"$(nproc)" all || exit 1
part doctor 20 "$program" doctor --json
arch=${ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader |
    head -1 | tr -d '.' | sed 's/^/sm/')}
# The board that the GPU is; one without a file is its architecture's default.
board=$("$program" doctor | sed -nE 's/^ +board +ok +//p')

# proofs FILE: the same problems that tests run on sim, now on the GPU.
proofs() {
    local bad=0 line
    while read -r line; do
        case $line in '' | '#'*) continue ;; esac
        # The architecture of the problem gives way to the GPU's.
        line=$(printf '%s\n' "$line" | sed -E "s/--arch +[a-z0-9]+/--arch $arch/")
        # shellcheck disable=SC2086
        if "$program" prove $line --device gpu --json >"$out/proof.json"; then
            echo "ok: $line"
        else
            bad=$((bad + 1))
            echo "FAILED: $line"
        fi
        cat "$out/proof.json" >>"$out/proofs.json"
    done <"tests/kernels/$1.txt"
    rm -f "$out/proof.json"
    return "$bad"
}
export -f proofs
export out arch program
part prove 110 bash -c "proofs problems"
part operators 55 bash -c "proofs operators"
part tune 140 "$program" --arch "$arch" ${board:+--board "$board"} --heads "$heads" --effort measure \
    -o "$out/tuned" --json
part verify 20 "$program" pack verify "$out/tuned/pack"
echo "$failed parts failed; all of it is in $out"
[ "$failed" = 0 ]
