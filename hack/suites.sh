#!/usr/bin/env bash
# Runs test suites of others, taken from the module cache, against a stock cluster and
# against logical clusters, and says how many that pass there pass here:
#   hack/suites.sh [controller-runtime] [kubectl]
# ONLY=REGEXP runs the packages or groups that match. Results and logs: .suites/. What
# differs by design is in test/suites/differs.txt.
source "$(dirname "$0")/lib.sh"
need_go
for tool in curl tput openssl bc; do command -v $tool >/dev/null || fail "$tool is needed by the suites (Debian packages curl, ncurses-bin, openssl, bc)"; done
suites=("$@"); [ $# -gt 0 ] || suites=(controller-runtime kubectl)
controller_runtime=v0.25.0
lab=$(mktemp -d)
physical_clusters=(east)
source hack/lab.sh
physical_clusters=(east)
server_flags=(--tenant-egress-allow 127.0.0.0/8) # where the suites have their webhooks
trap 'exit 130' INT TERM
trap 'lab_stop; stop stock; chmod -R u+w "$lab"; rm -rf "$lab"' EXIT
out=$root/.suites

# admin_token KUBECTL...: a token of an admin of a cluster.
admin_token() {
  "$@" -n kube-system create serviceaccount suites >/dev/null
  "$@" create clusterrolebinding suites --clusterrole=cluster-admin --serviceaccount=kube-system:suites >/dev/null
  "$@" -n kube-system create token suites --duration=4h
}

# fresh NAME: a new logical cluster; its kubeconfig is $lab/NAME.kubeconfig.
fresh() {
  as_admin apply -f - >/dev/null <<<"{apiVersion: tenancy.atoll.dev/v1alpha1, kind: LogicalCluster, metadata: {name: $1}}"
  until_true 30 "$root/bin/atoll" kubeconfig "$1" --data-dir "$lab/atoll" --output "$lab/$1.kubeconfig" || fail "no kubeconfig for the logical cluster $1"
  until_true 30 "$kubectl" --kubeconfig "$lab/$1.kubeconfig" get namespace kube-system default || fail "the logical cluster $1 has no kube-system"
}

# server_of KUBECONFIG: its URL without the scheme.
server_of() { "$kubectl" --kubeconfig "$1" config view --minify -o 'jsonpath={.clusters[0].cluster.server}' | sed 's#^https://##'; }

# copy_of MODULE VERSION DIRECTORY...: parts of a module, to write to.
copy_of() {
  local dir to=$lab/$1; dir=$(go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'); shift 2
  mkdir -p "$to"
  for part in "$@"; do mkdir -p "$to/$(dirname "$part")"; cp -r "$dir/$part" "$to/$part"; done
  chmod -R u+w "$to"
  printf '%s' "$to"
}

controller_runtime_suite() {
  local copy package name began=$SECONDS
  copy=$(copy_of sigs.k8s.io/controller-runtime $controller_runtime .)
  # The patch release of Kubernetes that we are made of: it is compiled already.
  (cd "$copy" && for module in api apiextensions-apiserver apimachinery apiserver client-go component-base streaming; do
    go mod edit -require="k8s.io/$module@$(cd "$root" && go list -m -f '{{.Version}}' k8s.io/apimachinery)"
  done && cat "$root/go.sum" >>go.sum && go mod tidy) >"$lab/tidy.log" 2>&1 || explain_go "$lab/tidy.log"
  while read -r package; do
    [[ $package =~ ${ONLY:-.} ]] || continue
    name=${package//\//-}
    (cd "$copy" && go test -c -vet=off -o "$lab/$name.test" "./$package") >"$lab/build.log" 2>&1 || explain_go "$lab/build.log"
    fresh "cr-${name//_/-}"
    for side in stock ours; do
      local config=$lab/stock/admin.kubeconfig; [ $side = stock ] || config=$lab/cr-$name.kubeconfig
      (cd "$copy/$package" && USE_EXISTING_CLUSTER=true KUBECONFIG=$config timeout 600 "$lab/$name.test" -test.v -test.timeout 10m \
        -ginkgo.json-report="$out/$side/controller-runtime/$name.json") >"$out/$side/controller-runtime/$name.log" 2>&1 || true
      # Tests that ginkgo does not run; the one that runs ginkgo is not counted.
      sed -nE 's/^--- (PASS|FAIL): ([^ ]+).*/\1 \2/p' "$out/$side/controller-runtime/$name.log" | sed "s#\$# ($package)#" |
        grep -vE "$(sed -nE 's/^func (Test\w+)\(.*/\1/p' "$copy/$package"/*_suite_test.go | paste -sd'|') " >"$out/$side/controller-runtime/$name.txt" || true
    done
    say "  $package: $(since "$began") since the start"
  done < <(cd "$copy" && grep -rl 'envtest\.Environment{' --include='*_test.go' pkg | xargs -n1 dirname | sort -u)
}

kubectl_suite() {
  local copy group side began=$SECONDS version
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod)
  hack/build.sh kubectl-convert
  copy=$(copy_of k8s.io/kubernetes "$version" hack test/cmd test/fixtures test/e2e/testing-manifests third_party/forked)
  sed -i -e 's/record_command "run_${pkg}_tests"/record_command "${pkg}"/' -e 's#/tmp/\(record\|junit\)#$TMPDIR/\1#' \
    "$copy/test/cmd/legacy-script.sh" # groups by their whole name; nothing is left in /tmp
  mkdir -p "$copy/_output/bin"
  ln -s "$root/bin/kubectl" "$root/bin/kubectl-convert" "$copy/_output/bin/"
  local stock_token; stock_token=$(admin_token "$kubectl" --kubeconfig "$lab/stock/admin.kubeconfig")
  local groups; mapfile -t groups < <(sed -nE 's/^ *record_command (run_\w+).*/\1/p' "$copy/test/cmd/legacy-script.sh" | awk '!seen[$0]++')
  for group in "${groups[@]}"; do
    [[ $group =~ ${ONLY:-.} ]] || continue
    local name; name=kubectl-$(tr _A-Z -a-z <<<"${group#run_}") # a label of DNS
    fresh "$name"
    for side in stock ours; do
      local config=$lab/stock/admin.kubeconfig token=$stock_token
      if [ $side = ours ]; then config=$lab/$name.kubeconfig; token=$(admin_token "$kubectl" --kubeconfig "$config"); fi
      local work=$lab/trees/$side-$group; mkdir -p "$work/scratch"
      cp -r "$copy/." "$work/src"
      grep -rl admin-token "$work/src/test/cmd" "$work/src/hack/testdata" | xargs sed -i "s/admin-token/$token/g"
      local verdict=PASS
      (cd "$work/src" && env -i PATH="$PATH" copy="$work/src" scratch="$work/scratch" group="$group" token="$token" \
        server="$(server_of "$config")" timeout 300 bash "$root/test/suites/kubectl.sh") >"$out/$side/kubectl/$group.log" 2>&1 </dev/null || verdict=FAIL
      printf '%s %s\n' $verdict "$group" >"$out/$side/kubectl/$group.txt"
      rm -rf "$work"
    done
    say "  $group: $(cat "$out"/{stock,ours}/kubectl/"$group.txt" | cut -d' ' -f1 | paste -sd/), $(since "$began") since the start"
  done
}

hack/build.sh atoll localcluster kubectl
rm -rf "$out"; mkdir -p "$out"/{stock,ours}/{controller-runtime,kubectl}
lab_prepare
start stock "$root/bin/localcluster" up --name stock --data-dir "$lab/stock" --nodes 3
lab_start
await stock 120 grep -q ' is ready ' "$lab/run/stock.log"
lab_register
code=0
for suite in "${suites[@]}"; do
  case $suite in
    controller-runtime) controller_runtime_suite ;;
    kubectl) kubectl_suite ;;
    *) fail "no suite is called $suite" ;;
  esac
done
for suite in "${suites[@]}"; do
  go run ./test/suites ${ONLY:+-part} "$suite" "$out/stock/$suite" "$out/ours/$suite" || code=1
done
exit $code
