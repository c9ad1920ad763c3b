# spectune model check: scores on published sweeps, refuses what is none.
# The same for times of kernels, and fits to them.
# shellcheck source=tests/tap.sh
. tests/tap.sh

sweeps=tests/data/draft_sweeps.csv

try model --help
has "the help names the columns" "$out" "kv_len latency_us"

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
refused "another word than check or fit" 2 "expected check" model score $sweeps
sed 's/rtx_3090/rtx_9999/' $sweeps >"$TMP/board.csv"
try model check "$TMP/board.csv"
is "a board that has no file is stood in for" "$status" 0
has "and said so" "$out" "board 'rtx_9999' taken as rtx_3090"

attention=tests/data/held_attention.csv
gemm=tests/data/held_gemm.csv
try model check $attention --json
is "attention times are scored" "$status" 0
has "by board" "$out" '"board": "l40s"'
has "and operator" "$out" '"op": "attention"'
has "with the mean error" "$out" '"mape"'
try model check $gemm
is "gemm times are scored" "$status" 0
has "and the constants named" "$out" "h200_sxm"

grep -E '^gpu|l40s' $gemm >"$TMP/mine.csv"
try model fit "$TMP/mine.csv" -o "$TMP/mine.json"
is "a fit to one board" "$status" 0
try model check "$TMP/mine.csv" --calibration "$TMP/mine.json"
is "whose constants check takes" "$status" 0
cp "$TMP/mine.json" "$TMP/first.json"
try model fit "$TMP/mine.csv" -o "$TMP/mine.json"
is "a second fit gives the same bytes" \
    "$(cmp "$TMP/mine.json" "$TMP/first.json" && echo same)" same

cp archs/l40s.lua "$TMP/mine.lua"
sed 's/^l40s/mine/' "$TMP/mine.csv" >"$TMP/own.csv"
try model fit "$TMP/own.csv" --board "$TMP/mine.lua" -o "$TMP/mine.json"
is "a fit to a board of one's own" "$status" 0
try archs --board "$TMP/mine.lua"
has "is taken from beside the board's file" "$out" "measured kernels on mine"
printf '{}\n' >"$TMP/mine.json"
refused "or refused there" 1 "mine.json: schema" archs --board "$TMP/mine.lua"
rm "$TMP/mine.json"

sed '1s/latency_us/latency_us,more/; 1!s/$/,1/' $gemm >"$TMP/more.csv"
refused "an unknown column" 1 "column 'more': unknown" \
    model check "$TMP/more.csv"
sed 's/h200_sxm/h999/' $gemm >"$TMP/board.csv"
refused "a board that archs/ lacks" 1 "'h999': unknown" \
    model check "$TMP/board.csv"
sed '5s/,[0-9.]*$/,-3/' $gemm >"$TMP/bad.csv"
refused "a negative time" 1 "bad.csv:5: latency_us" model check "$TMP/bad.csv"
sed '5s/,[0-9.]*$/,/' $gemm >"$TMP/empty.csv"
refused "no time" 1 "empty.csv:5: latency_us" model check "$TMP/empty.csv"
sed 's/bfloat16/bf16/; s/float16/fp16/' $attention >"$TMP/spelt.csv"
try model check $attention --json
as_published=$out
try model check "$TMP/spelt.csv" --json
is "types in another spelling, the same errors" "$out" "$as_published"
sed '5s/bfloat16/int3/' $attention >"$TMP/type.csv"
refused "an unknown type" 1 "type.csv:5: kv_dtype" model fit "$TMP/type.csv"
refused "a fit to sweeps" 1 "attention or gemm times" model fit $sweeps
refused "one operator and board twice" 1 "another file has some already" \
    model fit $gemm "$TMP/mine.csv"
refused "an output of check" 2 "--output does not go with check" \
    model check $gemm -o "$TMP/x.json"
printf '{"schema": "x"}\n' >"$TMP/x.json"
refused "no calibration" 1 "x.json" \
    model check $gemm --calibration "$TMP/x.json"

tap_done
