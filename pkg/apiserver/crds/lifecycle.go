package crds

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// group is the unit of the lifecycle: names are unique within a group, so the
// definitions of one are decided together and one after the other.
type group struct {
	cluster logicalcluster.Name
	name    string
}

// LogicalCluster scopes the context of the controller.
func (g group) LogicalCluster() logicalcluster.Name { return g.cluster }

// String is what logs show.
func (g group) String() string { return groupKey(g.cluster, g.name) }

// lifecycleWorkers serve different groups at a time.
const lifecycleWorkers = 4

// Lifecycle keeps the status of definitions.
type Lifecycle struct {
	*controller.Controller[group]
	client      clientset.Interface
	definitions *Definitions

	// written is what was written and the informer does not have yet.
	written *controller.Written[controller.Request, *apiextensionsv1.CustomResourceDefinition]
}

// NewLifecycle makes the controller; client is scoped by context.
func NewLifecycle(client clientset.Interface, definitions *Definitions) *Lifecycle {
	l := &Lifecycle{client: client, definitions: definitions, written: controller.NewWritten[controller.Request, *apiextensionsv1.CustomResourceDefinition]()}
	l.Controller = controller.New("customresourcedefinitions", lifecycleWorkers, l.reconcile)
	definitions.Handle(func(old, now *Definition) {
		d := now
		if d == nil {
			d = old
		}
		if old == nil || now == nil || old.Shape != now.Shape ||
			!equality.Semantic.DeepEqual(old.Status, now.Status) || !equality.Semantic.DeepEqual(old.Annotations, now.Annotations) {
			l.Enqueue(group{cluster: logicalcluster.From(d), name: d.Spec.Group})
		}
		if now == nil {
			l.written.Forget(controller.RequestFor(d), d.UID)
		} else {
			l.written.Arrived(controller.RequestFor(d), d)
		}
	})
	return l
}

// reconcile decides about all definitions of a group. A write brings it back
// here, so names that one releases are offered to the others.
func (l *Lifecycle) reconcile(ctx context.Context, g group) (controller.Result, error) {
	all, schemas := l.group(g)
	for i, crd := range all {
		want := status(crd, schemas[crd.Name], claimed(all, crd.Name))
		if equality.Semantic.DeepEqual(want, crd.Status) {
			continue
		}
		changed := crd.DeepCopy()
		changed.Status = want
		updated, err := l.client.ApiextensionsV1().CustomResourceDefinitions().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return controller.Result{}, fmt.Errorf("writing the status of CustomResourceDefinition %s: %w", crd.Name, err)
		}
		updated.Spec = crd.Spec // without schemas
		l.written.Put(controller.RequestFor(updated), updated)
		all[i] = updated
	}
	return controller.Result{}, nil
}

// group returns the newest that is known of each definition, oldest first, and by name what
// is wrong with their schemas. What comes from the informer has no schemas: the storage
// takes nothing but the status from what is written here.
func (l *Lifecycle) group(g group) ([]*apiextensionsv1.CustomResourceDefinition, map[string]structure) {
	definitions := l.definitions.InGroup(g.cluster, g.name)
	var all []*apiextensionsv1.CustomResourceDefinition
	schemas := map[string]structure{}
	for _, d := range definitions {
		schemas[d.Name] = d.versions.structure
		crd, _ := l.written.Newest(controller.RequestFor(d), d.CustomResourceDefinition, true)
		all = append(all, crd)
	}
	slices.SortFunc(all, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return all, schemas
}
