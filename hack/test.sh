#!/usr/bin/env bash
# Runs the tests of the levels named: unit, integration, e2e, long, real, race, race-server.
# `go test` vets by default, and with it every dependency: half an hour for the
# packages that link Kubernetes. make lint vets instead.
source "$(dirname "$0")/lib.sh"
need_go

# run SENTENCE DIRECTORY PATTERN...: tests the packages that match, if any.
run() {
  local sentence=$1 dir=$2 began=$SECONDS packages; shift 2
  packages=$(cd "$dir" && go list "$@" 2>/dev/null) || true
  [ -n "$packages" ] || return 0
  say "== $sentence"
  # shellcheck disable=SC2086 # one argument for each package
  (cd "$dir" && go test -vet=off -timeout 30m $packages | { grep -a -v 'no test files' || true; })
  say "== passed in $(since "$began")"
}

# run_twice SENTENCE PATTERN...: as run, but tests that fail run once more, alone; one
# that passes the second time fails the run unless test/flaky.txt lists it. The tests
# mostly wait, so more of them run at a time than there are processors.
run_twice() {
  local sentence=$1 began=$SECONDS; shift
  say "== $sentence"
  go run ./test/retry -known test/flaky.txt -- -vet=off -timeout 45m -parallel 6 -- "$@" || fail "$sentence failed as said above"
  say "== passed in $(since "$began")"
}

# run_race SENTENCE PACKAGE...: tests with the race detector, which needs a C compiler.
run_race() {
  local sentence=$1 began=$SECONDS; shift
  say "== $sentence"
  command -v "$(go env CC)" >/dev/null || fail "the race detector needs a C compiler: install gcc and libc6-dev, or set CC"
  CGO_ENABLED=1 go test -race -vet=off -timeout 30m "$@" | { grep -a -v 'no test files' || true; }
  say "== passed in $(since "$began")"
}

# packages_with_tests links|leaves PATTERN...: the packages whose tests link the API
# server, or those whose tests do not. What has no tests is neither.
packages_with_tests() {
  local which=$1 server=' k8s.io/(apiserver/pkg/server|kubernetes)[/ ]' invert; shift
  if [ "$which" = links ]; then invert=''; else invert=-v; fi
  # shellcheck disable=SC2086 # no argument if empty
  go list -test -f '{{.ImportPath}} {{join .Deps " "}}' "$@" | grep -E '^[^ ]+\.test ' |
    { grep -E $invert "$server" || true; } | sed 's/\.test .*//'
}

# existing DIRECTORY...: those of them that hold Go code, as patterns.
existing() {
  for dir in "$@"; do
    [ -n "$(find "$dir" -name '*.go' -print -quit 2>/dev/null)" ] && printf './%s/... ' "$dir"
  done
  return 0
}

for level in "$@"; do
  case $level in
    unit)
      run "unit tests" . $(existing pkg cmd)
      run "unit tests of localcluster" test/localcluster ./...
      run "unit tests of the judge of conformance" test/conformance/e2e .
      ;;
    integration)
      run "integration tests" . $(existing test/docs test/framework test/retry test/suites test/integration test/simulation test/real/lab)
      # They wait 150 ms for an event, and upstream ends a watch that gets no processor for 100.
      run "upstream's tests of the storage, with nothing beside them" . $(existing test/conformance)
      ;;
    e2e)
      hack/build.sh
      hack/build.sh atoll-syncer-old
      # shellcheck disable=SC2046 # one argument for each package
      ATOLL_E2E=short run_twice "end-to-end tests" $(existing test/e2e)
      ;;
    long)
      hack/build.sh
      hack/build.sh atoll-syncer-old
      ATOLL_E2E=long run_twice "end-to-end tests that take a minute or more each" ./test/e2e
      ;;
    real)
      go run ./test/real/ready || continue
      hack/build.sh atoll atoll-syncer atoll-dns atoll-copy localcluster localnode kubectl
      hack/operators.sh --pods
      began=$SECONDS
      say "== tests with real pods and traffic"
      go test -vet=off -count=1 -timeout 60m -v ./test/real | { grep -a -v '^=== ' || true; }
      say "== ended in $(since "$began")"
      ;;
    race)
      # shellcheck disable=SC2046 # one argument for each package
      run_race "unit tests with the race detector" $(packages_with_tests leaves $(existing pkg cmd))
      run_race "worlds of the simulation with the race detector" -run '^TestWorlds$' ./test/simulation -worlds 6
      ;;
    race-server)
      # shellcheck disable=SC2046 # one argument for each package
      run_race "tests that link the API server, with the race detector" -p 1 $(packages_with_tests links $(existing pkg cmd test/framework test/integration test/conformance))
      ;;
    *) fail "no tests are called $level" ;;
  esac
done
