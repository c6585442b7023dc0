package crds

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestADefinitionThatOthersHoldShowsThatItIsGoing(t *testing.T) {
	t.Parallel()
	const ours, others = apiextensionsv1.CustomResourceCleanupFinalizer, "example.org/hold"
	crd := func(since time.Duration, finalizers ...string) *apiextensionsv1.CustomResourceDefinition {
		out := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Finalizers: finalizers}}
		condition := terminating(apiextensionsv1.ConditionTrue, "InstanceDeletionInProgress", "")
		condition.LastTransitionTime = metav1.NewTime(time.Now().Add(-since))
		out.Status.Conditions = append(out.Status.Conditions, condition)
		return out
	}
	for name, c := range map[string]struct {
		crd   *apiextensionsv1.CustomResourceDefinition
		waits bool
	}{
		"nobody else holds it":           {crd(0, ours), false},
		"somebody else, a moment ago":    {crd(0, ours, others), true},
		"somebody else, since a minute":  {crd(time.Minute, ours, others), false},
		"somebody else, it never showed": {&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{ours, others}}}, false},
	} {
		if wait := showing(c.crd); (wait > 0) != c.waits {
			t.Errorf("%s: waits %s", name, wait)
		}
	}
}
