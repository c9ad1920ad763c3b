# Proves the problems of operators.txt on sim.
# shellcheck source=tests/tap.sh
. tests/tap.sh

while read -r line; do
    # shellcheck disable=SC2086
    try prove $line --device sim
    is "prove $line" "$status" 0
    [ "$status" = 0 ] ||
        printf '%s\n%s\n' "$out" "$err" | sed 's/^/#   /' | head -20
done < <(grep -v '^#' tests/kernels/operators.txt)

refused "an unknown operator" 2 "kv_compact, linear" prove none --arch sm90
refused "an unknown value" 2 "norm has no parameter" prove norm none=1 --arch sm90
refused "a value twice" 2 "given twice" prove norm rows=1 rows=2 --arch sm90
refused "a value out of range" 2 "from 0 to 1048576" prove norm rows=-1 --arch sm90
refused "no value" 2 "NAME=VALUE" prove norm rows --arch sm90
refused "a width of no template" 1 "multiple of 8" prove norm width=12 --arch sm90
try prove norm --list
has "the run's values are listed" "$out" "rows of the problem"
tap_done
