#!/usr/bin/env bash
# Does unattended what the quickstart does, in a folder of its own: start, apply,
# wait, look at both sides, delete, look again, remove. Prints the seconds of each
# step and one closing line; fails if anything is not so.
source "$(dirname "$0")/lib.sh"
lab=$root/.smoke
source hack/lab.sh

lab_throw_away SMOKE

# step NAME FUNCTION: runs a step and prints its seconds.
step() {
  current=$1
  local began; began=$(date +%s%N)
  "$2"
  printf '  %-52s %6.1f s\n' "$1" "$((($(date +%s%N) - began) / 100000000))e-1"
}
# equal WHAT GOT WANT
equal() { [ "$2" = "$3" ] || fail "$1 is \"$2\", want \"$3\""; }
# eventually SECONDS WHAT COMMAND...
eventually() { local s=$1 what=$2; shift 2; until_true "$s" "$@" || fail "not within $s s: $what"; }

apply() { as_user apply -f config/samples/hello.yaml; } >/dev/null
rollout() { as_user -n hello rollout status deployment/hello --timeout=60s; } >/dev/null

logical() { as_user -n hello get deployment hello -o "jsonpath=$1"; }
physical() { on "$target" -n "$below" get deployment hello -o "jsonpath=$1"; }
below_has() { [ "$(physical "$1")" = "$2" ]; }
above_has() { [ "$(logical "$1")" = "$2" ]; }

look() {
  target=$(as_user -n hello get placement namespace -o jsonpath='{.spec.decision.physicalClusters[*].name}')
  case $target in east) other=west ;; west) other=east ;; *) fail "the placement names \"$target\", want east or west" ;; esac
  below=$(as_user get namespace hello -o jsonpath='{.metadata.annotations.placement\.atoll\.dev/physical-namespace}')
  equal "the targets annotation" "$(logical '{.metadata.annotations.placement\.atoll\.dev/targets}')" "{\"$target\":{}}"
  equal "available replicas above" "$(logical '{.status.availableReplicas}')" 3
  equal "available replicas below" "$(physical '{.status.availableReplicas}')" 3
  equal "the greeting below" "$(on "$target" -n "$below" get configmap hello -o jsonpath='{.data.greeting}')" "hello from a lagoon"
  eventually 10 "three pods are mirrored" three_pods
  equal "namespaces of ours on $other" "$(on "$other" get namespaces -l atoll.dev/managed-by -o name)" ""
}
three_pods() { [ "$(as_user -n hello get pods -l app=hello -o name | wc -l)" = 3 ]; }

scale() {
  as_user -n hello scale deployment/hello --replicas=5 >/dev/null
  as_user -n hello rollout status deployment/hello --timeout=60s >/dev/null
  equal "replicas below after scaling" "$(physical '{.status.availableReplicas}')" 5
  equal "replicas above after scaling" "$(logical '{.status.availableReplicas}')" 5
}
edit() {
  as_user -n hello set image deployment/hello hello=nginx:1.29-alpine >/dev/null
  as_user -n hello rollout status deployment/hello --timeout=60s >/dev/null
  equal "the image below" "$(physical '{.spec.template.spec.containers[0].image}')" "nginx:1.29-alpine"
}
revert() {
  on "$target" -n "$below" scale deployment/hello --replicas=1 >/dev/null
  eventually 20 "a change made below is reverted" below_has '{.spec.replicas}' 5
}
restart() {
  stop atoll
  start atoll "$root/bin/atoll" start --data-dir "$lab/atoll" --listen "127.0.0.1:$port" --logical-cluster demo
  await atoll 120 server_ready
  eventually 20 "all replicas below after a restart" below_has '{.status.availableReplicas}' 5
  eventually 20 "all replicas above after a restart" above_has '{.status.availableReplicas}' 5
}
remove() {
  as_user -n hello delete deployment/hello --timeout=60s >/dev/null
  equal "the deployment below after deletion" "$(on "$target" -n "$below" get deployment hello --ignore-not-found -o name)" ""
  as_user delete namespace hello --timeout=60s >/dev/null
  equal "the namespace below after deletion" "$(on "$target" get namespace "$below" --ignore-not-found -o name)" ""
  equal "objects of ours left below" "$(on "$target" get all,configmaps,secrets,namespaces -A -l atoll.dev/managed-by -o name 2>/dev/null)" ""
}
end() { lab_stop; for n in atoll east west; do ! running "$n" || fail "$n still runs"; done; }

began=$SECONDS
lab_prepare
hack/build.sh
say "Smoke test (physical clusters with simulated nodes):"
step "start two physical clusters and the server" lab_start
step "register the physical clusters" lab_register
step "apply the sample" apply
step "roll out" rollout
step "look at both sides" look
step "scale to 5" scale
step "change the image" edit
step "revert a change made below" revert
step "restart the server" restart
step "delete, above and below" remove
step "stop" end
current="the end"
say "SMOKE PASSED in $(since "$began")"
