# The main command for other engines and other places: flags to type, boards
# that share the layers, a drafter on a board of its own.
# shellcheck source=tests/tap.sh
. tests/tap.sh

query() { lua5.4 tests/json_query.lua "$TMP/out" "$1"; }
# Nothing is compiled for another engine.
export SPECTUNE_NVRTC=/nonexistent/libnvrtc.so

llama=(--arch sm86 --model qwen3.8-27b --weights q4_k_m --engine llama.cpp
    --drafter "mtp,eagle3" --context 1024)
try "${llama[@]}" --batch 1,4 --json
is "llama.cpp is answered for" "$status" 0
is "by name" "$(query d.engine)" llama.cpp
is "without kernels" "$(query '#d.kernels')" 0
is "with the flags to type" "$(query 'd.choices[5].flags')" \
    "--spec-type draft-mtp --spec-draft-n-max 2"
is "it verifies streams apart: none at four" \
    "$(query 'all(d.choices, function(c)
        return c.batch == 1 or c.draft_length == 0 or c.draft_length == null
    end)')" true
is "each choice says what it cannot be told from" \
    "$(query 'all(d.choices, function(c)
        return c.draft_length == null or (c.alike[1] <= c.draft_length
            and c.alike[2] >= c.draft_length) end)')" true
is "and what the prompt costs" "$(query 'd.choices[5].draft_prefill_us > 0')" \
    true
is "memory is the sum of its parts" "$(query 'all(d.choices, function(c)
    local m = c.memory
    return math.abs(m.target_bytes + m.drafter_bytes + m.kv_bytes
        + m.draft_kv_bytes + m.states_bytes + m.rest_bytes
        - c.memory_bytes) < 8 end)')" true
try "${llama[@]}" --batch 1
is "in words" "$status" 0
has "with the flags" "$out" "--spec-draft-n-max 2 (D = 2)"
has "and what takes memory" "$out" "states of drafts"
[ "$(awk 'length($0) > 80' "$TMP/out" | wc -l)" = 0 ]
ok "80 columns wide"

try --arch sm90 --model deepseek-r1 --tp 8 --board h200_sxm --engine trtllm \
    --drafter "mtp,dflash" --batch 1 --context 1024 --json
is "latent attention on eight boards" "$status" 0
is "boards are said" "$(query d.boards)" 8
is "what has no table is null" \
    "$(query 'all(d.choices, function(c)
        return c.drafter ~= "dflash" or c.draft_length == null end)')" true

try --board l40s --model llama-7b --engine sglang --drafter external,ngram \
    --batch 1 --context 512 --json
is "SpecInfer's pair has trees" "$status" 0
is "of nodes that the engine is told" "$(query 'all(d.choices, function(c)
    return c.tree == null or c.tree.beats_chain
        and c.tree.flags:find("num-draft-tokens " .. c.tree.nodes + 1, 1, true)
        and c.tree.published end)')" true
is "where there is no tree it says why" "$(query 'all(d.choices, function(c)
    return c.tree ~= null or #c.tree_reason > 0 end)')" true

vllm=(--arch sm90 --model llama-3.3-70b --engine vllm --drafter eagle3
    --batch 1 --context 1024 --json)
try "${vllm[@]}" --tp 4
four=$(query 'd.choices[1].target_us')
try "${vllm[@]}" --tp 2
is "two boards are slower than four" \
    "$(query "d.choices[1].target_us > 1.3 * $four")" true
try "${vllm[@]}" --tp 2 --kv-dtype fp8
is "KV in fp8 is known there" "$status" 0
try "${vllm[@]}" --tp 2 --draft-board l4 --link-us 50
is "a drafter on another board" "$(query d.draft_board)" l4
is "at that distance" "$(query d.link_us)" 50

try "${vllm[@]}" --pp 4 --link-us 100
is "layers in stages" "$status" 0
is "are said" "$(query 'd.stages .. " " .. d.link_us')" "4 100"
is "they take longer than boards that share every layer" \
    "$(query "d.choices[1].target_us > 2 * $four")" true
is "and have the memory of all four" \
    "$(query 'all(d.choices, function(c) return c.fits end)')" true
try --arch sm90 --model deepseek-r1 --board h200_sxm --engine vllm --pp 8 \
    --drafter mtp --batch 1 --context 1024 --json
is "what an engine cannot split is null" "$(query 'all(d.choices, function(c)
    return c.draft_length == null end)')" true
has "with the reason" "$out" "issue 52069"
try why --board h100_sxm --model llama-3.1-8b --workload chat --pp 2 \
    --link-us 200 --json
is "why shows the hops" "$(query 'd.lengths[1].terms_us.hops > 399')" true
refused "more stages than layers" 2 "--pp 64" "${llama[@]}" \
    --model llama-3.2-1b --weights bf16 --pp 64
refused "a bandwidth of no link" 2 "--link-gbps" "${llama[@]}" --link-gbps 5

capped=(--board rtx_5090 --model qwen3.8-27b --weights ud_q4_k_xl
    --engine llama.cpp --drafter mtp --batch 1 --context 1024 --json)
try "${capped[@]}" --power-limit 600
full=$(query 'd.choices[5].draft_length')
plain=$(query 'd.choices[5].target_us')
try "${capped[@]}" --power-limit 400
is "a power cap is said" "$(query d.power_limit_w)" 400
is "plain decoding hardly notices it" \
    "$(query "d.choices[5].target_us < 1.07 * $plain")" true
is "verification does, and the draft gets shorter" \
    "$(query "d.choices[5].draft_length < $full")" true
refused "a cap that nothing is known of" 2 "known from 400 to 600 W" \
    "${capped[@]}" --power-limit 300
refused "a board whose clocks are not known" 2 "rtx_4090" \
    "${capped[@]}" --board rtx_4090 --power-limit 300

refused "an unknown engine" 2 "--engine" "${llama[@]}" --engine ollama
refused "a folder beside an engine" 2 "--output" "${llama[@]}" -o "$TMP/none"
refused "measuring beside an engine" 2 "--effort" "${llama[@]}" --effort measure
try "${llama[@]}" --kv-dtype f16 --json
spelt=$out
try "${llama[@]}" --kv-dtype float16 --json
is "a KV type in another spelling" "$out" "$spelt"
refused "a KV type that none has" 2 "q3_0" "${llama[@]}" --kv-dtype q3_0
refused "a link to nowhere" 2 "--link-us" "${llama[@]}" --link-us 5
refused "boards that do not divide the heads" 2 "--tp 7" "${llama[@]}" --tp 7
refused "an unknown draft board" 2 "rtx_9" "${llama[@]}" --draft-board rtx_9
unset SPECTUNE_NVRTC
refused "kernels for latent attention" 1 "latent attention" \
    --arch sm90 --model deepseek-r1 -o "$TMP/none"
tap_done
