#!/usr/bin/env bash
# Checks style and imports with golangci-lint (pinned in hack/tools/lint).
#
# Linters that read one file at a time look at everything. Linters that need
# types look at the packages that do not link the API server: type-checking all
# of Kubernetes takes longer than anybody waits.
source "$(dirname "$0")/lib.sh"
need_go
linter=$root/bin/golangci-lint
(cd hack/tools/lint && go build -o "$linter" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

unformatted=$(gofmt -l $(git ls-files -co --exclude-standard '*.go' | grep -v '^pkg/generated/'))
[ -z "$unformatted" ] || fail "not formatted by gofmt: $unformatted"

say "== one file at a time: everything"
"$linter" run --config .golangci.yml ./...

light=()
for package in $(go list ./pkg/... ./cmd/... ./test/... 2>/dev/null); do
  go list -deps "$package" | grep -qE '^k8s.io/(apiserver|kubernetes)(/|$)' || light+=("$package")
done
say "== with types: ${#light[@]} packages that do not link the API server"
"$linter" run --config hack/golangci-types.yml "${light[@]/#github.com\/atoll-dev\/atoll/.}"
