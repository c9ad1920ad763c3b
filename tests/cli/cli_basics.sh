# The program without a command, and commands that need neither GPU nor NVRTC.
# shellcheck source=tests/tap.sh
. tests/tap.sh

try --version
is "--version succeeds" "$status" 0
[[ $out =~ ^spectune\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
ok "--version is one line"

try --help
is "--help succeeds" "$status" 0
has "--help lists the commands" "$out" "doctor"
[ "$(awk 'length($0) > 80' "$TMP/out" | wc -l)" = 0 ]
ok "--help fits 80 columns"

while read -r command; do
    try "$command" --help
    is "$command --help succeeds" "$status" 0
    [ "$(awk 'length($0) > 80' "$TMP/out" | wc -l)" = 0 ]
    ok "$command --help fits 80 columns"
    refused "$command refuses an unknown option" 2 "--no-such-option" \
        "$command" --no-such-option
done < <(sed -nE 's/^SPT_COMMAND\("([a-z]+)".*/\1/p' tuner/commands.def)

refused "an unknown command" 2 "'nonsense': unknown command" nonsense
refused "an empty command" 2 "unknown command" ''
refused "a command of several lines" 2 "'a?b': unknown command" $'a\nb'
refused "a value of several lines" 2 "arch 'a?b?c'" \
    emit --arch $'a\nb\033c' norm

try doctor
is "doctor succeeds" "$status" 0
has "doctor speaks of the driver" "$out" "driver"
[ "$(awk 'length($0) > 100' "$TMP/out" | wc -l)" = 0 ]
ok "doctor's lines are short"
try doctor --json
is "doctor --json succeeds" "$status" 0
is "doctor found archs and templates" \
    "$(lua5.4 tests/json_query.lua "$TMP/out" d.data.ok)" true
SPECTUNE_NVRTC=/nonexistent/libnvrtc.so try doctor --json
is "doctor --json says that NVRTC is missing" \
    "$(lua5.4 tests/json_query.lua "$TMP/out" 'd.nvrtc.ok == false and d.nvrtc.remedy ~= nil')" true

try --version --nonsense
is "--version wins" "$status" 0

refused "pack without a folder" 2 "operand is missing" pack list
refused "pack with an unknown verb" 2 "expected list, verify or make" pack eat x
refused "pack of a folder that is not there" 1 "cannot read" pack list /nonexistent
mkdir "$TMP/empty"
refused "pack of an empty folder" 1 "manifest.json: cannot read" pack verify "$TMP/empty"
printf '{"schema": ' >"$TMP/empty/manifest.json"
refused "pack with half a manifest" 1 "manifest.json:1:" pack verify "$TMP/empty"
for command in --help --version archs doctor; do
    status=0
    "$SPECTUNE" $command >/dev/full 2>"$TMP/err" || status=$?
    is "$command into a full device fails" "$status" 1
    is "$command says so" "$(cat "$TMP/err")" \
        "spectune: standard output: cannot write"
done
status=0
"$SPECTUNE" archs >&- 2>"$TMP/err" || status=$?
is "a closed standard output fails" "$status" 1

tap_done
