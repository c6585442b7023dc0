package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// maxSteps bounds one pass over an object; the longest legitimate one (a Job
// made again in a new namespace) takes seven.
const maxSteps = 12

// unwatched is how often a copy is looked at that is there, but not in our cache.
const unwatched = time.Minute

// patience is how long a request to the physical cluster may take.
const patience = 20 * time.Second

// errAgain ends a pass: what was read is outdated.
var errAgain = errors.New("read again")

// reconcile brings one object and its copy together: read, plan, act, until
// there is nothing to do.
func (s *session) reconcile(ctx context.Context, key objectKey) (controller.Result, error) {
	kind, ok := s.placed[key.Resource]
	if !ok {
		return controller.Result{}, nil
	}
	if kind.Role == workload.Container {
		// What is put into a namespace makes it, beside the queue.
		defer s.making.lock(key)()
	}
	pass := &pass{session: s, key: key, kind: kind}
	err := pass.run(ctx)
	switch {
	case errors.Is(err, errAgain):
		return controller.Result{RequeueAfter: s.silent.When(key)}, nil
	case isSilence(err):
		klog.FromContext(ctx).V(2).Info("No answer, will try again", "err", err)
		return controller.Result{RequeueAfter: s.silent.When(key)}, nil
	case err != nil:
		return controller.Result{}, err
	}
	s.silent.Forget(key)
	return controller.Result{RequeueAfter: pass.after}, nil
}

// pass is one run over one object.
type pass struct {
	*session
	key   objectKey
	kind  workload.Kind
	in    syncer.Input
	after time.Duration
	// stray: the physical cluster has something in the place of the copy that the
	// informer lacks, as after a list that came back short. It will say nothing
	// when that changes or goes.
	stray bool
}

func (p *pass) run(ctx context.Context) error {
	p.read()
	if err := p.readRuntimeClasses(ctx); err != nil {
		return err
	}
	for range maxSteps {
		actions := p.plan(p.in)
		if len(actions) == 0 {
			p.done()
			return p.carryGates(ctx)
		}
		for _, action := range actions {
			if err := p.act(ctx, action); err != nil {
				return err
			}
			if p.in.Failure != nil && action.Verb != syncer.WriteCopy {
				break // plan again with the failure
			}
		}
		if p.after > 0 {
			return nil
		}
	}
	return fmt.Errorf("no end after %d steps: %w", maxSteps, errAgain)
}

// done forgets what was only of interest while something was wrong.
func (p *pass) done() {
	if p.unlisted.drop(p.key) {
		p.countOrphans()
	}
	if p.in.Failure != nil || (p.in.Copy != nil && unfinished[p.in.Copy.Status.State]) {
		p.after = p.refused.When(p.key)
		return
	}
	p.refused.Forget(p.key)
	p.after = max(p.writtenCopies.outstanding(p.key), p.writtenBelow.outstanding(p.key))
	if p.after == 0 && p.stray {
		p.after = unwatched
	}
	stands := p.in.Logical != nil && len(p.entryUID(p.in.Logical)) > 0
	if (stands || p.in.Logical == nil) && p.in.Copy == nil {
		p.settled.drop(p.key)
		p.asked.drop(p.key)
		p.uncounted.drop(p.key)
		p.reverts.forget(p.key)
	}
}

// unfinished are the states that are looked at again without a reason.
var unfinished = map[placementv1alpha1.CopyState]bool{
	placementv1alpha1.CopyPending: true, placementv1alpha1.CopyFailed: true, placementv1alpha1.CopyRemoving: true,
}

// read gathers the input from informers. If they do not have the copy, that says
// little: one without our label, or somebody else's object, may be in its place.
func (p *pass) read() {
	p.in = syncer.Input{
		Ref: p.key.ref(p.kind), Target: p.target, ControlPlane: p.controlPlane, Kinds: p.kinds,
		Settled: p.settled.get(p.key), Owner: p.mirrorOf, Reverts: p.reverts.get(p.key), Now: time.Now(), Orphan: p.orphanOrder,
	}
	if obj, ok := p.logical[p.key.Resource].Get(p.key.Request); ok {
		p.in.Logical = obj
	}
	informed, found := p.copies.Get(copyRequest(p.key, p.target))
	if c, ok := p.writtenCopies.pick(p.key, informed, found); ok {
		p.in.Copy = c
	}
	if p.in.Copy != nil && p.in.Copy.Status.State == placementv1alpha1.CopyRemoved {
		return // nothing is done until the server took note
	}
	p.in.Namespace = p.namespaceOf()
	p.in.Scaled = p.isScaled()
	if p.in.Ref.IsNamespace() {
		p.in.Contents = p.contents()
	}
	p.readPhysical()
}

func (p *pass) readPhysical() {
	informer := p.below[p.key.Resource]
	if informer == nil {
		if p.in.Logical != nil {
			p.in.Failure = &syncer.Failure{Reason: "NotServed", Message: "the physical cluster does not serve " + p.key.Resource.String()}
		}
		return
	}
	if p.in.Namespace.Name == "" {
		// No record says where; what carries the mark of the object does.
		marked := first(informer.ByIndex(byMark, p.key.Request.String()))
		if marked == nil {
			return
		}
		p.in.Physical = marked
		p.in.Namespace = syncer.Namespace{Name: physicalNamespaceOf(marked), State: syncer.NamespaceReady}
		return
	}
	obj, found := informer.Get(p.physicalRequest())
	if obj, ok := p.writtenBelow.pick(p.key, obj, found); ok {
		p.in.Physical = obj
		return
	}
	if p.in.Logical == nil && p.in.Copy == nil {
		p.in.Physical = first(informer.ByIndex(byMark, p.key.Request.String()))
		return
	}
	p.in.Unseen = true
}

func physicalNamespaceOf(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() != "" {
		return obj.GetNamespace()
	}
	return obj.GetName()
}

// look asks the physical cluster itself.
func (p *pass) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := p.physicalRequest()
	informed := p.informed(r)
	obj, err := p.physicalClient().Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		p.goneBelow(p.key.Resource, informed)
		p.in.Physical = nil
	case err != nil:
		return fmt.Errorf("looking for the copy: %w", err)
	default:
		p.in.Physical = obj
	}
	p.in.Unseen, p.stray = false, p.in.Physical != nil
	return nil
}

func (p *pass) physicalRequest() controller.Request {
	if p.in.Ref.IsNamespace() {
		return controller.Request{Name: p.in.Namespace.Name}
	}
	return controller.Request{Namespace: p.in.Namespace.Name, Name: p.key.Request.Name}
}

func (p *pass) physicalClient() dynamic.ResourceInterface {
	c := p.down.dynamic.Resource(p.key.Resource)
	if p.in.Ref.IsNamespace() {
		return c
	}
	return c.Namespace(p.in.Namespace.Name)
}

// logicalClient reads what the target sees of the control plane.
func (p *pass) logicalClient() dynamic.ResourceInterface {
	c := p.up.dynamic.Resource(p.key.Resource)
	if p.in.Ref.IsNamespace() {
		return c
	}
	return c.Namespace(p.key.Request.Namespace)
}

// namespaceOf finds the recorded name of the physical namespace: for an object
// that shall be here on its Namespace, for one that was here in its Copy.
func (p *pass) namespaceOf() syncer.Namespace {
	name, uid := "", ""
	logical, ok := p.logical[namespaces].Get(controller.Request{Cluster: p.key.Request.Cluster, Name: p.in.Ref.LogicalNamespace()})
	if ok {
		uid = string(logical.GetUID())
		name = logical.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]
	}
	current := p.in.Logical != nil && p.in.Copy != nil && p.in.Copy.Spec.Object.UID == p.in.Logical.GetUID()
	if p.in.Copy != nil && p.in.Copy.Status.PhysicalNamespace != "" && (!current || name == "") {
		name = p.in.Copy.Status.PhysicalNamespace
	}
	if name == "" || p.in.Ref.IsNamespace() {
		return syncer.Namespace{Name: name, State: syncer.NamespaceReady}
	}
	return syncer.Namespace{Name: name, State: p.namespaceState(name, uid)}
}

// namespaceState is what is known of a physical namespace without asking.
func (p *pass) namespaceState(name, uid string) syncer.NamespaceState {
	informed, found := p.below[namespaces].Get(controller.Request{Name: name})
	key := keyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	obj, ok := p.writtenBelow.pick(key, informed, found)
	switch {
	case !ok || obj.GetName() != name:
		return syncer.NamespaceAbsent
	case obj.GetDeletionTimestamp() != nil:
		return syncer.NamespaceTerminating
	case uid != "" && obj.GetAnnotations()[placementv1alpha1.UIDAnnotation] != uid:
		return syncer.NamespaceNotOurs
	}
	return syncer.NamespaceReady
}

func (p *pass) isScaled() bool {
	if len(p.kind.Replicas) == 0 || p.in.Logical == nil {
		return false
	}
	for _, kind := range p.kinds.Kinds() {
		scalers := p.logical[kind.GroupVersionResource()]
		if len(kind.Scales) == 0 || scalers == nil {
			continue
		}
		for _, scaler := range scalers.ByIndex(byScaled, scaledValue(p.key.Request, p.kind.Kind, p.key.Request.Name)) {
			entry, ok := stamp.TargetsOf(scaler.GetAnnotations())[p.target]
			if ok && entry.State == placementv1alpha1.TargetSync && scaler.GetDeletionTimestamp() == nil {
				return true
			}
		}
	}
	return false
}

// contents counts what keeps a physical namespace: Copies in it whose objects
// may still be there.
func (p *pass) contents() int {
	n := 0
	for _, c := range p.copies.ListNamespace(p.key.Request.Cluster, p.key.Request.Name) {
		key, ok := keyOfCopy(p.kinds, c)
		if !ok || key == p.key {
			continue
		}
		if newer, ok := p.writtenCopies.pick(key, c, true); ok {
			c = newer
		}
		if c.Status.State != placementv1alpha1.CopyRemoved {
			n++
		}
	}
	return n
}
