# spectune run: a model writes the same text with and without drafts.
# shellcheck source=tests/tap.sh
. tests/tap.sh

model=deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
query() { lua5.4 tests/json_query.lua "$TMP/out" "$1"; }

refused "run without a model" 2 "--model: is missing" run -p x
refused "run without a prompt" 2 "--prompt or --file" run -m x.gguf
refused "run with two prompts" 2 "--prompt or --file" run -m x -p x -f y
refused "a model that is not there" 1 "/nonexistent.gguf" run -m /nonexistent.gguf -p x
refused "no tokens to write" 2 "--predict: is 0" run -m x -p x -n 0
refused "a draft model that is not named" 2 "--model-draft: is missing" \
    run -m x -p x --spec-type model
refused "a head that is not named" 2 "--model-draft: is missing" \
    run -m x -p x --speculative-config '{"method": "eagle3"}'
refused "a drafter that does not exist" 2 "--spec-type: 'magic'" \
    run -m x -p x --spec-type magic
refused "drafts that are too long" 2 "--draft-length" \
    run -m x -p x --draft-max 32
refused "broken JSON" 2 "--speculative-config:1:" \
    run -m x -p x --speculative-config '{"method": '
refused "an unknown field of it" 2 "mehtod" \
    run -m x -p x --speculative-config '{"mehtod": "ngram"}'
for method in medusa mtp deepseek_mtp suffix dflash dspark custom_class; do
    refused "vLLM's method $method is not run" 2 "expected none, ngram, model" \
        run -m x -p x --speculative-config "{\"method\": \"$method\"}"
done
for field in '"draft_tensor_parallel_size": 2' '"parallel_drafting": true' \
    '"quantization": "fp8"' '"synthetic_acceptance_length": 2'; do
    refused "vLLM's $field is refused" 2 "is not here" \
        run -m x -p x --speculative-config "{$field}"
done
refused "more drafts than there can be" 2 "num_speculative_tokens: expected" \
    run -m x -p x --speculative-config '{"num_speculative_tokens": 32}'
refused "a shortest match above the longest" 2 "at most --ngram-max, 3" \
    run -m x -p x --speculative-config '{"method": "ngram",
        "prompt_lookup_min": 4, "prompt_lookup_max": 3}'
refused "an option that would change the text" 2 "-ctk: is not here" \
    run -m x -p x -ctk q8_0

# Every published field, as vLLM would take it, and the flags of a common line.
try run -m "$TMP/none.gguf" -p x -ngl 99 -t 8 -b 2048 -ub 512 --no-mmap -fa on \
    --draft-max 8 --draft-min 1 --draft-p-min 0.7 --color auto \
    --speculative-config '{"method": "ngram_gpu", "num_speculative_tokens": 4,
        "prompt_lookup_max": 4, "prompt_lookup_min": null,
        "draft_tensor_parallel_size": 1, "max_model_len": 2048,
        "quantization": null, "parallel_drafting": false,
        "disable_by_batch_size": 8, "rejection_sample_method": "standard"}'
is "a line of llama.cpp and vLLM gets as far as its model" \
    "$(tail -1 <<<"$err")" \
    "spectune run: $TMP/none.gguf: cannot read: No such file or directory"
is "each thing left aside has a line" "$(grep -c 'is left aside: ' <<<"$err")" 10
echo "not a model" >"$TMP/text.gguf"
refused "a file that is no model" 1 "text.gguf" run -m "$TMP/text.gguf" -p x

prompt="Count: one, two, three, one, two, three, one, two,"
try run -m "$model" -p "$prompt" -n 8 --device sim --json
is "a model writes" "$status" 0
plain=$(query d.text)
is "one token a step" "$(query d.steps)" 8
[ "$(query 'd.memory_bytes.total - d.memory_bytes.weights - d.memory_bytes.kv -
    d.memory_bytes.workspace - d.memory_bytes.drafter')" = 0 ] &&
    [ "$(query d.memory_bytes.graphs_at_most)" -gt 0 ]
ok "the memory that it takes, graphs beside it"
is "up to the limit" "$(query d.finish)" length
has "sensibly" "$plain" " three, one, two"
is "on sim, which is said" "$(query d.is_sim)" true
try run -m "$model" -p "$prompt" -n 8 --device sim --json \
    --speculative-config '{"method": "ngram", "num_speculative_tokens": 4}'
is "with n-gram drafts" "$status" 0
is "it writes the same text" "$(query d.text)" "$plain"
[ "$(query d.steps)" -lt 6 ]
ok "in fewer steps"
[ "$(query d.drafts.num_accepted_tokens)" -gt 2 ]
ok "with accepted drafts"
is "the modelled time is labelled" "$(query d.gpu_time.evidence)" modelled
[ "$(query 'd.gpu_time.speedup > 1.5')" = true ]
ok "and says what drafts bring"
try run -m "$model" -md "$model" --draft-length 4 -p "$prompt" -n 6 \
    --device sim --seed 18446744073709551615
is "with drafts of a model and the largest seed" "$status" 0
has "the summary tells the memory" "$err" "memory: "
has "two steps that read prompts" "$err" "answer: 6 tokens in 2 steps, "
has "give no rate" "$err" "steps, too few for a rate, length"
echo "no times" >"$TMP/steps"
try run -m "$model" -p "$prompt" -n 3 --device sim --step-times "$TMP/steps"
is "a damaged file of step times stops nothing" "$status" 0
has "but is told of" "$err" "$TMP/steps: is damaged, or no spectune-steps-1"
has "three without drafts do" "$err" " tokens/s (host time of sim, not a GPU's)"
try run -m "$model" -p "$prompt" -n 3 --device sim --step-times none
is "step times need not be kept" "$status" 0
[ ! -e none ] && [ -z "$(find "$SPECTUNE_CACHE" -name '*.steps')" ]
ok "and sim keeps none that nobody asked for"
refused "a folder for step times" 2 "$TMP: is no file" \
    run -m "$model" -p "$prompt" -n 3 --device sim --step-times "$TMP"
refused "a seed of more than 64 bits" 2 "from 0 to 18446744073709551615" \
    run -m "$model" -p x --seed 18446744073709551616
refused "a pack alone that is none" 2 "--pack-only: expected --pack DIR" \
    run -m "$model" -p x --pack-only
refused "a seed below 0" 2 "--seed: '-1'" run -m "$model" -p x --seed -1
refused "a prompt longer than the context" 2 "fewer than the context of 4" \
    run -m "$model" -p "$prompt" -c 4 --device sim
refused "a context beyond the model's" 2 "expected at most 8192" \
    run -m "$model" -p "$prompt" -c 9000 --device sim

# What is no text. Standard input is read as a file is.
printf 'one\0two\0' >"$TMP/zero"
printf 'caf\351' >"$TMP/latin"
refused "a byte 0 in a chat" 2 "--chat: the prompt has a byte 0" \
    run -m "$model" -f "$TMP/zero" --chat --device sim
refused "text of another encoding" 1 "no UTF-8: byte 3 is 0xE9" \
    run -m "$model" -f "$TMP/latin" --device sim -c 32
run_input() {
    status=0
    "$SPECTUNE" run -m "$model" -f - -n 2 --device sim -c 32 --json \
        >"$TMP/out" 2>"$TMP/err" || status=$?
}
run_input <"$TMP/zero"
is "bytes 0 are tokens of a text" "$status" 0
run_input <"$TMP/latin"
is "binary standard input is refused" "$status" 1
has "with its place" "$(cat "$TMP/err")" "no UTF-8: byte 3 is 0xE9"
run_input </dev/null
is "so is an empty one" "$status" 2
has "as such" "$(cat "$TMP/err")" "is empty, expected some text"
seq 20000 >"$TMP/long"
run_input <"$TMP/long"
is "a prompt of many contexts is refused" "$status" 2
has "with its length" "$(cat "$TMP/err")" "expected fewer than the context of 32"
try run -m "$model" -p - -n 2 --device sim -c 32
is "a prompt - is one" "$status" 0
try run -m "$model" -p "$prompt" -n -1 --device sim -c 32 --json
is "without a limit it writes until the context is full" \
    "$(query d.finish)" context
try run -m "$model" -p "$prompt" -n 8 --device sim --json --repeat-penalty 9 \
    --repeat-last-n 0
is "penalties that look back at nothing change nothing" \
    "$(query d.text)" "$plain"
# " three, one, two, three": one stop begins in the other, and ends first.
try run -m "$model" -p "$prompt" -n 8 --device sim --json \
    --stop " one, two, thr" --stop "e, o"
is "of stops that overlap the first that is whole ends the text" \
    "$(query d.text)" " thre"
try run -m "$model" -p "$prompt" -n 8 --device sim --json \
    --stop " three, one, two, three, nine" --stop "two"
is "what was held back for one that did not come is given" \
    "$(query d.text)" " three, one, "
refused "a pack that is not there" 1 "$TMP/none/manifest.json" \
    run -m "$model" -p x --device sim --pack "$TMP/none"

tap_done
