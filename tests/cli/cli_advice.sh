# methods, codesign, why: what they say follows from the model and the tables,
# their numbers agree with each other and with the main command's model.
# shellcheck source=tests/tap.sh
. tests/tap.sh

query() { lua5.4 tests/json_query.lua "$TMP/out" "$1"; }

fits() {
    [ "$(awk 'length($0) > 80' "$TMP/out" | wc -l)" = 0 ]
    ok "$1 fits 80 columns"
}

try methods --arch sm90 --model qwen3-8b --json
is "methods succeeds" "$status" 0
is "six methods" "$(query '#d.methods')" 6
is "every method has needs, training and a source" "$(query \
    'all(d.methods, function(m) return #m.needs > 0 and #m.training > 0
         and #m.training_source > 0 end)')" true
is "what has no table is null with a reason" "$(query \
    'all(d.methods, function(m) return m.draft_length ~= null
         or #m.reason > 0 end)')" true
is "speedup = E[L] x target / (draft + verify)" "$(query \
    'all(d.methods, function(m) return m.draft_length == null or math.abs(
         m.expected_length * m.target_us / (m.draft_us + m.verify_us)
         / m.speedup - 1) < 0.002 end)')" true
is "memory holds the drafter, table or not" "$(query \
    'd.methods[1].memory_bytes - d.methods[6].memory_bytes >=
         d.methods[1].weight_bytes')" true
try methods --arch sm90 --model qwen3-8b
fits methods
try methods --board rtx_5090 --model qwen3.8-27b --weights q4_k_m \
    --engine llama.cpp
has "what a rejection restores is said" "$out" "restores"
try methods --arch sm90 --heads 64/8 --batch 64 --context 32768
has "what does not fit is said without a table too" "$out" "does not fit"
refused "a workload that no table has" 2 "--workload poetry" \
    methods --arch sm90 --heads 64/8 --workload poetry
there=(--board rtx_5090 --model qwen3.8-27b --weights ud_q4_k_xl --batch 1
    --context 1024 --engine llama.cpp --power-limit 450)
try "${there[@]}" --drafter mtp --json
main=$(query 'd.choices[5].target_us .. " " .. d.choices[5].speedup')
try methods "${there[@]}" --workload mixed --json
is "methods for another engine under a power cap" "$status" 0
is "says both" "$(query 'd.engine .. " " .. d.power_limit_w')" "llama.cpp 450"
is "and what the main command says" \
    "$(query 'd.methods[3].target_us .. " " .. d.methods[3].speedup')" "$main"
try why "${there[@]}" --drafter mtp --workload mixed --json
is "why says the same" "$(query 'math.abs(d.lengths[1].verify_us /
    '"${main% *}"' - 1) < 0.001 and math.abs(d.speedup / '"${main#* }"' - 1)
    < 0.001')" true
is "an engine has constants of its own" \
    "$(query 'd.time_model.kind .. " " .. d.time_model.constants')" \
    "engine llama.cpp"
is "and its terms make up the engine's step" "$(query \
    'all(d.lengths, function(l) local sum = 0
         for _, us in next, l.terms_us do sum = sum + us end
         return math.abs(sum / l.verify_us - 1) < 0.002 end)')" true
try why "${there[@]}" --drafter mtp --workload mixed
fits "why for another engine"
has "which it names" "$out" "llama.cpp: costs"
has "and whose model speaks" "$out" "modelled with the constants of llama.cpp"
try codesign --arch sm90 --q-heads 32 --engine sglang --batch 1 --context 8192
is "codesign for another engine" "$status" 0
refused "KV of eight bits in our kernels" 2 "fp8" \
    why --arch sm90 --heads 64/8 --kv-dtype fp8
refused "no target" 2 "--model" methods --arch sm90
refused "no board" 2 "--arch" methods --heads 64/8

try codesign --arch sm90 --q-heads 24 --batch 1 --context 4096 --json
is "codesign succeeds" "$status" 0
is "every divisor of 24" "$(query '#d.designs')" 8
is "heads multiply" "$(query \
    'all(d.designs, function(x) return x.kv_heads * x.group == 24 end)')" true
is "the published rule" "$(query \
    'all(d.designs, function(x) return x.rule_draft_length ==
         128 // x.group - 1 end)')" true
is "KV bytes: 2 (K, V) x 128 numbers x 2 bytes x layers, per KV head" "$(query \
    'all(d.designs, function(x) return x.kv_token_bytes / x.kv_heads ==
         d.designs[1].kv_token_bytes / 24
         and x.kv_token_bytes % (x.kv_heads * 512) == 0 end)')" true
is "the block is the drafts and the anchor" "$(query \
    'all(d.designs, function(x) return x.block == x.draft_length + 1 end)')" \
    true
try codesign --arch sm90 --q-heads 64
fits codesign
try codesign --board h100_sxm --model gpt-oss-120b --q-heads 64 --batch 1 \
    --context 8192 --json
is "past its window a token takes 2 x 8 x 64 numbers in 18 layers" "$(query \
    'd.designs[4].kv_heads .. " " .. d.designs[4].kv_token_bytes')" "8 36864"
is "and acceptance is its own" "$(query d.workload)" mixed
try codesign --arch sm90 --q-heads 1024 --json
is "groups that no kernel has are left out" \
    "$(query 'all(d.designs, function(x) return x.group <= 128 end)')" true
refused "codesign without heads" 2 "--q-heads" codesign --arch sm90
refused "codesign with latent attention" 2 "latent" \
    codesign --arch sm90 --q-heads 128 --model deepseek-r1

try why --arch sm90 --model qwen3-30b-a3b --weights fp8 --json
is "why succeeds" "$status" 0
is "the terms make up the verify step" "$(query \
    'all(d.lengths, function(l) local sum = 0
         for _, us in next, l.terms_us do sum = sum + us end
         return math.abs(sum / l.verify_us - 1) < 0.002 end)')" true
is "a mixture of experts pays for experts" "$(query d.dear)" experts
is "speculation ends at some batch" "$(query 'd.flips.batch_off ~= null')" true
is "a gate has bounds around nothing" "$(query \
    'd.gate == null or d.gate.worst_gain <= 0')" true
try why --board h200_sxm --model llama-3.1-8b --workload chat --json
is "which survival by position gives" \
    "$(query 'd.gate.best_gain > 0 and d.gate.worst_gain < 0')" true
try why --board h200_sxm --model llama-3.1-8b
fits why
refused "a cap that nothing is known of" 2 "W" \
    methods --board rtx_5090 --heads 64/8 --power-limit 100
try prove --arch sm90 norm width=64 --device sim
is "options may stand before the operator" "$status" 0
try prove --arch sm90 --heads 1/1 --draft-length 1 --context 5 --mask tree \
    --device sim
is "and an option may have an operator's name as its value" "$status" 0

try why --board h100_sxm --model llama-3.1-8b --draft-board rtx_4090 --json
is "a drafter's board has kernels of its own" "$(query \
    'all(d.lengths, function(l) return l.draft_us < 1e6 end)
         and d.draft_length > 0')" true
try codesign --board h100_sxm --model llama-3.1-8b --q-heads 32 --json
plain=$(query 'd.designs[9].kv_heads .. " " .. d.designs[9].target_us')
try methods --board h100_sxm --model llama-3.1-8b --json
is "commands without loads take the same kernels" \
    "8 $(query 'd.methods[1].target_us')" "$plain"
try why --board h100_sxm --model llama-3.1-8b --json
is "all three" "8 $(query 'd.lengths[1].verify_us')" "$plain"
is "and name their chunk" "$(query 'd.chunk % 256')" 0
crowd=(--board h100_sxm --model llama-3.1-8b --engine vllm --batch 256
    --context 8192)
try "${crowd[@]}" --drafter eagle3
has "sequences that wait in an engine are counted" "$out" \
    "of 256 sequences find room"
try why "${crowd[@]}" --workload chat
has "by why too" "$out" "of 256 sequences find room"
has "no larger batch runs" "$out" "the same for every larger one that fits"
has "the data set of the acceptance is named" "$out" "on MT-bench"
try why "${crowd[@]}" --workload chat --batch 64 --json
is "no term falls as drafts grow" "$(query 'all({"weights", "attention"},
    function(t) local before = 0
        return all(d.lengths, function(l)
            local grows = l.terms_us[t] >= before
            before = l.terms_us[t]
            return grows end) end)')" true
latent=(--board b200_sxm --model deepseek-r1 --engine sglang)
try "${latent[@]}" --tp 8 --drafter mtp --batch 4 --context 8192 --json
is "latent KV is held by every board" "$(query 'd.kv_copies')" 8
is "4 x (8192 + 1 + D) tokens of 70272 bytes, eight times" "$(query \
    'd.choices[5].memory.kv_bytes / (8192 + 1 + d.choices[5].draft_length)')" \
    "$((4 * 70272 * 8)).0"
refused "an engine's share of the memory that holds no sequence" 1 "not fit" \
    why "${latent[@]}" --drafter mtp --workload mixed --tp 4 --batch 64 \
    --context 32768
try "${latent[@]}" --drafter mtp --tp 4 --batch 64 --context 32768
has "neither by the main command" "$out" "of sglang's 673.9 GB"
fits "what does not fit an engine"
try methods "${latent[@]}" --tp 4 --batch 64 --context 32768
has "nor by methods" "$out" "of sglang's 673.9 GB"
try --board h100_sxm --model llama-3.1-8b --engine vllm --drafter ngram
is "lookups read no prompt" "$(grep -c "  prefill" <<<"$out")" 0
refused "our own kernels lack latent attention" 1 "--engine answers" \
    why --board b200_sxm --model deepseek-r1
try why "${latent[@]}" --drafter mtp --tp 8 --json
is "the workload is one that there is a table for" "$(query d.workload)" mixed
is "what experts are assumed to share is named" \
    "$(query 'd.experts_exponent')" 0.7
is "and what rows that share none would change" "$(query \
    'd.flips.experts_apart.speedup < d.speedup')" true
refused "workloads that there are tables for are named" 2 "--workload code" \
    why --arch sm90 --model llama-3.1-8b --workload mixed
try --board h200_sxm --model qwen3-30b-a3b --engine vllm --drafter eagle3 \
    --batch 64 --context 1024 --json
is "every prompt of a batch is won back" "$(query 'all(d.choices, function(c)
    return c.draft_length == null or math.abs(64 * c.draft_prefill_us /
        (c.target_us - c.target_us / c.speedup) - c.break_even_tokens) < 2
    end)')" true
try --board h200_sxm --model qwen3-30b-a3b --engine vllm --drafter eagle3
has "data sets that were not taken are named" "$out" "taken: MATH500"
refused "no table for the drafter" 2 "--drafter mtp" \
    why --arch sm90 --model llama-3.1-8b --drafter mtp
refused "what does not fit" 1 "does not fit" \
    why --arch sm89 --heads 64/8 --drafter eagle3
tap_done
