#!/usr/bin/env bash
# Checks formatting, imports and likely mistakes with gofmt and golangci-lint, which
# is pinned in hack/tools/lint. The first run analyses Kubernetes and takes minutes.
source "$(dirname "$0")/lib.sh"
need_go
mapfile -t files < <(git ls-files -co --exclude-standard '*.go' | grep -v '^pkg/generated/')
unformatted=$(gofmt -l "${files[@]}")
[ -z "$unformatted" ] || fail "not formatted by gofmt: $unformatted"

linter=$root/bin/golangci-lint
(cd hack/tools/lint && go build -o "$linter" github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
"$linter" run ./...
