#!/usr/bin/env bash
# Runs the integration tests that upstream has for custom resources (those of
# k8s.io/apiextensions-apiserver) against logical clusters of a server of ours:
# in a copy of that module the file that starts a server gives a fresh logical
# cluster instead. Arguments go to the tests (-test.run REGEXP).
source "$(dirname "$0")/lib.sh"
lab=$(mktemp -d)
module=$root/test/conformance/e2e
source hack/lab.sh
trap 'exit 130' INT TERM
trap 'lab_stop; chmod -R u+w "$lab"; rm -rf "$lab"' EXIT

hack/build.sh atoll
copy=$lab/apiextensions-apiserver
suite=$copy/test/integration
cp -r "$(cd "$module" && go list -m -f '{{.Dir}}' k8s.io/apiextensions-apiserver)" "$copy"
chmod -R u+w "$copy"
cp "$module/crds/server.go" "$suite/fixtures/server.go"
cp -r "$module/crds/etcdkey" "$suite/etcdkey"
grep -rl '"path"' --include='*.go' "$suite" | grep -v /etcdkey/ |
  xargs sed -i 's#^\t"path"$#\tpath "k8s.io/apiextensions-apiserver/test/integration/etcdkey"#'
cp "$module/go.mod" "$module/go.sum" "$lab/"
go mod edit -replace "k8s.io/apiextensions-apiserver=$copy" "$lab/go.mod"

say "Building the tests ..."
for package in . ./conversion; do # the name of the binary is a field manager that tests look for
  mkdir -p "$lab/$package"
  (cd "$module" && go test -c -vet=off -mod=mod -modfile="$lab/go.mod" -o "$lab/$package/integration.test" \
    "k8s.io/apiextensions-apiserver/test/integration${package#.}") >"$lab/build.log" 2>&1 || explain_go "$lab/build.log"
done

mkdir -p "$lab/run"
choose_port
start atoll "$root/bin/atoll" start --data-dir "$lab/atoll" --listen "127.0.0.1:$port" --unsafe-no-fsync \
  --tenant-egress-allow 127.0.0.0/8 # where the tests have their conversion webhooks
await atoll 120 server_ready
export ATOLL_KUBECONFIG=$lab/atoll/admin.kubeconfig KUBE_INTEGRATION_ETCD_URL=unix://$lab/atoll/etcd/client.sock

# Not about a server, or about what ours never did: gates that are switched in the
# test's own process, and definitions stored as v1beta1, as an older server wants them.
skip='^(TestCBORServingEnablement|TestRatchetingDropFields|TestEtcdStorage)$'
passed=0 failed=0 skipped=0 code=0
for package in . ./conversion; do
  (cd "$suite/$package" && "$lab/$package/integration.test" -test.v -test.timeout 30m -test.skip "$skip" "$@") >"$lab/out" 2>&1 || code=$?
  grep -aE '^\s*(--- (FAIL|SKIP)|panic:)' "$lab/out" || true
  passed=$((passed + $(grep -ac '^--- PASS' "$lab/out" || true)))
  failed=$((failed + $(grep -ac '^--- FAIL' "$lab/out" || true)))
  skipped=$((skipped + $(grep -ac '^--- SKIP' "$lab/out" || true)))
  mkdir -p .conformance; cp "$lab/out" ".conformance/crds-$(basename "$(realpath "$suite/$package")").log"
done
say "custom resources: $passed passed, $failed failed, $skipped skipped; logs in .conformance/crds-*.log"
exit "$code"
