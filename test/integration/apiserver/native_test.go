package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestBadInputIsRefusedWithThePathOfTheField(t *testing.T) {
	s := shared(t)
	root := scope.WithCluster(t.Context(), scope.Root)
	meta := metav1.ObjectMeta{Name: "bad"}
	policy := func(spec placementv1alpha1.PolicySpec) error {
		_, err := s.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(root, &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	rules := func(r placementv1alpha1.PolicyRules) error {
		return policy(placementv1alpha1.PolicySpec{PolicyRules: r})
	}
	cluster := func(spec fleetv1alpha1.PhysicalClusterSpec) error {
		_, err := s.Atoll.FleetV1alpha1().PhysicalClusters().Create(root, &fleetv1alpha1.PhysicalCluster{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	logical := func(name string) error {
		_, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(root, &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	bad := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: "Near"}}}
	for want, err := range map[string]error{
		"spec.terms[0].matchExpressions[0].operator": rules(placementv1alpha1.PolicyRules{Terms: []placementv1alpha1.PhysicalClusterTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "region", Operator: "Near"}}}}}),
		"spec.namespaceSelector.matchExpressions":    policy(placementv1alpha1.PolicySpec{NamespaceSelector: &bad}),
		"spec.count":                          rules(placementv1alpha1.PolicyRules{Count: ptr.To[int32](0)}),
		"spec.ifImpossible":                   rules(placementv1alpha1.PolicyRules{IfImpossible: "Panic"}),
		"spec.connection.kubeconfigSecretRef": cluster(fleetv1alpha1.PhysicalClusterSpec{Connection: fleetv1alpha1.Connection{Type: "Push"}}),
		"spec.connection.type":                cluster(fleetv1alpha1.PhysicalClusterSpec{Connection: fleetv1alpha1.Connection{Type: "Pigeon"}}),
		"spec.taints[0].effect":               cluster(fleetv1alpha1.PhysicalClusterSpec{Taints: []corev1.Taint{{Key: "a", Effect: "Never"}}}),
		"metadata.name":                       logical("*"),
	} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want Invalid naming %s", err, want)
		}
	}
	if err := logical("root"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "reserved") {
		t.Errorf("making root again: %v, want Forbidden since the name is reserved", err)
	}
}

func TestFleetAndPolicyObjectsExistInRootOnly(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "no-fleet")
	_, err := s.Atoll.FleetV1alpha1().PhysicalClusters().Create(ctx, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"root"`) {
		t.Errorf("got %v, want Forbidden that names root", err)
	}
}

func TestSpecAndStatusAreWrittenApart(t *testing.T) {
	s := shared(t)
	root := scope.WithCluster(t.Context(), scope.Root)
	clusters := s.Atoll.FleetV1alpha1().PhysicalClusters()
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "parts"}}
	pc.Status.Version = "forged"
	created, err := clusters.Create(root, pc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.Status.Version != "" || created.Generation != 1 || created.Spec.Connection.Type != fleetv1alpha1.ConnectionPull {
		t.Errorf("created %+v", created)
	}
	patched, err := clusters.Patch(root, "parts", "application/merge-patch+json", []byte(`{"status":{"version":"v1"},"spec":{"unschedulable":true}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if patched.Status.Version != "v1" || patched.Spec.Unschedulable || patched.Generation != 1 {
		t.Errorf("after a status patch %+v", patched)
	}
	patched, err = clusters.Patch(root, "parts", "application/merge-patch+json", []byte(`{"status":{"version":"v2"},"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if patched.Status.Version != "v1" || !patched.Spec.Unschedulable || patched.Generation != 2 {
		t.Errorf("after a spec patch %+v", patched)
	}
}

func TestServicesGetAddressesOfTheirOwnLogicalCluster(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "svc-a"), s.NewCluster(t, "svc-b")
	service := func(name string, kind corev1.ServiceType) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}}}
	}
	one, err := s.Kube.CoreV1().Services("default").Create(a, service("web", corev1.ServiceTypeNodePort), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if one.Spec.ClusterIP == "" || one.Spec.Ports[0].NodePort == 0 || one.Spec.Ports[0].NodePort == one.Spec.Ports[1].NodePort {
		t.Errorf("spec %+v", one.Spec)
	}
	same := service("web", corev1.ServiceTypeNodePort)
	same.Spec.ClusterIP = one.Spec.ClusterIP
	same.Spec.Ports[0].NodePort = one.Spec.Ports[0].NodePort
	if _, err := s.Kube.CoreV1().Services("default").Create(b, same.DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Errorf("the same addresses in another logical cluster: %v", err)
	}
	same.Name = "web-again"
	if _, err := s.Kube.CoreV1().Services("default").Create(a, same, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("the same addresses twice: %v, want Invalid", err)
	}
	external := service("ext", corev1.ServiceTypeExternalName)
	external.Spec.ExternalName = "example.com"
	ext, err := s.Kube.CoreV1().Services("default").Create(a, external, metav1.CreateOptions{})
	if err != nil || ext.Spec.ClusterIP != "" {
		t.Fatalf("an external name: %v, %v", ext, err)
	}
	ext.Spec.Type, ext.Spec.ExternalName = corev1.ServiceTypeClusterIP, ""
	if ext, err = s.Kube.CoreV1().Services("default").Update(a, ext, metav1.UpdateOptions{}); err != nil || ext.Spec.ClusterIP == "" {
		t.Errorf("an external name that becomes a cluster IP: %v, %v", ext, err)
	}
}

func TestServicesHaveTheFamiliesThatTheyAskFor(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "families")
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	single, prefer, require := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	services := s.Kube.CoreV1().Services("default")
	for i, c := range []struct {
		asks     []corev1.IPFamily
		policy   *corev1.IPFamilyPolicy
		headless bool
		want     []corev1.IPFamily
	}{
		{nil, nil, false, []corev1.IPFamily{v4}},
		{nil, &single, false, []corev1.IPFamily{v4}},
		{nil, &prefer, false, []corev1.IPFamily{v4, v6}},
		{nil, &require, false, []corev1.IPFamily{v4, v6}},
		{[]corev1.IPFamily{v6}, nil, false, []corev1.IPFamily{v6}},
		{[]corev1.IPFamily{v6}, &prefer, false, []corev1.IPFamily{v6, v4}},
		{[]corev1.IPFamily{v6}, nil, true, []corev1.IPFamily{v6}},
		{nil, &prefer, true, []corev1.IPFamily{v4, v6}},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("of-%d", i)}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}, IPFamilies: c.asks, IPFamilyPolicy: c.policy}}
		if c.headless {
			service.Spec.ClusterIP = corev1.ClusterIPNone
		}
		got, err := services.Create(ctx, service, metav1.CreateOptions{})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var has []corev1.IPFamily
		for _, ip := range got.Spec.ClusterIPs {
			if address, err := netip.ParseAddr(ip); err == nil {
				has = append(has, map[bool]corev1.IPFamily{true: v4, false: v6}[address.Is4()])
			}
		}
		if !slices.Equal(got.Spec.IPFamilies, c.want) || !c.headless && !slices.Equal(has, c.want) {
			t.Errorf("%+v: it has %v, %v", c, got.Spec.IPFamilies, got.Spec.ClusterIPs)
		}
	}
	one, err := services.Get(ctx, "of-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := one.Spec.ClusterIP
	for _, c := range []struct {
		policy corev1.IPFamilyPolicy
		want   int
	}{{prefer, 2}, {require, 2}, {single, 1}} {
		one.Spec.IPFamilyPolicy = &c.policy
		if one, err = services.Update(ctx, one, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("%s: %v", c.policy, err)
		}
		if len(one.Spec.ClusterIPs) != c.want || len(one.Spec.IPFamilies) != c.want || one.Spec.ClusterIP != first {
			t.Errorf("%s: it has %v, %v", c.policy, one.Spec.IPFamilies, one.Spec.ClusterIPs)
		}
	}
	cidr, err := s.Kube.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil || len(cidr.Spec.CIDRs) != 2 {
		t.Errorf("the ServiceCIDR: %+v, %v", cidr, err)
	}
}

func TestPrivilegedPodsAreLeftToThePhysicalCluster(t *testing.T) {
	s := shared(t)
	root := scope.WithCluster(t.Context(), scope.Root)
	permissive := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "permissive"}}
	permissive.Spec.Tenancy.PodSecurity = fleetv1alpha1.PodSecurityPrivileged
	if _, err := s.Atoll.FleetV1alpha1().PhysicalClusters().Create(root, permissive, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx := s.NewCluster(t, "privileged")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "agent", Image: "agent", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}}}}
	if _, err := s.Kube.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestTheNamespacesOfTheSystemAreInEveryLogicalClusterFromItsStart(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "system-namespaces")
	for _, ctx := range []context.Context{ctx, scope.WithCluster(t.Context(), scope.Root)} {
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			if ns, err := s.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil || ns.UID == "" {
				t.Errorf("namespace %s: %v", name, err)
			}
		}
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := s.Kube.CoreV1().ConfigMaps("kube-system").Create(ctx, cm, dry); err != nil {
		t.Errorf("a dry run before the first write: %v", err)
	}
	if _, err := s.Kube.CoreV1().ConfigMaps("kube-system").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Errorf("the first write: %v", err)
	}
	if _, err := s.Kube.CoreV1().ConfigMaps("kube-other").Create(ctx, cm, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("another namespace that does not exist: %v, want NotFound", err)
	}
	server.Eventually(t, 20*time.Second, "kube-system has what every namespace has", func() error {
		if _, err := s.Kube.CoreV1().ServiceAccounts("kube-system").Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := s.Kube.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

func TestDeletingAllNamespacesLeavesThoseOfTheSystem(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "system-namespaces-stay")
	namespaces := s.Kube.CoreV1().Namespaces()
	if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := namespaces.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before, allowed := map[string]types.UID{}, map[string]bool{}
	for _, ns := range list.Items {
		before[ns.Name] = ns.UID
		err := namespaces.Delete(ctx, ns.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("deleting %s: %v", ns.Name, err)
		}
		allowed[ns.Name] = err == nil
	}
	// As upstream: the first three may not be deleted, the fourth comes back.
	want := map[string]bool{"default": false, "kube-system": false, "kube-public": false, "kube-node-lease": true, "web": true}
	if diff := cmp.Diff(want, allowed); diff != "" {
		t.Errorf("which may be deleted (-want +got):\n%s", diff)
	}
	server.Eventually(t, 30*time.Second, "web is gone and kube-node-lease is made again", func() error {
		list, err := namespaces.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		after := map[string]types.UID{}
		for _, ns := range list.Items {
			after[ns.Name] = ns.UID
		}
		same := func(name string) bool { return after[name] == before[name] }
		if len(after) != 4 || !same("default") || !same("kube-system") || !same("kube-public") || after["kube-node-lease"] == "" || same("kube-node-lease") {
			return fmt.Errorf("before %v, after %v", before, after)
		}
		return nil
	})
}

func TestNamespacesOfTheSystemThatAreMissingAreMadeAgain(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "system-namespaces-missing")
	names := []string{"kube-system", "kube-public", "kube-node-lease"}
	before := map[string]types.UID{}
	system := kubernetes.NewForConfigOrDie(s.SystemConfig(t))
	for _, name := range names {
		ns, err := system.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before[name] = ns.UID
		if err := system.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("the system deletes %s: %v", name, err)
		}
	}
	server.Eventually(t, 60*time.Second, "they are made again, with what every namespace has", func() error {
		for _, name := range names {
			ns, err := s.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if ns.UID == before[name] {
				return fmt.Errorf("%s is still going", name)
			}
			if _, err := s.Kube.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}
