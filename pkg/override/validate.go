package override

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Bounds of what policies may say.
const (
	// MaxOfPolicy is how many overrides one policy has, MaxBytesOfPolicy how many bytes of
	// JSON their patches have together.
	MaxOfPolicy      = 8
	MaxBytesOfPolicy = 8 << 10
	// MaxOfUnit and MaxBytesOfUnit are the same of all policies that select a unit.
	MaxOfUnit      = 32
	MaxBytesOfUnit = 16 << 10
	// MaxBytesOfObject is how many bytes the overrides of one object have, over all of its
	// targets: they are in an annotation, and all of those have 256 KiB.
	MaxBytesOfObject = 32 << 10

	maxOperations = 16
	maxPath       = 512
	maxDepth      = 16
)

var operations = []placementv1alpha1.PatchOp{placementv1alpha1.PatchAdd, placementv1alpha1.PatchRemove, placementv1alpha1.PatchReplace, placementv1alpha1.PatchTest}

// Validate checks a patch; path is that of it.
func Validate(patch []placementv1alpha1.PatchOperation, path *field.Path) field.ErrorList {
	if len(patch) == 0 {
		return field.ErrorList{field.Required(path, "what changes, such as {op: replace, path: /spec/template/spec/containers/0/image, value: ...}")}
	}
	if len(patch) > maxOperations {
		return field.ErrorList{field.TooMany(path, len(patch), maxOperations)}
	}
	var errs field.ErrorList
	for i, o := range patch {
		errs = append(errs, validateOperation(o, path.Index(i))...)
	}
	return errs
}

func validateOperation(o placementv1alpha1.PatchOperation, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !slices.Contains(operations, o.Op) {
		errs = append(errs, field.NotSupported(path.Child("op"), o.Op, operations))
	}
	if problem := forbidden(o.Path); problem != "" {
		errs = append(errs, field.Forbidden(path.Child("path"), problem))
	}
	if o.Op == placementv1alpha1.PatchRemove {
		return errs
	}
	value, err := valueOf(o)
	switch {
	case err != nil:
		errs = append(errs, field.Invalid(path.Child("value"), "", err.Error()))
	case value == nil:
		errs = append(errs, field.Required(path.Child("value"), "a value but null; to take a field off use remove"))
	default:
		if key := systemKey(value, 0); key != "" {
			errs = append(errs, field.Forbidden(path.Child("value"), key))
		}
	}
	return errs
}

// forbidden says why nothing at a path can be changed; empty if it can be.
func forbidden(path string) string {
	if len(path) > maxPath {
		return fmt.Sprintf("it is longer than %d bytes", maxPath)
	}
	tokens, err := parse(path)
	if err != nil {
		return err.Error()
	}
	for _, token := range tokens {
		if placementv1alpha1.IsSystemKey(token) {
			return token + " is written by the system only"
		}
	}
	switch tokens[0] {
	case "apiVersion", "kind":
		return "what an object is cannot be overridden"
	case "status":
		return "the status is what physical clusters report"
	case "metadata":
		if len(tokens) != 3 || tokens[1] != "labels" && tokens[1] != "annotations" {
			return "of the metadata single labels and annotations can be overridden: /metadata/labels/KEY, with ~1 for a slash"
		}
		if tokens[2] == placementv1alpha1.PhysicalClusterAnnotation || tokens[2] == "kubernetes.io/metadata.name" {
			return tokens[2] + " cannot be overridden"
		}
	case "spec":
		if len(tokens) == 1 {
			return "name the field of the spec that changes"
		}
		if len(tokens) == 2 && (tokens[1] == "replicas" || tokens[1] == "parallelism") {
			return countsAlone
		}
	}
	return ""
}

const countsAlone = "how many there are is for the status of the object to count; use replicas of the policy to divide them"

// systemKey looks for a key of the system in a value, and for one that is too deep.
func systemKey(value any, depth int) string {
	if depth > maxDepth {
		return fmt.Sprintf("it is more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if placementv1alpha1.IsSystemKey(key) {
				return key + " is written by the system only"
			}
			if found := systemKey(v[key], depth+1); found != "" {
				return found
			}
		}
	case []any:
		for _, e := range v {
			if found := systemKey(e, depth+1); found != "" {
				return found
			}
		}
	}
	return ""
}

// parse are the tokens of a JSON pointer to something within an object.
func parse(path string) ([]string, error) {
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || rest == "" {
		return nil, errors.New("it must be a JSON pointer to something within the object, such as /spec/template/spec/nodeSelector")
	}
	tokens := strings.Split(rest, "/")
	for i, token := range tokens {
		plain := strings.NewReplacer("~1", "", "~0", "").Replace(token)
		if token == "" || strings.Contains(plain, "~") {
			return nil, fmt.Errorf("%q is no part of a JSON pointer; write ~1 for a slash and ~0 for a tilde in a name", token)
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return tokens, nil
}

// Bytes are those of a patch, and of what is permitted in its place, as they are kept.
func Bytes(patch []placementv1alpha1.PatchOperation, permits *fleetv1alpha1.Tenancy) int {
	kept := placementv1alpha1.TargetOverride{Patch: patch, Permits: permits}
	b, err := json.Marshal(kept)
	if err != nil { // a value that is no JSON; Validate says so
		return MaxBytesOfObject + 1
	}
	return len(b)
}
