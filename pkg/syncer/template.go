package syncer

import (
	"maps"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Annotations on pod templates below that keep what the way down replaced, so
// that the way up gives it back: `kubectl rollout undo` takes templates from the
// ReplicaSets and ControllerRevisions that were mirrored.
const (
	serviceAccountAnnotation = "atoll.dev/service-account"
	automountAnnotation      = "atoll.dev/automount-service-account-token"
	runtimeClassAnnotation   = "atoll.dev/runtime-class"
)

// templateDown changes one pod template, of whatever kind, for below.
//
// Service accounts are of the logical cluster. Below, every pod runs as the
// `default` one of its namespace, and without its token: that would be one of
// the physical cluster, for an API that the pod does not know of. What a pod asks about
// itself is answered as in the logical cluster, see downward, and what it is given to work
// with that, see environmentDown.
func templateDown(template map[string]any, p Placing) {
	kind := p.Ref.Kind
	setNested(template, p.ControlPlane, "metadata", "labels", placementv1alpha1.ManagedByLabel)
	metadata := field(template, "metadata")
	delete(metadata, "creationTimestamp")
	for _, keys := range []map[string]any{field(metadata, "labels"), field(metadata, "annotations")} {
		maps.DeleteFunc(keys, func(k string, _ any) bool {
			// On a Pod, which is its own template, the mark is already set.
			return !kind.IsPod() && placementv1alpha1.IsSystemKey(k) && k != placementv1alpha1.ManagedByLabel && k != replacedAnnotation && k != overriddenAnnotation
		})
	}
	spec := field(template, "spec")
	if spec == nil {
		return
	}
	if name, _ := spec["serviceAccountName"].(string); name != "" && (name != "default" || !kind.IsPod()) {
		setNested(template, name, "metadata", "annotations", serviceAccountAnnotation)
	}
	if automount, ok := spec["automountServiceAccountToken"].(bool); ok {
		setNested(template, boolean(automount), "metadata", "annotations", automountAnnotation)
	}
	mounts := p.Account != nil && workload.Mounts(spec, p.Account.Automount) // by the volume of a token, too
	dropTokenVolumes(spec)
	environmentDown(template, kind, p.Account, mounts, p.Server)
	namesDown(template, p.Ref.Namespace, p.Nameserver.Address)
	if !p.PlainFields {
		downwardDown(template, kind, p.Ref.Namespace)
	}
	delete(spec, "serviceAccountName")
	delete(spec, "serviceAccount")
	spec["automountServiceAccountToken"] = false
	runtimeClassDown(template, p.RuntimeClass)
}

// runtimeClassDown names the RuntimeClass of the physical cluster that has the
// handler. What it costs there is for that class to say.
func runtimeClassDown(template map[string]any, runtimeClass string) {
	spec := field(template, "spec")
	if name, _ := spec["runtimeClassName"].(string); name != "" && runtimeClass != "" {
		setNested(template, name, "metadata", "annotations", runtimeClassAnnotation)
		spec["runtimeClassName"] = runtimeClass
		delete(spec, "overhead")
	}
}

// templateUp undoes templateDown.
func templateUp(template map[string]any) {
	written := writtenOf(template)
	defer func() { written.giveBack(template) }() // last: as it was before all else on the way down
	giveBack(template)
	labels, annotations := field(field(template, "metadata"), "labels"), field(field(template, "metadata"), "annotations")
	delete(labels, placementv1alpha1.ManagedByLabel)
	serviceAccount, _ := annotations[serviceAccountAnnotation].(string)
	automount, hasAutomount := annotations[automountAnnotation].(string)
	runtimeClass, _ := annotations[runtimeClassAnnotation].(string)
	_, pullSecrets := annotations[pullSecretsAnnotation]
	spec := field(template, "spec")
	dropTokenVolumes(spec)
	environmentUp(spec, annotations)
	maps.DeleteFunc(annotations, func(k string, _ any) bool { return placementv1alpha1.IsSystemKey(k) })
	if metadata := field(template, "metadata"); metadata != nil {
		if annotations != nil && len(annotations) == 0 {
			delete(metadata, "annotations")
		}
		if labels != nil && len(labels) == 0 {
			delete(metadata, "labels")
		}
	}
	if spec == nil {
		return
	}
	downwardUp(spec)
	if pullSecrets {
		delete(spec, "imagePullSecrets")
	}
	delete(spec, "serviceAccountName")
	delete(spec, "serviceAccount")
	delete(spec, "automountServiceAccountToken")
	if serviceAccount != "" {
		spec["serviceAccountName"], spec["serviceAccount"] = serviceAccount, serviceAccount
	}
	if runtimeClass != "" {
		spec["runtimeClassName"] = runtimeClass
	}
	if hasAutomount {
		spec["automountServiceAccountToken"] = automount == "true"
	}
}

func boolean(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

// dropTokenVolumes removes the volumes that admission added for a token, and
// where they are mounted. Those that a user projects by hand stay.
func dropTokenVolumes(spec map[string]any) {
	dropped := map[any]bool{}
	for _, v := range list(spec, "volumes") {
		if workload.IsTokenVolume(v) {
			dropped[v["name"]] = true
		}
	}
	isToken := func(item any) bool {
		m, _ := item.(map[string]any)
		return dropped[m["name"]]
	}
	if !filter(spec, "volumes", isToken) {
		return
	}
	for _, c := range containersOf(spec) {
		filter(c, "volumeMounts", isToken)
	}
}

// filter removes items from the list in a field, and the field with the last.
func filter(m map[string]any, name string, drop func(any) bool) (dropped bool) {
	items, _ := m[name].([]any)
	kept := make([]any, 0, len(items))
	for _, item := range items {
		if drop(item) {
			dropped = true
			continue
		}
		kept = append(kept, item)
	}
	if !dropped {
		return false
	}
	if len(kept) == 0 {
		delete(m, name)
	} else {
		m[name] = kept
	}
	return true
}
