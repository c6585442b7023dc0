package native

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

// problems are the fields that validation of an update (or, without old, of a new
// object) complains about, in order, each with the kind of problem.
func problems(t *testing.T, kind Kind, obj, old runtime.Object) string {
	t.Helper()
	var out []string
	for _, err := range newStrategy(testScheme(), kind).validate(obj, old) {
		out = append(out, err.Field+" "+string(err.Type))
	}
	return strings.Join(out, ", ")
}

func expectProblems(t *testing.T, kind Kind, name string, obj, old runtime.Object, want string) {
	t.Helper()
	if diff := cmp.Diff(want, problems(t, kind, obj, old)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestAnOwnerOfALogicalClusterIsASubjectOfRBAC(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, cluster, want string
		owner               rbacv1.Subject
	}{
		{"a user", "shop", "", rbacv1.Subject{Kind: "User", Name: "ann"}},
		{"a service account", "shop", "", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ci", Name: "deployer"}},
		{"a group in a namespace", "shop", "spec.owners[0].namespace FieldValueForbidden", rbacv1.Subject{Kind: "Group", Namespace: "ci", Name: "devs"}},
		{"a service account without a namespace", "shop", "spec.owners[0].namespace FieldValueRequired", rbacv1.Subject{Kind: "ServiceAccount", Name: "deployer"}},
		{"nobody", "shop", "spec.owners[0].kind FieldValueNotSupported, spec.owners[0].name FieldValueRequired", rbacv1.Subject{}},
		{"the name is no segment of a URL", "a.b", "metadata.name FieldValueInvalid", rbacv1.Subject{Kind: "User", Name: "ann"}},
	} {
		obj := &tenancy.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: c.cluster}}
		obj.Spec.Owners = []rbacv1.Subject{c.owner}
		expectProblems(t, LogicalCluster(), c.name, obj, nil, c.want)
	}
}

func TestAPhysicalClusterSaysHowItIsReachedAndWhatBoundsIt(t *testing.T) {
	t.Parallel()
	secret := &fleet.SecretReference{Namespace: "atoll-system", Name: "east"}
	for _, c := range []struct {
		name, want string
		spec       fleet.PhysicalClusterSpec
	}{
		{"pull", "", fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPull, nil)}},
		{"push", "", fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPush, secret)}},
		{"push without credentials", "spec.connection.kubeconfigSecretRef FieldValueRequired", fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPush, nil)}},
		{"pull with credentials", "spec.connection.kubeconfigSecretRef FieldValueForbidden", fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPull, secret)}},
		{"credentials that are nowhere", "spec.connection.kubeconfigSecretRef.namespace FieldValueRequired, spec.connection.kubeconfigSecretRef.name FieldValueRequired",
			fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPush, &fleet.SecretReference{})}},
		{"another way", "spec.connection.type FieldValueNotSupported", fleet.PhysicalClusterSpec{Connection: connection("Pigeon", nil)}},
		{"a taint without an effect", "spec.taints[0].effect FieldValueNotSupported",
			fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPull, nil), Taints: []corev1.Taint{{Key: "gpu"}}}},
		{"the taint of a silent one", "spec.taints[0].key FieldValueInvalid",
			fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPull, nil), Taints: []corev1.Taint{{Key: fleet.TaintUnreachable, Effect: corev1.TaintEffectNoExecute}}}},
		{"a taint with a wrong key", "spec.taints[0].key FieldValueInvalid",
			fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPull, nil), Taints: []corev1.Taint{{Key: "a b", Effect: corev1.TaintEffectNoSchedule}}}},
		{"a negative bound", "spec.bounds[cpu] FieldValueInvalid",
			fleet.PhysicalClusterSpec{Connection: connection(fleet.ConnectionPull, nil), Bounds: corev1.ResourceList{"cpu": resource.MustParse("-1")}}},
	} {
		expectProblems(t, PhysicalCluster(), c.name, &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: c.spec}, nil, c.want)
	}
}

func connection(how fleet.ConnectionType, secret *fleet.SecretReference) fleet.Connection {
	return fleet.Connection{Type: how, KubeconfigSecretRef: secret}
}

func decision(clusters ...string) *placement.Placement {
	p := &placement.Placement{ObjectMeta: metav1.ObjectMeta{Name: placement.NamespaceUnit, Namespace: "web"}}
	p.Spec.Decision = &placement.Decision{}
	for _, c := range clusters {
		p.Spec.Decision.PhysicalClusters = append(p.Spec.Decision.PhysicalClusters, placement.DecidedPhysicalCluster{Name: c})
	}
	return p
}

func TestADecisionNamesEachPhysicalClusterOnce(t *testing.T) {
	t.Parallel()
	undecided := decision()
	undecided.Spec.Decision = nil
	other := decision("east")
	other.Name = "other"
	for _, c := range []struct {
		name, want string
		obj        *placement.Placement
	}{
		{"two clusters", "", decision("east", "west")},
		{"none yet", "", undecided},
		{"for no cluster", "spec.decision.physicalClusters FieldValueRequired", decision()},
		{"one twice", "spec.decision.physicalClusters[1].name FieldValueDuplicate", decision("east", "east")},
		{"a name that is none", "spec.decision.physicalClusters[0].name FieldValueInvalid", decision("a/b")},
		{"of another unit", "", other},
	} {
		expectProblems(t, Placement(), c.name, c.obj, nil, c.want)
	}
}

func TestADecisionChangesWithAWayFromAllThatTheUnitHas(t *testing.T) {
	t.Parallel()
	moving := func(p *placement.Placement, phase placement.TransitionPhase, to, from []string, withdrawn ...string) *placement.Placement {
		p.Spec.Transition = &placement.Transition{Cause: placement.CausePinned, Phase: phase, To: to, From: from, Withdrawn: withdrawn}
		return p
	}
	undecided := decision()
	undecided.Spec.Decision = nil
	east, west, north := []string{"east"}, []string{"west"}, []string{"north"}
	const forbidden, way = "spec.decision FieldValueForbidden", "spec.transition FieldValueForbidden"
	for _, c := range []struct {
		name, want string
		obj, old   *placement.Placement
	}{
		{"the first decision", "", decision("east"), undecided},
		{"elsewhere", "", moving(decision("west"), placement.TransitionStarting, west, east), decision("east")},
		{"elsewhere, without a way", forbidden, decision("west"), decision("east")},
		{"elsewhere, and what was is removed at once", forbidden, moving(decision("west"), placement.TransitionRemoving, west, east), decision("east")},
		{"elsewhere, and what was is forgotten", forbidden, moving(decision("west"), placement.TransitionStarting, west, nil), decision("east")},
		{"turned round, and what was begun is forgotten", forbidden, moving(decision("north"), placement.TransitionStarting, north, east),
			moving(decision("west"), placement.TransitionDraining, west, east)},
		{"turned round", "", moving(decision("north"), placement.TransitionStarting, north, []string{"east", "west"}, "east"),
			moving(decision("west"), placement.TransitionDraining, west, east)},
		{"turned round, and traffic comes back to what was withdrawn", forbidden, moving(decision("north"), placement.TransitionStarting, north, []string{"east", "west"}),
			moving(decision("west"), placement.TransitionDraining, west, east)},
		{"turned round, and traffic goes to what had only started", forbidden, moving(decision("north"), placement.TransitionStarting, north, []string{"east", "west"}, "east"),
			moving(decision("west"), placement.TransitionStarting, west, east)},
		{"taken back", forbidden, undecided, decision("east")},
		{"the next phase", "", moving(decision("west"), placement.TransitionDraining, west, east), moving(decision("west"), placement.TransitionStarting, west, east)},
		{"another way in the next phase", way, moving(decision("west"), placement.TransitionDraining, west, north), moving(decision("west"), placement.TransitionStarting, west, east)},
		{"the end of it", "", decision("west"), moving(decision("west"), placement.TransitionRemoving, west, east)},
		{"the end before the end", way, decision("west"), moving(decision("west"), placement.TransitionDraining, west, east)},
		{"the end where nothing is left", "", decision("east", "west"), moving(decision("east", "west"), placement.TransitionStarting, west, nil)},
		{"what is left over leaves", "", moving(decision("east"), placement.TransitionStarting, nil, north), decision("east")},
		{"what is decided is no leftover", way, moving(decision("east"), placement.TransitionStarting, nil, east), decision("east")},
	} {
		expectProblems(t, Placement(), c.name, c.obj, c.old, c.want)
	}
}

func copyOf(uid types.UID, cluster string, state placement.CopyState) *placement.Copy {
	c := &placement.Copy{ObjectMeta: metav1.ObjectMeta{Name: "copy", Namespace: "web"}}
	c.Spec.PhysicalCluster = cluster
	c.Spec.Object = placement.ObjectReference{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: "web", UID: uid}
	c.Status.State = state
	return c
}

func TestACopyNamesOneObjectOnOneClusterForEver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		obj, old   *placement.Copy
	}{
		{"new", "", copyOf("1", "east", placement.CopyPending), nil},
		{"of no object in particular", "spec.object.uid FieldValueRequired", copyOf("", "east", placement.CopyPending), nil},
		{"nowhere", "spec.physicalCluster FieldValueInvalid", copyOf("1", "", placement.CopyPending), nil},
		{"in a state that is none", "status.state FieldValueNotSupported", copyOf("1", "east", "Dreaming"), nil},
		{"its state changes", "", copyOf("1", "east", placement.CopySynced), copyOf("1", "east", placement.CopyPending)},
		{"it goes elsewhere", "spec FieldValueForbidden", copyOf("1", "west", placement.CopySynced), copyOf("1", "east", placement.CopySynced)},
	} {
		var old runtime.Object
		if c.old != nil {
			old = c.old
		}
		expectProblems(t, Copy(), c.name, c.obj, old, c.want)
	}
}

func TestTheTenancyOfAPhysicalClusterIsChecked(t *testing.T) {
	t.Parallel()
	const at = "spec.tenancy."
	for name, c := range map[string]struct {
		want    string
		tenancy fleet.Tenancy
	}{
		"nothing said": {"", fleet.Tenancy{}},
		"all said": {"", fleet.Tenancy{PodSecurity: "privileged", Schedulers: []string{"ours"}, PriorityClasses: map[string]string{"*": "tenants", "high": ""},
			NodeLabels: []string{"pool", "example.com/", "node."}, Taints: []string{"*", "dedicated"}, HostPorts: []fleet.PortRange{{First: 80, Last: 80}},
			NodePorts: []fleet.PortRange{{First: 30000, Last: 30100}}, Volumes: []string{"nfs", "csi"}, ExternalIPs: []string{"192.0.2.1", "2001:db8::1"},
			LoadBalancerIPs: []string{"192.0.2.1"}, LoadBalancerClasses: []string{"example.com/a"}, IngressClasses: []string{"nginx"}, RuntimeClasses: []string{"*", "gvisor"}, StorageClasses: []string{"fast"}, Annotations: []string{"example.com/"},
			StorageClassNames: map[string]string{"fast": "gp3", "slow": "*"}, IngressClassNames: map[string]string{"*": "inside"},
			NamespaceLabels: []string{"team"}}},
		"no level":                        {at + "podSecurity FieldValueNotSupported", fleet.Tenancy{PodSecurity: "loose"}},
		"ports that Pod Security refuses": {at + "hostPorts FieldValueForbidden", fleet.Tenancy{HostPorts: []fleet.PortRange{{First: 80, Last: 80}}}},
		"ports backwards":                 {at + "nodePorts[0].last FieldValueInvalid", fleet.Tenancy{NodePorts: []fleet.PortRange{{First: 80, Last: 79}}}},
		"no port":                         {at + "nodePorts[0].first FieldValueInvalid", fleet.Tenancy{NodePorts: []fleet.PortRange{{First: 0, Last: 65536}}}},
		"a volume that is run as root":    {at + "volumes[0] FieldValueInvalid", fleet.Tenancy{Volumes: []string{"gitRepo"}}},
		"no addresses": {at + "externalIPs[0] FieldValueInvalid, " + at + "loadBalancerIPs[0] FieldValueInvalid",
			fleet.Tenancy{ExternalIPs: []string{"192.0.2.0/24"}, LoadBalancerIPs: []string{"x"}}},
		"no keys": {at + "annotations[0] FieldValueInvalid, " + at + "nodeLabels[0] FieldValueInvalid, " + at + "taints[0] FieldValueInvalid",
			fleet.Tenancy{NodeLabels: []string{"**"}, Taints: []string{""}, Annotations: []string{"a b"}}},
		"no classes": {at + "priorityClasses FieldValueInvalid, " + at + "priorityClasses[a] FieldValueInvalid",
			fleet.Tenancy{PriorityClasses: map[string]string{"A B": "a", "a": "x y"}}},
		"none for a name": {at + "ingressClassNames[nginx] FieldValueInvalid, " + at + "storageClassNames FieldValueInvalid",
			fleet.Tenancy{StorageClassNames: map[string]string{"": "gp3"}, IngressClassNames: map[string]string{"nginx": ""}}},
		"no storage class": {at + "storageClasses[1] FieldValueInvalid", fleet.Tenancy{StorageClasses: []string{"fast", ""}}},
		"no runtime class": {at + "runtimeClasses[0] FieldValueInvalid", fleet.Tenancy{RuntimeClasses: []string{"g*"}}},
		"too much":         {at + "schedulers FieldValueTooMany", fleet.Tenancy{Schedulers: make([]string, 1000)}},
	} {
		obj := &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
		obj.Spec.Connection.Type, obj.Spec.Tenancy = fleet.ConnectionPull, c.tenancy
		expectProblems(t, PhysicalCluster(), name, obj, nil, c.want)
	}
}

func TestALimitIsANumberTheDefaultOrNone(t *testing.T) {
	for name, c := range map[string]struct {
		limits tenancy.LogicalClusterLimits
		want   string
	}{
		"defaults":  {tenancy.LogicalClusterLimits{}, ""},
		"numbers":   {tenancy.LogicalClusterLimits{Objects: 1, Bytes: resource.NewQuantity(1<<20, resource.BinarySI), Watches: 3}, ""},
		"unlimited": {tenancy.LogicalClusterLimits{Objects: -1, RequestsInFlight: -1, WrittenBytes: resource.NewQuantity(-1, resource.BinarySI)}, ""},
		"less":      {tenancy.LogicalClusterLimits{Definitions: -2, DefinitionBytes: resource.NewQuantity(-5, resource.BinarySI)}, "spec.limits.definitionBytes FieldValueInvalid, spec.limits.definitions FieldValueInvalid"},
	} {
		obj := &tenancy.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: tenancy.LogicalClusterSpec{Limits: c.limits}}
		expectProblems(t, LogicalCluster(), name, obj, nil, c.want)
	}
}

func TestOneWayLeadsToWhoIsAskedAboutPods(t *testing.T) {
	t.Parallel()
	service := &fleet.PodAdmissionService{Namespace: "atoll", Name: "syncer"}
	for name, c := range map[string]struct {
		admission fleet.PodAdmission
		inside    bool
		wrong     int
	}{
		"a url":                           {fleet.PodAdmission{URL: "https://10.0.0.1:9443"}, false, 0},
		"a service":                       {fleet.PodAdmission{Service: service}, false, 0},
		"none, of a syncer beside":        {fleet.PodAdmission{}, false, 1},
		"none, of a syncer in the server": {fleet.PodAdmission{}, true, 0},
		"both":                            {fleet.PodAdmission{URL: "https://10.0.0.1:9443", Service: service}, true, 1},
		"a url with a path":               {fleet.PodAdmission{URL: "https://10.0.0.1:9443/x"}, true, 1},
	} {
		if errs := validatePodAdmission(&c.admission, c.inside, field.NewPath("spec", "pods", "admission")); len(errs) != c.wrong {
			t.Errorf("%s: %v", name, errs)
		}
	}
}
