# spectune archs and models: list and show, refuse what they do not know.
# shellcheck source=tests/tap.sh
. tests/tap.sh

columns_fit() {
    [ "$(awk 'length($0) > 80' "$TMP/out" | wc -l)" = 0 ]
    ok "$1 fits 80 columns"
}

try archs
is "the list succeeds" "$status" 0
columns_fit "the list"
has "with whole names" "$out" " RTX PRO 6000 Blackwell Max-Q 96 GB "
for name in sm80 sm86 sm89 sm90 sm100 sm103 sm120 sm121 a100_sxm h100_sxm \
    h100_nvl h200_sxm b200_sxm b300_sxm l40s rtx_a5000 rtx_3090 rtx_4090 \
    rtx_5060_ti rtx_5090 rtx_pro_6000 gb10; do
    has "the list has $name" "$out" "$name"
    try archs "$name"
    is "$name is shown" "$status" 0
    columns_fit "$name"
    try archs
done

try archs h100_sxm
has "a figure has its unit" "$out" "GB/s"
has "and its source" "$out" "NVIDIA H100 data sheet"
has "and the time model what it was fitted to" "$out" \
    "measured kernels on h100_sxm"
try archs h100_sxm --json
has "as JSON with each constant" "$out" '"linear_chain"'

try archs --json
is "the list as JSON succeeds" "$status" 0
has "with a schema" "$out" "spectune.archs/1"
try archs sm90 --json
has "an architecture shows its default board" "$out" '"h100_sxm"'

refused "an unknown board" 2 "'h100'" archs h100
refused "a missing file" 1 "none.lua" archs --board "$TMP/none.lua"
sed 's/132, "SMs"/132, "cores"/' archs/h100_sxm.lua >"$TMP/mine.lua"
refused "another unit" 1 "mine.lua:" archs --board "$TMP/mine.lua"
cp archs/h100_sxm.lua "$TMP/mine.lua"
try archs --board "$TMP/mine.lua"
is "a board of one's own is shown" "$status" 0
has "under its file's name" "$out" "mine"

refused "an architecture that does not exist" 2 "arch 'sm91'" archs sm91
printf '\033Lua' >"$TMP/code.lua"
refused "a board file of bytecode" 1 "code.lua:1: is bytecode" \
    --board "$TMP/code.lua" --heads 8/2 -o "$TMP/none"
# spectune models: the presets, the shape of one.
try models
is "the models are listed" "$status" 0
columns_fit "their list"
for file in profiles/models/*.json; do
    name=$(basename "$file" .json)
    has "the list has $name" "$out" "$name "
    try models "$name"
    is "$name is shown" "$status" 0
    columns_fit "$name"
    try models
done
try models gpt-oss-120b
has "a shape has its experts" "$out" "128, 4 for a token"
has "and its windows" "$out" "18 with a window of 128"
try models qwen3-8b --weights q4_k --json
has "a model in another format as JSON" "$out" '"weights": "q4_k"'
has "with a schema" "$out" "spectune.models/1"
try models --json
is "the list as JSON" "$(grep -c '"kv_token_bytes"' <<<"$out")" \
    "$(find profiles/models -name '*.json' | wc -l)"
refused "an unknown model" 2 "spectune models lists" models qwen9
refused "an unknown format" 2 "q4_k" models --weights q99

tap_done
