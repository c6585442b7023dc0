package down

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

var (
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	attachments = storagev1.SchemeGroupVersion.WithResource("volumeattachments")
)

func (p *pass) volumeClient() dynamic.ResourceInterface {
	return p.Down.Dynamic.Resource(connection.Volumes)
}

// lookAtVolume asks for the volume of a claim, and for one that is given up who uses it. No watch
// has it: only claims on their way, and those that are recorded for the first time, have it asked.
func (p *pass) lookAtVolume(ctx context.Context) error {
	if p.in.Ref.IsNamespace() {
		return p.lookAtLeft(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	p.in.Volume = syncer.Volume{Looked: true}
	name := syncer.VolumeOf(p.in)
	obj, err := p.volumeClient().Get(ctx, name, metav1.GetOptions{})
	switch {
	case syncer.IsGone(err, connection.Volumes.GroupResource(), name):
	case err != nil:
		return p.volumeRefused("reading the volume", err)
	default:
		if err := p.tookVolume(obj); err != nil {
			return err
		}
	}
	look := p.lookAtHelper
	if syncer.GivesVolumeUp(p.in) {
		look = p.lookForUsers
	}
	if err := look(ctx); err != nil || p.in.Failure != nil {
		return err
	}
	return p.lookAtSnapshot(ctx)
}

// lookAtLeft asks for the volumes of the claims in a Namespace that leaves, until one is found that would go along. The
// answer also says whether what is known of the physical cluster is still so.
func (p *pass) lookAtLeft(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	pv, version, err := p.Down.LeftVolume(ctx, p.in.Namespace.Name, "")
	if err != nil {
		return p.volumeRefused("before the namespace goes", err)
	}
	if p.View.PrecedesBelow(connection.Claims, version) {
		klog.FromContext(ctx).V(2).Info("The physical cluster may have gone back, looking again at what is in a namespace that leaves", "seen", version)
		return errAgain
	}
	p.in.Volume = syncer.Volume{Looked: true, Object: pv}
	return nil
}

// lookAtSnapshot asks for the snapshot that is made of the volume of a claim, or restored to it.
func (p *pass) lookAtSnapshot(ctx context.Context) error {
	name := syncer.SnapshotOf(p.in)
	if name == "" {
		return nil
	}
	obj, err := p.Down.Dynamic.Resource(syncer.Snapshots).Namespace(p.in.Namespace.Name).Get(ctx, name, metav1.GetOptions{})
	switch {
	case syncer.IsGone(err, syncer.Snapshots.GroupResource(), name):
	case err != nil:
		return p.volumeRefused("reading the snapshot", err)
	default:
		p.in.Volume.Snapshot = obj
	}
	if name = syncer.SnapshotContentOf(p.in); name == "" {
		return nil
	}
	obj, err = p.Down.Dynamic.Resource(syncer.SnapshotContents).Get(ctx, name, metav1.GetOptions{})
	switch {
	case syncer.IsGone(err, syncer.SnapshotContents.GroupResource(), name):
		return nil
	case err != nil:
		return p.volumeRefused("reading the content of the snapshot", err)
	}
	p.in.Volume.SnapshotContent = obj
	return nil
}

// beside is where objects are that are made beside a volume.
func (p *pass) beside(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	resource := p.Down.Dynamic.Resource(besideResource(obj))
	if obj.GetNamespace() == "" {
		return resource
	}
	return resource.Namespace(obj.GetNamespace())
}

func besideResource(obj *unstructured.Unstructured) schema.GroupVersionResource {
	switch obj.GroupVersionKind() {
	case syncer.SnapshotKind:
		return syncer.Snapshots
	case syncer.ContentKind:
		return syncer.SnapshotContents
	}
	return pods
}

// lookAtHelper asks for the pod that reads, fills or mounts the volume of a claim; and, before anything is stopped,
// whether the physical cluster would take what is made beside it.
func (p *pass) lookAtHelper(ctx context.Context) error {
	if tried := syncer.Tried(p.in); tried != nil {
		_, err := p.beside(tried).Create(ctx, tried, metav1.CreateOptions{FieldManager: syncer.FieldManager, DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
		case syncer.IsSilence(err):
			return fmt.Errorf("trying what is made beside the volume: %w", err)
		default:
			p.in.Volume.Untaken = syncer.VolumeFailure("trying it", err).Message
		}
	}
	name := syncer.HelperOf(p.in)
	if name == "" {
		return nil
	}
	obj, err := p.Down.Dynamic.Resource(pods).Namespace(p.in.Namespace.Name).Get(ctx, name, metav1.GetOptions{})
	switch {
	case syncer.IsGone(err, pods.GroupResource(), name):
		return nil
	case err != nil:
		return p.volumeRefused("reading the pod at the volume", err)
	}
	return p.tookHelper(obj)
}

func (p *pass) tookHelper(obj *unstructured.Unstructured) error {
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pod); err != nil {
		return fmt.Errorf("reading a pod: %w", err)
	}
	p.in.Volume.Helper = pod
	return nil
}

// makeHelper makes something beside a volume, and looks at it again; also at one that is there.
func (p *pass) makeHelper(ctx context.Context, a syncer.Action) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	obj, err := p.beside(a.Object).Create(ctx, a.Object, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return p.volumeRefused("making the "+a.Object.GetKind()+" at the volume", err)
	}
	if err == nil {
		klog.FromContext(ctx).Info("Made what brings the data of a volume elsewhere", "kind", obj.GetKind(), "name", obj.GetName(), "why", a.Why)
	}
	p.in.Volume = syncer.Volume{}
	return nil
}

// deleteHelper removes what was made beside a volume; it is looked at again until it is gone.
func (p *pass) deleteHelper(ctx context.Context, a syncer.Action) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	err := p.beside(a.Object).Delete(ctx, a.Object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	if err != nil && !syncer.IsOutdated(err, besideResource(a.Object).GroupResource(), a.Object.GetName()) {
		return p.volumeRefused("removing the "+a.Object.GetKind()+" at the volume", err)
	}
	p.in.Volume = syncer.Volume{}
	return nil
}

// lookForUsers finds the pod that reads the volume, others of the claim that have not ended, and nodes that
// the volume is attached to.
func (p *pass) lookForUsers(ctx context.Context) error {
	list, err := p.Down.Dynamic.Resource(pods).Namespace(p.in.Namespace.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return p.volumeRefused("listing the pods of the volume", err)
	}
	for i := range list.Items {
		if syncer.UsesClaim(&list.Items[i], p.key.Request.Name) {
			p.in.Volume.Users = append(p.in.Volume.Users, "pod "+list.Items[i].GetName())
		}
	}
	attached := &unstructured.UnstructuredList{}
	if p.in.Volume.Object != nil {
		if attached, err = p.Down.Dynamic.Resource(attachments).List(ctx, metav1.ListOptions{}); err != nil {
			return p.volumeRefused("listing where the volume is attached", err)
		}
	}
	// After that: where it is attached for the pod that reads it, the pod is known by its node.
	if err := p.lookAtHelper(ctx); err != nil {
		return err
	}
	for i := range attached.Items {
		if node, ok := syncer.AttachedTo(&attached.Items[i], p.in); ok {
			p.in.Volume.Users = append(p.in.Volume.Users, "node "+node)
		}
	}
	slices.Sort(p.in.Volume.Users)
	return nil
}

// makeVolume makes a volume; one that is there is looked at.
func (p *pass) makeVolume(ctx context.Context, a syncer.Action) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	obj, err := p.volumeClient().Create(ctx, a.Object, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		p.in.Volume = syncer.Volume{}
		return nil
	case err != nil:
		return p.volumeRefused("making the volume", err)
	}
	klog.FromContext(ctx).Info("Made a volume that was handed over", "volume", obj.GetName())
	return p.tookVolume(obj)
}

// updateVolume patches a volume as it was looked at.
func (p *pass) updateVolume(ctx context.Context, a syncer.Action) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	if a.IfRetained {
		if err := p.proveRetained(ctx); err != nil {
			return err
		}
	}
	obj, err := p.Down.UpdateVolume(ctx, a.Object)
	switch {
	case syncer.IsOutdated(err, connection.Volumes.GroupResource(), a.Object.GetName()):
		p.in.Volume = syncer.Volume{}
		return nil // it is looked at again
	case err != nil:
		return p.volumeRefused("changing the volume", err)
	}
	return p.tookVolume(obj)
}

// proveRetained asks the server whether its Copy says that the volume was kept, or was to be: what informers have of the Copy may be
// of before the server went back, and what they have of the claim of after.
func (p *pass) proveRetained(ctx context.Context) error {
	c, err := p.askCopy(ctx)
	if err == nil && !syncer.Retains(c) {
		err = errAgain // the watch cache will say so, too
	}
	return err
}

// deleteVolume removes the object of a volume that is kept; its data stay.
func (p *pass) deleteVolume(ctx context.Context, a syncer.Action) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	err := p.volumeClient().Delete(ctx, a.Object.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	if err != nil && !syncer.IsOutdated(err, connection.Volumes.GroupResource(), a.Object.GetName()) {
		return p.volumeRefused("removing the object of the volume", err)
	}
	p.in.Volume.Object = nil
	return nil
}

func (p *pass) tookVolume(obj *unstructured.Unstructured) error {
	pv := &corev1.PersistentVolume{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pv); err != nil {
		return fmt.Errorf("reading a volume: %w", err)
	}
	p.in.Volume.Object = pv
	return nil
}

// volumeRefused turns a refusal into input for the next plan; silence is returned.
func (p *pass) volumeRefused(doing string, err error) error {
	if syncer.IsSilence(err) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	p.in.Failure = syncer.VolumeFailure(doing, err)
	return nil
}
