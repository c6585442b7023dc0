// Package samples has the manifests of this directory that programs apply, too.
package samples

import _ "embed"

// TenancyTrusted is a patch of a PhysicalCluster that permits what its own users may do.
//
//go:embed tenancy-trusted.yaml
var TenancyTrusted []byte
