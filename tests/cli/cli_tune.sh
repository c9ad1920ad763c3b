# The main command: a whole run into a folder, its JSON, profile and pack; the
# same bytes when made again; and wrong inputs, one line each.
# shellcheck source=tests/tap.sh
. tests/tap.sh

query() { lua5.4 tests/json_query.lua "$TMP/out" "$1"; }

try --arch sm90 --heads 64/8 -o "$TMP/one" --json
is "the main command succeeds" "$status" 0
is "arch" "$(query d.arch)" sm90
is "group" "$(query d.heads.group)" 8
is "the published rule" "$(query d.rule.draft_length)" 15
is "the ladder starts with the group's rows" "$(query 'd.ladder[1].rows')" 8
is "a ladder of rungs" "$(query '#d.ladder >= 4')" true
is "every kernel is proved" "$(query \
    'all(d.kernels, function(k) return k.rows_bit_equal end)')" true
is "no kernel spills" "$(query \
    'all(d.kernels, function(k) return k.spill_bytes == 0 end)')" true
is "kernels were proved on sim or a GPU" "$(query \
    'all(d.kernels, function(k) return k.proved_on ~= null end)')" true
is "times carry a label" "$(query \
    'all(d.ladder, function(r) return r.evidence ~= nil end)')" true
is "a choice never exceeds memory" "$(query \
    'all(d.choices, function(c)
         return c.fits ~= false or c.draft_length == null end)')" true
is "what has no table is null with a reason" "$(query \
    'all(d.choices, function(c)
         return c.draft_length ~= null or c.reason ~= null end)')" true

try pack verify "$TMP/one/pack"
is "the pack verifies" "$status" 0
try --arch sm120 --heads 16/1 --head-dim 256 --batch 1 --context 1024 \
    --drafter ngram -o "$TMP/wide" --quiet
is "where the pick of a number of rows spills, another takes its place" \
    "$status" 0
cp -r "$TMP/one" "$TMP/kept"
try --arch sm90 --heads 64/8 -o "$TMP/one" --quiet
is "made again over itself" "$status" 0
diff -r "$TMP/one" "$TMP/kept" >/dev/null
ok "profile and pack are the same bytes"
file=$(find "$TMP/one/pack" -name '*.cubin' | sort | head -1)
[ -n "$file" ]
ok "the pack holds a cubin"
printf x >>"$file"
try pack verify "$TMP/one/pack"
is "a damaged pack is found" "$status" 1
has "and the file named" "$err" "$(basename "$file")"

try --arch sm90 --heads 64/8 -o "$TMP/human"
is "human output succeeds" "$status" 0
[ "$(sed 's/\x1b\[[0-9;]*m//g' "$TMP/out" | awk 'length($0) > 80' | wc -l)" = 0 ]
ok "human output fits the terminal"
[ "$(grep -c $'\x1b' "$TMP/out")" = 0 ]
ok "no colour when it is no terminal"

cat >"$TMP/config.json" <<'JSON'
{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 12288,
 "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 0,
 "vocab_size": 151936}
JSON
refused "a model without KV heads" 1 num_key_value_heads \
    --arch sm90 --model "$TMP/config.json" -o "$TMP/none"

refused "unknown arch" 2 "sm77" --arch sm77 --heads 64/8 -o "$TMP/x"
refused "heads that do not divide" 2 "--heads" --arch sm90 --heads 64/7
refused "zero heads" 2 "--heads" --arch sm90 --heads 0/0
refused "three numbers" 2 "--heads" --arch sm90 --heads 64/8/2
refused "absurd head dim" 2 "--head-dim" --arch sm90 --heads 64/8 --head-dim 100000
refused "a head dim beside a model" 2 "--head-dim 64" \
    --arch sm90 --model qwen3-8b --head-dim 64
refused "head dim that kernels lack" 2 "72" --arch sm90 --heads 64/8 --head-dim 72
refused "fp8 KV does not exist yet" 2 "fp8" --arch sm90 --heads 64/8 --kv-dtype fp8
refused "unknown effort" 2 "--effort" --arch sm90 --heads 64/8 --effort much
refused "heads are missing" 2 "--heads" --arch sm90
refused "board of another arch" 2 "l40s" --arch sm90 --board l40s --heads 64/8
refused "a board file that is not there" 1 "none.lua" \
    --board "$TMP/none.lua" --arch sm90 --heads 64/8
refused "a model file that is not there" 2 "none.gguf" \
    --arch sm90 --model "$TMP/none.gguf"
printf '{"hidden_size": }' >"$TMP/config.json"
refused "a model file that is malformed" 1 "config.json" \
    --arch sm90 --model "$TMP/config.json"
printf '[' >"$TMP/acc.json"
refused "an acceptance file that is malformed" 1 "acc.json" \
    --arch sm90 --heads 64/8 --acceptance "$TMP/acc.json"
printf x >"$TMP/file"
refused "a folder that cannot be made" 1 "$TMP/file" \
    --arch sm90 --heads 64/8 -o "$TMP/file/out"
export SPECTUNE_NVRTC=/nonexistent/libnvrtc.so
refused "no NVRTC" 1 "libnvrtc.so" --arch sm90 --heads 64/8 -o "$TMP/y"
[ ! -e "$TMP/x" ] && [ ! -e "$TMP/y" ]
ok "nothing is left of what failed"
tap_done
