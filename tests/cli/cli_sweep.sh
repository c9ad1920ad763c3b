# The fixed part of the sweep: each arch, head grouping and head dim once.
# shellcheck source=tests/tap.sh
. tests/tap.sh
tests/sweep.sh --part >"$TMP/sweep"
ok "every arch answers"
grep -v ' passed, ' "$TMP/sweep" | sed 's/^/#   /'
tap_done
