package boundary

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// standards are the checks of the Pod Security Standards, save that of ports of
// nodes: the table asks each of them, and names it.
var standards = func() policy.Evaluator {
	var checks []policy.Check
	for _, c := range policy.DefaultChecks() {
		if c.ID != "hostPorts" {
			checks = append(checks, c)
		}
	}
	e, err := policy.NewEvaluator(checks, nil)
	if err != nil {
		panic(err) // the checks are part of the program
	}
	return e
}()

// podSecurity asks the level of the physical cluster about the pods of an object.
// That of its namespace, which may be stricter, is asked where pods are made.
func (f *filter) podSecurity(kind workload.Kind, obj map[string]any) {
	level := f.Permits.Level()
	if level == fleetv1alpha1.PodSecurityPrivileged || kind.PodTemplate == nil {
		return
	}
	for _, t := range workload.PodTemplates(kind, obj) {
		spec, ok := t["spec"].(map[string]any)
		if !ok {
			continue
		}
		at := field.NewPath("spec")
		if len(kind.PodTemplate) > 0 {
			at = path(kind.PodTemplate).Child("spec")
		}
		var pod corev1.PodSpec
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod); err != nil {
			f.find(at, Judged, "is no specification of pods")
			continue
		}
		metadata, _ := t["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		notes := &metav1.ObjectMeta{Annotations: map[string]string{}}
		for key, value := range annotations {
			notes.Annotations[key] = str(value)
		}
		asked := psa.LevelVersion{Level: psa.Level(level), Version: psa.LatestVersion()}
		if r := policy.AggregateCheckResults(standards.EvaluatePod(asked, notes, &pod)); !r.Allowed {
			f.find(at, Judged, "violates PodSecurity "+asked.String()+" of the physical cluster: "+r.ForbiddenDetail())
		}
	}
}

// namespaceLevel is the Pod Security level of a physical namespace: a tenant may
// only make it stricter.
func namespaceLevel(permits Permits, labels map[string]string) fleetv1alpha1.PodSecurityLevel {
	return permits.Level().Stricter(fleetv1alpha1.PodSecurityLevel(labels[psa.EnforceLevelLabel]))
}
