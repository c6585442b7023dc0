#!/usr/bin/env bash
# Runs the tests of the levels named: unit, integration, e2e.
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
  (cd "$dir" && go test -vet=off -timeout 30m $packages | { grep -v 'no test files' || true; })
  say "== passed in $(since "$began")"
}

# run_twice SENTENCE PATTERN...: as run, but tests that fail run once more, alone,
# and what they said is shown: real processes on a machine that does other things,
# too, are late now and then. A test that fails twice fails. The tests mostly wait,
# so more of them run at a time than there are processors.
run_twice() {
  local sentence=$1 began=$SECONDS log failed; shift
  say "== $sentence"
  log=$(mktemp)
  if go test -vet=off -timeout 30m -parallel 6 "$@" 2>&1 | { grep -v 'no test files' || true; } | tee "$log"; then
    say "== passed in $(since "$began")"
    return 0
  fi
  failed=$(sed -n 's/^--- FAIL: \([A-Za-z0-9_]*\).*/\1/p' "$log" | sort -u | paste -sd'|')
  rm -f "$log"
  [ -n "$failed" ] || return 1
  say "== once more: ${failed//|/, }"
  go test -vet=off -count=1 -timeout 30m -run "^($failed)\$" "$@"
  say "== passed the second time: ${failed//|/, }"
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
      ;;
    integration) run "integration tests" . $(existing test/docs test/framework test/integration test/conformance test/simulation) ;;
    e2e)
      hack/build.sh
      # shellcheck disable=SC2046 # one argument for each package
      run_twice "end-to-end tests" $(existing test/e2e)
      ;;
    *) fail "no tests are called $level" ;;
  esac
done
