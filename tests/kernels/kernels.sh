# Proves every problem of problems.txt on sim.
# shellcheck source=tests/tap.sh
. tests/tap.sh
while read -r line; do
    case $line in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086
    try prove --device sim $line
    is "prove $line" "$status" 0
    [ "$status" = 0 ] || printf '%s\n%s\n' "$out" "$err" | sed 's/^/#   /' | head -20
done <tests/kernels/problems.txt
tap_done
