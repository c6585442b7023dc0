package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// orphanInterval is how often an orphan is looked at without an event, and
	// orphanRemovalInterval one that is being removed.
	orphanInterval        = 10 * time.Minute
	orphanRemovalInterval = 5 * time.Second
	// byClaim finds Orphans by the logical object that they claim.
	byClaim = "claim"
)

// orphanRecords are the Orphans of the physical cluster.
type orphanRecords = controller.Informer[*fleetv1alpha1.Orphan]

func (s *session) orphanInformer() *orphanRecords {
	return controller.NewInformer("orphans of "+s.target, &fleetv1alpha1.Orphan{},
		controller.Lists(s.up.atoll.FleetV1alpha1().Orphans()),
		controller.InformerOptions[*fleetv1alpha1.Orphan]{Server: s.up.server, Indexers: map[string]func(*fleetv1alpha1.Orphan) []string{
			byUID: func(o *fleetv1alpha1.Orphan) []string { return []string{string(o.Spec.Object.UID)} },
			byClaim: func(o *fleetv1alpha1.Orphan) []string {
				if key, ok := s.keyOfClaim(o); ok {
					return []string{key.String()}
				}
				return nil
			},
		}})
}

func (s *session) kindOfOrphan(o *fleetv1alpha1.Orphan) (workload.Kind, bool) {
	return s.kinds.ByResource(schema.GroupResource{Group: o.Spec.Object.Group, Resource: o.Spec.Object.Resource})
}

func (s *session) keyOfClaim(o *fleetv1alpha1.Orphan) (objectKey, bool) {
	kind, ok := s.kindOfOrphan(o)
	if !ok {
		return objectKey{}, false
	}
	ref := syncer.ClaimOf(kind, o)
	return objectKey{
		Resource: kind.GroupVersionResource(),
		Request:  controller.Request{Cluster: ref.Cluster, Namespace: ref.Namespace, Name: ref.Name},
	}, true
}

// orphanOrder is the order for an object of the physical cluster that is listed.
func (s *session) orphanOrder(uid types.UID) (order fleetv1alpha1.OrphanOrder, listed bool) {
	for _, o := range s.listed.ByIndex(byUID, string(uid)) {
		return o.Spec.Order, true
	}
	return "", false
}

// orphanRecordChanged: a new order, or one of another.
func (s *session) orphanRecordChanged(old, new *fleetv1alpha1.Orphan) {
	o := new
	if o == nil {
		o = old
	}
	s.orphanQueue.Enqueue(o.Name)
	if key, ok := s.keyOfClaim(o); ok && (old == nil || new == nil || old.Spec.Order != new.Spec.Order) {
		s.objectQueue.Enqueue(key)
	}
	s.countOrphans()
}

// claimChanged: what becomes of an orphan may depend on the object that it claims,
// and on the Copy of that.
func (s *session) claimChanged(key objectKey) {
	for _, o := range s.listed.ByIndex(byClaim, key.String()) {
		s.orphanQueue.Enqueue(o.Name)
	}
}

// countOrphans reports how many orphans there are, listed or not.
func (s *session) countOrphans() {
	unlisted := int32(s.unlisted.len())
	counts := fleetv1alpha1.OrphanCounts{Found: unlisted, Undecided: unlisted}
	for _, o := range s.listed.List() {
		counts.Found++
		if o.Spec.Order == "" {
			counts.Undecided++
		}
	}
	s.report.orphans(counts)
}

// foundOrphans lists everything that carries the mark of an object that has neither
// an object nor a Copy above.
func (p *pass) foundOrphans(ctx context.Context) error {
	p.after = orphanInterval
	all := p.below[p.key.Resource].ByIndex(byMark, p.key.Request.String())
	for _, obj := range all {
		if p.observed[p.key.Resource].Kind != "" && first(p.logical[p.key.Resource].ByIndex(byEntryUID, string(obj.GetUID()))) != nil {
			continue // it is mirrored
		}
		if len(p.listed.ByIndex(byUID, string(obj.GetUID()))) > 0 {
			continue
		}
		if len(p.listed.List()) >= fleetv1alpha1.MaxOrphans {
			if p.unlisted.put(p.key, true) {
				p.countOrphans()
			}
			return nil
		}
		if err := p.listOrphan(ctx, obj); err != nil {
			return err
		}
	}
	if p.unlisted.drop(p.key) {
		p.countOrphans()
	}
	return nil
}

func (p *pass) listOrphan(ctx context.Context, obj *unstructured.Unstructured) error {
	o, ok := syncer.NewOrphan(p.target, p.controlPlane, p.kind, obj)
	if !ok {
		return nil
	}
	_, err := p.up.atoll.FleetV1alpha1().Orphans().Create(scope.WithCluster(ctx, scope.Root), o, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("listing an orphan: %w", err)
	}
	klog.FromContext(ctx).Info("Found an object of ours without an object or a record in the control plane, leaving it until there is an order",
		"uid", obj.GetUID(), "orphan", o.Name)
	return nil
}

// orphan brings one Orphan up to date: whether it is one, and what becomes of its
// order.
func (s *session) orphan(ctx context.Context, name string) (controller.Result, error) {
	o, ok := s.listed.Get(controller.Request{Cluster: scope.Root, Name: name})
	if !ok || o.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	kind, ok := s.kindOfOrphan(o)
	if !ok || s.below[kind.GroupVersionResource()] == nil {
		return controller.Result{RequeueAfter: orphanInterval}, nil // nothing can be said about it
	}
	err := s.settleOrphan(ctx, kind, o)
	switch {
	case apierrors.IsConflict(err), isSilence(err):
		return controller.Result{RequeueAfter: orphanRemovalInterval}, nil
	case err != nil:
		return controller.Result{}, err
	case o.Spec.Order == fleetv1alpha1.OrphanRemove:
		return controller.Result{RequeueAfter: orphanRemovalInterval}, nil
	}
	return controller.Result{RequeueAfter: orphanInterval}, nil
}

func (s *session) settleOrphan(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) error {
	in, err := s.readOrphan(ctx, kind, o)
	if err != nil {
		return err
	}
	a := syncer.PlanOrphan(in)
	if a.Verb == syncer.OrphanDelete {
		// The last word is that of the server about what is placed here, now.
		if in.Logical, err = s.claimed(ctx, kind, o); err != nil {
			return err
		}
		a = syncer.PlanOrphan(in)
	}
	if a.Verb == syncer.OrphanDelete {
		if in.Failure, err = s.deleteOrphan(ctx, in); err != nil {
			return err
		}
		a = syncer.PlanOrphan(in)
	}
	ctx = scope.WithCluster(ctx, scope.Root)
	client := s.up.atoll.FleetV1alpha1().Orphans()
	if a.Verb == syncer.OrphanDrop {
		err := client.Delete(ctx, o.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(o.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing an Orphan: %w", err)
		}
		return nil
	}
	if equality.Semantic.DeepEqual(o.Status, a.Status) {
		return nil
	}
	written := o.DeepCopy()
	written.Status = a.Status
	if _, err := client.UpdateStatus(ctx, written, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of an Orphan: %w", err)
	}
	return nil
}

// readOrphan gathers what is known; that the physical cluster does not have it any
// more says the physical cluster itself.
func (s *session) readOrphan(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) (in syncer.OrphanInput, err error) {
	gvr := kind.GroupVersionResource()
	in = syncer.OrphanInput{Target: s.target, ControlPlane: s.controlPlane, Kind: kind, Orphan: o}
	in.Physical = first(s.below[gvr].ByIndex(byUID, string(o.Spec.Object.UID)))
	if in.Physical == nil {
		if in.Physical, err = s.lookForOrphan(ctx, kind, o); err != nil || in.Physical == nil {
			return in, err
		}
	}
	in.Mirrored = first(s.logical[gvr].ByIndex(byEntryUID, string(o.Spec.Object.UID))) != nil
	key, _ := s.keyOfClaim(o)
	informed, found := s.copies.Get(copyRequest(key, s.target))
	if c, ok := s.writtenCopies.pick(key, informed, found); ok {
		in.Copy = c
	}
	in.Logical, _ = s.logical[gvr].Get(key.Request)
	if namespace, ok := s.logical[namespaces].Get(controller.Request{Cluster: key.Request.Cluster, Name: o.Spec.Claim.Namespace}); ok {
		for _, name := range physicalName(namespace) {
			in.Namespace = name
		}
	}
	if kind.Role == workload.Container {
		in.Contents = s.ours(in.Physical.GetName())
	}
	return in, nil
}

// ours counts the copies, and what was copies, in a physical namespace.
func (s *session) ours(namespace string) int {
	n := 0
	for gvr, kind := range s.placed {
		if s.below[gvr] == nil || kind.Role == workload.Container {
			continue
		}
		for _, obj := range s.below[gvr].ListNamespace("", namespace) {
			if _, ok := syncer.MarkOf(gvr.GroupResource(), obj); ok {
				n++
			}
		}
	}
	return n
}

// lookForOrphan asks the physical cluster; nil if it is gone, or another one has
// its name.
func (s *session) lookForOrphan(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	obj, err := s.orphanClient(kind, o).Get(ctx, o.Spec.Object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && obj.GetUID() != o.Spec.Object.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for an orphan: %w", err)
	}
	return obj, nil
}

func (s *session) orphanClient(kind workload.Kind, o *fleetv1alpha1.Orphan) dynamic.ResourceInterface {
	c := s.down.dynamic.Resource(kind.GroupVersionResource())
	if o.Spec.Object.Namespace == "" {
		return c
	}
	return c.Namespace(o.Spec.Object.Namespace)
}

// claimed asks the server for the object that an orphan claims, as far as it is
// placed here.
func (s *session) claimed(ctx context.Context, kind workload.Kind, o *fleetv1alpha1.Orphan) (*unstructured.Unstructured, error) {
	c := apimeta.FindStatusCondition(o.Status.Conditions, fleetv1alpha1.ConditionObjectExists)
	if c != nil && c.Reason == fleetv1alpha1.ReasonNoLogicalCluster {
		return nil, nil // there is nobody to ask
	}
	ref := syncer.ClaimOf(kind, o)
	get := s.up.dynamic.Resource(kind.GroupVersionResource()).Get
	if ref.Namespace != "" {
		get = s.up.dynamic.Resource(kind.GroupVersionResource()).Namespace(ref.Namespace).Get
	}
	obj, err := get(scope.WithCluster(ctx, logicalcluster.Name(o.Spec.Claim.LogicalCluster)), ref.Name, metav1.GetOptions{})
	key, _ := s.keyOfClaim(o)
	switch {
	case isGone(err, key), isNamespaceGone(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("asking for the object that an orphan claims: %w", err)
	}
	return obj, nil
}

// deleteOrphan removes it, by UID. What the physical cluster says against it comes
// back as a failure.
func (s *session) deleteOrphan(ctx context.Context, in syncer.OrphanInput) (*syncer.Failure, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	uid, background := in.Physical.GetUID(), metav1.DeletePropagationBackground
	err := s.orphanClient(in.Kind, in.Orphan).Delete(ctx, in.Physical.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		klog.FromContext(ctx).Info("Deleted an orphan on the physical cluster, as ordered", "uid", uid, "orphan", in.Orphan.Name)
		return nil, nil
	}
	if failure, refused := refusalOf(err, in.Kind.Kind); refused {
		return &failure, nil
	}
	return nil, fmt.Errorf("deleting an orphan: %w", err)
}
