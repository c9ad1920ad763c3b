# The CUDA text of the configs in emit_list.txt, byte for byte as in NAME.cu.
# An intended change: UPDATE=1 tests/run golden_emit, then read the diff.
# shellcheck source=tests/tap.sh
. tests/tap.sh

while read -r name line; do
    case $name in '' | '#'*) continue ;; esac
    # shellcheck disable=SC2086
    try emit $line
    is "$name is emitted" "$status" 0
    [ -z "${UPDATE:-}" ] || cp "$TMP/out" "tests/golden/$name.cu"
    diff -u "tests/golden/$name.cu" "$TMP/out" >"$TMP/diff"
    ok "$name is as it was"
    sed 's/^/#   /' "$TMP/diff" | head -40
done <tests/golden/emit_list.txt
tap_done
