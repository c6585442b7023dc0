package native

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apis/install"
	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

func testScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	install.Install(scheme)
	return scheme
}

func TestEveryKindIsTheOneThatTheSchemeKnowsUnderItsName(t *testing.T) {
	t.Parallel()
	scheme := testScheme()
	for _, kind := range Kinds() {
		for name, obj := range map[string]runtime.Object{kind.Kind: kind.New(), kind.Kind + "List": kind.NewList()} {
			known, err := scheme.New(kind.WithKind(name))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if diff := cmp.Diff(known, obj); diff != "" {
				t.Errorf("%s is another type: %s", name, diff)
			}
		}
		if cells := kind.Row(kind.New()); len(cells) != len(kind.Columns) {
			t.Errorf("%s has %d columns and %d cells in a row", kind.Kind, len(kind.Columns), len(cells))
		}
	}
}

func TestACreatedObjectHasGenerationOneAndNoStatusOfItsAuthor(t *testing.T) {
	t.Parallel()
	obj := &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 7}}
	obj.Spec.Unschedulable = true
	obj.Status.Version = "v9"
	newStrategy(testScheme(), PhysicalCluster()).PrepareForCreate(t.Context(), obj)

	want := &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: 1, Finalizers: []string{fleet.CopiesFinalizer}}}
	want.Spec.Unschedulable = true
	want.Spec.Connection.Type = fleet.ConnectionPull
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALogicalClusterGetsItsFinalizerOnceBesideThoseOfOthers(t *testing.T) {
	t.Parallel()
	for _, had := range [][]string{{"example.com/mine"}, {"example.com/mine", tenancy.ContentFinalizer}} {
		obj := &tenancy.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", Finalizers: had}}
		newStrategy(testScheme(), LogicalCluster()).PrepareForCreate(t.Context(), obj)
		if diff := cmp.Diff([]string{"example.com/mine", tenancy.ContentFinalizer}, obj.Finalizers); diff != "" {
			t.Errorf("finalizers of one that had %v (-want +got):\n%s", had, diff)
		}
	}
}

// Which endpoint changes what:
//
//	           spec  status  labels  generation
//	main       yes   no      yes     with spec
//	status     no    yes     no      never
func TestTheMainEndpointWritesTheSpecAndTheOtherTheStatus(t *testing.T) {
	t.Parallel()
	object := func(unschedulable bool, version, label string, generation int64) *fleet.PhysicalCluster {
		o := &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: generation, Labels: map[string]string{"region": label}}}
		o.Spec.Unschedulable, o.Spec.Connection.Type, o.Status.Version = unschedulable, fleet.ConnectionPull, version
		return o
	}
	main := newStrategy(testScheme(), PhysicalCluster())
	for name, c := range map[string]struct {
		prepare      func(obj, old runtime.Object)
		update, want *fleet.PhysicalCluster
	}{
		"main, all changed": {
			func(obj, old runtime.Object) { main.PrepareForUpdate(t.Context(), obj, old) },
			object(true, "v2", "us", 99), object(true, "v1", "us", 5),
		},
		"main, only labels changed": {
			func(obj, old runtime.Object) { main.PrepareForUpdate(t.Context(), obj, old) },
			object(false, "v1", "us", 4), object(false, "v1", "us", 4),
		},
		"status, all changed": {
			func(obj, old runtime.Object) { statusStrategy{main}.PrepareForUpdate(t.Context(), obj, old) },
			object(true, "v2", "us", 99), object(false, "v2", "eu", 4),
		},
	} {
		c.prepare(c.update, object(false, "v1", "eu", 4))
		if diff := cmp.Diff(c.want, c.update); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestServerSideApplyOwnsOnlyWhatTheEndpointWrites(t *testing.T) {
	t.Parallel()
	main := newStrategy(testScheme(), Placement())
	reset := func(sets map[fieldpath.APIVersion]*fieldpath.Set) string {
		return sets["placement.atoll.dev/v1alpha1"].String()
	}
	if got := reset(main.GetResetFields()); got != ".status" {
		t.Errorf("the main endpoint resets %q", got)
	}
	if got, want := reset(statusStrategy{main}.GetResetFields()), ".spec\n.metadata.labels"; got != want {
		t.Errorf("the status endpoint resets %q, want %q", got, want)
	}
	if sets := newStrategy(testScheme(), Copy()).GetResetFields(); sets != nil {
		t.Errorf("a Copy, whose status has no endpoint of its own, resets %v", sets)
	}
}

func TestTheRowOfAPolicySaysHowManyWhereAndWhichAreBetter(t *testing.T) {
	t.Parallel()
	p := &placement.PlacementPolicy{}
	p.Spec.Count = new(int32(2))
	p.Spec.Topology = []placement.TopologyTier{{Key: "region", Count: new(int32(3))}, {Key: "zone"}}
	p.Spec.Terms = []placement.PhysicalClusterTerm{{MatchLabels: map[string]string{"b": "2", "a": "1"}}, {}}
	p.Spec.Preferences = []placement.PhysicalClusterTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "site", Operator: corev1.NodeSelectorOpIn, Values: []string{"own", "near"}}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}}},
	}
	want := []any{"", "2", "region=3,zone=all", "a=1,b=2 or any", "site In own|near then gpu Exists"}
	if diff := cmp.Diff(want, PlacementPolicy().Row(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATableHasTheNameTheColumnsOfTheKindAndTheAge(t *testing.T) {
	t.Parallel()
	decided := placement.Placement{ObjectMeta: metav1.ObjectMeta{Name: "namespace", Namespace: "web"}}
	decided.Spec.Decision = &placement.Decision{PhysicalClusters: []placement.DecidedPhysicalCluster{{Name: "east"}, {Name: "west"}}}
	decided.Status.Conditions = []metav1.Condition{{Type: placement.ConditionScheduled, Status: metav1.ConditionTrue, Message: "fits"}, {Type: placement.ConditionPolicySatisfied, Status: metav1.ConditionFalse, Message: "west is forbidden"},
		{Type: placement.ConditionMoving, Status: metav1.ConditionTrue, Reason: "Starting", Message: "from north to west"}}
	decided.Status.SchedulerName = "cost"
	pending := placement.Placement{ObjectMeta: metav1.ObjectMeta{Name: "namespace", Namespace: "db"}}
	pending.Status.Conditions = []metav1.Condition{{Type: placement.ConditionScheduled, Status: metav1.ConditionFalse, Message: "no cluster is Ready"}}
	list := &placement.PlacementList{ListMeta: metav1.ListMeta{ResourceVersion: "42"}, Items: []placement.Placement{decided, pending}}

	table, err := tableConvertor{kind: Placement()}.ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	rows := [][]any{}
	for _, r := range table.Rows {
		rows = append(rows, r.Cells)
	}
	if diff := cmp.Diff([]string{"Name", "Physical Clusters", "Scheduled", "Settled", "Moving", "Policy Satisfied", "Message", "Scheduler", "Age"}, columns); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	want := [][]any{
		{"namespace", "east,west", "True", "Unknown", "Starting", "False", "from north to west", "cost", "<unknown>"},
		{"namespace", "", "False", "Unknown", "", "Unknown", "no cluster is Ready", "", "<unknown>"},
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if table.ResourceVersion != "42" {
		t.Errorf("resource version %q, want that of the list", table.ResourceVersion)
	}
	bare, err := tableConvertor{kind: Placement()}.ConvertToTable(t.Context(), list, &metav1.TableOptions{NoHeaders: true})
	if err != nil || len(bare.ColumnDefinitions) != 0 || len(bare.Rows) != 2 {
		t.Errorf("without headers: %d columns, %d rows, %v", len(bare.ColumnDefinitions), len(bare.Rows), err)
	}
}
