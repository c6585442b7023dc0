# What the server of a soak may use: source it after lab.sh. Each limit is relative to
# what was used at the end of the warm-up, when every cache has seen what it will hold.
#
#   heap        of what is in use after a collection, MiB   1.4 times as much, and 32 MiB
#   goroutines                                              1.2 times as many, and 200
#   etcd        size of the database, MiB                   3 times as much, and 128 MiB: events stay for an hour
#   errors      lines in the log, in a round                5 times as many, and 50: whoever is stopped makes others fail
warmup=${SOAK_WARMUP:-10} # rounds
heap=0 goroutines=0 etcd=0 errors=0 errors_before=0
heap_limit=0 goroutines_limit=0 etcd_limit=0 errors_limit=0

# from_server PATH: what the server says of itself; it may stand still for a moment.
from_server() {
  local n
  for ((n = 0; n < 8; n++)); do timeout 30 "$kubectl" --kubeconfig "$lab/atoll/admin.kubeconfig" --context root get --raw "$1" 2>/dev/null && return 0; sleep 1; done
  fail "the server does not answer $1"
}

# number TEXT PATTERN: the number in the first line that has a pattern, or fails.
number() { awk -v p="$2" '$0 ~ p { printf "%d", $NF; found = 1; exit } END { exit !found }' <<<"$1" || fail "the server says nothing of \"$2\""; }

measure() {
  local profile metrics lines
  profile=$(from_server '/debug/pprof/heap?gc=1&debug=1')
  metrics=$(from_server /metrics)
  heap=$(number "$profile" '^# HeapInuse = ') heap=$((heap >> 20))
  goroutines=$(number "$metrics" '^go_goroutines ')
  etcd=$(number "$metrics" '^apiserver_storage_size_bytes') etcd=$((etcd >> 20))
  lines=$(grep -cE '^E[0-9]{4} ' "$lab/run/atoll.log" || true)
  errors=$((lines - errors_before)) errors_before=$lines
}

larger() { (($1 > $2)) && echo "$1" || echo "$2"; }

# set_limits sets the limits by what was just measured, if it is the most so far.
set_limits() {
  heap_limit=$(larger "$heap_limit" $((heap * 14 / 10 + 32)))
  goroutines_limit=$(larger "$goroutines_limit" $((goroutines * 12 / 10 + 200)))
  etcd_limit=$(larger "$etcd_limit" $((etcd * 3 + 128)))
  errors_limit=$(larger "$errors_limit" $((errors * 5 + 50)))
}

# check_limits measures after a round, and fails if the server uses too much.
check_limits() {
  local round=$1 name
  measure
  if ((round <= warmup)); then
    ((round * 2 <= warmup)) || set_limits # its second half
    return 0
  fi
  for name in heap goroutines etcd errors; do
    local limit=${name}_limit
    ((${!name} <= ${!limit})) || fail "after round $round: $name ${!name} is above its limit of ${!limit} ($(used))"
  done
}

used() {
  printf 'heap %s of %s MiB, goroutines %s of %s, etcd %s of %s MiB, error lines %s of %s in a round' \
    "$heap" "$heap_limit" "$goroutines" "$goroutines_limit" "$etcd" "$etcd_limit" "$errors" "$errors_limit"
}
