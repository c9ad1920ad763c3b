#!/usr/bin/env bash
# The main command for every arch, head grouping and head dim: each has to
# answer with proved kernels. `make sweep` runs all of it; with --part a fixed
# part that still meets each arch, grouping and head dim.
set -u
cd "$(dirname "$0")/.." || exit 1
program=${BUILD:-build/release}/spectune
part=0
[ "${1:-}" != --part ] || part=1
archs=(sm80 sm86 sm89 sm90 sm100 sm103 sm120 sm121)
heads=(64/8 32/8 40/8 32/32 12/2 28/4 16/1 128/8)
dims=(64 80 96 128 256)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
passed=0
failed=0
count=0

# one ARCH HEADS DIM
one() {
    local json=$folder/out.json group=$((${2%/*} / ${2#*/})) rule
    rule=$((128 / group - 1))
    [ "$rule" -ge 0 ] || rule=0
    if "$program" --arch "$1" --heads "$2" --head-dim "$3" -o "$folder/out" \
        --json >"$json" 2>"$folder/err" &&
        [ "$(lua5.4 tests/json_query.lua "$json" "
            d.rule.draft_length == $rule and #d.ladder > 0 and #d.kernels > 0
            and all(d.kernels, function(k) return k.rows_bit_equal == true
                and k.spill_bytes == 0 and k.proved_on ~= null end)")" = true ]
    then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $program --arch $1 --heads $2 --head-dim $3"
        head -3 "$folder/err"
    fi
}

for a in "${!archs[@]}"; do
    for h in "${!heads[@]}"; do
        for n in "${!dims[@]}"; do
            count=$((count + 1))
            if [ "$part" = 1 ] &&
                { [ "$h" != $(((3 * a + 1) % 8)) ] || [ "$n" != $((a % 5)) ]; }
            then
                continue
            fi
            one "${archs[a]}" "${heads[h]}" "${dims[n]}"
        done
    done
    [ "$part" = 1 ] || echo "${archs[a]}: $passed of $((passed + failed)) so far"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
