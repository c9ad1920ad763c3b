# Sourced by problems_N.sh: proves every third problem of problems.txt on sim,
# so that the parts can run side by side.
# shellcheck shell=bash source=tests/tap.sh
. tests/tap.sh

# prove_part N: of three, from 0.
prove_part() {
    local line
    while read -r line; do
        # shellcheck disable=SC2086
        try prove --device sim $line
        is "prove $line" "$status" 0
        [ "$status" = 0 ] ||
            printf '%s\n%s\n' "$out" "$err" | sed 's/^/#   /' | head -20
    done < <(grep -v '^#' tests/kernels/problems.txt | awk "NR % 3 == $1")
    tap_done
}
