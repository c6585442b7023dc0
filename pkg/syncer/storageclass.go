package syncer

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// storageClassAnnotation is on a claim, and on the template of one, for which the physical cluster has
// another name of its storage class: the name in the logical cluster.
const storageClassAnnotation = "atoll.dev/storage-class"

// noteStorageClasses puts the annotation on the claims of an object that goes down.
func noteStorageClasses(kind workload.Kind, above, below map[string]any) {
	named := workload.VolumeClaims(kind, above)
	for i, claim := range workload.VolumeClaims(kind, below) {
		if i < len(named) && workload.ClassOfClaim(claim) != workload.ClassOfClaim(named[i]) {
			setNested(claim, workload.ClassOfClaim(named[i]), "metadata", "annotations", storageClassAnnotation)
		}
	}
}

// storageClassAbove is the class that a claim on a physical cluster names in the logical one.
func storageClassAbove(claim map[string]any) string {
	if name := text(field(field(claim, "metadata"), "annotations"), storageClassAnnotation); name != "" {
		return name
	}
	return workload.ClassOfClaim(claim)
}

// keepStorageClasses are permits by which the claims of a copy that is there have the classes that they
// were made with: these cannot be changed, whatever an admin maps since. So have the claims of pods that
// are made anew if anything of them changes.
func keepStorageClasses(permits boundary.Permits, kind workload.Kind, logical, physical *unstructured.Unstructured) boundary.Permits {
	kept := map[string]string{}
	keep := func(above, there string) {
		if there != "" && permits.StorageClass(above) != there {
			kept[above] = there
		}
	}
	for _, claim := range workload.VolumeClaims(kind, physical.Object) {
		keep(storageClassAbove(claim), workload.ClassOfClaim(claim))
	}
	if kind.Recreate {
		there := claimsOfPods(kind, physical)
		for name, claim := range claimsOfPods(kind, logical) {
			if class := workload.ClassOfClaim(claim); class != "" {
				keep(class, workload.ClassOfClaim(there[name]))
			}
		}
	}
	if len(kept) == 0 {
		return permits
	}
	names := maps.Clone(permits.StorageClassNames)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, kept)
	permits.StorageClassNames = names
	return permits
}

// claimsOfPods are those of ephemeral volumes, by the names of these.
func claimsOfPods(kind workload.Kind, obj *unstructured.Unstructured) map[string]map[string]any {
	claims := map[string]map[string]any{}
	for _, t := range workload.PodTemplates(kind, obj.Object) {
		for _, v := range list(field(t, "spec"), "volumes") {
			if claim := field(field(v, "ephemeral"), "volumeClaimTemplate"); claim != nil {
				claims[text(v, "name")] = claim
			}
		}
	}
	return claims
}
