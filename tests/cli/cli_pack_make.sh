# spectune pack make: proves listed kernels and writes them as a pack.
# shellcheck source=tests/tap.sh
. tests/tap.sh

cat >"$TMP/kernels.txt" <<'LIST'
# kernels of a small model

norm width=576
norm  width=576 gather=true   # with an index
norm width=576 add=false
rotary head_dim=64 page_size=16
combine group=3 head_dim=64 chunk=256
verify_attention group=3 head_dim=64 page_size=16 chunk=256 rows=8 stages=2
linear weight=q4_1 rows=8 k_warps=4 panels=2 stages=4
LIST
make=(pack make --arch sm90 --device sim -o "$TMP/pack")
try "${make[@]}" "$TMP/kernels.txt"
is "listed kernels are made" "$status" 0
is "each is proved once" "$(grep -c '^ok ' "$TMP/out")" 6
has "the folder is named" "$out" "$TMP/pack is written"
try pack list "$TMP/pack"
has "the pack has them" "$out" "6 kernels"
has "with the values that were left open" "$out" "out_type=bf16"
try pack verify "$TMP/pack"
is "the pack is good" "$status" 0

echo "norm width=576" >"$TMP/norm.txt"
try "${make[@]}" "$TMP/norm.txt"
is "a new pack takes its place" "$status" 0
cp "$TMP/pack/manifest.json" "$TMP/first"
try "${make[@]}" "$TMP/norm.txt"
cmp -s "$TMP/first" "$TMP/pack/manifest.json"
ok "made again it is the same"

# A fault in one kernel: the old pack stays.
mkdir -p "$TMP/home"
cp -r archs templates profiles "$TMP/home"
sed -i 's/__fadd_rn(mean, eps)/mean/' "$TMP/home/templates/norm.cu"
SPECTUNE_HOME=$TMP/home try "${make[@]}" "$TMP/norm.txt"
is "a proof that fails is a failure" "$status" 1
has "no pack is written" "$out" "no pack is written"
cmp -s "$TMP/first" "$TMP/pack/manifest.json"
ok "the old one is still there"

list() {
    printf '%s\n' "$1" >"$TMP/list.txt"
}
list "norm width=576
norm none=1"
refused "an unknown value" 2 "list.txt:2: none=1" "${make[@]}" "$TMP/list.txt"
list none
refused "an unknown kernel" 2 "list.txt:1: none" "${make[@]}" "$TMP/list.txt"
list "norm width=12"
refused "a width of no kernel" 1 "multiple of 8" "${make[@]}" "$TMP/list.txt"
list "# nothing"
refused "an empty list" 2 "no kernel" "${make[@]}" "$TMP/list.txt"
refused "no list" 1 "$TMP/none.txt" "${make[@]}" "$TMP/none.txt"
list "norm width=576"
refused "no folder" 2 "-o" pack make --arch sm90 "$TMP/list.txt"
refused "no architecture" 2 "--arch" pack make -o "$TMP/none" "$TMP/list.txt"
try pack make --help
is "and help names no default" "$(grep -c '(sm90)' <<<"$out")" 0
refused "neither list nor model" 2 "--model" "${make[@]}"
refused "both" 2 "--model" "${make[@]}" "$TMP/list.txt" -m "$TMP/none.gguf"
refused "drafts without a model" 2 "expected --model" \
    "${make[@]}" "$TMP/list.txt" -md "$TMP/none.gguf"
refused "a kind of drafts that is none" 2 "--spec-type: 'magic'" \
    "${make[@]}" -m x --spec-type magic
refused "drafts of a model that is not named" 2 "go together" \
    "${make[@]}" -m x --spec-type model

# A place for no pack is refused before anything is read.
touch "$TMP/file"
mkdir "$TMP/full"
touch "$TMP/full/other"
for place in /dev/null /dev/null/pack "$TMP/file" "$TMP/file/pack" "$TMP/full" \
    /proc/pack / . "$TMP/full/.." /proc/self/a/b/c; do
    refused "no pack at $place" 1 ": " \
        pack make --arch sm90 -o "$place" "$TMP/none.txt"
    [ "${err#*none.txt}" = "$err" ]
    ok "at once: $err"
done
is "and nothing is left there" "$(ls -A "$TMP/full")" other
refused "no model" 1 "$TMP/none.gguf" "${make[@]}" -m "$TMP/none.gguf"
tap_done
