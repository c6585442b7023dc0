package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// act does one action and puts what it learned into the input of the next plan.
func (p *pass) act(ctx context.Context, a syncer.Action) error {
	switch a.Verb {
	case syncer.WriteCopy:
		return p.writeCopy(ctx, a.Copy)
	case syncer.Look:
		return p.look(ctx)
	case syncer.CreateNamespace:
		return p.createNamespace(ctx)
	case syncer.Apply:
		return p.apply(ctx, a)
	case syncer.Delete:
		return p.delete(ctx, a)
	case syncer.AskServer:
		return p.ask(ctx, a.UID)
	case syncer.Report:
		return p.foundOrphans(ctx)
	}
	return fmt.Errorf("unknown verb %q", a.Verb)
}

func (p *pass) writeCopy(ctx context.Context, c *placementv1alpha1.Copy) error {
	client := p.up.atoll.PlacementV1alpha1().Copies(c.Namespace)
	before := p.in.Copy
	if d := delay(before, c); d > 0 {
		if p.after = p.reports.wait(p.key, time.Now(), d); p.after > 0 {
			return nil // more is likely to come
		}
	}
	// Nobody applies a Copy: without this the server would work out with each write
	// which of its fields are whose, and keep that.
	c.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	if c.Status.State == placementv1alpha1.CopyRemoved {
		if err := p.report.gate.confirm(ctx); err != nil {
			return fmt.Errorf("making sure of whom the copy is gone: %w", err)
		}
	}
	var written *placementv1alpha1.Copy
	var err error
	if before == nil {
		written, err = client.Create(ctx, c, metav1.CreateOptions{})
	} else {
		written, err = client.Update(ctx, c, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		written, err = client.Get(ctx, c.Name, metav1.GetOptions{})
		if err == nil {
			p.writtenCopies.put(p.key, written)
		}
		return errAgain
	case apierrors.IsNotFound(err) && before != nil:
		p.writtenCopies.forget(p.key, before.UID)
		return errAgain
	case isNamespaceGone(err):
		p.logical[namespaces].Doubt()
		return errAgain // the Namespace went since we looked: the watch is about to say so
	case err != nil:
		if apierrors.IsForbidden(err) {
			p.report.notify() // we may have been given up
		}
		return fmt.Errorf("writing the copy: %w", err)
	}
	p.writtenCopies.put(p.key, written)
	p.reports.wrote(p.key, time.Now())
	p.in.Copy, p.in.Reverted = written, 0
	if failedAnew(before, written) {
		p.recordFailure(ctx, written)
	}
	return nil
}

func failedAnew(before, now *placementv1alpha1.Copy) bool {
	if now.Status.State != placementv1alpha1.CopyFailed {
		return false
	}
	return before == nil || before.Status.State != placementv1alpha1.CopyFailed ||
		before.Status.Reason != now.Status.Reason || before.Status.Message != now.Status.Message
}

// createNamespace reconciles the Namespace of the object here and now, so that
// the first object in it does not wait for a queue.
func (p *pass) createNamespace(ctx context.Context) error {
	key := keyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	if _, err := p.reconcile(ctx, key); err != nil {
		return fmt.Errorf("making the physical namespace: %w", err)
	}
	p.in.Namespace = p.namespaceOf()
	if p.in.Namespace.State != syncer.NamespaceAbsent {
		return nil
	}
	informed, found := p.copies.Get(copyRequest(key, p.target))
	if c, ok := p.writtenCopies.pick(key, informed, found); ok && c.Status.State == placementv1alpha1.CopyFailed {
		p.in.Failure = &syncer.Failure{Reason: "Namespace" + c.Status.Reason, Message: "the physical namespace: " + c.Status.Message}
		return nil
	}
	return errAgain
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
	if !exists && workload.Ruled(p.kind) {
		if ruled, err := p.ruled(ctx); err != nil || !ruled {
			return cmp.Or(err, errAgain)
		}
	}
	if !exists {
		a.Object.SetResourceVersion(neverVersion)
	}
	body, err := json.Marshal(a.Object.Object)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	obj, err := p.physicalClient().Patch(ctx, a.Object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: syncer.FieldManager, Force: ptr.To(exists)})
	if err != nil {
		return p.refusal(ctx, err)
	}
	p.writtenBelow.put(p.key, obj)
	p.in.Physical, p.in.Unseen, p.in.Applied, p.in.Settled = obj, false, true, syncer.Fingerprint(obj)
	p.settled.put(p.key, p.in.Settled)
	if !a.Drift {
		p.reverts.forget(p.key)
		p.in.Reverts = syncer.Reverts{}
	} else {
		p.in.Reverts = p.reverts.reverted(p.key, p.in.Now)
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
		p.writtenBelow.forget(p.key, uidOf(p.in.Physical))
		return nil // plan again with what is really there
	}
	if isNamespaceGone(err) && !p.in.Ref.IsNamespace() {
		if err := p.namespaceGone(ctx); err != nil {
			return err
		}
		return errAgain
	}
	failure, refused := refusalOf(err, p.kind.Kind)
	if !refused {
		return fmt.Errorf("writing to the physical cluster: %w", err)
	}
	p.in.Failure = &failure
	return nil
}

// delete removes the object with the UID, and looks whether it is gone at once.
func (p *pass) delete(ctx context.Context, a syncer.Action) error {
	name := p.in.Physical.GetName()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := p.physicalClient().Delete(ctx, name, metav1.DeleteOptions{
		Preconditions:      &metav1.Preconditions{UID: &a.UID},
		PropagationPolicy:  &a.Propagation,
		GracePeriodSeconds: a.Grace,
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return p.refusal(ctx, err)
	}
	klog.FromContext(ctx).V(2).Info("Deleted on the physical cluster", "uid", a.UID, "why", a.Why)
	p.writtenBelow.forget(p.key, a.UID)
	p.settled.drop(p.key)
	p.in.Settled, p.in.Applied, p.in.Failure = "", false, nil
	if err := p.look(ctx); err != nil {
		return err
	}
	if p.in.Physical != nil {
		p.writtenBelow.put(p.key, p.in.Physical)
	}
	return nil
}

// ask finds out whether the object with uid still exists, from a server that
// still knows of its Copy: a server that has forgotten both, one that is another
// one, or one without the logical cluster has no say.
func (p *pass) ask(ctx context.Context, uid types.UID) error {
	c, err := p.up.atoll.PlacementV1alpha1().Copies(p.in.Copy.Namespace).Get(ctx, p.in.Copy.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		p.writtenCopies.forget(p.key, p.in.Copy.UID)
		return errAgain
	case err != nil:
		return fmt.Errorf("asking the server for the copy: %w", err)
	case c.UID != p.in.Copy.UID || c.Spec.Object.UID != uid:
		p.writtenCopies.put(p.key, c)
		return errAgain
	}
	obj, err := p.logicalClient().Get(ctx, p.key.Request.Name, metav1.GetOptions{})
	switch {
	case isGone(err, p.key):
		p.in.Gone = uid
		return nil
	case err != nil:
		return fmt.Errorf("asking the server for the object: %w", err)
	case obj.GetUID() != uid:
		p.in.Gone = uid
		return nil
	}
	return errAgain // it is there: our view of it will come
}

// isGone says that the server answered about this very object, and not about
// its logical cluster or its resource.
func isGone(err error, key objectKey) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Details == nil {
		return false
	}
	d := status.Status().Details
	return d.Name == key.Request.Name && d.Kind == key.Resource.Resource && d.Group == key.Resource.Group
}
