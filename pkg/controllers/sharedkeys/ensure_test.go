package sharedkeys

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func recordedAs(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.LeaseNamespace, Name: Name}, Data: data}
}

func TestEachCellOfTheTableOfKeys(t *testing.T) {
	for name, test := range map[string]struct {
		recorded, own map[string]string
		replace       bool
		after         map[string]string
		refusal       string
	}{
		"nothing recorded":         {nil, map[string]string{"ca.crt": "a"}, false, map[string]string{"ca.crt": "a"}, ""},
		"nothing in the ConfigMap": {map[string]string{}, map[string]string{"ca.crt": "a"}, false, map[string]string{"ca.crt": "a"}, ""},
		"equal":                    {map[string]string{"ca.crt": "a"}, map[string]string{"ca.crt": "a"}, false, map[string]string{"ca.crt": "a"}, ""},
		"this release shares more": {map[string]string{"ca.crt": "a"}, map[string]string{"ca.crt": "a", "sa.key": "s"}, false, map[string]string{"ca.crt": "a", "sa.key": "s"}, ""},
		"a later one shared more":  {map[string]string{"ca.crt": "a", "sa.key": "s"}, map[string]string{"ca.crt": "a"}, false, map[string]string{"ca.crt": "a", "sa.key": "s"}, ""},
		"others": {map[string]string{"ca.crt": "a", "sa.key": "s"}, map[string]string{"ca.crt": "b", "sa.key": "t"}, false,
			map[string]string{"ca.crt": "a", "sa.key": "s"}, "(ca.crt, sa.key differ)"},
		"one of them": {map[string]string{"ca.crt": "a", "sa.key": "s"}, map[string]string{"ca.crt": "a", "sa.key": "t"}, false,
			map[string]string{"ca.crt": "a", "sa.key": "s"}, "(sa.key differ)"},
		"replaced": {map[string]string{"ca.crt": "a", "sa.key": "s"}, map[string]string{"ca.crt": "b"}, true, map[string]string{"ca.crt": "b", "sa.key": "s"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			if test.recorded != nil {
				kube = fake.NewClientset(recordedAs(test.recorded))
			}
			err := Ensure(t.Context(), Config{Kube: kube, Directory: "/data/pki", Digests: test.own, Replace: test.replace})
			if refused := err != nil; refused != (test.refusal != "") {
				t.Errorf("got %v", err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.refusal) || !strings.HasPrefix(err.Error(), "/data/pki: ") || !strings.Contains(err.Error(), "--replace-keys")) {
				t.Errorf("the refusal does not say which files, where they are and what to do: %v", err)
			}
			got, err := kube.CoreV1().ConfigMaps(fleetv1alpha1.LeaseNamespace).Get(t.Context(), Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.after, got.Data); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfTwoServersThatBeginAtOnceOneEnds(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		// The other one was a moment faster.
		return true, nil, errOnce(kube.Tracker().Add(recordedAs(map[string]string{"ca.crt": "other"})))
	})
	err := Ensure(t.Context(), Config{Kube: kube, Directory: "/data/pki", Digests: map[string]string{"ca.crt": "own"}})
	if err == nil || !strings.Contains(err.Error(), "(ca.crt differ)") {
		t.Errorf("got %v, want the refusal", err)
	}
}

// errOnce is how an API server refuses a creation that came second.
func errOnce(err error) error {
	if err != nil {
		return err
	}
	return apierrors.NewAlreadyExists(corev1.Resource("configmaps"), Name)
}

func TestWhoReplacesKeysDoesNotOverwriteWhatAnotherServerRecordedMeanwhile(t *testing.T) {
	kube := fake.NewClientset(recordedAs(map[string]string{"ca.crt": "a"}))
	kube.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(corev1.Resource("configmaps"), Name, nil)
	})
	err := Ensure(t.Context(), Config{Kube: kube, Digests: map[string]string{"ca.crt": "b"}, Replace: true})
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v, want the conflict", err)
	}
}
