#!/usr/bin/env bash
# Judges a fresh logical cluster, with two physical clusters below, by upstream's
# conformance tests, and leaves reports and logs in .conformance/report.
#   hack/conformance.sh [-tiers api,webhook-config,placed] [-shards 3] [-only REGEXP]
# What it starts it stops; only the reports stay.
source "$(dirname "$0")/lib.sh"
lab=$(mktemp -d)
module=test/conformance/e2e
report=$root/.conformance/report
source hack/lab.sh
# The Endpoints of the Service kubernetes may not hold an address of this machine alone.
lab_host=$(hostname -I 2>/dev/null | tr ' ' '\n' | grep -m1 -E '^[0-9]+(\.[0-9]+){3}$' || true)

trap 'exit 130' INT TERM
trap 'lab_stop; rm -rf "$lab"' EXIT

hack/build.sh atoll localcluster kubectl e2e.test
(cd "$module" && go build -o "$lab/judge" .)

say "Starting two physical clusters with simulated nodes, and the server ..."
lab_prepare
lab_start
lab_register
# The tests name RuntimeClasses with this handler: the admins of the physical clusters offer it, under a name of theirs.
for name in "${physical_clusters[@]}"; do
  on "$name" apply -f - >/dev/null <<<'{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "offered"}, "handler": "test-handler"}'
done
# One tenant is judged by what stock clusters let all their users do.
for name in "${physical_clusters[@]}"; do
  as_admin patch physicalcluster "$name" --type=merge --patch-file config/samples/tenancy-trusted.yaml >/dev/null
done
rm -rf "$report"
"$lab/judge" -suite bin/e2e.test -kubectl "$kubectl" -kubeconfig "$lab/demo.kubeconfig" -report "$report" "$@"
say "Reports: .conformance/report/conformance.json and conformance.xml"
