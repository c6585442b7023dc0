#!/usr/bin/env bash
# Checks that what is generated is up to date, that the go.mod files are tidy and
# that the style holds; ends with an error if any file would change.
source "$(dirname "$0")/lib.sh"
need_go
state() { git status --porcelain; git diff HEAD | sha256sum; }
before=$(state)
say "== generated code"
hack/generate.sh
operators=test/e2e/operators/modules
for module in . test/localcluster test/conformance/e2e $operators $operators/{argo-rollouts,cert-manager,external-secrets,gatekeeper,lws,metrics-server,prometheus,sample-apiserver,snapshots} test/kubectls/v* hack/tools; do
  say "== go.mod of $module"
  (cd "$module" && go mod tidy -diff) || fail "run: go mod tidy in $module"
done
say "== tables and word counts of the documentation"
go test -vet=off -count=1 ./test/docs -update
[ "$(state)" = "$before" ] || { git status --short; fail "what is generated is out of date: run make verify and commit what it changes"; }
[ "${1:-}" = --no-lint ] || hack/lint.sh
say "verified"
