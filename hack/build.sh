#!/usr/bin/env bash
# Builds the binaries into bin/, one after the other: each link takes up to 3 GiB
# of memory. The first build compiles Kubernetes and takes minutes; later ones
# skip what is up to date. With arguments, builds only the binaries named; kubectls is
# all of test/kubectls.
source "$(dirname "$0")/lib.sh"
need_go
mkdir -p bin
log=$(mktemp); trap 'rm -f "$log"' EXIT
binaries=()
for binary in "$@"; do
  case $binary in
    kubectls) for module in test/kubectls/v*/go.mod; do module=${module%/go.mod}; binaries+=("kubectl-${module##*/v}"); done ;;
    *) binaries+=("$binary") ;;
  esac
done
[ $# -gt 0 ] || binaries=(atoll atoll-syncer atoll-dns atoll-copy kubectl-atoll localcluster kubectl)

# flags_of DIRECTORY: what a binary says of its version is that of the Kubernetes that the
# module in the directory names.
flags_of() {
  local version major minor package flags="-s -w"
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$1/go.mod")
  IFS=. read -r major minor _ <<<"${version#v}"
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
    flags+=" -X $package.gitTreeState=clean -X $package.gitCommit= -X $package.buildDate=1970-01-01T00:00:00Z"
  done
  printf '%s' "$flags"
}

# report PID SINCE NAME IMPORT TOTAL: says how far a build is while it runs; each
# package that go compiles is a line of the log, the command itself the last.
report() {
  local pid=$1 began=$2 name=$3 import=$4 total=$5 width=0 line compiled fetched
  local interval=10; [ -t 1 ] && interval=1
  while kill -0 "$pid" 2>/dev/null; do
    for ((i = 0; i < interval * 5; i++)); do kill -0 "$pid" 2>/dev/null || break 2; sleep 0.2; done
    fetched=$(grep -c '^go: downloading' "$log" || true)
    compiled=$(grep -vc '^go: ' "$log" || true)
    line="$compiled of at most $total packages compiled"
    ((compiled == 0)) && line="looking for what changed"
    [ "$(tail -n 1 "$log")" = "$import" ] && line="linking"
    ((fetched > 0)) && line="$fetched modules fetched, $line"
    line="  bin/$name: $line, $(since "$began")"
    if [ -t 1 ]; then printf '\r%-*s' "$width" "$line"; width=${#line}; else say "$line"; fi
  done
  [ -t 1 ] && printf '\r%*s\r' "$width" '' || true
}

# build NAME DIRECTORY PACKAGE [test]: the binary of a command, or of the tests of a package;
# $more are more flags for the linker.
build() {
  local name=$1 dir=$2 package=$3 began=$SECONDS old new total import pid flags how=(build)
  [ -z "${4:-}" ] || how=(test -c -vet=off)
  local out=$root/bin/$name
  flags="$(flags_of "$dir")${more:+ $more}"
  old=$(go tool buildid "$out" 2>/dev/null || true)
  : >"$log"
  total=$(cd "$dir" && go list -deps "$package" 2>"$log" | wc -l) || explain_go "$log"
  import=$(cd "$dir" && go list "$package")
  (cd "$dir" && exec go "${how[@]}" -v -buildvcs=false -ldflags "$flags" -o "$out" "$package") >"$log" 2>&1 &
  pid=$!
  report "$pid" "$began" "$name" "$import" "$total"
  wait "$pid" || explain_go "$log"
  new=$(go tool buildid "$out")
  if [ "$old" = "$new" ]; then say "  bin/$name is up to date"; else say "  bin/$name built in $(since "$began")"; fi
}

say "Building (the first build compiles Kubernetes, which takes minutes):"
for binary in "${binaries[@]}"; do
  case $binary in
    atoll-copy) GOOS=linux build "$binary" . ./cmd/atoll-copy ;; # it runs in pods only
    atoll-syncer-old) # of a revision from before the first: tests have servers refuse it
      more="-X github.com/atoll-dev/atoll/pkg/skew.revision=0 -X github.com/atoll-dev/atoll/pkg/skew.oldest=0 -X github.com/atoll-dev/atoll/pkg/skew.version=v0.0.1" \
        build atoll-syncer-old . ./cmd/atoll-syncer
      ;;
    atoll | atoll-syncer | atoll-dns) build "$binary" . "./cmd/$binary" ;;
    kubectl-atoll)
      build "$binary" . "./cmd/$binary"
      ln -sf "$binary" bin/kubectl_complete-atoll # by this name kubectl looks for completion
      ;;
    localcluster) build localcluster test/localcluster . ;;
    localnode) build localnode test/localcluster ./node ;;
    kubectl-1.*) # of an older release: see test/kubectls
      [ -d "test/kubectls/v${binary#kubectl-}" ] || fail "there is no test/kubectls/v${binary#kubectl-}"
      build "$binary" "test/kubectls/v${binary#kubectl-}" k8s.io/kubernetes/cmd/kubectl
      ;;
    kubectl | kubectl-convert) build "$binary" test/localcluster "k8s.io/kubernetes/cmd/$binary" ;;
    e2e.test) build e2e.test test/conformance/e2e k8s.io/kubernetes/test/e2e test ;;
    *) fail "no binary is called $binary" ;;
  esac
done
