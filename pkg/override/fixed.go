package override

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// ofPods are the fields of a pod template that are settled in the logical cluster, before
// anything goes down: who its pods are, and in which runtime
// class they run.
var ofPods = []string{"serviceAccountName", "serviceAccount", "automountServiceAccountToken", "runtimeClassName"}

// fixed says what an override changed that it may not: what the status counts, what says
// where objects go that go with this one, who its pods are. And it names nothing new that
// would have to go down with it: only what the object itself names does.
func fixed(kind workload.Kind, before, after map[string]any) error {
	for _, path := range [][]string{kind.Replicas, kind.Parallelism} {
		if len(path) > 0 && !same(find(before, path), find(after, path)) {
			return fmt.Errorf("/%s: %s", strings.Join(path, "/"), countsAlone)
		}
	}
	for _, path := range [][]string{kind.Selects, kind.Scales} {
		if len(path) > 0 && !same(find(before, path), find(after, path)) {
			return fmt.Errorf("/%s: it says with what the object goes; change it in the object", strings.Join(path, "/"))
		}
	}
	was, is := workload.PodTemplates(kind, before), workload.PodTemplates(kind, after)
	if len(was) != len(is) {
		return errors.New("pod templates are neither added nor taken off; change the object")
	}
	for i := range was {
		x, _ := was[i]["spec"].(map[string]any)
		y, _ := is[i]["spec"].(map[string]any)
		for _, name := range ofPods {
			if !same(x[name], y[name]) {
				return fmt.Errorf("%s: it says who the pods are; change it in the object", name)
			}
		}
	}
	named := sets.New(names(kind, before)...) // as many as fit into an object
	for _, r := range names(kind, after) {
		if !named.Has(r) {
			return fmt.Errorf("it names %s %s, which goes where the object goes only if that names it; let the object do so, or use one that it names", r.Resource.Resource, r.Name)
		}
	}
	return nil
}

// names are what has to be where an object is.
func names(kind workload.Kind, obj map[string]any) []workload.Reference {
	out := append(workload.References(kind, obj), workload.Led(kind, obj)...)
	for _, t := range workload.PodTemplates(kind, obj) {
		volumes, _ := find(t, []string{"spec", "volumes"}).([]any)
		for _, v := range volumes {
			m, _ := v.(map[string]any)
			if claim, _ := find(m, []string{"persistentVolumeClaim", "claimName"}).(string); claim != "" {
				out = append(out, workload.Reference{Resource: corev1.Resource("persistentvolumeclaims"), Name: claim})
			}
		}
	}
	return out
}

func find(obj map[string]any, path []string) any {
	var value any = obj
	for _, name := range path {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	return value
}
