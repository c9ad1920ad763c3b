# spectune model check: scores on published sweeps, refuses what is none.
# shellcheck source=tests/tap.sh
. tests/tap.sh

sweeps=tests/data/draft_sweeps.csv

try model check $sweeps
is "published sweeps are scored" "$status" 0
has "each with its choice" "$out" "B-3090-mtp"
has "and what the choices lose" "$out" "lost to the best rate: mean"
try model check $sweeps --json
is "as JSON too" "$status" 0
has "with a schema" "$out" "spectune.model-check/1"
has "and the loss" "$out" '"mean_lost"'

# Rates only score: other rates, the same choices.
chosen() { grep -o '"chosen": [0-9]*' <<<"$1"; }
before=$(chosen "$out")
awk -F, -v OFS=, 'NR > 1 && $(NF - 2) != "" { $(NF - 2) = 1 + NR % 7 } 1' \
    $sweeps >"$TMP/other.csv"
try model check "$TMP/other.csv" --json
is "choices do not hang on the rates" "$(chosen "$out")" "$before"

printf 'a,b\n1,2\n' >"$TMP/none.csv"
refused "columns of nothing known" 1 "none.csv:1:" model check "$TMP/none.csv"
sed '1!s/,[0-9.]*,[0-9.]*,[0-9.]*$/,1,2,3/' $sweeps >"$TMP/share.csv"
refused "an acceptance beyond 1" 1 "acceptance_rate is '2'" \
    model check "$TMP/share.csv"
refused "a missing file" 1 "nowhere.csv" model check "$TMP/nowhere.csv"
refused "another word than check" 2 "expected check" model score $sweeps
sed 's/rtx_3090/rtx_9999/' $sweeps >"$TMP/board.csv"
try model check "$TMP/board.csv"
is "a board that has no file is stood in for" "$status" 0
has "and said so" "$out" "board 'rtx_9999' taken as rtx_3090"

tap_done
