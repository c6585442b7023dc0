package admission

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestTheAnswerToAUserKnowsWhatWasWrittenBefore(t *testing.T) {
	for name, c := range map[string]struct {
		by   user.Info
		want string
	}{"a user": {alice, ""}, "the server, which comes again": {loopback, "0"}} {
		t.Run(name, func(t *testing.T) {
			lists := map[schema.GroupVersionResource]string{}
			for _, kind := range workload.Builtin().All() {
				lists[kind.GroupVersionResource()] = kind.Kind + "List"
			}
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
			w := placedWorld()
			w.dynamic = client
			selects := placementv1alpha1.PlacementPolicy{ObjectMeta: in("shop", "front")}
			selects.Namespace, selects.Spec.Objects = "web", &placementv1alpha1.ObjectSelection{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}
			w.policies = []placementv1alpha1.PlacementPolicy{selects}
			f := w.start(t)
			service := &core.Service{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "web"}}
			if err := f.Admit(shop(), attributes(admission.Create, "services", "Service", service, nil, "", c.by), nil); err != nil {
				t.Fatal(err)
			}
			read := 0
			for _, a := range client.Actions() {
				list, ok := a.(clienttesting.ListActionImpl)
				if !ok {
					continue
				}
				read++
				if got := list.ListOptions.ResourceVersion; got != c.want {
					t.Errorf("%s are read as of resource version %q, want %q", a.GetResource().Resource, got, c.want)
				}
			}
			if read == 0 {
				t.Error("nothing is read")
			}
		})
	}
}
