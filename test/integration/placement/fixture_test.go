package placement

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// waitTimeout bounds every wait; an idle machine needs a fraction of it.
const waitTimeout = 30 * time.Second

var shared *server.Server

// TestPlacement runs all tests against one server, in parallel.
func TestPlacement(t *testing.T) {
	shared = server.Start(t)
	register(t, "east", map[string]string{"region": "eu"})
	register(t, "west", map[string]string{"region": "us"})
	beat(t, "east", "west")
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"the reply to the first object says where it goes":         testFirst,
			"an update without the system's metadata changes nothing":  testReplace,
			"applying twice writes once":                               testApply,
			"forged and removed metadata comes back":                   testForgery,
			"a dry run shows the targets and stores nothing":           testDryRun,
			"an object that cannot be placed waits":                    testPending,
			"what waits is placed when a physical cluster can take it": testRetry,
			"a decision fits all that wait":                            testDecisionFitsAll,
			"what follows others does not decide before them":          testWhatFollowsDoesNotDecide,
			"what follows others is placed by itself":                  testWhatFollowsAlone,
			"what a physical cluster does not permit is refused":       testPermits,
			"a policy permits more to those that it selects":           testPolicyPermits,
			"only admins permit anything":                              testPolicyPermitsOfAdmins,
			"a stamp is not lost":                                      testStampStays,
			"a policy may refuse what cannot be placed":                testRefuse,
			"a pin is honoured and checked":                            testPin,
			"concurrent first objects agree on one decision":           testRace,
			"a new namespace of an old name is decided anew":           testRecreate,
			"namespaces end as in Kubernetes":                          testLifecycle,
			"records of the system are not written by users":           testRecords,
			"a syncer writes for its own physical cluster only":        testSyncer,
			"orphans are listed by their syncer only":                  testOrphansAreListedByTheirSyncer,
			"orphans are asked for by UID and ordered by admins":       testOrphansAreAskedForAndOrdered,
			"status of a namespace's placement follows the copies":     testStatus,
			"ConfigMaps and Secrets go where something needs them":     testReferences,
			"quotas and limits go where their namespace goes":          testRules,
			"an update of what was read before a stamp is no conflict": testAStampIsNoConflict,
			"a quota is not divided":                                   testRulesOnTwo,
			"a class means its handler, whoever writes":                testRuntimeHandler,
			"pods go where their handler is":                           testPlacedByHandler,
			"what names a class goes where it is":                      testPlacedByClass,
			"policies of all levels hold together":                     testLevels,
			"policies go with a client of metadata":                    testDeletesPoliciesByMetadata,
			"policies lay out, prefer and relate":                      testPolicyRules,
			"a decision that no policy permits any more stays":         testUnsatisfied,
			"what a physical cluster lacks is a warning":               testLacks,
			"a namespace counts for what it came with":                 testLetIn,
			"a review answers where a namespace would go":              testReview,
			"nothing is placed in root":                                testNeverPlaced,
			"a lost stamp of a namespace is repaired":                  testRepair,
			"a silent physical cluster is unknown":                     testSilence,
			"a forgotten physical cluster holds nothing":               testForget,
			"deletions that wait ask the server once":                  testSilentDeletion,
			"what a policy selects is a unit of its own":               testUnitsOfObjects,
			"an object that changes its unit keeps what it has":        testChangeOfUnit,
			"a policy for what runs begins where that runs":            testPolicyOverWhatRuns,
			"what cannot change its unit says why":                     testChangeOfUnitIsBlocked,
			"the pin of a unit is on its policy":                       testPinOfAUnit,
			"another scheduler binds within the rules":                 testBinding,
			"what may not stay waits for its scheduler":                testSchedulerIsAwaited,
			"a drain waits for another scheduler":                      testDrainAwaitsTheScheduler,
			"binding is a permission of its own":                       testBindingIsAPermission,
			"an edit that moves much carries the number":               testGate,
			"a deletion that moves much carries the number":            testGateOfDeletion,
			"a policy that makes a unit moves that":                    testGateOfUnits,
			"a move starts what an autoscaler made of it":              testScaled,
			"a move that is stuck goes back, and is not tried at once": testStuck,
			"a part that is stuck goes back":                           testStuckPart,
			"a Service is imported where its network is flat":          testImports,
			"endpoints that users write are imported":                  testWrittenEndpoints,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
}

func root(t testing.TB) context.Context { return scope.WithCluster(t.Context(), scope.Root) }

// register makes a physical cluster that reports to be ready and empty; one with
// taints stays out of the way of other tests.
func register(t testing.TB, name string, labels map[string]string, taints ...corev1.Taint) {
	t.Helper()
	shared.Register(t, name, labels, taints...)
}

// report changes the status of a physical cluster.
func report(t testing.TB, name string, change func(*fleetv1alpha1.PhysicalClusterStatus)) {
	t.Helper()
	shared.Report(t, name, change)
}

// beat renews Leases until the test ends.
func beat(t *testing.T, names ...string) {
	t.Helper()
	shared.Beat(t, names...)
}

// newCluster makes a logical cluster that policies can select by its name.
func newCluster(t *testing.T, name string) context.Context {
	t.Helper()
	newClusterOn(t, shared, name)
	return scope.WithCluster(t.Context(), logicalcluster.Name(name))
}

func newClusterOn(t *testing.T, s *server.Server, name string) {
	t.Helper()
	c := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": name}}}
	if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(root(t), c, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating logical cluster %s: %v", name, err)
	}
}

// policy makes a policy for one logical cluster.
func policy(t *testing.T, cluster string, change func(*placementv1alpha1.PolicySpec)) {
	t.Helper()
	p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	p.Spec.LogicalClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"test": cluster}}
	change(&p.Spec)
	if _, err := shared.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(root(t), p, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating policy %s: %v", cluster, err)
	}
}

// ownTaint keeps away whoever does not tolerate it.
var ownTaint = corev1.Taint{Key: "own", Effect: corev1.TaintEffectNoSchedule}

// only is a term that selects by one label.
func only(key, value string) []placementv1alpha1.PhysicalClusterTerm {
	return []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{key: value}}}
}

func namespace(t *testing.T, ctx context.Context, name string) *corev1.Namespace {
	t.Helper()
	ns, err := shared.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating namespace %s: %v", name, err)
	}
	return ns
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
			},
		},
	}
}

func create(t *testing.T, ctx context.Context, namespace string, d *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	created, err := shared.Kube.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating deployment %s: %v", d.Name, err)
	}
	return created
}

func targetsOf(o metav1.Object) string {
	return strings.Join(stamp.TargetsOf(o.GetAnnotations()).Names(), ",")
}

func placementOf(t *testing.T, ctx context.Context, namespace string) *placementv1alpha1.Placement {
	t.Helper()
	p, err := shared.Atoll.PlacementV1alpha1().Placements(namespace).Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("reading the placement of %s: %v", namespace, err)
	}
	return p
}

// syncerClients are those of the syncer of a physical cluster.
func syncerClients(t *testing.T, target string) (kubernetes.Interface, versioned.Interface) {
	t.Helper()
	data, err := app.Kubeconfig(shared.Dir, target, true)
	if err != nil {
		t.Fatalf("the kubeconfig of the syncer: %v", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	scoped := scope.ScopedConfig(config)
	return kubernetes.NewForConfigOrDie(scoped), versioned.NewForConfigOrDie(scoped)
}

// warnings collects the warnings of a client's replies.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

func (w *warnings) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.list, "\n")
}

// take returns what there is, and forgets it.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

func warningClient(t *testing.T) (kubernetes.Interface, *warnings) {
	t.Helper()
	w := &warnings{}
	config := rest.CopyConfig(shared.Config)
	config.WarningHandler = w
	return kubernetes.NewForConfigOrDie(scope.ScopedConfig(config)), w
}

// expect says what differs.
func expect[T comparable](what string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}
