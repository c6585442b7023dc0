package boundary

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psa "k8s.io/pod-security-admission/api"
)

// Labels on physical namespaces, by which selectors of a logical cluster find its
// namespaces and no others. Tenants do not choose the labels of physical
// namespaces, which others believe: theirs are there under keys of ours.
const (
	// TenantLabel says of which logical cluster a physical namespace is.
	TenantLabel = "atoll.dev/tenant"
	// selectable is the domain of the labels that the Namespace of the logical
	// cluster has, by a hash of their keys.
	selectable = "labels.atoll.dev/"
	// nameKey is the label with its name that every Namespace has.
	nameKey = corev1.LabelMetadataName
)

// Tenant is the value of TenantLabel for a logical cluster of a control plane.
func Tenant(controlPlane, cluster string) string { return shortHash(controlPlane + "\x00" + cluster) }

// NamespaceLabels are the labels of ours on a physical namespace: those by which
// selectors of the tenant find it, made of those of the Namespace in the logical
// cluster, and the Pod Security level that holds in it.
func (p Passage) NamespaceLabels(name string, labels map[string]string) map[string]string {
	out := map[string]string{TenantLabel: p.Tenant, psa.EnforceLevelLabel: string(namespaceLevel(p.Permits, labels))}
	for key, value := range labels {
		out[selectableKey(key)] = value
	}
	out[selectableKey(nameKey)] = name
	return out
}

func selectableKey(key string) string { return selectable + shortHash(key) }

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:10])
}

// namespaceSelector confines a selector of namespaces to those of the logical
// cluster, whose labels have other keys on the physical cluster. The empty one
// means all namespaces: all of the logical cluster.
func namespaceSelector(f *filter, m member, value any, parent map[string]any, at *field.Path) (any, bool) {
	selector, ok := value.(map[string]any)
	if !ok {
		return value, true // no selector at all means the namespace of the object
	}
	if len(items(parent["namespaces"])) > 0 {
		f.find(at, Refused, "is combined with names of namespaces, which is not carried to physical clusters; use one of the two")
		return nil, false
	}
	return f.confined(selector), true
}

// termNamespaces becomes a selector: physical namespaces have other names.
func termNamespaces(f *filter, m member, value any, parent map[string]any, _ *field.Path) (any, bool) {
	if _, both := parent["namespaceSelector"].(map[string]any); !both {
		parent["namespaceSelector"] = f.confined(map[string]any{
			"matchExpressions": []any{map[string]any{"key": nameKey, "operator": string(metav1.LabelSelectorOpIn), "values": value}},
		})
	}
	return nil, false
}

// confined is a new selector with the keys that labels have below, of the tenant
// alone.
func (f *filter) confined(selector map[string]any) map[string]any {
	matchLabels := map[string]any{TenantLabel: f.Tenant}
	existing, _ := selector["matchLabels"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(existing)) {
		matchLabels[selectableKey(key)] = existing[key]
	}
	out := map[string]any{"matchLabels": matchLabels}
	var expressions []any
	for _, item := range items(selector["matchExpressions"]) {
		if e, ok := item.(map[string]any); ok {
			e = maps.Clone(e)
			e["key"] = selectableKey(str(e["key"]))
			expressions = append(expressions, e)
		}
	}
	if expressions != nil {
		out["matchExpressions"] = expressions
	}
	return out
}

func items(value any) []any {
	list, _ := value.([]any)
	return list
}
