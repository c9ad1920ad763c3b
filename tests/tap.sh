# Sourced by the test scripts (tests/cli/*.sh, tests/golden/*.sh, ...): TAP
# lines from shell. tests/run sets SPECTUNE (the program), SPECTUNE_HOME (the
# tree) and TMP (an empty folder of this script's own).
# shellcheck shell=bash
: "${SPECTUNE:?run by tests/run}" "${TMP:?run by tests/run}"
tap_count=0
tap_failed=0

# ok NAME: the last command's status decides.  cmd; ok "name"
ok() {
    local status=$?
    tap_count=$((tap_count + 1))
    if [ "$status" -eq 0 ]; then
        echo "ok $tap_count - $1"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $1"
        echo "#   at ${BASH_SOURCE[1]}:${BASH_LINENO[0]}"
    fi
    return 0
}

# try ARGS...: runs the program; status, out and err hold what came of it.
# shellcheck disable=SC2034
try() {
    status=0
    "$SPECTUNE" "$@" >"$TMP/out" 2>"$TMP/err" </dev/null || status=$?
    out=$(cat "$TMP/out")
    err=$(cat "$TMP/err")
}

# is NAME SEEN EXPECTED
is() {
    [ "$2" = "$3" ]
    ok "$1"
    [ "$2" = "$3" ] || printf '#   is "%s"\n#   expected "%s"\n' "$2" "$3"
}

# has NAME TEXT PART
has() {
    case $2 in *"$3"*) true ;; *) false ;; esac
    ok "$1"
    case $2 in
    *"$3"*) ;;
    *) printf '%s\n' "$2" | sed 's/^/#   is: /' | head -20
       printf '#   expected to hold "%s"\n' "$3" ;;
    esac
}

# refused NAME STATUS PART ARGS...: one clear line on standard error that
# holds PART, nothing on standard output, and that exit status.
refused() {
    local name=$1 want=$2 part=$3
    shift 3
    try "$@"
    local lines
    lines=$(grep -c '' "$TMP/err")
    if [ "$status" = "$want" ] && [ "$lines" = 1 ] && [ -z "$out" ] &&
        case $err in *"$part"*) true ;; *) false ;; esac then
        true
        ok "$name"
    else
        false
        ok "$name"
        echo "#   status $status, expected $want; $lines lines; expected \"$part\""
        printf '%s\n' "$err" | sed 's/^/#   stderr: /' | head -5
    fi
}

tap_done() {
    echo "1..$tap_count"
    [ "$tap_failed" -eq 0 ] && [ "$tap_count" -gt 0 ]
    exit
}
