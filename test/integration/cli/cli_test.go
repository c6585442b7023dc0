package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestACommandSaysWhichLogicalClusterItIsFor(t *testing.T) {
	w := newWorld(t, "scopes")
	for _, args := range []string{"clusters", "cordon east", "uncordon east", "taint east a:NoSchedule", "unregister east", "register east --pull",
		"lc list", "lc create x", "lc delete x"} {
		w.fails(`is for the logical cluster "root"`, strings.Fields(args)...)
		w.fails("--context root", strings.Fields(args)...)
	}
	for _, args := range []string{"where", "where deployments", "explain"} {
		w.fails(`the context "root" points to "root", where nothing runs`, append(strings.Fields(args), "--context", "root")...)
	}
	// Without a context for root in the kubeconfig, the way out is another.
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	delete(config.Contexts, "root")
	if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	w.fails("kubectl atoll lc use root", "clusters")
	w.ok("lc", "use", "root")
	w.ok("clusters")
	w.fails("which is no logical cluster of an Atoll server", "clusters", "--server", w.URL)
	w.fails("which is no logical cluster of an Atoll server", "where", "--server", w.URL)
}

func TestPhysicalClustersAreListedCordonedAndTainted(t *testing.T) {
	w := newWorld(t, "fleet")
	w.physical("fleet-a", "fleet-b")
	d := w.deploy("web", "fleet-a")
	w.copied(d, "fleet-a", placementv1alpha1.CopySynced, "")
	w.ok("lc", "use", "root")

	w.wantRow([]string{"clusters"}, "NAME", "STATUS", "TAINTS", "PLACEMENTS", "COPIES", "CPU", "MEMORY", "AGE")
	w.wantRow([]string{"clusters"}, "fleet-a", "Ready", "<none>", "1", "1", "0/100", "0/100Gi")
	w.wantRow([]string{"clusters", "-l", "name=fleet-b"}, "fleet-b", "Ready", "<none>", "0", "0")
	if out := w.ok("clusters", "-l", "name=fleet-b", "--no-headers"); strings.Contains(out, "fleet-a") || strings.Contains(out, "NAME") {
		t.Errorf("the selector and --no-headers: %s", out)
	}
	if out := w.ok("clusters", "fleet-a", "fleet-b", "-o", "name"); out != "physicalcluster.fleet.atoll.dev/fleet-a\nphysicalcluster.fleet.atoll.dev/fleet-b\n" {
		t.Errorf("names: %s", out)
	}
	var list struct {
		Kind  string
		Items []fleetv1alpha1.PhysicalCluster
	}
	if err := json.Unmarshal([]byte(w.ok("clusters", "fleet-a", "-o", "json")), &list); err != nil || list.Kind != "List" || len(list.Items) != 1 || list.Items[0].Kind != "PhysicalCluster" {
		t.Errorf("JSON: %+v %v", list, err)
	}
	if out := w.ok("clusters", "fleet-a", "-o", "jsonpath={.items[0].metadata.labels.name}"); out != "fleet-a" {
		t.Errorf("JSON path: %q", out)
	}

	for _, step := range []struct{ args, want string }{
		{"cordon fleet-a --dry-run=server", "physicalcluster.fleet.atoll.dev/fleet-a cordoned (server dry run)\n"},
		{"cordon fleet-a --dry-run=client", "physicalcluster.fleet.atoll.dev/fleet-a cordoned (dry run)\n"},
		{"cordon fleet-a", "physicalcluster.fleet.atoll.dev/fleet-a cordoned\n"},
		{"cordon fleet-a", "physicalcluster.fleet.atoll.dev/fleet-a already cordoned\n"},
		{"taint fleet-a fleet-b gpu=yes:NoSchedule", "physicalcluster.fleet.atoll.dev/fleet-a tainted\nphysicalcluster.fleet.atoll.dev/fleet-b tainted\n"},
		{"taint fleet-a gpu=no:NoSchedule --overwrite", "physicalcluster.fleet.atoll.dev/fleet-a modified\n"},
		{"taint fleet-b gpu-", "physicalcluster.fleet.atoll.dev/fleet-b untainted\n"},
	} {
		if out := w.ok(strings.Fields(step.args)...); out != step.want {
			t.Errorf("%s: %q, want %q", step.args, out, step.want)
		}
	}
	w.wantRow([]string{"clusters"}, "fleet-a", "Ready,SchedulingDisabled", "gpu=no:NoSchedule", "1")
	w.wantRow([]string{"clusters"}, "fleet-b", "Ready", "<none>", "0")
	if out := w.ok("uncordon", "fleet-a", "-o", "jsonpath={.spec.unschedulable}"); out == "true" {
		t.Errorf("uncordoned: %s", out)
	}
	w.fails("--overwrite", "taint", "fleet-a", "gpu=other:NoSchedule")
	w.fails(`"nowhere" not found`, "cordon", "nowhere")
	w.fails("an effect is needed", "taint", "fleet-a", "gpu=x")
	w.fails("name a physical cluster and a taint", "taint", "fleet-a")
	// One that is not found does not keep the other from being changed.
	w.fails(`"nowhere" not found`, "cordon", "nowhere", "fleet-b")
	w.wantRow([]string{"clusters"}, "fleet-b", "Ready,SchedulingDisabled")

	w.fails("is in use by fleet/web (copies: 1): delete or move that first", "unregister", "fleet-a")
	w.wantRow([]string{"clusters", "fleet-a"}, "fleet-a", "Ready")
	if out := w.ok("unregister", "fleet-b"); !strings.Contains(out, "fleet-b unregistered") {
		t.Errorf("unregistered: %s", out)
	}
	w.fails(`"fleet-b" not found`, "clusters", "fleet-b")
}

// The server writes the status of a physical cluster whenever it likes, and others its labels.
func TestAWriterInBetweenDoesNotFailATaint(t *testing.T) {
	w := newWorld(t, "busy")
	w.physical("busy-a")
	client := w.Atoll.FleetV1alpha1().PhysicalClusters()
	writes := 0
	w.intercept(func(r *http.Request) {
		if r.Method != http.MethodPatch || writes == 2 {
			return
		}
		writes++
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"writes":"%d"}},"spec":{"unschedulable":true}}`, writes)
		if _, err := client.Patch(server.InRoot(t), "busy-a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Errorf("the other writer: %v", err)
		}
	})
	if out := w.ok("taint", "busy-a", "gpu=yes:NoSchedule"); out != "physicalcluster.fleet.atoll.dev/busy-a tainted\n" || writes != 2 {
		t.Errorf("after %d writes in between: %s", writes, out)
	}
	w.wantRow([]string{"clusters", "-l", "writes=2"}, "busy-a", "Ready,SchedulingDisabled", "gpu=yes:NoSchedule")
}

func TestWhatIsPlacedAtTheLastMomentIsNotUnregistered(t *testing.T) {
	w := newWorld(t, "last")
	w.physical("last-a")
	w.ok("lc", "use", "root")
	w.ok("cordon", "last-a")
	d := w.deploy("web", "")
	w.copied(d, "last-a", placementv1alpha1.CopyRemoving, "") // without a decision for it
	w.fails("has copies still (1)", "unregister", "last-a")
	if _, err := w.Atoll.FleetV1alpha1().PhysicalClusters().Get(server.InRoot(t), "last-a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAPhysicalClusterIsCheckedBeforeItIsRegistered(t *testing.T) {
	w := newWorld(t, "checks")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	w.ok("lc", "use", "root")
	program := write("program", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Never}}}]}`)
	silent := write("silent", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: secret-token}}]}`)
	for _, c := range []struct{ args, want string }{
		{"east", "--physical-kubeconfig FILE (the server connects to it), --agent"},
		{"east --pull --physical-kubeconfig " + silent, "say how it is reached"},
		{"East --pull", `name "East"`},
		{"east --pull --taints a", "an effect is needed"},
		{"east --pull --taints a-", "kubectl atoll taint"},
		{"east --physical-kubeconfig " + filepath.Join(dir, "none"), "no such file"},
		{"east --physical-kubeconfig " + silent + " --physical-context none", "--physical-context"},
		{"east --physical-kubeconfig " + program, "--make-credentials makes a ServiceAccount"},
		{"east --physical-kubeconfig " + silent, "https://127.0.0.1:1 does not answer here"},
		{"east --physical-kubeconfig " + w.kubeconfig + " --physical-context checks", "is a logical cluster of an Atoll server"},
	} {
		w.fails(c.want, append([]string{"register"}, strings.Fields(c.args)...)...)
	}
	list, err := w.Atoll.FleetV1alpha1().PhysicalClusters().List(server.InRoot(t), metav1.ListOptions{LabelSelector: "!name"})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("something was registered: %v %v", list.Items, err)
	}

	out := w.ok("register", "checks-pull", "--pull", "--labels", "region=eu", "--taints", "own=1:NoSchedule", "--trusted")
	if !strings.Contains(out, "atoll-syncer --physical-cluster checks-pull --kubeconfig checks-pull-syncer.kubeconfig") {
		t.Errorf("how to go on is not said: %s", out)
	}
	pc, err := w.Atoll.FleetV1alpha1().PhysicalClusters().Get(server.InRoot(t), "checks-pull", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pc.Labels["region"] != "eu" || len(pc.Spec.Taints) != 1 || pc.Spec.Tenancy.PodSecurity != fleetv1alpha1.PodSecurityPrivileged || !pc.Spec.Tenancy.StaticVolumes {
		t.Errorf("registered: %+v", pc)
	}
	w.ok("unregister", "checks-pull")
}

func TestLogicalClustersAreCreatedUsedAndDeleted(t *testing.T) {
	w := newWorld(t, "people")
	w.ok("lc", "use", "root")
	if out := w.ok("lc", "create", "people-shop", "--owner", "User:alice,ServiceAccount:ops/bot", "--labels", "tier=gold"); !strings.Contains(out, "kubectl atoll lc use people-shop") {
		t.Errorf("how to use it is not said: %s", out)
	}
	w.wantRow([]string{"lc", "list"}, "people-shop", "Ready", "User:alice,ServiceAccount:bot")
	w.fails("already exists", "lc", "create", "people-shop")
	w.fails("--owner", "lc", "create", "x", "--owner", "alice")
	w.fails(`name "X"`, "lc", "create", "X")
	w.ok("lc", "create", "people-dry", "--dry-run=server")
	w.fails(`there is no logical cluster "people-dry"`, "lc", "use", "people-dry")
	w.ok("lc", "use", "people-shop", "--as-context", "shop")
	config, err := clientcmd.LoadFromFile(w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if config.CurrentContext != "shop" || !strings.HasSuffix(config.Clusters[config.Contexts["shop"].Cluster].Server, "/clusters/people-shop") {
		t.Errorf("the context is %q: %+v", config.CurrentContext, config.Contexts)
	}
	w.ok("explain") // the namespace default, of the new context
	w.fails("choose another name", "lc", "use", "people", "--as-context", "shop")
	w.ok("lc", "delete", "people-shop", "--context", "root")
	if _, err := w.Atoll.TenancyV1alpha1().LogicalClusters().Get(server.InRoot(t), "people-shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there after its deletion: %v", err)
	}
}

// Whatever a request is about when the time is over, what is left is said.
func TestADeletionThatTakesLongerSaysWhatIsLeft(t *testing.T) {
	w := newWorld(t, "long")
	w.physical("long-a")
	w.copied(w.deploy("web", "long-a"), "long-a", placementv1alpha1.CopySynced, "")
	w.ok("lc", "use", "root")
	w.fails("logical cluster long is not gone after 1s, and goes on", "lc", "delete", "long", "--timeout", "1s")
}

func TestObjectsAreShownWhereTheyRun(t *testing.T) {
	w := newWorld(t, "where")
	w.physical("where-a", "where-b")
	d := w.deploy("web", "where-a")
	w.copied(d, "where-a", placementv1alpha1.CopyFailed, "NotOurs")
	server.Eventually(t, 30*time.Second, "the placement in -A", func() error {
		return row(w.ok("where", "-A"), "web", "placement/namespace", "where-a")
	})
	w.wantRow([]string{"where", "-n", "web"}, "web", "deployments.apps/web", "where-a", "Failed", "NotOurs")
	w.wantRow([]string{"where", "deployment/web", "-n", "web"}, "web", "deployments.apps/web", "where-a", "Failed", "NotOurs")
	w.wantRow([]string{"where", "deploy,cm", "-A"}, "web", "configmaps/kube-root-ca.crt", "<none>", "NotPlaced")
	w.wantRow([]string{"where", "namespace/web"}, "web", "namespaces/web", "where-a", "Pending", "NoCopyYet")
	if out := w.ok("where", "-n", "web", "-o", "name"); !strings.Contains(out, "placement.placement.atoll.dev/namespace\n") || !strings.Contains(out, "copy.placement.atoll.dev/web-where-a\n") {
		t.Errorf("names: %s", out)
	}
	if out := w.ok("where", "deployment/web", "-n", "web", "-o", "jsonpath={.items[0].metadata.uid}"); out != string(d.UID) {
		t.Errorf("the object: %s", out)
	}
	w.fails(`namespaces "none" not found`, "where", "-n", "none")
	w.fails(`deployments.apps "none" not found`, "where", "deployment/none", "-n", "web")
	if _, errOut, err := w.run("where"); err != nil || !strings.Contains(errOut, "Nothing in namespace default is placed.") {
		t.Errorf("an empty namespace: %s %v", errOut, err)
	}

	if out := w.ok("explain", "web"); !strings.Contains(out, "Namespace web is placed on where-a.") {
		t.Errorf("explained: %s", out)
	}
	w.wantRow([]string{"explain", "web"}, "where-b", "Rejected", "NotPinned")
	if out := w.ok("explain", "default"); !strings.Contains(out, "Namespace default is not placed yet") {
		t.Errorf("explained before it is placed: %s", out)
	}
	w.fails(`namespaces "none" not found`, "explain", "none")
}

func TestNamespacesAreMovedAndPhysicalClustersDrained(t *testing.T) {
	w := newWorld(t, "moves")
	w.physical("moves-a", "moves-b")
	w.deploy("web", "moves-a")
	pin := func() string {
		ns, err := w.Kube.CoreV1().Namespaces().Get(w.ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ns.Annotations[placementv1alpha1.PhysicalClusterAnnotation]
	}
	out, errOut, err := w.run("move", "web", "--to", "moves-b", "--dry-run=server")
	if err != nil || out != "namespace/web moves to moves-b (server dry run)\n" || !strings.Contains(errOut, "namespace web moves from moves-a to moves-b") || pin() != "moves-a" {
		t.Errorf("a dry run: %v\n%s%s, pinned to %s", err, out, errOut, pin())
	}
	w.fails(`there is no physical cluster "nowhere"`, "move", "web", "--to", "nowhere")
	w.fails(`"none" not found`, "move", "none", "--to", "moves-b")
	w.fails("to", "move", "web")
	w.fails(`points to "root", where nothing runs`, "move", "web", "--to", "moves-b", "--context", "root")
	// Nobody makes copies here, so that the move begins and does not end.
	w.fails("is not on moves-b after 1s, and the move goes on", "move", "web", "--to", "moves-b", "--watch", "--timeout", "1s")
	if pin() != "moves-b" {
		t.Errorf("pinned to %s", pin())
	}

	w.fails(`is for the logical cluster "root"`, "drain", "moves-a")
	w.ok("lc", "use", "root")
	requested := func() bool {
		pc, err := w.Atoll.FleetV1alpha1().PhysicalClusters().Get(server.InRoot(t), "moves-b", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pc.Spec.Drain.Requested
	}
	w.fails("would not become empty: 1 of the namespaces on it cannot move", "drain", "moves-b", "--dry-run")
	if requested() {
		t.Error("a dry run asked for the drain")
	}
	w.fails("moves-b is not drained, and the drain goes on", "drain", "moves-b")
	w.fails("moves-b is not drained, and the drain goes on", "drain", "moves-b", "--watch", "--timeout", "1s")
	if !requested() {
		t.Error("the drain was not asked for")
	}
	w.fails("has passed: 0 namespaces have left, 0 move, and 1 stay", "drain", "moves-b", "--watch", "--deadline", "1s")
	w.ok("drain", "moves-b", "--cancel")
	if requested() {
		t.Error("the drain was not canceled")
	}
	w.fails(`"nowhere" not found`, "drain", "nowhere")
}

func TestWhatIfAndPolicyTestSayWhatWouldMove(t *testing.T) {
	w := newWorld(t, "whatif")
	w.physical("whatif-a", "whatif-b")
	policy := func(name, selector, place string) string {
		return `{apiVersion: placement.atoll.dev/v1alpha1, kind: ClusterPlacementPolicy, metadata: {name: ` + name + `}, spec: {` + selector + `
terms: [{matchLabels: {name: ` + place + `}}]}}`
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(name, place string) {
		t.Helper()
		p := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Terms = []placementv1alpha1.PhysicalClusterTerm{{MatchLabels: map[string]string{"name": place}}}
		if _, err := w.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(w.ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	apply("own", "whatif-a")
	w.deploy("web", "")
	w.deploy("db", "")

	all := []string{"whatif", "--without", "whatif-a", "-A"}
	w.wantRow(all, "web", "Pending", "whatif-a", "<none>")
	if out := w.ok(all...); !strings.Contains(out, "2 namespaces: 0 would move, 2 would have nowhere to go, 0 stay where they are") {
		t.Errorf("the count: %s", out)
	}
	w.wantRow([]string{"whatif", "--without", "whatif-b", "-n", "web"}, "web", "Unchanged", "whatif-a", "whatif-a")

	// A version of the policy that is there takes its place.
	write(policy("own", "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: web}},", "whatif-b"))
	w.wantRow([]string{"whatif", "-f", file, "-A"}, "web", "Moves", "whatif-a", "whatif-b", "whatif-a:", "no", "term", "of", "policy", "own")
	w.wantRow([]string{"whatif", "-f", file, "-A"}, "db", "Unchanged") // which it does not select any more
	// Another one is heard beside it.
	write(policy("other", "", "whatif-b"))
	w.wantRow([]string{"whatif", "-f", file, "-A"}, "web", "Pending", "whatif-a", "<none>")
	// In root it holds for all logical clusters that it selects.
	out := w.ok("policy", "test", "-f", file, "--context", "root")
	if err := row(out, "whatif", "web", "Pending", "whatif-a", "<none>"); err != nil {
		t.Error(err)
	}
	w.wantRow([]string{"whatif", "--without", "whatif-a", "--context", "root", "-n", "web"}, "whatif", "web", "Pending", "whatif-a")

	// A PlacementPolicy is for its namespace, placed or not.
	if _, err := w.Kube.CoreV1().Namespaces().Create(w.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	write(`{apiVersion: placement.atoll.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: p, namespace: new}, spec: {preferences: [{matchLabels: {name: whatif-b}}]}}`)
	out = w.ok("policy", "test", "-f", file)
	if err := row(out, "new", "Placed", "<none>", "whatif-a"); err != nil || !strings.HasPrefix(out, "PlacementPolicy p of namespace new is valid and would be created.") {
		t.Errorf("%v: %s", err, out)
	}
	if got := w.ok("policy", "test", "-f", file, "-o", "jsonpath={.items[*].status.physicalClusters[0]}"); got != "whatif-a" {
		t.Errorf("the reviews: %s", got)
	}
	w.fails("a PlacementPolicy is for a namespace of a logical cluster", "policy", "test", "-f", file, "--context", "root")

	if list, err := w.Atoll.PlacementV1alpha1().ClusterPlacementPolicies().List(w.ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("something was stored: %v %v", list, err)
	}
	write(policy("own", "trems: [],", "whatif-b"))
	w.fails(`unknown field "spec.trems"`, "policy", "test", "-f", file)
	write(policy("own", "count: 0,", "whatif-b"))
	w.fails("spec.count", "policy", "test", "-f", file)
	write("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}")
	w.fails("is no policy", "policy", "test", "-f", file)
	w.fails("name the policy: -f FILE", "policy", "test")
	w.fails("say what to suppose", "whatif")
	w.fails(`"nowhere" not found`, "whatif", "--without", "nowhere")
}
