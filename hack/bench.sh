#!/usr/bin/env bash
# Measures what Atoll costs beside a stock kube-apiserver; see docs/benchmarks.md.
# Arguments go to the program: hack/bench.sh -parts clusters -sizes 10,1000
source "$(dirname "$0")/lib.sh"
hack/build.sh atoll localcluster
program=$(mktemp -d)
trap 'rm -rf "$program"' EXIT
go build -o "$program/bench" ./test/bench
"$program/bench" "$@"
