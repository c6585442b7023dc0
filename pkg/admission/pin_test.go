package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAPinThatDoesNothingIsAWarning(t *testing.T) {
	const counts = "it counts on a Namespace, and on a PlacementPolicy with spec.objects"
	named := func(pin string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: "x", Namespace: "web"}
		if pin != "" {
			m.Annotations = map[string]string{placementv1alpha1.PhysicalClusterAnnotation: pin}
		}
		return m
	}
	deployment := func(pin string) runtime.Object { return &apps.Deployment{ObjectMeta: named(pin)} }
	for _, c := range []struct {
		name, resource, kind string
		obj, old             runtime.Object
		by                   user.Info
		want                 []string
	}{
		{"what makes pods", "deployments.apps", "Deployment", deployment("west"), nil, alice, []string{
			"annotation placement.atoll.dev/cluster does nothing on a Deployment: " + counts +
				`. "kubectl atoll move web --to west" moves all of the namespace; to move it alone, have such a policy select it`}},
		{"what follows", "services", "Service", &core.Service{ObjectMeta: named("west")}, nil, alice, []string{
			"annotation placement.atoll.dev/cluster does nothing on a Service: " + counts +
				`. "kubectl atoll move web --to west" moves all of the namespace; it goes where what it is about goes`}},
		{"what is not placed", "configmaps", "ConfigMap", &core.ConfigMap{ObjectMeta: named("west")}, nil, alice, []string{
			"annotation placement.atoll.dev/cluster does nothing on a ConfigMap: " + counts}},
		{"another pin", "deployments.apps", "Deployment", deployment("west"), deployment("east"), alice, []string{
			"annotation placement.atoll.dev/cluster does nothing on a Deployment: " + counts +
				`. "kubectl atoll move web --to west" moves all of the namespace; to move it alone, have such a policy select it`}},
		{"the same pin", "deployments.apps", "Deployment", deployment("west"), deployment("west"), alice, nil},
		{"none any more", "deployments.apps", "Deployment", deployment(""), deployment("west"), alice, nil},
		{"none", "deployments.apps", "Deployment", deployment(""), nil, alice, nil},
		{"the server", "deployments.apps", "Deployment", deployment("west"), deployment(""), loopback, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := placedWorld().start(t)
			op := admission.Create
			if c.old != nil {
				op = admission.Update
			}
			var warned said
			if err := f.write(warning.WithWarningRecorder(shop(), &warned), attributes(op, c.resource, c.kind, c.obj, c.old, "", c.by)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, []string(warned)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
