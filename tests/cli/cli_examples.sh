# Programs in READMEs compile against the installed header and libraries, and
# run; the header is C++ too.
# shellcheck source=tests/tap.sh
. tests/tap.sh

cc=${CC:-cc}
model=deps/models/SmolLM2-135M-Instruct.Q4_1.gguf
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$TMP/program.c"
[ "$(wc -l <"$TMP/program.c")" -gt 20 ]
ok "the README has a program"

# With sanitizers only programs that have them too can link.
flags=
case $SPECTUNE in
*/asan/*) flags=-fsanitize=address,undefined ;;
*/tsan/*) flags=-fsanitize=thread ;;
esac
library=$(cd "$(dirname "$SPECTUNE")" && pwd)
# shellcheck disable=SC2086
$cc $flags -std=c11 -Wall -Wextra -Werror -Iruntime -o "$TMP/shared" "$TMP/program.c" \
    "$library/libspectune.so" >"$TMP/log" 2>&1
ok "it compiles against the shared library"
ln -s "$library/libspectune.so" "$TMP/libspectune.so.0"
status=0
LD_LIBRARY_PATH=$TMP "$TMP/shared" >"$TMP/out" 2>"$TMP/err" || status=$?
is "without a model it fails" "$status" 1
has "and says why" "$(cat "$TMP/err")" "engine: no model"
LD_LIBRARY_PATH=$TMP "$TMP/shared" "$model" "The capital of France is" \
    >"$TMP/out" 2>"$TMP/err"
ok "with one it succeeds"
has "and writes" "$(cat "$TMP/out")" " Paris"

printf '#include <spectune.h>\nint main() { return SPT_OK; }\n' >"$TMP/plus.cc"
if command -v g++ >/dev/null; then
    g++ -std=c++17 -Wall -Wextra -Werror -Iruntime -fsyntax-only "$TMP/plus.cc"
    ok "the header is C++"
fi
exported=$(nm -D --defined-only "$library/libspectune.so" |
    awk '$2 == "T" && $3 !~ /^spt_/ { print $3 }')
is "the shared library exports nothing but its own names" "$exported" ""

tap_done
