#!/usr/bin/env bash
# Rounds of work while the server and the physical clusters are stopped for a moment
# again and again (SIGSTOP): watches lag, requests time out, replies come late. Each
# round applies each kind of workload, changes some, compares both sides and deletes
# everything; it fails if something is not true after a while, and shows what is, or if
# the server uses more and more (soak-limits.sh).
# Usage: soak.sh [ROUNDS | MINUTESm | HOURSh]
source "$(dirname "$0")/lib.sh"
rounds=${1:-20} seconds=0
[[ $rounds =~ ^[1-9][0-9]*[hm]?$ ]] || fail "it lasts \"$rounds\", want a number of rounds (20), minutes (90m) or hours (6h)"
case $rounds in
  *h) seconds=$((3600 * ${rounds%h})) rounds=0 ;;
  *m) seconds=$((60 * ${rounds%m})) rounds=0 ;;
esac
lab=$root/.soak
source hack/lab.sh
source hack/soak-limits.sh

lab_throw_away SOAK

# hiccup stops one process after the other for a moment, now and then for seconds,
# until the lab is stopped.
hiccup() {
  local names=(atoll "${physical_clusters[@]}") pid
  while :; do
    pid=$(pid_of "${names[RANDOM % ${#names[@]}]}")
    kill -STOP "$pid" 2>/dev/null || return 0
    sleep "0.$((RANDOM % 9 + 1))"
    ((RANDOM % 6)) || sleep $((RANDOM % 4))
    kill -CONT "$pid" 2>/dev/null || return 0
    sleep "0.$((RANDOM % 5 + 1))"
  done
}

# try COMMAND...: a request may meet a process that stands still, so it is made again.
try() {
  local out
  for _ in 1 2 3 4 5 6 7 8; do
    out=$(timeout 60 "$@" 2>&1) && return 0
    sleep 1
  done
  say "$out"
  fail "does not succeed: $*"
}
as() { "$kubectl" --kubeconfig "$lab/demo.kubeconfig" -n "$namespace" "$@"; }

# pods COMMAND...: names and phases of the pods that a kubectl shows, or fails.
pods() { "$@" get pods --no-headers -o custom-columns=NAME:.metadata.name,PHASE:.status.phase 2>/dev/null | sort; }
pods_below() { pods on east -n "$physical" && pods on west -n "$physical"; }
same_pods() {
  local above below
  above=$(pods as) && below=$(pods_below | sort) || return 1
  [ -n "$above" ] && [ "$above" = "$below" ]
}
nothing_below() {
  local name found
  for name in "${physical_clusters[@]}"; do
    found=$(on "$name" get namespace "$physical" --ignore-not-found -o name) && [ -z "$found" ] || return 1
  done
}

round() {
  local k=("$kubectl" --kubeconfig "$lab/demo.kubeconfig" -n "$namespace") n workload
  as_user create namespace "$namespace" --dry-run=client -o yaml >"$lab/run/namespace.yaml"
  try "${k[@]}" apply -f "$lab/run/namespace.yaml"
  for n in 1 2 3 4; do sed "s/NAME/db-$n/" hack/soak-statefulset.yaml; echo ---; done >"$lab/run/statefulsets.yaml"
  try "${k[@]}" apply -f hack/soak.yaml -f "$lab/run/statefulsets.yaml"
  for workload in deployment/web daemonset/agent statefulset/db-{1,2,3,4}; do
    try "${k[@]}" rollout status "$workload" --timeout=30s
  done
  try "${k[@]}" wait --for=condition=Complete job/once --timeout=30s
  try "${k[@]}" wait --for=condition=Ready pod/single --timeout=30s
  try "${k[@]}" scale deployment/web --replicas=1
  try "${k[@]}" set image deployment/web web=nginx:1.29-alpine
  try "${k[@]}" scale statefulset/db-1 --replicas=5
  for workload in deployment/web statefulset/db-1; do
    try "${k[@]}" rollout status "$workload" --timeout=30s
  done
  physical=$(as_user get namespace "$namespace" -o jsonpath='{.metadata.annotations.placement\.atoll\.dev/physical-namespace}')
  [ -n "$physical" ] || fail "the namespace $namespace has no name on physical clusters"
  until_true 60 same_pods || {
    diff <(pods as) <(pods_below | sort) || true
    fail "the pods of $namespace above and below differ"
  }
  try "${k[@]}" delete namespace "$namespace" --ignore-not-found --timeout=50s
  until_true 60 nothing_below || fail "something is left in $physical"
}

hack/build.sh
lab_prepare
lab_start
lab_register
hiccup &
soak_began=$SECONDS i=0
while ((i == 0 || (seconds > 0 ? SECONDS - soak_began < seconds : i < rounds))); do
  began=$SECONDS namespace=soak-$((++i)) physical=
  round
  check_limits "$i"
  printf '  round %-4s %4s   %s\n' "$i" "$(since "$began")" "$(used)"
done
say "SOAK PASSED: $i rounds in $(since "$soak_began"): $(used)"
