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
refused "a chat with a model without a template" 1 "has no chat template" \
    run -m "$model" -p x --chat --device sim
tap_done
