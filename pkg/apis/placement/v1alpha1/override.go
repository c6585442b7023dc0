package v1alpha1

import (
	"bytes"
	"encoding/json"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Override changes what goes down of some objects to some physical clusters, or what these
// permit of it. In the logical cluster the objects stay as they are.
type Override struct {
	// term selects physical clusters by their labels; absent: all.
	// +optional
	Term *PhysicalClusterTerm `json:"term,omitempty"`
	// objects are those that it is for, of the unit; absent: all that it has. ConfigMaps,
	// Secrets and what else goes where others refer to it belong to no unit.
	// +optional
	Objects *ObjectSelection `json:"objects,omitempty"`
	// patch is what changes (RFC 6902): all of it, or nothing goes down.
	// +optional
	// +listType=atomic
	Patch []PatchOperation `json:"patch,omitempty"`
	// permits is what is permitted there besides spec.tenancy of the physical clusters, in the
	// place of a patch. Only in policies of "root" that have a logicalClusterSelector.
	// +optional
	Permits *fleetv1alpha1.Tenancy `json:"permits,omitempty"`
}

// PatchOperation is one operation of a JSON patch.
type PatchOperation struct {
	// op is add, remove, replace or test.
	Op PatchOp `json:"op"`
	// path is a JSON pointer (RFC 6901) into the object: /spec/template/spec/nodeSelector.
	Path string `json:"path"`
	// value is that of add, replace and test.
	// +optional
	Value *PatchValue `json:"value,omitempty"`
}

// PatchOp is what an operation does.
type PatchOp string

const (
	PatchAdd     PatchOp = "add"
	PatchRemove  PatchOp = "remove"
	PatchReplace PatchOp = "replace"
	PatchTest    PatchOp = "test"
)

// PatchValue is any JSON value but null.
type PatchValue struct {
	Raw []byte `json:"-"`
}

// OpenAPISchemaType is none: any.
func (PatchValue) OpenAPISchemaType() []string { return nil }

// OpenAPISchemaFormat is none.
func (PatchValue) OpenAPISchemaFormat() string { return "" }

// MarshalJSON is the value.
func (v PatchValue) MarshalJSON() ([]byte, error) {
	if len(v.Raw) == 0 {
		return []byte("null"), nil
	}
	return v.Raw, nil
}

// UnmarshalJSON keeps the value without the space between its parts.
func (v *PatchValue) UnmarshalJSON(b []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return err
	}
	v.Raw = compact.Bytes()
	return nil
}

// DecidedOverride is an override of a policy on the physical clusters of a decision.
type DecidedOverride struct {
	// name says which it is, for people: overrides[0] of policy web of the namespace.
	Name string `json:"name"`
	// physicalClusters are those of the decision that it is for.
	// +listType=set
	PhysicalClusters []string `json:"physicalClusters"`
	// +optional
	Objects *ObjectSelection `json:"objects,omitempty"`
	// +optional
	// +listType=atomic
	Patch []PatchOperation `json:"patch,omitempty"`
	// permits is what it permits, in the place of a patch.
	// +optional
	Permits *fleetv1alpha1.Tenancy `json:"permits,omitempty"`
	// problem says why it cannot be honoured: what it is for does not go down while there is
	// one.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// TargetOverride is an override of an object on one target.
type TargetOverride struct {
	Name    string                 `json:"name"`
	Patch   []PatchOperation       `json:"patch,omitempty"`
	Permits *fleetv1alpha1.Tenancy `json:"permits,omitempty"`
	Problem string                 `json:"problem,omitempty"`
}
