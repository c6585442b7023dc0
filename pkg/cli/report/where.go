package report

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Object is one of which it is asked where it runs.
type Object struct {
	// Type is <resource>.<group>; Namespace is that of its Copies.
	Type, Namespace, Name string
	UID                   types.UID
	Annotations           map[string]string
}

// Where is a row for each object and physical cluster.
type Where struct{ table *metav1.Table }

// NewWhere has no rows.
func NewWhere() *Where {
	return &Where{newTable("Namespace", "Object", "Physical Cluster", "State", "Reason", "+Physical Namespace", "+Message")}
}

// Table is what there is.
func (w *Where) Table() *metav1.Table { return w.table }

// AddPlacement adds the decision for a namespace.
func (w *Where) AddPlacement(p *placementv1alpha1.Placement) {
	object := "placement/" + p.Name
	decided := stamp.Decided(p).Names()
	if len(decided) == 0 {
		reason, message, _ := notTrue(p.Status.Conditions, placementv1alpha1.ConditionScheduled)
		add(w.table, p.Namespace, object, none, "Pending", orNone(reason), none, orNone(message))
		return
	}
	_, unsatisfied, _ := notTrue(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied)
	seen := map[string]bool{}
	for _, t := range p.Status.Targets {
		seen[t.PhysicalCluster] = true
		add(w.table, p.Namespace, object, t.PhysicalCluster, orNone(string(t.Phase)), orNone(t.Reason), none, orNone(unsatisfied))
	}
	for _, name := range decided {
		if !seen[name] {
			add(w.table, p.Namespace, object, name, "Decided", none, none, orNone(unsatisfied))
		}
	}
}

// AddCopies adds Copies, sorted by object and physical cluster.
func (w *Where) AddCopies(copies []placementv1alpha1.Copy) {
	copies = slices.Clone(copies)
	slices.SortFunc(copies, func(a, b placementv1alpha1.Copy) int {
		return slices.Compare(
			[]string{a.Namespace, typeOf(a.Spec.Object), a.Spec.Object.Name, a.Spec.PhysicalCluster},
			[]string{b.Namespace, typeOf(b.Spec.Object), b.Spec.Object.Name, b.Spec.PhysicalCluster})
	})
	for i := range copies {
		w.addCopy(&copies[i])
	}
}

func (w *Where) addCopy(c *placementv1alpha1.Copy) {
	add(w.table, c.Namespace, typeOf(c.Spec.Object)+"/"+c.Spec.Object.Name, c.Spec.PhysicalCluster,
		orUnknown(string(c.Status.State)), orNone(c.Status.Reason), orNone(cmp.Or(c.Status.PhysicalNamespace, c.Status.Carried.Namespace)), orNone(messageOf(c)))
}

// messageOf says what there is to say of a Copy, also of one that is as it is to be.
func messageOf(c *placementv1alpha1.Copy) string {
	if c.Status.Message == "" && len(c.Status.NoEndpoints) > 0 {
		return "it leads to no ready pod there by " + strings.Join(c.Status.NoEndpoints, ", ") + ": clients are sent to the addresses of others that do"
	}
	return c.Status.Message
}

// AddObject adds an object: its targets, each with the Copy if there is one, and then
// the Copies that are not among its targets any more.
func (w *Where) AddObject(o Object, copies []placementv1alpha1.Copy) {
	name := o.Type + "/" + o.Name
	own := map[string]*placementv1alpha1.Copy{}
	for i := range copies {
		if copies[i].Spec.Object.UID == o.UID {
			own[copies[i].Spec.PhysicalCluster] = &copies[i]
		}
	}
	targets := stamp.TargetsOf(o.Annotations)
	for _, target := range targets.Names() {
		switch c := own[target]; {
		case targets[target].State == placementv1alpha1.TargetObserved:
			add(w.table, orNone(o.Namespace), name, target, "Mirrored", none, none, "a controller of the physical cluster made it")
		case c != nil:
			w.addCopy(c)
		case targets[target].NoCopy():
			add(w.table, orNone(o.Namespace), name, target, string(targets[target].State), none, none, "no copy is made there")
		default:
			add(w.table, orNone(o.Namespace), name, target, "Pending", "NoCopyYet", none, "the syncer of the physical cluster has not taken note of it")
		}
		delete(own, target)
	}
	left := make([]placementv1alpha1.Copy, 0, len(own))
	for _, c := range own {
		left = append(left, *c)
	}
	w.AddCopies(left)
	if len(targets) == 0 && len(left) == 0 {
		add(w.table, orNone(o.Namespace), name, none, "NotPlaced", none, none,
			"it stays in the logical cluster: of a kind that does not run, not needed by anything that runs, or waiting for a place (kubectl atoll explain)")
	}
}

func typeOf(o placementv1alpha1.ObjectReference) string {
	return strings.TrimSuffix(o.Resource+"."+o.Group, ".")
}
