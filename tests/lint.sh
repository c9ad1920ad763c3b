#!/usr/bin/env bash
# make lint: prints every finding as FILE:LINE: text and fails if there is one.
# A tool that is not installed is named and left out.
set -u
cd "$(dirname "$0")/.." || exit 1
findings=$(mktemp) || exit 1
trap 'rm -f "$findings"' EXIT
mapfile -t files < <(git ls-files)
mapfile -t c_files < <(git ls-files '*.c' '*.h')
mapfile -t lua_files < <(git ls-files '*.lua')
# What is text and ours: neither corpora nor licence.
mapfile -t text_files < <(git ls-files ':!tests/fuzz/corpus' ':!LICENSE' \
    ':!tests/lint.sh' ':!*.gguf' ':!*.bin')

# ban PATTERN REASON FILE...: no line may match.
ban() {
    local pattern=$1 reason=$2
    shift 2
    [ $# -eq 0 ] || grep -nEI -- "$pattern" "$@" /dev/null |
        sed -E "s|^([^:]*:[0-9]+):.*|\1: $reason|" >>"$findings"
}

lint_format() {
    if ! command -v clang-format >/dev/null; then
        echo "lint: clang-format is not installed: format not checked"
        return
    fi
    clang-format --dry-run "${c_files[@]}" 2>&1 |
        sed -nE 's/^([^:]*:[0-9]+):[0-9]+: warning.*/\1: run make format/p' \
            >>"$findings"
}

lint_bans() {
    local lua_and_bodies=()
    for file in "${files[@]}"; do
        case $file in gen/*.lua | templates/*) lua_and_bodies+=("$file") ;; esac
    done
    ban '\bpairs\(' 'the order of pairs is not fixed: use sorted or ipairs' \
        "${lua_and_bodies[@]}"
    ban '\b(TODO|FIXME|XXX|HACK)\b' 'unfinished: finish it, or file an issue' \
        "${text_files[@]}"
    ban '(^|[^A-Za-z0-9_.$}])/(home|root|work|Users)/' \
        'a path of one machine' "${text_files[@]}"
    ban '[ 	]$' 'blank at the end of the line' "${text_files[@]}"
    # The formatter wraps code; strings and comments it leaves alone.
    awk 'FNR == 1 { lua = FILENAME ~ /\.lua$/ }
        length($0) > (lua ? 100 : 80) {
            printf "%s:%d: %d columns\n", FILENAME, FNR, length($0) }' \
        "${c_files[@]}" "${lua_files[@]}" >>"$findings"
}

# tests/lint_allow.txt: lines "file PATH LINES" and "function NAME LINES".
lint_sizes() {
    awk '
        FILENAME == ARGV[1] {
            if ($1 == "file") file_max[$2] = $3
            if ($1 == "function") function_max[$2] = $3
            next
        }
        function close_file() {
            limit = previous in file_max ? file_max[previous] : 700
            if (previous && lines > limit)
                printf "%s:%d: %d lines, at most %d\n", previous, lines,
                    lines, limit
        }
        FNR == 1 { close_file(); previous = FILENAME; start = 0 }
        { lines = FNR }
        # At column 0: "type name(...", then "{" opens a body, "}" ends it.
        /^[A-Za-z_].*\(/ && !/;[ ]*$/ {
            name = $0
            sub(/\(.*/, "", name)
            sub(/.*[ *]/, "", name)
        }
        /^\{/ { start = FNR }
        /^\}/ && start {
            limit = name in function_max ? function_max[name] : 80
            if (FNR - start - 1 > limit)
                printf "%s:%d: %s has %d lines, at most %d\n", FILENAME,
                    start, name, FNR - start - 1, limit
            start = 0
        }
        END { close_file() }
    ' tests/lint_allow.txt "${c_files[@]}" "${lua_files[@]}" >>"$findings"
}

lint_names() {
    printf '%s\n' "${files[@]}" |
        grep -vE '(^|/)(README\.md|\.gitignore)$|^tests/(fuzz/corpus|golden)/|^\.ci/run$' |
        awk -F/ '{ if ($NF in seen)
            printf "%s:1: same file name as %s\n", $0, seen[$NF]
            seen[$NF] = $0 }' >>"$findings"
    printf '%s\n' "${files[@]}" | grep / |
        grep -vE '^(archs|gen|profiles|runtime|templates|tests|tuner|\.ci)/' |
        sed 's/$/:1: not one of the top folders/' >>"$findings"
}

lint_lua() {
    local luac
    luac=$(command -v luac5.4 || command -v luac)
    if [ -z "$luac" ]; then
        echo "lint: luac is not installed: Lua is not checked"
        return
    fi
    local known='^(assert|error|ipairs|next|pcall|rawget|rawequal|select'
    known+='|setmetatable|getmetatable|tonumber|tostring|type|print|require'
    known+='|math|string|table|utf8|pairs|_VERSION|include)$'
    for file in "${lua_files[@]}"; do
        "$luac" -p "$file" 2>&1 |
            sed -E 's/^[^:]*: ([^:]*:[0-9]+):/\1:/' >>"$findings"
        "$luac" -l -p "$file" 2>/dev/null |
            sed -nE 's/.*\[([0-9]+)\].*ETTABUP.*_ENV "([^"]*)".*/\1 \2/p' |
            sort -u | while read -r line name; do
            [[ $name =~ $known ]] ||
                grep -qxF "global $file $name" tests/lint_allow.txt ||
                echo "$file:$line: global $name" >>"$findings"
        done
    done
}

lint_shell() {
    if ! command -v shellcheck >/dev/null; then
        echo "lint: shellcheck is not installed: scripts are not checked"
        return
    fi
    git ls-files '*.sh' tests/run .ci/run |
        xargs shellcheck -x -s bash -f gcc |
        sed -E 's/^([^:]*:[0-9]+):[0-9]+:/\1:/' >>"$findings"
}

lint_format
lint_bans
lint_sizes
lint_names
lint_lua
lint_shell
sort -u "$findings"
count=$(sort -u "$findings" | wc -l)
echo "lint: ${#files[@]} files, $count findings"
[ "$count" -eq 0 ]
