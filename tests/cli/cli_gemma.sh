# gemma-3-270m, where `make models` fetched it: its text, and the same text with
# drafts of a model of other tokens, SmolLM2.
# shellcheck source=tests/tap.sh
. tests/tap.sh

model=deps/models/gemma-3-270m-q4_k_m.gguf
draft=deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
query() { lua5.4 tests/json_query.lua "$TMP/out" "$1"; }
if [ ! -e "$model" ]; then
    echo "# no $model: make models fetches it"
    echo "1..0"
    exit 0
fi

# same NAME ARGS...: drafts change steps, not the text.
same() {
    local name=$1 plain
    shift
    try run -m "$model" -c 64 -n 8 --device sim --json "$@"
    is "$name: it writes" "$status" 0
    plain=$(query d.text)
    try run -m "$model" -c 64 -n 8 --device sim --json "$@" \
        -md "$draft" --draft-length 3
    is "$name: with drafts of other tokens" "$status" 0
    is "$name: the same text" "$(query d.text)" "$plain"
    text=$plain
}

same "greedy" -p "One, two, three, four, five, six, seven,"
has "sensibly" "$text" " eight, nine, ten"
[ "$(query d.steps)" -lt 9 ]
ok "in fewer steps"
same "sampled" -p "Der alte Mann ging  langsam den Fluss entlang und" \
    --temp 0.8 --seed 3

# A pack for both of them: a program far from templates and compiler writes the
# same with it.
job=(-m "$PWD/$draft" -md "$PWD/$model" -c 64 -n 6 --draft-length 3 --device sim
    --json -p "Count: one, two, three, one, two,")
try run "${job[@]}"
tokens=$(query 'table.concat(d.tokens, " ")')
try pack make --arch sm90 --device sim -m "$draft" -md "$model" -o "$TMP/pack"
is "a pack for a model and its draft model" "$status" 0
mkdir "$TMP/far"
cp "$SPECTUNE" "$TMP/far/spectune"
far() {
    (cd "$TMP/far" && env -u SPECTUNE_HOME SPECTUNE_NVRTC=/none \
        SPECTUNE="$TMP/far/spectune" SPECTUNE_CACHE="$TMP/far/cache" "$@")
}
far "$TMP/far/spectune" run "${job[@]}" --pack "$TMP/pack" --pack-only \
    >"$TMP/out" 2>"$TMP/err"
is "is all that the program needs" "$?" 0
is "to write the same" "$(query 'table.concat(d.tokens, " ")')" "$tokens"
is "with a line for each model, that it has all" \
    "$(grep -cE 'pack: has ([0-9]+) of \1 kernels, \1 as PTX' "$TMP/err")" 2

refused "a chat with a model without a template" 1 "has no chat template" \
    run -m "$model" -p x --chat --device sim
tap_done
