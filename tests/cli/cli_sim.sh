# spectune sim: a program runs unchanged, its output and status are its own;
# reports and counters beside them.
# shellcheck source=tests/tap.sh
. tests/tap.sh

cc -o "$TMP/program" tests/cli/sim_program.c -ldl
ok "the program builds without CUDA"

query() { lua5.4 tests/json_query.lua "$TMP/report.json" "$1"; }

try sim --board l40s --report "$TMP/report.json" "$TMP/program"
is "a clean program succeeds" "$status" 0
is "what it prints is its own" "$out" "0 wrong"
is "nothing is said beside it" "$err" ""
is "no reports" "$(query '#d.reports')" 0
is "one kernel" "$(query 'd.kernels[1].kernel')" twice
is "launched once" "$(query 'd.kernels[1].counters.launches')" 1
is "two warps of eight instructions" "$(query 'd.kernels[1].counters.ptx_inst')" \
    16
is "64 loads of 4 bytes are 8 sectors" "$(query \
    'd.kernels[1].counters.l1tex__t_sectors_pipe_lsu_mem_global_op_ld')" 8
is "a modelled time" "$(query 'd.kernels[1].time_us > 0')" true
is "by sim's own model" "$(query d.time_model)" counters

try sim "$TMP/program"
has "a table of kernels" "$err" "twice"

try sim --report "$TMP/report.json" "$TMP/program" fault
has "the fault is reported on standard error" "$err" "out of bounds"
is "and in the file" "$(query 'd.reports[1].kind')" \
    "global access out of bounds"
is "with its thread" "$(query 'd.reports[1].thread[1]')" 64
try sim --error-exitcode 77 --report "$TMP/report.json" "$TMP/program" fault
is "the status that was asked for" "$status" 77
try sim --no-checks --report "$TMP/report.json" "$TMP/program"
is "without checks it runs too" "$status" 0

refused "a program that is not there" 127 "none" sim "$TMP/none"
try sim /bin/true
has "a program without CUDA" "$err" "used no CUDA driver"
refused "nothing to run" 2 "PROGRAM" sim
refused "nothing to run behind --" 2 "PROGRAM" sim --json --
refused "a board that nobody knows" 2 "board 'nope': unknown" \
    sim --board l40s,nope "$TMP/program"
# shellcheck disable=SC2046
try sim -- /bin/echo $(seq 200)
is "a program takes any number of arguments" "$out" "$(seq -s " " 200)"

# shellcheck disable=SC2016
"$SPECTUNE" sim -- sh -c 'echo $$ >"$0"; exec sleep 60' "$TMP/child" \
    2>"$TMP/stopped" &
stopped=$!
until [ -s "$TMP/child" ]; do sleep 0.05; done
read -r child <"$TMP/child"
kill -TERM "$stopped"
wait "$stopped"
is "who stops spectune stops the program" "$?" 143
! kill -0 "$child" 2>"$TMP/gone"
ok "which runs no more"
has "and leaves nothing to report" "$(cat "$TMP/stopped")" "nothing to report"
tap_done
