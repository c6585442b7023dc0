package down

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

// act does one action and puts what it learned into the input of the next plan.
func (p *pass) act(ctx context.Context, a syncer.Action) error {
	switch a.Verb {
	case syncer.WriteCopy:
		return p.writeCopy(ctx, a.Copy)
	case syncer.Look:
		return p.look(ctx)
	case syncer.Wait:
		p.after = a.After
		if a.Counting && p.in.Counting.IsZero() {
			p.memory.change(p.key, func(r *remembered) { r.counting = p.in.Now })
		}
		return nil
	case syncer.LookAtRules:
		return p.lookAtRules(ctx)
	case syncer.LookAtPods:
		return p.lookAtPods(ctx)
	case syncer.CreateNamespace:
		return p.createNamespace(ctx)
	case syncer.Supply:
		return p.supply(ctx, a.Supplies)
	case syncer.LookAtVolume:
		return p.lookAtVolume(ctx)
	case syncer.MakeVolume:
		return p.makeVolume(ctx, a)
	case syncer.UpdateVolume:
		return p.updateVolume(ctx, a)
	case syncer.DeleteVolume:
		return p.deleteVolume(ctx, a)
	case syncer.MakeHelper:
		return p.makeHelper(ctx, a)
	case syncer.DeleteHelper:
		return p.deleteHelper(ctx, a)
	case syncer.Apply:
		return p.apply(ctx, a)
	case syncer.Resize:
		return p.resize(ctx, a.Object)
	case syncer.PatchStatus:
		return p.patchStatus(ctx, a.Object)
	case syncer.Suspend:
		return p.suspend(ctx, a.Object)
	case syncer.Unmark:
		refusal, err := p.merge(ctx, a.Object)
		p.in.Failure = refusal
		return err
	case syncer.Delete:
		return p.delete(ctx, a)
	case syncer.AskServer:
		return p.ask(ctx, a.UID)
	case syncer.Report:
		var err error
		p.after, err = p.Orphans.Found(ctx, p.kind, p.key)
		return err
	}
	return fmt.Errorf("unknown verb %q", a.Verb)
}

// refusedDelay is how long the objects in a Namespace that was refused do not try it again themselves: there may be
// thousands, each of which would wait for the answer to the ones before.
const refusedDelay = time.Second

// createNamespace reconciles the Namespace of the object here and now, so that
// the first object in it does not wait for a queue.
func (p *pass) createNamespace(ctx context.Context) error {
	key := view.KeyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	if err := p.makeNamespace(ctx, key); err != nil {
		return fmt.Errorf("making the physical namespace: %w", err)
	}
	p.in.Namespace = p.namespace()
	if p.in.Namespace.State != syncer.NamespaceAbsent {
		return nil
	}
	if c, ok := p.View.Copy(key); ok {
		if p.in.Failure = syncer.NamespaceFailed(c); p.in.Failure != nil {
			return nil
		}
	}
	return errAgain
}

func (p *pass) makeNamespace(ctx context.Context, key view.ObjectKey) error {
	kind, ok := p.View.PlacedKind(key.Resource)
	if !ok {
		return nil
	}
	defer p.making.lock(key)()
	if time.Since(p.memory.get(key).refused) < refusedDelay {
		return nil
	}
	_, err := p.reconcile(ctx, key, kind)
	return err
}

// neverVersion is a resource version that no object has: etcd begins to count at 1
// with its own first entry.
const neverVersion = "1"

// apply sends the object under our field manager. An existing one is named by
// UID. A new one must not exist: it is sent with a resource version that none
// has, which a create ignores, while whatever appeared since we looked answers
// with a conflict, and we look again. Without it the apply would merge into the
// object of somebody else.
func (p *pass) apply(ctx context.Context, a syncer.Action) error {
	exists := a.Object.GetUID() != ""
	if !exists {
		if p.closing.has(a.Object.GetNamespace()) {
			return errAgain
		}
		a.Object.SetResourceVersion(neverVersion)
	}
	body, err := json.Marshal(a.Object.Object)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	obj, err := p.physicalClient().Patch(ctx, a.Object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: syncer.FieldManager, Force: ptr.To(exists)})
	if err != nil {
		return p.refusal(ctx, err)
	}
	p.View.WrittenBelow.Put(p.key, obj)
	p.in.Physical, p.in.Unseen, p.in.Applied, p.in.Settled = obj, false, true, syncer.Fingerprint(obj)
	p.in.Reverts, p.in.AppliedAt = p.in.Reverts.After(a, p.in.Now), time.Now()
	p.memory.change(p.key, func(r *remembered) {
		r.settled, r.reverts, r.applied = p.in.Settled, p.in.Reverts, p.in.AppliedAt
		if !exists { // that was of the one before it
			r.led = nil
		}
	})
	if !exists {
		p.in.LedSince = nil
	}
	if a.Drift {
		p.in.Reverted++
		klog.FromContext(ctx).Info("Reverted a change on the physical cluster")
	}
	return nil
}

// refusal turns the answer of the physical cluster into input for the next plan;
// silence is returned as the error that it is.
func (p *pass) refusal(ctx context.Context, err error) error {
	if apierrors.IsConflict(err) {
		if err := p.look(ctx); err != nil {
			return err
		}
		p.View.WrittenBelow.Forget(p.key, uidOf(p.in.Physical))
		return nil // plan again with what is really there
	}
	if p.kind.Carries && apierrors.IsNotFound(err) {
		return p.notThere(err)
	}
	if syncer.IsNamespaceGone(err) && !p.in.Ref.IsNamespace() {
		if err := p.namespaceGone(ctx); err != nil {
			return err
		}
		return errAgain
	}
	refusalOf := syncer.RefusalOf
	if p.kind.Carries {
		refusalOf = syncer.CarriedRefused
	}
	failure, refused := refusalOf(err, p.kind)
	if !refused {
		return fmt.Errorf("writing to the physical cluster: %w", err)
	}
	p.in.Failure = &failure
	return nil
}

// resize gives the containers of the copy of a pod other resources. What is refused fails the
// Copy: the pod stays as it is.
func (p *pass) resize(ctx context.Context, patch *unstructured.Unstructured) error {
	resized, err := connection.PodPatch{
		Subresource: "resize", Patch: patch, Logical: p.in.Logical, Target: p.in.Target, Name: p.in.Physical.GetName(),
	}.Send(ctx, p.Up, p.physicalClient())
	var refused *connection.RefusedError
	switch {
	case errors.As(err, &refused):
		p.in.Failure = &syncer.Failure{Reason: syncer.ReasonResizeRefused, Message: refused.Message}
		return nil
	case err != nil:
		return err
	case resized == nil:
		return p.look(ctx)
	}
	p.View.WrittenBelow.Put(p.key, resized)
	p.in.Physical = resized
	return nil
}

// patchStatus says in the status of what is below from when on its controller reckons. A refusal is
// noted, and breaks nothing: what is due from now on runs.
func (p *pass) patchStatus(ctx context.Context, patch *unstructured.Unstructured) error {
	refusal, err := p.merge(ctx, patch, "status")
	if refusal != nil {
		klog.FromContext(ctx).Info("The time of the last run was not taken, a run may be missed", "reason", refusal.Reason, "message", refusal.Message)
		p.in.NotCarried = refusal.Message
	}
	return err
}

// suspend has a CronJob begin no more jobs.
func (p *pass) suspend(ctx context.Context, patch *unstructured.Unstructured) error {
	refusal, err := p.merge(ctx, patch)
	p.in.Failure = refusal
	return err
}

// merge sends a merge patch that names the version that it was made for. If there is a later one, what
// is really there is planned upon.
func (p *pass) merge(ctx context.Context, patch *unstructured.Unstructured, subresources ...string) (*syncer.Failure, error) {
	body, err := json.Marshal(patch.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	obj, err := p.physicalClient().Patch(ctx, p.in.Physical.GetName(), types.MergePatchType, body,
		metav1.PatchOptions{FieldManager: syncer.WantedManager}, subresources...)
	switch {
	case err == nil:
		p.View.WrittenBelow.Put(p.key, obj)
		p.in.Physical = obj
		return nil, nil
	case apierrors.IsConflict(err), connection.IsGone(err):
		return nil, p.look(ctx)
	}
	if refusal, refused := syncer.RefusalOf(err, p.kind); refused {
		return &refusal, nil
	}
	return nil, fmt.Errorf("changing what is on the physical cluster: %w", err)
}

// delete removes the object with the UID, in the version that is named, and looks whether it is gone
// at once.
func (p *pass) delete(ctx context.Context, a syncer.Action) error {
	name := p.in.Physical.GetName()
	if p.in.Ref.IsNamespace() {
		defer p.closing.begin(name)()
	}
	if err := p.proveEmpty(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	only := &metav1.Preconditions{UID: &a.UID}
	if a.Version != "" {
		only.ResourceVersion = &a.Version
	}
	err := p.physicalClient().Delete(ctx, name, metav1.DeleteOptions{
		Preconditions:      only,
		PropagationPolicy:  &a.Propagation,
		GracePeriodSeconds: a.Grace,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return p.refusal(ctx, err)
	}
	if apierrors.IsConflict(err) && a.Version != "" {
		return p.look(ctx) // it has changed
	}
	klog.FromContext(ctx).V(2).Info("Deleted on the physical cluster", "uid", a.UID, "why", a.Why)
	p.View.WrittenBelow.Forget(p.key, a.UID)
	p.memory.change(p.key, func(r *remembered) { r.settled = "" })
	p.in.Settled, p.in.Applied, p.in.Failure = "", false, nil
	if err := p.look(ctx); err != nil {
		return err
	}
	if p.in.Physical != nil {
		p.View.WrittenBelow.Put(p.key, p.in.Physical)
	}
	return nil
}

// proveEmpty asks the server whether nothing keeps a physical namespace, before that takes
// along whatever is in it: a watch that is late says nothing of what was just recorded.
func (p *pass) proveEmpty(ctx context.Context) error {
	if !p.in.Ref.IsNamespace() || p.in.Logical == nil {
		return nil // with the Namespace, all Copies in it are gone
	}
	list, err := p.Up.Atoll.PlacementV1alpha1().Copies(p.key.Request.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("asking the server what keeps the namespace: %w", err)
	}
	for i := range list.Items {
		c := &list.Items[i]
		if key, ok := p.View.KeyOfCopy(c); (!ok || key != p.key) && syncer.KeepsNamespace(c, p.in.Namespace.Name) {
			klog.FromContext(ctx).V(2).Info("Something keeps the physical namespace that the watch does not have", "copy", klog.KObj(c))
			return errAgain
		}
	}
	return nil
}

// carry gives the copy of a pod of a user what somebody added to the pod above: conditions
// of readiness gates, and ephemeral containers.
func (p *pass) carry(ctx context.Context) error {
	if !p.kind.IsPod() || p.after > 0 || p.in.Failure != nil {
		return nil
	}
	if patch := syncer.CopiedGatesBelow(p.in.Logical, p.in.Physical); patch != nil {
		if _, err := connection.PatchStatus(ctx, p.physicalClient(), p.in.Physical.GetName(), patch); err != nil {
			return err
		}
	}
	within, _ := p.View.Namespace(p.key.Request.Cluster, p.key.Request.Namespace)
	patch, refused := syncer.EphemeralContainersBelow(p.kind, p.in.Logical, p.in.Physical, syncer.PermitsIn(within, p.View.Target, p.in.Permits))
	switch {
	case refused != "":
		connection.WriteEvent(ctx, p.Up, syncer.PodEvent(p.in.Logical, p.in.Target, syncer.ReasonDebuggingRefused, refused, metav1.NewTime(p.in.Now)))
	case patch != nil:
		_, err := connection.PodPatch{
			Subresource: "ephemeralcontainers", Patch: patch, Logical: p.in.Logical, Target: p.in.Target, Name: p.in.Physical.GetName(),
			Reason: syncer.ReasonDebuggingRefused,
		}.Send(ctx, p.Up, p.physicalClient())
		return err
	}
	return nil
}

func uidOf(obj *unstructured.Unstructured) types.UID {
	if obj == nil {
		return ""
	}
	return obj.GetUID()
}
