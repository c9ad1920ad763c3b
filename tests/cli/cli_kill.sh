# kill -9 of run and serve: what was compiled and kept is whole, and the next
# run writes what it would have written. Killed while kernels are compiled,
# while text is written, and while an answer streams; TEST_LONG=1: again and
# again.
# shellcheck disable=SC2317 # called by name
# shellcheck source=tests/tap.sh
. tests/tap.sh

model=deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
export HOME=$TMP/home SPECTUNE_CACHE=$TMP/cache
mkdir -p "$HOME"
job=(run -m "$model" -c 64 -n 12 --device sim --spec-type ngram
    -p "Count: one, two, three, one, two, three, one, two,")

# Not what was being written: NAME.KIND.XXXXXX, swept by a later run.
kept() {
    (cd "$TMP" && find home cache -type f ! -name '*.*.*' -exec sha256sum {} + |
        sort -k 2)
}

# soon COMMAND...: until it holds; false when the killed-to-be ends before.
soon() {
    until "$@"; do
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.05
    done
}
files() { [ "$(find "$SPECTUNE_CACHE" -type f 2>/dev/null | wc -l)" -ge "$1" ]; }
writes() { [ -s "$TMP/killed" ]; }

# killed_when COMMAND...: starts the job, kills it when the command holds.
killed_when() {
    : >"$TMP/killed"
    "$SPECTUNE" "${job[@]}" >"$TMP/killed" 2>/dev/null </dev/null &
    pid=$!
    soon "$@" && kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
}

# same NAME: the next run writes the text, and leaves what was there before.
same() {
    try "${job[@]}"
    is "$1: the next run succeeds" "$status" 0
    is "$1: with the same text" "$out" "$text"
    kept >"$TMP/now"
    diff "$TMP/whole" "$TMP/now" >"$TMP/diff"
    ok "$1: and what is kept is whole"
    head -5 "$TMP/diff" | sed 's/^/#   /'
}

try "${job[@]}"
is "a run" "$status" 0
text=$out
has "writes" "$text" "three"
kept >"$TMP/whole"
[ "$(wc -l <"$TMP/whole")" -gt 4 ]
ok "and keeps kernels"

# An interrupt while a server still compiles ends it at once; what it compiled
# stays, and is not compiled again. (A script's jobs ignore SIGINT: TERM.)
rm -rf "$SPECTUNE_CACHE"
"$SPECTUNE" serve -m "$model" -c 64 --device sim --spec-type ngram --port 0 \
    >"$TMP/served" 2>"$TMP/err" </dev/null &
pid=$!
soon files 4
kill -TERM "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
is "a signal ends a server that compiles" "$?" 143
kept >"$TMP/part"
[ "$(wc -l <"$TMP/part")" -lt "$(wc -l <"$TMP/whole")" ]
ok "before all is compiled"
[ -s "$TMP/part" ] && ! grep -vxFf "$TMP/whole" "$TMP/part"
ok "what is there is whole"
is "and nothing was said where no terminal is" "$(cat "$TMP/err")" ""
if command -v script >/dev/null; then
    script -qec "$(printf '%q ' "$SPECTUNE" "${job[@]}")" "$TMP/terminal" \
        >/dev/null </dev/null
    tr '\r' '\n' <"$TMP/terminal" >"$TMP/lines"
    has "on a terminal the next run says what it compiles" \
        "$(cat "$TMP/lines")" "compiling "
    has "and writes" "$(cat "$TMP/lines")" "$text"
    begun=$(grep -o 'compiling [0-9/]* .*' "$TMP/lines" | cut -d' ' -f3 |
        sort -u | grep -c .)
    [ "$begun" -le $(($(wc -l <"$TMP/whole") - $(wc -l <"$TMP/part"))) ]
    ok "only what was not there yet ($begun)"
fi
same "after a signal"

for count in 3 ${TEST_LONG:+1 6 9 14}; do
    rm -rf "$SPECTUNE_CACHE"
    killed_when files "$count"
    same "killed while it compiles"
done
for _ in 1 ${TEST_LONG:+2 3 4 5}; do
    killed_when writes
    kept | cmp -s - "$TMP/whole"
    ok "killed while it writes: nothing changes"
    same "killed while it writes"
done
for delay in ${TEST_LONG:+0.3 0.6 1 2 3 5 8}; do
    killed_when sleep "$delay"
    same "killed after $delay s"
done

"$SPECTUNE" serve -m "$model" -c 64 --parallel 1 --device sim --port 0 \
    >"$TMP/served" 2>"$TMP/err" &
pid=$!
listens() { grep -q ':[0-9]*$' "$TMP/served"; }
soon listens
ok "a server listens"
port=$(sed -n 's/.*:\([0-9]*\)$/\1/p' "$TMP/served")
body='{"prompt": "Count: one, two,", "max_tokens": 40, "stream": true}'
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s' \
    ${#body} "$body" >&3
while read -r line <&3; do
    case $line in *'"text"'*) break ;; esac
done
has "and streams" "$line" '"text"'
kill -9 "$pid"
wait "$pid" 2>/dev/null
exec 3>&-
kept >"$TMP/now"
! grep -vxFf "$TMP/now" "$TMP/whole"
ok "killed, it has lost no kernel"
kept >"$TMP/whole"
same "a server killed"

tap_done
