package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// binding is how long a new pod may wait for its node before it is mirrored
	// without: with it, one write does.
	binding = 2 * time.Second
	// shortDelay is when something is looked at again that no event announces.
	shortDelay = 100 * time.Millisecond
	// wantedManager owns below what users changed on what was mirrored.
	wantedManager = "atoll-wanted"
)

// observe brings one object that controllers below made up to date in its
// logical cluster.
func (s *session) observe(ctx context.Context, key observationKey) (controller.Result, error) {
	v, after, err := s.sight(ctx, key)
	if err == nil && v != nil {
		ctx = scope.WithCluster(ctx, v.cluster)
		after, err = s.respond(ctx, v, s.decide(v.Observation))
		if v.unwatched {
			after = max(after, 5*time.Second)
		}
	}
	switch {
	case isSilence(err):
		klog.FromContext(ctx).V(2).Info("No answer, will try again", "err", err)
		return controller.Result{RequeueAfter: 5 * time.Second}, nil
	case err != nil:
		return controller.Result{}, err
	}
	if after == 0 {
		after = s.writtenLogical.outstanding(key)
	}
	return controller.Result{RequeueAfter: after}, nil
}

// viewed is an observed object and where it belongs.
type viewed struct {
	syncer.Observation
	key     observationKey
	cluster logicalcluster.Name
	client  dynamic.ResourceInterface
	// unwatched: the informer lacks what is below, as if its label was taken off.
	unwatched bool
}

// sight reads what is known of an object; nil if there is nothing to respond to.
func (s *session) sight(ctx context.Context, key observationKey) (*viewed, time.Duration, error) {
	kind, ok := s.observed[key.Resource]
	if !ok {
		return nil, 0, nil
	}
	v := &viewed{key: key, Observation: syncer.Observation{Kind: kind, Owner: s.owner, Refers: s.refers}}
	v.Physical = first(s.below[key.Resource].ByIndex(byUID, string(key.UID)))
	informed := first(s.logical[key.Resource].ByIndex(byEntryUID, string(key.UID)))
	v.Logical, _ = s.writtenLogical.pick(key, informed, informed != nil)

	if v.Physical != nil {
		if v.Logical == nil && s.isCopy(key.Resource, v.Physical) {
			return nil, 0, nil
		}
		if after := unbound(v.Physical); after > 0 && v.Logical == nil {
			return nil, after, nil
		}
		namespace := first(s.logical[namespaces].ByIndex(byPhysicalName, v.Physical.GetNamespace()))
		switch {
		case v.Logical == nil && (namespace == nil || namespace.GetDeletionTimestamp() != nil):
			return nil, 0, nil // a namespace that is not, or no more, there takes nothing up
		case namespace != nil:
			v.cluster, v.Namespace = logicalcluster.From(namespace), namespace.GetName()
		}
	}
	if v.Logical != nil {
		v.cluster, v.Namespace = logicalcluster.From(v.Logical), v.Logical.GetNamespace()
	}
	if v.cluster.Empty() {
		return nil, 0, nil
	}
	v.client = s.up.dynamic.Resource(key.Resource).Namespace(v.Namespace)
	if v.Physical == nil && v.Logical != nil {
		physical, err := s.findBelow(ctx, v)
		if err != nil {
			return nil, 0, err
		}
		if physical == nil {
			if err := s.report.gate.confirm(ctx); err != nil {
				return nil, 0, fmt.Errorf("making sure of whom an object is gone: %w", err)
			}
		}
		v.Physical, v.unwatched = physical, physical != nil
	}
	return v, 0, nil
}

// unbound is how long to wait for the node of a new pod.
func unbound(obj *unstructured.Unstructured) time.Duration {
	if obj.GetKind() != "Pod" {
		return 0
	}
	if node, _, _ := unstructured.NestedString(obj.Object, "spec", "nodeName"); node != "" {
		return 0
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == string(corev1.PodScheduled) {
			return 0 // the scheduler says why not
		}
	}
	return max(0, binding-time.Since(obj.GetCreationTimestamp().Time))
}

// findBelow asks the physical cluster for the UID: an informer that lost an object,
// or its label, is no witness. nil is gone.
func (s *session) findBelow(ctx context.Context, v *viewed) (*unstructured.Unstructured, error) {
	names := []string{v.Logical.GetName()}
	if name, ok := strings.CutSuffix(v.Logical.GetName(), "."+s.target); ok {
		names = append(names, name)
	}
	namespace, ok := s.logical[namespaces].Get(controller.Request{Cluster: v.cluster, Name: v.Namespace})
	if !ok || len(physicalName(namespace)) == 0 {
		return s.findEverywhere(ctx, v, names)
	}
	client := s.down.dynamic.Resource(v.key.Resource).Namespace(physicalName(namespace)[0])
	for _, name := range names {
		obj, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("looking for %s: %w", name, err)
		case obj.GetUID() == v.key.UID:
			return obj, nil
		}
	}
	return nil, nil
}

// findEverywhere asks for the names in all namespaces of the physical cluster:
// nothing that we see says in which one the object was.
func (s *session) findEverywhere(ctx context.Context, v *viewed, names []string) (*unstructured.Unstructured, error) {
	for _, name := range names {
		list, err := s.down.dynamic.Resource(v.key.Resource).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		})
		if err != nil {
			return nil, fmt.Errorf("looking everywhere for %s: %w", name, err)
		}
		for i := range list.Items {
			if list.Items[i].GetUID() == v.key.UID {
				return &list.Items[i], nil
			}
		}
	}
	return nil, nil
}

// respond does what syncer.Observe says.
func (s *session) respond(ctx context.Context, v *viewed, r syncer.MirrorAction) (time.Duration, error) {
	switch r.Verb {
	case syncer.CreateUp:
		return s.createUp(ctx, v, r.Object)
	case syncer.BindUp:
		return shortDelay, s.bindUp(ctx, v, r.Object)
	case syncer.UpdateUp:
		return 0, s.updateUp(ctx, v, r)
	case syncer.DeleteUp:
		return 0, s.deleteUp(ctx, v, r.Grace)
	case syncer.Release:
		return 0, s.release(ctx, v, r.Object)
	case syncer.DeleteBelow:
		return s.deleteBelow(ctx, v, r)
	case syncer.PatchBelow:
		return s.patchBelow(ctx, v, r.Object)
	case syncer.PatchStatusBelow:
		return s.patchStatusBelow(ctx, v, r.Object)
	}
	return 0, nil
}

// patchBelow carries out what somebody changed in the logical cluster; what the
// physical cluster refuses is put back.
func (s *session) patchBelow(ctx context.Context, v *viewed, patch *unstructured.Unstructured) (time.Duration, error) {
	data, err := json.Marshal(patch.Object)
	if err != nil {
		return 0, fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = s.down.dynamic.Resource(v.key.Resource).Namespace(v.Physical.GetNamespace()).
		Patch(ctx, v.Physical.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: wantedManager})
	if apierrors.IsNotFound(err) {
		s.goneBelow(v.key.Resource, v.Physical)
	}
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return shortDelay, nil // the watch is about to say so
	case isSilence(err):
		return 0, err
	}
	klog.FromContext(ctx).Info("Changing what was mirrored failed", "kind", v.Kind.Kind, "cluster", v.cluster, "namespace", v.Namespace,
		"name", v.Physical.GetName(), "err", err)
	return s.respond(ctx, v, syncer.Decline(v.Observation))
}

// release lets go of what is being deleted.
func (s *session) release(ctx context.Context, v *viewed, obj *unstructured.Unstructured) error {
	_, err := v.client.Update(ctx, obj, metav1.UpdateOptions{})
	s.writtenLogical.forget(v.key, v.Logical.GetUID())
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("letting go of what was mirrored: %w", err)
}

// deleteBelow carries out what somebody did in the logical cluster.
func (s *session) deleteBelow(ctx context.Context, v *viewed, r syncer.MirrorAction) (time.Duration, error) {
	o := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(v.Physical.GetUID()))}
	if r.Grace >= 0 {
		o.GracePeriodSeconds = &r.Grace
	}
	if r.Propagation != "" {
		o.PropagationPolicy = &r.Propagation
	}
	err := s.down.dynamic.Resource(v.key.Resource).Namespace(v.Physical.GetNamespace()).Delete(ctx, v.Physical.GetName(), o)
	if apierrors.IsNotFound(err) {
		s.goneBelow(v.key.Resource, v.Physical)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return shortDelay, nil // the watch is about to say so
	}
	return 0, err
}

func (s *session) createUp(ctx context.Context, v *viewed, obj *unstructured.Unstructured) (time.Duration, error) {
	created, err := v.client.Create(ctx, obj, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		existing, getErr := v.client.Get(ctx, obj.GetName(), metav1.GetOptions{})
		switch {
		case getErr == nil && len(s.entryUID(existing)) > 0:
			return shortDelay, nil // ours, of a predecessor that is on its way out, or of this one
		case getErr == nil && isCopyOf(v.Kind, v.Physical, existing):
			return time.Second, nil // not known to be a copy when we looked
		case getErr != nil && !apierrors.IsNotFound(getErr):
			return 0, getErr
		}
		// Not in the view of this target: gone meanwhile, or of somebody else.
		created, err = v.client.Create(ctx, obj, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			obj.SetName(obj.GetName() + "." + s.target)
			created, err = v.client.Create(ctx, obj, metav1.CreateOptions{})
		}
	}
	switch {
	case apierrors.IsAlreadyExists(err), isNamespaceGone(err):
		return time.Second, nil
	case err != nil:
		return s.unwelcome(ctx, v, "Mirroring failed", err)
	}
	s.writtenLogical.put(v.key, created)
	s.dependentsOf(v.key.UID)
	if withStatus, differs := syncer.StatusUp(v.Observation, created); differs && hasStatus(v.Kind) {
		return 0, s.writeStatus(ctx, v, withStatus)
	}
	return 0, nil
}

// unwelcome: the control plane refuses an object that exists. That is reported
// and tried again at times; it is no reason to hurry.
func (s *session) unwelcome(ctx context.Context, v *viewed, message string, err error) (time.Duration, error) {
	if isSilence(err) || apierrors.IsConflict(err) {
		return 0, err
	}
	klog.FromContext(ctx).Info(message, "kind", v.Kind.Kind, "cluster", v.cluster, "namespace", v.Namespace,
		"name", v.Physical.GetName(), "err", err)
	return time.Minute, nil
}

func (s *session) updateUp(ctx context.Context, v *viewed, r syncer.MirrorAction) error {
	obj := r.Object
	if r.Spec {
		status := obj.Object["status"]
		updated, err := v.client.Update(ctx, obj, metav1.UpdateOptions{})
		if err != nil {
			if _, err := s.unwelcome(ctx, v, "Updating what was mirrored failed", err); err != nil {
				return s.outdated(v, err)
			}
		} else {
			s.writtenLogical.put(v.key, updated)
			obj = updated
			if status != nil {
				obj = updated.DeepCopy()
				obj.Object["status"] = status
			}
		}
	}
	if r.Status && hasStatus(v.Kind) {
		return s.writeStatus(ctx, v, obj)
	}
	return nil
}

func (s *session) writeStatus(ctx context.Context, v *viewed, obj *unstructured.Unstructured) error {
	updated, err := v.client.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	if err != nil {
		if _, err := s.unwelcome(ctx, v, "Writing the status of what was mirrored failed", err); err != nil {
			return s.outdated(v, err)
		}
		return nil
	}
	s.writtenLogical.put(v.key, updated)
	return nil
}

// outdated forgets what a conflict proves wrong; what is gone will be seen to be.
func (s *session) outdated(v *viewed, err error) error {
	if v.Logical != nil {
		s.writtenLogical.forget(v.key, v.Logical.GetUID())
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// bindUp gives the pod in the logical cluster its node.
func (s *session) bindUp(ctx context.Context, v *viewed, desired *unstructured.Unstructured) error {
	node, _, _ := unstructured.NestedString(desired.Object, "spec", "nodeName")
	err := s.up.kube.CoreV1().Pods(v.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Logical.GetName(), UID: v.Logical.GetUID()},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	s.writtenLogical.forget(v.key, v.Logical.GetUID())
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case isSilence(err):
		return err
	}
	// Who may not bind makes it again, with its node.
	return s.deleteUp(ctx, v, 0)
}

// deleteUp removes what mirrors an object below; for one that is still there only
// as it was seen: a backup may have been restored meanwhile.
func (s *session) deleteUp(ctx context.Context, v *viewed, grace int64) error {
	uid := v.Logical.GetUID()
	as := &metav1.Preconditions{UID: &uid}
	if v.Physical != nil {
		as.ResourceVersion = ptr.To(v.Logical.GetResourceVersion())
	}
	err := v.client.Delete(ctx, v.Logical.GetName(), metav1.DeleteOptions{
		Preconditions:      as,
		GracePeriodSeconds: ptr.To(grace),
		PropagationPolicy:  ptr.To(metav1.DeletePropagationBackground),
	})
	s.writtenLogical.forget(v.key, uid)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // what it is now is on its way to us
	}
	return fmt.Errorf("removing what was mirrored: %w", err)
}

func isCopyOf(kind workload.Kind, physical, logical *unstructured.Unstructured) bool {
	mark, ok := syncer.MarkOf(kind.GroupResource(), physical)
	return ok && mark.UID == logical.GetUID()
}

// owner names the logical object that mirrors an owner below.
func (s *session) owner(uid types.UID) (syncer.Owner, bool) {
	obj, ok := s.mirrorOf(uid)
	if !ok {
		return syncer.Owner{}, false
	}
	return syncer.Owner{Name: obj.GetName(), UID: obj.GetUID(), Deleting: obj.GetDeletionTimestamp() != nil, Gates: syncer.TemplateGates(obj)}, true
}

// mirrorOf finds the logical object that mirrors one below: the object of a
// copy, or one that was mirrored itself.
func (s *session) mirrorOf(uid types.UID) (*unstructured.Unstructured, bool) {
	for gvr, kind := range s.placed {
		if s.below[gvr] == nil {
			continue
		}
		obj := first(s.below[gvr].ByIndex(byUID, string(uid)))
		if obj == nil {
			continue
		}
		if mark, ok := syncer.MarkOf(gvr.GroupResource(), obj); ok {
			logical, found := s.logical[gvr].Get(keyOfMark(kind, mark).Request)
			if found && logical.GetUID() == mark.UID {
				return logical, true
			}
		}
		break
	}
	for gvr := range s.observed {
		informed := first(s.logical[gvr].ByIndex(byEntryUID, string(uid)))
		if obj, ok := s.writtenLogical.pick(observationKey{Resource: gvr, UID: uid}, informed, informed != nil); ok {
			return obj, true
		}
	}
	return nil, false
}

func (s *session) refers(uid types.UID) (types.UID, bool) {
	o, ok := s.owner(uid)
	return o.UID, ok
}

// hasStatus says whether objects of an observed kind have the subresource.
func hasStatus(kind workload.Kind) bool {
	return !slices.Contains([]string{"ControllerRevision", "EndpointSlice"}, kind.Kind)
}

// first is the one with the smallest name: of several, everybody means the same.
func first(objs []*unstructured.Unstructured) *unstructured.Unstructured {
	if len(objs) == 0 {
		return nil
	}
	return slices.MinFunc(objs, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
