# Shared by the scripts of this folder: source it, do not run it.
# Sets the working directory to the root of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export CGO_ENABLED=0
# Any kubectl from 1.32 on will do; the tests of the project use the one that they build.
kubectl=${KUBECTL:-$root/bin/kubectl}

# say prints a line for people; fail prints one and ends the script.
say() { printf '%s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# since prints the whole seconds since a value of $SECONDS.
since() { printf '%ds' "$((SECONDS - $1))"; }

# until_true SECONDS COMMAND...: repeats a silent command until it succeeds.
until_true() {
  local deadline=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || return 1
    sleep 0.2
  done
}

# explain_go LOG: ends the script with a sentence for what stopped the go
# command whose output is in LOG.
explain_go() {
  local log=$1 unreachable='dial tcp|no such host|connection refused|i/o timeout|TLS handshake|proxyconnect|50[234] '
  if grep -q 'no space left on device' "$log"; then
    fail "the disk is full: a first build needs about 8 GiB in $(go env GOCACHE) and $(go env GOMODCACHE)"
  elif grep -m 2 -E "$unreachable" "$log" >&2; then
    fail "the module registry $(go env GOPROXY) cannot be reached; check the network, or set GOPROXY"
  elif grep -q 'disabled by GOPROXY=off' "$log"; then
    fail "GOPROXY=off forbids to fetch the modules that $(go env GOMODCACHE) does not hold; unset GOPROXY"
  fi
  tail -30 "$log" >&2
  fail "go failed as shown above"
}

# need_go checks that there is a Go new enough for go.mod, before it surprises.
need_go() {
  command -v go >/dev/null || fail "Go is not installed; get it from https://go.dev/dl"
  local want have
  want=$(awk '$1 == "go" { print $2 }' go.mod)
  have=$(go env GOVERSION); have=${have#go}
  [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -1)" = "$want" ] ||
    fail "Go $want or newer is needed, this is $have"
}
