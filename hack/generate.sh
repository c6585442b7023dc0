#!/usr/bin/env bash
# Generates deep copies, defaults, clients, apply configurations and OpenAPI
# definitions of our own API with the generators pinned in hack/tools.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
module=github.com/atoll-dev/atoll
apis=(tenancy fleet placement)
header=hack/boilerplate.go.txt
tool() { go tool -modfile=hack/tools/go.mod "$@"; }

packages=()
for api in "${apis[@]}"; do packages+=("$module/pkg/apis/$api/v1alpha1"); done
echo "generate: deep copies"
tool deepcopy-gen --go-header-file $header --output-file zz_generated.deepcopy.go "${packages[@]}"
echo "generate: OpenAPI"
# The generator has to read upstream's types to refer to them by the names of their
# definitions. Those themselves come with k8s.io/kubernetes: ours alone are kept.
upstream=()
for p in api/core/v1 api/rbac/v1 apimachinery/pkg/apis/meta/v1 apimachinery/pkg/runtime apimachinery/pkg/api/resource; do
  upstream+=(--readonly-pkg "k8s.io/$p" "k8s.io/$p")
done
tool openapi-gen --go-header-file $header --output-dir pkg/generated/openapi --output-pkg $module/pkg/generated/openapi \
  --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go --report-filename /dev/null \
  "${upstream[@]}" "${packages[@]}"
own="schema_pkg_apis_($(IFS='|'; echo "${apis[*]}"))_"
definitions=pkg/generated/openapi/zz_generated.openapi.go
awk -v own="$own" '
  /schema_[A-Za-z0-9_]+\(ref/ && $0 !~ own { skip = /^func /; next }
  skip { skip = !/^}/; next }
  { print }' $definitions >$definitions.own
while read -r alias path; do # imports that only what was left out needed
  grep -q "\b$alias\." $definitions.own || sed -i "\|^\t$alias $path\$|d" $definitions.own
done < <(sed -n '/^import (/,/^)/s/^\t\([a-z0-9]* ".*"\)$/\1/p' $definitions.own)
gofmt $definitions.own >$definitions && rm $definitions.own
echo "generate: apply configurations"
tool applyconfiguration-gen --go-header-file $header --output-dir pkg/generated/applyconfiguration \
  --output-pkg $module/pkg/generated/applyconfiguration "${packages[@]}"
echo "generate: clients"
inputs=()
for api in "${apis[@]}"; do inputs+=(--input "$api/v1alpha1"); done
tool client-gen --go-header-file $header --clientset-name versioned --input-base $module/pkg/apis "${inputs[@]}" \
  --output-dir pkg/generated/clientset --output-pkg $module/pkg/generated/clientset \
  --apply-configuration-package $module/pkg/generated/applyconfiguration
