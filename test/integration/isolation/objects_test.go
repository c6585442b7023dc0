package isolation

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestAnOwnerReferenceToAnotherLogicalClusterTouchesNothingThere(t *testing.T) {
	w := shared(t)
	s, err := w.Kube.CoreV1().Secrets("default").Get(w.victim, "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Secret", Name: s.Name, UID: s.UID, BlockOwnerDeletion: &yes, Controller: &yes}}}}
	if _, err := w.mallory.CoreV1().ConfigMaps("default").Create(w.evil, owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The victim's object is no owner in mallory's: the dependent is collected.
	server.Eventually(t, 30*time.Second, "the dependent of nobody is collected", func() error {
		_, err := w.mallory.CoreV1().ConfigMaps("default").Get(w.evil, "owned", metav1.GetOptions{})
		return want(err)
	})
	// Deleting an owner of the same name in the foreground deletes mallory's only.
	mine, err := w.mallory.CoreV1().Secrets("default").Create(w.evil, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: s.UID}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if mine.UID == s.UID {
		t.Error("mallory chose a UID")
	}
	foreground := metav1.DeletePropagationForeground
	if err := w.mallory.CoreV1().Secrets("default").Delete(w.evil, "s", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 30*time.Second, "her secret is gone", func() error {
		_, err := w.mallory.CoreV1().Secrets("default").Get(w.evil, "s", metav1.GetOptions{})
		return want(err)
	})
	w.stays(t)
}

func TestKeysOfTheSystemAreNotMallorys(t *testing.T) {
	w := shared(t)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "forged", Annotations: map[string]string{
		"kcp.io/cluster": "victim", "placement.atoll.dev/targets": `{"east":{}}`, "placement.atoll.dev/physical-namespace": "victim-default-00000000"}}}
	created, err := w.mallory.CoreV1().ConfigMaps("default").Create(w.evil, cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := `{"metadata":{"annotations":{"kcp.io/cluster":"victim","placement.atoll.dev/targets":"{\"east\":{}}"}}}`
	patched, err := w.mallory.CoreV1().ConfigMaps("default").Patch(w.evil, "forged", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	applied, err := w.mallory.CoreV1().ConfigMaps("default").Patch(w.evil, "forged", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"forged","annotations":{"kcp.io/cluster":"victim"}}}`), metav1.PatchOptions{FieldManager: "m", Force: &[]bool{true}[0]})
	if err != nil {
		t.Fatal(err)
	}
	for what, obj := range map[string]*corev1.ConfigMap{"created": created, "patched": patched, "applied": applied} {
		if a := obj.Annotations; a["kcp.io/cluster"] != "evil" || a["placement.atoll.dev/targets"] != "" {
			t.Errorf("%s: %v", what, a)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "forged", Annotations: cm.Annotations}}
	if ns, err := w.mallory.CoreV1().Namespaces().Create(w.evil, ns, metav1.CreateOptions{}); err != nil || ns.Annotations["placement.atoll.dev/physical-namespace"] != "" || ns.Annotations["kcp.io/cluster"] != "evil" {
		t.Errorf("namespace %v, %v", ns, err)
	}
}

func TestCraftedNamesStayInTheirLogicalCluster(t *testing.T) {
	w := shared(t)
	for _, name := range []string{"..", ".", "../victim", "victim/default", "a/../../victim", "*", "victim|default", "UPPER", "x\x00y", "%2e%2e", strings.Repeat("a", 300), "system:masters"} {
		_, err := w.mallory.CoreV1().Namespaces().Create(w.evil, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err := want(err); err != nil {
			t.Errorf("namespace %q: %v", name, err)
		}
		// Names of roles may be nearly anything: what is accepted is mallory's alone.
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"crafted": ""}}}
		if _, err := w.mallory.RbacV1().ClusterRoles().Create(w.evil, role, metav1.CreateOptions{}); err != nil && !refused(err) {
			t.Errorf("cluster role %q: %v", name, err)
		}
	}
	list, err := w.Kube.RbacV1().ClusterRoles().List(w.victim, metav1.ListOptions{LabelSelector: "crafted"})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("the victim has %v, %v", list.Items, err)
	}
	w.stays(t)
}

func TestKindsOfRootAreNotMadeElsewhere(t *testing.T) {
	w := shared(t)
	mallory := versioned.NewForConfigOrDie(w.config(malloryToken))
	_, err := mallory.TenancyV1alpha1().LogicalClusters().Create(w.evil, &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "victim"}}, metav1.CreateOptions{})
	if err := want(err); err != nil {
		t.Errorf("a LogicalCluster: %v", err)
	}
	_, err = mallory.FleetV1alpha1().PhysicalClusters().Create(w.evil, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}, metav1.CreateOptions{})
	if err := want(err); err != nil {
		t.Errorf("a PhysicalCluster: %v", err)
	}
	for name, elsewhere := range map[string]context.Context{"root": scope.WithCluster(t.Context(), scope.Root), "another logical cluster": w.victim} {
		all := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
		if _, err := mallory.PlacementV1alpha1().ClusterPlacementPolicies().Create(elsewhere, all, metav1.CreateOptions{}); want(err) != nil {
			t.Errorf("a ClusterPlacementPolicy in %s: %v", name, err)
		}
		if _, err := mallory.PlacementV1alpha1().ClusterPlacementPolicies().List(elsewhere, metav1.ListOptions{}); want(err) != nil {
			t.Errorf("the ClusterPlacementPolicies of %s: %v", name, err)
		}
		own := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
		if _, err := mallory.PlacementV1alpha1().PlacementPolicies("default").Create(elsewhere, own, metav1.CreateOptions{}); want(err) != nil {
			t.Errorf("a PlacementPolicy in %s: %v", name, err)
		}
		if _, err := mallory.PlacementV1alpha1().PlacementReviews("default").Create(elsewhere, &placementv1alpha1.PlacementReview{}, metav1.CreateOptions{}); want(err) != nil {
			t.Errorf("a PlacementReview in %s: %v", name, err)
		}
	}
	// How many units others have somewhere would be seen by supposing more and more.
	units := &placementv1alpha1.PlacementReview{}
	units.Spec.Assumed = []placementv1alpha1.AssumedRequests{{PhysicalCluster: "east", Units: 1}}
	if _, err := mallory.PlacementV1alpha1().PlacementReviews("default").Create(w.evil, units, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.assumed[0].units: Forbidden") {
		t.Errorf("a PlacementReview that supposes units: %v", err)
	}
	_, err = mallory.PlacementV1alpha1().Copies("default").Create(w.evil, &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	if err := want(err); err != nil {
		t.Errorf("a Copy: %v", err)
	}
}

func TestMalloryIsNobodyElsewhereWhoeverSheImpersonates(t *testing.T) {
	w := shared(t)
	for name, c := range map[string]rest.ImpersonationConfig{
		"herself":       {UserName: "mallory"},
		"the victim":    {UserName: "victor"},
		"an admin":      {UserName: "admin", Groups: []string{"system:masters"}},
		"the server":    {UserName: "system:apiserver", Groups: []string{"system:masters"}},
		"a syncer":      {UserName: "system:atoll:syncer:east", Groups: []string{"system:atoll:syncers"}},
		"an account":    {UserName: "system:serviceaccount:default:default"},
		"a controller":  {UserName: "system:kube-controller-manager"},
		"with an extra": {UserName: "mallory", Extra: map[string][]string{"authentication.kubernetes.io/cluster": {"victim"}}},
	} {
		config := w.config(malloryToken)
		config.Impersonate = c
		client := kubernetes.NewForConfigOrDie(config)
		for _, where := range []scope.Scope{{Cluster: "victim"}, {Cluster: scope.Root}, {Cluster: scope.Wildcard}, {Cluster: "evil", Target: "east"}, {Cluster: scope.Wildcard, Target: "east"}} {
			_, err := client.CoreV1().Secrets("").List(scope.With(t.Context(), where), metav1.ListOptions{})
			if err := want(err); err != nil {
				t.Errorf("as %s in %s: %v", name, where.Path(), err)
			}
		}
		if len(c.Groups) > 0 { // she does not get these even in her own
			_, err := client.CoreV1().Secrets("").List(w.evil, metav1.ListOptions{})
			if err := want(err); err != nil {
				t.Errorf("as %s in her own: %v", name, err)
			}
		}
	}
}

func TestARobotIsOfItsLogicalClusterOnly(t *testing.T) {
	w := shared(t)
	for _, where := range []scope.Scope{{Cluster: "victim"}, {Cluster: scope.Root}, {Cluster: scope.Wildcard}, {Cluster: "evil", Target: "east"}} {
		_, err := w.robot.CoreV1().Secrets("").List(scope.With(t.Context(), where), metav1.ListOptions{})
		if err := want(err); err != nil {
			t.Errorf("in %s: %v", where.Path(), err)
		}
	}
	// Where the victim has an account of the same name with rights, nothing changes.
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "robot"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}, {Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts"}}}
	if _, err := w.Kube.RbacV1().ClusterRoleBindings().Create(w.victim, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.robot.CoreV1().Secrets("").List(w.victim, metav1.ListOptions{})
	if err := want(err); err != nil {
		t.Errorf("with an account of the same name there: %v", err)
	}
}

func TestAReviewInOnesOwnAnswersForOnesOwn(t *testing.T) {
	w := shared(t)
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "victor",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets", Namespace: "default"}}}
	r, err := w.mallory.AuthorizationV1().SubjectAccessReviews().Create(w.evil, review, metav1.CreateOptions{})
	if err != nil || r.Status.Allowed {
		t.Errorf("the victim's rights, asked in evil: %+v, %v", r, err)
	}
	body, _ := json.Marshal(review)
	if status, reply := w.raw(t, "POST", "/clusters/victim/apis/authorization.k8s.io/v1/subjectaccessreviews", malloryToken, string(body)); status != 403 {
		t.Errorf("asked in victim: %d %s", status, reply)
	}
}
