#!/usr/bin/env bash
# Two physical clusters, one server and a sample application on this machine:
#   hack/quickstart.sh        starts or resumes; Ctrl-C stops and keeps the state
#   hack/quickstart.sh down   stops and removes everything
source "$(dirname "$0")/lib.sh"
lab=$root/.quickstart
source hack/lab.sh

if [ "${1:-}" = down ]; then
  [ -d "$lab" ] || { say "There is no quickstart to remove."; exit 0; }
  mkdir -p "$lab/run" && touch "$lab/run/removing" # tells a quickstart that runs that nothing is wrong
  lab_stop
  rm -rf "$lab"
  say "The quickstart is stopped and $lab is removed."
  exit 0
fi

[ -z "$(for n in atoll "${physical_clusters[@]}"; do running "$n" && echo "$n"; done)" ] ||
  fail "the quickstart is running already; stop it with Ctrl-C there, or with: make quickstart-down"

began=$SECONDS
[ ! -d "$lab/atoll" ] || say "Resuming from $lab"
lab_prepare
hack/build.sh

stopping() {
  trap '' INT TERM
  [ -z "${watching:-}" ] || kill "$watching" 2>/dev/null || true
  say; say "Stopping (the state stays in .quickstart; make quickstart resumes, make quickstart-down removes)"
  lab_stop
  exit "$1"
}
trap 'stopping 0' INT TERM
trap 'code=$?; trap - EXIT; [ $code -eq 0 ] || lab_stop; exit $code' EXIT

rm -f "$lab/run/removing"
say "Starting the physical clusters east and west (real Kubernetes control planes; their nodes and pods are simulated)"
say "and the server with the logical cluster demo ..."
lab_start
say "Registering the physical clusters ..."
lab_register
if as_user -n hello get deployment hello >/dev/null 2>&1; then
  say "The sample is there already, as it was left."
else
  say "Applying config/samples/hello.yaml with kubectl ..."
  as_user apply -f config/samples/hello.yaml
  as_user -n hello rollout status deployment/hello --timeout=120s
fi

say
say "It runs here:"
as_user -n hello get placements
for name in "${physical_clusters[@]}"; do
  say; say "On the physical cluster $name:"
  on "$name" get deployments,pods --all-namespaces -l atoll.dev/managed-by
done
home=$(as_user -n hello get placement namespace -o jsonpath='{.spec.decision.physicalClusters[0].name}')
cat <<END

Ready after $(since "$began"). In another terminal, in this folder, type:

  export KUBECONFIG=.quickstart/demo.kubeconfig PATH=\$PWD/bin:\$PATH
  kubectl -n hello get deployments,pods
  kubectl -n hello scale deployment/hello --replicas=5
  kubectl create namespace web
  kubectl -n web create deployment nginx --image=nginx:1.29
  kubectl -n web rollout status deployment/nginx

What the admin sees:  kubectl --kubeconfig .quickstart/atoll/admin.kubeconfig --context root get physicalclusters
What really runs:     kubectl --kubeconfig .quickstart/$home/admin.kubeconfig get pods -A
Logs:                 .quickstart/run/*.log

Ctrl-C stops everything and keeps the state; make quickstart-down removes it.
END

# watch waits for make quickstart-down, or for the end of one of the processes.
watch() {
  while kill -0 $$ 2>/dev/null; do
    for name in atoll "${physical_clusters[@]}"; do
      running "$name" && continue
      if [ -e "$lab/run/removing" ] || [ ! -d "$lab/run" ]; then
        say "Stopped by make quickstart-down."
        exit 0
      fi
      tail -n 5 "$lab/run/$name.log" >&2
      fail "$name ended; the whole log is $lab/run/$name.log"
    done
    sleep 1
  done
}

# Beside this script, which only waits: bash loses a Ctrl-C that comes while it reads what a command
# of $(...) prints, if that ends as if there was none.
(trap '' INT; watch) &
watching=$!
wait "$watching"
