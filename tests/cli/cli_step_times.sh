# Step times of `spectune run`: kept when the answer ends, by whatever, short of
# a kill, which leaves the old file; shared by runs at once; and used.
# shellcheck source=tests/tap.sh
. tests/tap.sh

model=$TMP/two-layers.gguf
times=$TMP/times
python3 tests/bench/fewer_layers.py \
    deps/models/SmolLM2-135M-Instruct.Q4_1.gguf 0-1 "$model"
ok "a small model"
# With checks sim has a clock.
job=(run -m "$model" -c 512 --ignore-eos --device sim --checks --spec-type ngram
    -p "one, two, three, one, two, three, one, two," --step-times "$times")
steps() {
    awk '/"steps"/ { n += $2 } END { print n + 0 }' "$times" 2>/dev/null
}
# Steps may be fewer afterwards: a cell whose times have changed begins anew.
sum() { sha256sum <"$times"; }

try "${job[@]}" -n 24
is "a run" "$status" 0
first=$(steps)
[ "$first" -gt 0 ]
ok "keeps the times of $first steps"
has "and says what chose the lengths" "$err" "chosen by simulated times of steps"
try "${job[@]}" -n 24
[ "$(steps)" -gt "$first" ]
ok "the next one adds to them"
has "and goes by them from the start" "$err" " by the time model"
has "alone" "$err" ", 0 by the time model"
try "${job[@]}" -n 8 --draft-length 2
has "a length that is given is said" "$err" "draft lengths: 2, as given"

# ended SIGNAL: by it, while text is written.
ended() {
    : >"$TMP/text"
    "$SPECTUNE" "${job[@]}" -n 480 >"$TMP/text" 2>"$TMP/err" </dev/null &
    pid=$!
    until [ "$(wc -c <"$TMP/text")" -ge 100 ] ||
        ! kill -0 "$pid" 2>/dev/null; do
        sleep 0.05
    done
    kill "-$1" "$pid"
    wait "$pid" 2>/dev/null
    status=$?
    err=$(cat "$TMP/err")
}
for signal in INT TERM; do
    before=$(sum)
    ended "$signal"
    is "$signal ends an answer, and by it the process" \
        "$(kill -l "$status")" "$signal"
    has "which is said" "$err" "cancelled"
    [ "$(sum)" != "$before" ]
    ok "and what was learnt is kept"
done
before=$(sum)
"$SPECTUNE" "${job[@]}" -n 480 2>"$TMP/err" </dev/null | head -c 100 >/dev/null
[ "$(sum)" != "$before" ]
ok "so it is when nobody reads on"
cp "$times" "$TMP/whole"
ended KILL
is "a kill ends it, too" "$status" 137
cmp -s "$times" "$TMP/whole"
ok "and leaves the file as it was"

refused "a file in no folder" 2 "expected a folder that can be written" \
    "${job[@]}" -n 2 --step-times "$TMP/none/times"
quick=()
for word in "${job[@]}"; do
    [ "$word" = --checks ] || quick+=("$word")
done
try "${quick[@]}" -n 2
has "without a clock it says so" "$err" "sim has a clock with checks alone"

rm "$times"
try "${job[@]}" -n 40
alone=$(steps)
rm "$times"
for _ in 1 2 3; do
    "$SPECTUNE" "${job[@]}" -n 40 >/dev/null 2>&1 </dev/null &
done
wait
[ "$alone" -gt 0 ] && [ "$(steps)" -gt $((2 * alone)) ]
ok "runs at once keep the steps of all: $(steps), one $alone"
tap_done
