# A draft model made of some layers of its target (fewer_layers.py): with all of
# them every draft is right, with fewer the text is the same.
# shellcheck source=tests/tap.sh
. tests/tap.sh

model=deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
query() { lua5.4 tests/json_query.lua "$TMP/out" "$1"; }
job=(run -m "$model" -c 64 -n 8 --device sim --json
    -p "Water boils at a temperature of" --draft-length 3)

# drafted LAYERS
drafted() {
    python3 tests/bench/fewer_layers.py "$model" "$1" "$TMP/draft.gguf"
    ok "a draft of layers $1"
    try "${job[@]}" -md "$TMP/draft.gguf"
    is "drafts" "$status" 0
    is "the text is the same" "$(query d.text)" "$plain"
}

try "${job[@]}"
plain=$(query d.text)
is "without drafts" "$(query d.steps)" 8
drafted 0-29
is "all of them are right" \
    "$(query 'd.drafts.num_draft_tokens - d.drafts.num_accepted_tokens')" 0
# The same, with the embedding once more as the head.
python3 -B - "$model" "$TMP/draft.gguf" <<'PY'
import sys
sys.path.insert(0, "tests/bench")
import fewer_layers
model, out = sys.argv[1:]
tensors = fewer_layers.read(model, 30)[-1]
fewer_layers.rewrite(model, range(30), out,
                     {"output.weight": tensors["token_embd.weight"]})
PY
try "${job[@]}" -md "$TMP/draft.gguf"
is "a tensor more" "$status" 0
is "all of them are right again" \
    "$(query 'd.drafts.num_draft_tokens - d.drafts.num_accepted_tokens')" 0
drafted 0-12,19-29
[ "$(query d.steps)" -lt 8 ]
ok "some of them are right"
tap_done
