package crds

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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

func TestNothingIsDeletedForTheSuccessorOfADefinition(t *testing.T) {
	t.Parallel()
	crd := func(uid types.UID, deleting bool) *apiextensionsv1.CustomResourceDefinition {
		d := defined("widgets", "Widget")
		d.UID, d.Finalizers = uid, []string{apiextensionsv1.CustomResourceCleanupFinalizer}
		if deleting {
			d.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
		return d
	}
	for name, c := range map[string]struct {
		live []runtime.Object
		want bool
	}{
		"it is being deleted":    {[]runtime.Object{crd("first", true)}, true},
		"made again":             {[]runtime.Object{crd("second", false)}, false},
		"made again and deleted": {[]runtime.Object{crd("second", true)}, false},
		"gone":                   {nil, false},
	} {
		f := &Finalizer{client: fake.NewSimpleClientset(c.live...)}
		if going, err := f.going(t.Context(), crd("first", true)); err != nil || going != c.want {
			t.Errorf("%s: going %v, %v", name, going, err)
		}
	}
}
