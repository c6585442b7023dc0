#!/usr/bin/env bash
# Runs each fuzz test, those of a hostile tenant among them, for FUZZTIME, one after
# the other: go fuzzes one test of one package at a time.
source "$(dirname "$0")/lib.sh"
found=0
while IFS=: read -r file name; do
  found=$((found + 1))
  say "== $name in $(dirname "$file")"
  go test -vet=off -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-30s}" "./$(dirname "$file")"
done < <(grep -rnoE '^func Fuzz[A-Za-z0-9_]*' --include '*_test.go' pkg test/integration | sed -E 's/^([^:]+):[0-9]+:func (.*)/\1:\2/')
say "$found fuzz tests ran"
