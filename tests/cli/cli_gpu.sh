# Which board a GPU is taken for: sim stands behind the driver's library.
# shellcheck source=tests/tap.sh
. tests/tap.sh

# as BOARD COMMAND...: on a machine with that GPU
as() {
    local board=$1
    shift
    LD_LIBRARY_PATH=$(dirname "$SPECTUNE")/sim SPECTUNE_SIM_BOARD=$board try "$@"
}

as h200_sxm doctor --json
is "doctor names the board" \
    "$(lua5.4 tests/json_query.lua "$TMP/out" d.board.found)" h200_sxm
sed 's/sm_count = {132/sm_count = {131/' archs/h200_sxm.lua >"$TMP/odd.lua"
as "$TMP/odd.lua" doctor
is "doctor succeeds beside an unknown GPU" "$status" 0
has "and names the nearest" "$out" "none, nearest h200_sxm"
has "and what to do" "$out" "--board (archs/README.md)"

tune=(--heads 8/2 --context 512 --effort measure -o "$TMP/out.d")
as h200_sxm --board h100_sxm "${tune[@]}"
is "another board than the GPU is tuned for" "$status" 0
has "but not measured" "$err" "is not that board"
as h100_sxm --board h100_sxm "${tune[@]}"
has "nor is sim, whatever its board" "$err" "is sim: times stay modelled"
as l40s --board h100_sxm "${tune[@]}"
has "a GPU of another architecture is none" "$err" \
    "no GPU of compute capability 9.0"
tap_done
