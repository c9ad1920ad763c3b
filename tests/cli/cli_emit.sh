# spectune emit: prints and compiles kernels, refuses wrong parameters.
# shellcheck source=tests/tap.sh
. tests/tap.sh

try emit --list
is "the kernels are listed" "$status" 0
has "with verify attention" "$out" "verify_attention"
kernels=$out
try emit verify_attention --list
is "parameters are listed" "$status" 0
has "with their values" "$out" "64, 80, 96, 128, 256"
[ "$(awk 'length($0) > 80' "$TMP/out" | wc -l)" = 0 ]
ok "in 80 columns"

problem=(emit verify_attention --arch sm90 group=8 head_dim=128)
try "${problem[@]}"
is "open parameters take what fits" "$status" 0
has "the text names its kernel" "$out" " * kernel   verify_attention"
has "its target" "$out" " * target   sm_90a"
has "and the template's lines" "$out" '"templates/verify_attention.cu"'
case $out in *"$PWD"*) false ;; *) true ;; esac
ok "no folder is in the text"
cp "$TMP/out" "$TMP/first"
(cd / && "$SPECTUNE" "${problem[@]}") >"$TMP/second"
cmp "$TMP/first" "$TMP/second"
ok "it is the same from another folder"

try "${problem[@]}" --ptx "$TMP/k.ptx" --cubin "$TMP/k.cubin"
is "it compiles" "$status" 0
has "and says what the assembler said" "$err" "registers"
grep -q '^.target sm_90a' "$TMP/k.ptx"
ok "the PTX is for the target"
[ "$(head -c 4 "$TMP/k.cubin" | tail -c 3)" = ELF ]
ok "the cubin is an ELF file"
try emit combine --arch sm80 group=4 head_dim=64 chunk=256 --ptx -
has "PTX goes to standard output" "$out" ".target sm_80"

try emit
is "no kernel lists them" "$status $out" "0 $kernels"
refused "no kernel to compile" 2 "--list" emit --ptx "$TMP/k.ptx"
refused "an unknown kernel" 2 "expected one of: " emit none --arch sm90
refused "what kernels share is none" 2 "expected one of: " emit fields --arch sm90
refused "no architecture" 2 "--arch" emit combine group=8 head_dim=64 chunk=256
refused "missing parameters" 2 "group is not given, expected 1 to 128 (query \
heads per KV head); head_dim is not given, expected 64, 80" \
    emit verify_attention --arch sm90
refused "an unknown parameter" 2 "none=1" "${problem[@]}" none=1
refused "a parameter without value" 2 "NAME=VALUE" "${problem[@]}" rows
refused "a value of another type" 2 "type int" "${problem[@]}" rows=many
refused "a value that is not offered" 2 "expected 8, 16" "${problem[@]}" rows=7
refused "a parameter given twice" 2 "twice" "${problem[@]}" group=8
refused "a config that does not fit" 1 "row_warps" "${problem[@]}" rows=8 \
    row_warps=4
refused "a file that cannot be written" 1 "$TMP/no/k.ptx" "${problem[@]}" \
    --ptx "$TMP/no/k.ptx"
mkdir -p "$TMP/empty"
SPECTUNE_HOME=$TMP/empty refused "a home without data" 1 "templates/" emit --list
SPECTUNE_NVRTC=$TMP/none.so refused "no NVRTC" 1 "none.so" "${problem[@]}" \
    --ptx "$TMP/k.ptx"
tap_done
