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
upstream=() # their types are referred to by the names that upstream's own definitions have
for p in api/core/v1 api/rbac/v1 apimachinery/pkg/apis/meta/v1 apimachinery/pkg/runtime apimachinery/pkg/api/resource; do
  upstream+=(--readonly-pkg "k8s.io/$p" "k8s.io/$p")
done
tool openapi-gen --go-header-file $header --output-dir pkg/generated/openapi --output-pkg $module/pkg/generated/openapi \
  --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go --report-filename /dev/null \
  "${upstream[@]}" "${packages[@]}"
echo "generate: apply configurations"
tool applyconfiguration-gen --go-header-file $header --output-dir pkg/generated/applyconfiguration \
  --output-pkg $module/pkg/generated/applyconfiguration "${packages[@]}"
echo "generate: clients"
inputs=()
for api in "${apis[@]}"; do inputs+=(--input "$api/v1alpha1"); done
tool client-gen --go-header-file $header --clientset-name versioned --input-base $module/pkg/apis "${inputs[@]}" \
  --output-dir pkg/generated/clientset --output-pkg $module/pkg/generated/clientset \
  --apply-configuration-package $module/pkg/generated/applyconfiguration
