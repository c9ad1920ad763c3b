# The cache: what is damaged, emptied, half written or in the way is a miss,
# and the answer is the same bytes as without it; a run that was killed leaves
# nothing that the next one stumbles over.
# shellcheck source=tests/tap.sh
. tests/tap.sh

export SPECTUNE_CACHE=$TMP/cache
job=(--arch sm80 --heads 3/3 --head-dim 64 --batch 1 --context 1024 --quiet)

# same NAME: a run gives what the first one gave.
same() {
    rm -rf "$TMP/again"
    try "${job[@]}" -o "$TMP/again"
    is "$1: succeeds" "$status" 0
    diff -r "$TMP/first" "$TMP/again" >/dev/null
    ok "$1: the same bytes"
}

try "${job[@]}" -o "$TMP/first"
is "the first run succeeds" "$status" 0
count=$(find "$SPECTUNE_CACHE" -type f | wc -l)
[ "$count" -gt 3 ]
ok "and keeps what it made"

# Each entry broken in one of four ways, every kind of entry in several.
for kind in kernel compiler proof; do
    find "$SPECTUNE_CACHE" -name "*.$kind" | sort >"$TMP/$kind"
    [ -s "$TMP/$kind" ]
    ok "has $kind entries"
    number=0
    while read -r file; do
        size=$(stat -c %s "$file")
        case $((number % 4)) in
        0) printf '\377' | dd of="$file" bs=1 seek=$((size - 4)) \
            conv=notrunc 2>&- ;;
        1) truncate -s 0 "$file" ;;
        2) truncate -s 70 "$file" ;;
        3) rm "$file"; mkdir "$file" ;;
        esac
        number=$((number + 1))
    done <"$TMP/$kind"
done
same "damaged entries"

rm -rf "$SPECTUNE_CACHE"
printf x >"$SPECTUNE_CACHE"
same "a file in the cache's place"
rm -f "$SPECTUNE_CACHE"

"$SPECTUNE" "${job[@]}" -o "$TMP/again" >/dev/null 2>&1 </dev/null &
pid=$!
sleep 0.4
kill -9 "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
same "killed, then run again"
[ -z "$(find "$TMP/again" "$SPECTUNE_CACHE" -name '*.tmp*')" ]
ok "nothing half written is left in what a run made"

# A limit below what a run makes: two at once, the answer and the size are
# right, and doctor says it.
rm -rf "$SPECTUNE_CACHE"
export SPECTUNE_CACHE_LIMIT=300K
"$SPECTUNE" "${job[@]}" -o "$TMP/beside" >/dev/null 2>&1 </dev/null &
pid=$!
same "a small cache that another run uses"
wait "$pid"
is "that run succeeds" "$?" 0
diff -r "$TMP/first" "$TMP/beside" >/dev/null
ok "with the same bytes"
[ "$(find "$SPECTUNE_CACHE" -type f -printf '%s\n' | awk '{s += $1} END {print s + 0}')" -le 307200 ]
ok "the cache has its size"
try doctor
has "doctor says how full it is" "$out" "0.3 MiB (SPECTUNE_CACHE_LIMIT)"
SPECTUNE_CACHE_LIMIT=much refused "a limit that is no size" 2 \
    "SPECTUNE_CACHE_LIMIT: 'much' is no size" "${job[@]}" -o "$TMP/none"
tap_done
