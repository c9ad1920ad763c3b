# Wrong values for every option of every command: one clear line, exit status 2
# or 1, and no waiting. What is tried beside them fails too, so that a value that
# can be right ends with one line as well.
# shellcheck source=tests/tap.sh
. tests/tap.sh

mkdir "$TMP/folder"
mkfifo "$TMP/pipe"
printf '\0\377{[' >"$TMP/bytes"
words=('' x -1 99999999999999999999 nan $'a\nb\033' /dev/null/x)
numbers=(1e400 ' 1' '1 ' 0x10 1.2.3)
files=("$TMP/folder" "$TMP/pipe" "$TMP/bytes" /dev/null)

# verdict WANT ARGS...: empty when the command ends as it has to. WANT: usage (2),
# some (1 or 2), program (127 too: there is none to run), any (0 too).
verdict() {
    local want=$1 status=0
    shift
    timeout 60 "$SPECTUNE" "$@" >"$TMP/out" 2>"$TMP/err" </dev/null || status=$?
    if [ "$status" = 0 ] && [ "$want" = any ]; then
        return
    fi
    case $status in
    2) ;;
    127) [ "$want" = program ] || echo "status 127" ;;
    1) [ "$want" != usage ] || echo "status 1" ;;
    *) echo "status $status" ;;
    esac
    [ "$(grep -c '' "$TMP/err")" = 1 ] || echo "$(grep -c '' "$TMP/err") lines"
    [ ! -s "$TMP/out" ] || echo "something on standard output"
    ! grep -q '[[:cntrl:]]' "$TMP/err" || echo "control characters"
}

# sweep WANT COMMAND... -- ARGS...: all options that its help lists.
sweep() {
    local want=$1 command=() found=0 wrong=0 said name argument value values
    shift
    while [ "$1" != -- ]; do
        command+=("$1")
        shift
    done
    shift
    : >"$TMP/wrong"
    while read -r name argument; do
        found=$((found + 1))
        values=("${words[@]}")
        case $argument in *FILE* | *DIR*) values+=("${files[@]}") ;; esac
        case $argument in N | X | T | P) values+=("${numbers[@]}") ;; esac
        for value in "${values[@]}"; do
            case "$argument $value" in
            "N -1" | "X -1") said=$(verdict "$want" "${command[@]}" "$@" "--$name" -1) ;;
            "N "* | "X "* | "T "* | "P "*)
                said=$(verdict usage "${command[@]}" "$@" "--$name" "$value") ;;
            *) said=$(verdict "$want" "${command[@]}" "$@" "--$name" "$value") ;;
            esac
            [ -n "$said" ] || continue
            wrong=$((wrong + 1))
            printf '#   --%s %q: %s: %s\n' "$name" "$value" "$said" \
                "$(head -c 200 "$TMP/err")" >>"$TMP/wrong"
        done
    done < <("$SPECTUNE" "${command[@]}" --help |
        sed -nE 's/^  (-., )?--([a-z-]+) ?(\S*).*/\2 \3/p' | grep -v '^help ')
    [ "$wrong" = 0 ] && [ "$found" -gt 0 ]
    ok "$found options of ${command[*]:-the main command}"
    cat "$TMP/wrong"
}

none=$TMP/none
sweep some -- --arch sm90 --model "$none"
sweep some run -- -m "$none" -p x
sweep some serve -- -m "$none"
sweep any archs --
sweep any models --
sweep some emit -- --arch sm90 "$none"
sweep some prove -- --arch sm90 "$none"
sweep some pack list -- "$none"
sweep some pack make -- --arch sm90 "$none"
sweep some model check -- "$none"
sweep some model fit -- "$none"
sweep some methods -- --arch sm90 --model "$none"
sweep some codesign -- --arch sm90
sweep some why -- --arch sm90 --model "$none"
sweep program sim -- "$none"
sweep any doctor --

# Pipes that somebody writes or reads are files like others.
try archs --board <(cat "$TMP/bytes")
has "a pipe is read" "$err" "zero byte"
refused "a pipe that nobody writes" 1 "$TMP/pipe" archs --board "$TMP/pipe"
refused "a pipe that nobody reads" 1 "$TMP/pipe: cannot write" \
    emit --arch sm90 norm width=64 --ptx "$TMP/pipe"
"$SPECTUNE" emit --arch sm90 norm width=64 --ptx >(cat >"$TMP/read") 2>/dev/null
for _ in $(seq 100); do
    [ ! -s "$TMP/read" ] || break
    sleep 0.1
done
has "a pipe is written" "$(head -3 "$TMP/read")" "NVIDIA"
refused "values of a kernel that is only listed" 2 "--list: expected" \
    emit norm width=64 --list
tap_done
