package logicalclusters

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

func TestDeletableIsWhatCanBeListedAndDeleted(t *testing.T) {
	t.Parallel()
	all := metav1.Verbs{"list", "delete", "deletecollection"}
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "namespaces", Verbs: metav1.Verbs{"list", "delete"}},
			{Name: "nodes", Verbs: all},
			{Name: "nodes/status", Verbs: all},
			{Name: "secrets", Namespaced: true, Verbs: all},
			{Name: "componentstatuses", Verbs: metav1.Verbs{"list"}},
		}},
		{GroupVersion: "placement.atoll.dev/v1alpha1", APIResources: []metav1.APIResource{
			{Name: "copies", Namespaced: true, Verbs: all},
			{Name: "clusterplacementpolicies", Verbs: metav1.Verbs{"list", "delete"}},
		}},
	}
	placement := schema.GroupVersion{Group: "placement.atoll.dev", Version: "v1alpha1"}
	core := schema.GroupVersion{Version: "v1"}
	want := []resource{
		{GroupVersionResource: core.WithResource("nodes"), collection: true},
		{GroupVersionResource: core.WithResource("secrets")},
		{GroupVersionResource: placement.WithResource("copies"), record: true},
		{GroupVersionResource: placement.WithResource("clusterplacementpolicies")},
	}
	if diff := cmp.Diff(want, deletable(lists), cmp.AllowUnexported(resource{})); diff != "" {
		t.Error(diff)
	}
}

func TestRemainsNameTheMostFrequentFirstAndWhatHoldsThem(t *testing.T) {
	t.Parallel()
	left := newRemains()
	if left.String() != "" || !left.empty() {
		t.Errorf("nothing left is %q", left)
	}
	held := &metav1.ObjectMeta{Finalizers: []string{"example.org/hold"}}
	left.add(schema.GroupResource{Resource: "pods"}, held)
	for range 2 {
		left.add(schema.GroupResource{Group: "apps", Resource: "deployments"}, &metav1.ObjectMeta{})
	}
	want := "Left: deployments.apps (2), pods (1). Held by finalizers: example.org/hold (1)."
	if diff := cmp.Diff(want, left.String()); diff != "" {
		t.Error(diff)
	}
	for i := range 20 {
		left.add(schema.GroupResource{Resource: fmt.Sprintf("kind%02d", i)}, &metav1.ObjectMeta{})
	}
	want = "Left: deployments.apps (2), kind00 (1), kind01 (1), kind02 (1), kind03 (1), kind04 (1), kind05 (1), kind06 (1), kind07 (1), kind08 (1) and 12 more. Held by finalizers: example.org/hold (1)."
	if diff := cmp.Diff(want, left.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTheStatusFollowsTheLife(t *testing.T) {
	t.Parallel()
	lc := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 3}}
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 3}
	}
	check := func(want tenancyv1alpha1.LogicalClusterStatus) {
		t.Helper()
		if diff := cmp.Diff(want, lc.Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
			t.Error(diff)
		}
	}
	lc.Status = broken(errors.New("etcd is away"))(lc)
	check(tenancyv1alpha1.LogicalClusterStatus{
		Phase:      tenancyv1alpha1.LogicalClusterInitializing,
		Conditions: []metav1.Condition{condition("Ready", "False", "BootstrapFailed", "etcd is away")},
	})
	lc.Status = ready("https://host/clusters/shop")(lc)
	check(tenancyv1alpha1.LogicalClusterStatus{
		Phase: tenancyv1alpha1.LogicalClusterReady, URL: "https://host/clusters/shop",
		Conditions: []metav1.Condition{condition("Ready", "True", "Serving", "")},
	})
	since := lc.Status.Conditions[0].LastTransitionTime.Add(-time.Hour)
	lc.Status.Conditions[0].LastTransitionTime = metav1.NewTime(since)
	if again := ready("https://host/clusters/shop")(lc); !cmp.Equal(again, lc.Status) {
		t.Error("an unchanged status is written again: " + cmp.Diff(lc.Status, again))
	}
	lc.Status = terminating("Left: pods (1).")(lc)
	check(tenancyv1alpha1.LogicalClusterStatus{
		Phase: tenancyv1alpha1.LogicalClusterTerminating, URL: "https://host/clusters/shop",
		Conditions: []metav1.Condition{
			condition("Ready", "False", "Terminating", "The logical cluster is being deleted."),
			condition("ContentRemoved", "False", "ContentRemains", "Left: pods (1)."),
		},
	})
	lc.Status = terminating("")(lc)
	if c := lc.Status.Conditions[1]; c.Status != metav1.ConditionTrue || c.Reason != ReasonRemoved {
		t.Errorf("%+v", c)
	}
}

func TestTheBindingIsComparedWithTheDefaultsOfTheServer(t *testing.T) {
	t.Parallel()
	owners := []rbacv1.Subject{{Kind: "User", Name: "alice"}, {Kind: "ServiceAccount", Namespace: "ci", Name: "deployer"}}
	binding := &rbacv1.ClusterRoleBinding{RoleRef: ownersRole, Subjects: []rbacv1.Subject{
		{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"}, {Kind: "ServiceAccount", Namespace: "ci", Name: "deployer"},
	}}
	other := binding.DeepCopy()
	other.RoleRef.Name = "view"
	for name, tc := range map[string]struct {
		binding *rbacv1.ClusterRoleBinding
		owners  []rbacv1.Subject
		want    bool
	}{
		"no owners, no binding":   {want: true},
		"no owners, a binding":    {binding: binding},
		"owners, no binding":      {owners: owners},
		"owners and their own":    {binding: binding, owners: owners, want: true},
		"owners and another role": {binding: other, owners: owners},
		"other owners":            {binding: binding, owners: owners[:1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := bound(tc.binding, tc.owners); got != tc.want {
				t.Errorf("bound is %v", got)
			}
		})
	}
}

func TestRootCannotBeDeleted(t *testing.T) {
	t.Parallel()
	if ForbidDeletion("root") == nil {
		t.Error("root may be deleted")
	}
	if err := ForbidDeletion("shop"); err != nil {
		t.Error(err)
	}
}
