#!/usr/bin/env bash
# Builds the operators of test/e2e/operators from the module proxy into
# bin/operators, and runs them against logical clusters. With arguments, builds
# and runs only the operators named; with --pods first, builds what test/real runs
# as pods, or of that what is named, and runs nothing.
source "$(dirname "$0")/lib.sh"
need_go
modules=test/e2e/operators/modules
all=(sample-controller sample-apiserver prometheus-operator sealed-secrets argo-rollouts snapshots) pods=
if [ "${1:-}" = --pods ]; then all=(prometheus-operator prometheus cert-manager gatekeeper external-secrets lws metrics-server snapshots) pods=yes; shift; fi
operators=("$@"); [ $# -gt 0 ] || operators=("${all[@]}")

# build NAME DIRECTORY PACKAGE
build() {
  local began=$SECONDS log; log=$(mktemp)
  (cd "$2" && go build -buildvcs=false -ldflags "-s -w" -o "$root/bin/operators/$1" "$3") >"$log" 2>&1 || explain_go "$log"
  rm -f "$log"
  say "  bin/operators/$1 built in $(since "$began")"
}

[ -n "$pods" ] || hack/build.sh atoll localcluster kubectl
mkdir -p bin/operators
say "Building the operators (the first build takes minutes):"
for operator in "${operators[@]}"; do
  case $operator in
    sample-controller) build sample-controller $modules k8s.io/sample-controller ;;
    sample-apiserver) build sample-apiserver $modules/sample-apiserver k8s.io/sample-apiserver ;;
    prometheus-operator)
      build prometheus-operator $modules github.com/prometheus-operator/prometheus-operator/cmd/operator
      build prometheus-config-reloader $modules github.com/prometheus-operator/prometheus-operator/cmd/prometheus-config-reloader
      ;;
    gatekeeper) build gatekeeper $modules/gatekeeper github.com/open-policy-agent/gatekeeper/v3 ;;
    external-secrets) build external-secrets $modules/external-secrets github.com/external-secrets/external-secrets ;;
    metrics-server) build metrics-server $modules/metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server ;;
    lws) build lws $modules/lws sigs.k8s.io/lws/cmd ;;
    prometheus) build prometheus $modules/prometheus github.com/prometheus/prometheus/cmd/prometheus ;;
    cert-manager)
      for command in controller webhook cainjector ctl; do
        build cert-manager-$command $modules/cert-manager github.com/cert-manager/cert-manager/cmd/$command
      done
      build helm $modules/cert-manager helm.sh/helm/v3/cmd/helm
      ;;
    sealed-secrets)
      build sealed-secrets $modules github.com/bitnami-labs/sealed-secrets/cmd/controller
      build kubeseal $modules github.com/bitnami-labs/sealed-secrets/cmd/kubeseal
      ;;
    argo-rollouts) build argo-rollouts $modules/argo-rollouts github.com/argoproj/argo-rollouts/cmd/rollouts-controller ;;
    snapshots) # what makes snapshots of volumes, and a driver
      for command in external-snapshotter/v8/cmd/{snapshot-controller,csi-snapshotter} external-provisioner/v6/cmd/csi-provisioner; do
        build "${command##*/}" $modules/snapshots "github.com/kubernetes-csi/$command"
      done
      build directories $modules/snapshots ./directories
      ;;
    *) fail "no operator is called $operator" ;;
  esac
done
[ -z "$pods" ] || exit 0
go test -vet=off -count=1 -timeout 30m ./test/e2e/operators -v
