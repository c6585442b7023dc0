package admission

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	conversions "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/atoll-dev/atoll/pkg/admission/history"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// templates keeps what a syncer plants out of the history of what users have:
//
//	who writes       what                                  is
//	not a syncer     Deployment, StatefulSet, DaemonSet    noted: it has had this template
//	a syncer         ReplicaSet, ControllerRevision of     kept, if the owner has had the template, or it
//	                 one of those                          is the one that was there
//	                 the same, with another template       given the template that its owner has now
//
// It is not refused, as the pods below it would then be nobody's: a controller in the
// physical cluster that changes templates is no attack.
func (p *plugin) templates(ctx context.Context, r *request) error {
	if r.GetSubresource() != "" {
		return nil
	}
	if r.syncer != "" {
		return p.mirroredTemplate(ctx, r)
	}
	template := ownTemplate(r.GetObject())
	if template == nil {
		return nil
	}
	digest, err := digestOf(template)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	known := history.Parse(stamp.TemplatesOf(r.obj))
	if before := ownTemplate(r.GetOldObject()); before != nil { // it may be of before templates were noted
		was, err := digestOf(before)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		if was == digest {
			return nil // who only touches it changes nothing
		}
		known = known.With(was)
	}
	stamp.Templates(r.obj, known.With(digest).String())
	return nil
}

func (p *plugin) mirroredTemplate(ctx context.Context, r *request) error {
	mirrored := r.GetObject()
	digest, ok := mirroredDigest(mirrored)
	if !ok || len(r.obj.GetOwnerReferences()) == 0 {
		return nil
	}
	if err := plain(mirrored); err != nil {
		return apierrors.NewInternalError(err)
	}
	if r.old != nil && sameUIDs(r.obj.GetOwnerReferences(), r.old.GetOwnerReferences()) {
		if before, _ := mirroredDigest(r.GetOldObject()); digest != "" && digest == before {
			return nil
		}
	}
	var of *historyOwner
	for _, version := range []string{"0", ""} { // from the watch cache, then from etcd
		var err error
		if of, err = p.lookup.historyOwner(ctx, r, mirrored, version); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("looking for the owner of a template: %w", err))
		}
		if of != nil && of.had(digest) {
			return nil
		}
	}
	if of == nil {
		return nil // nobody's history
	}
	return of.give(mirrored)
}

// ownTemplate is that of an object which has a history; nil if it is none.
func ownTemplate(obj runtime.Object) *core.PodTemplateSpec {
	switch o := obj.(type) {
	case *apps.Deployment:
		return &o.Spec.Template
	case *apps.StatefulSet:
		return &o.Spec.Template
	case *apps.DaemonSet:
		return &o.Spec.Template
	}
	return nil
}

func digestOf(template *core.PodTemplateSpec) (string, error) {
	var v1 corev1.PodTemplateSpec
	if err := conversions.Convert_core_PodTemplateSpec_To_v1_PodTemplateSpec(template, &v1, nil); err != nil {
		return "", fmt.Errorf("converting a pod template: %w", err)
	}
	return history.Digest(v1)
}

// mirroredDigest is that of a template in a history, empty if it cannot be read; false if
// obj is no history.
func mirroredDigest(obj runtime.Object) (digest string, ok bool) {
	switch o := obj.(type) {
	case *apps.ReplicaSet:
		digest, _ = digestOf(&o.Spec.Template)
		return digest, true
	case *apps.ControllerRevision:
		if template, ok := history.OfRevision(o.Data.Raw); ok {
			digest, _ = history.Digest(template)
		}
		return digest, true
	}
	return "", false
}

// plain has a ControllerRevision say nothing but the template that was read in it: its data
// is a patch, which could change anything of its owner.
func plain(obj runtime.Object) error {
	o, ok := obj.(*apps.ControllerRevision)
	if !ok {
		return nil
	}
	template, _ := history.OfRevision(o.Data.Raw)
	return revise(o, template)
}

func revise(o *apps.ControllerRevision, template corev1.PodTemplateSpec) error {
	data, err := history.Revision(template)
	if err != nil {
		return err
	}
	o.Data = runtime.RawExtension{Raw: data}
	return nil
}

func sameUIDs(a, b []metav1.OwnerReference) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].UID != b[i].UID {
			return false
		}
	}
	return true
}

// historyOwner is what has a history.
type historyOwner struct {
	template corev1.PodTemplateSpec
	known    history.Templates
}

func historyOwnerOf(m metav1.Object, template corev1.PodTemplateSpec) *historyOwner {
	return &historyOwner{template, history.Parse(stamp.TemplatesOf(m))}
}

// had reports whether it has, or had, a template.
func (o *historyOwner) had(digest string) bool {
	if digest == "" {
		return false
	}
	now, err := history.Digest(o.template)
	return o.known.Has(digest) || err == nil && now == digest
}

// give puts its template in place of one that it never had.
func (o *historyOwner) give(mirrored runtime.Object) error {
	template := *o.template.DeepCopy()
	switch m := mirrored.(type) {
	case *apps.ReplicaSet:
		hash, hashed := m.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		if hashed {
			labels := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
			for key, value := range template.Labels {
				labels[key] = value
			}
			template.Labels = labels
		}
		if err := conversions.Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec(&template, &m.Spec.Template, nil); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("converting a pod template: %w", err))
		}
	case *apps.ControllerRevision:
		if err := revise(m, template); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	return nil
}

// historyOwner finds whose history something mirrored is, or would be taken for: kubectl goes by
// the UIDs of owners, whatever kind and name is beside them.
func (l *lookup) historyOwner(ctx context.Context, r *request, mirrored runtime.Object, version string) (*historyOwner, error) {
	uids := map[types.UID]bool{}
	for _, ref := range r.obj.GetOwnerReferences() {
		uids[ref.UID] = true
	}
	ctx, client, options := at(ctx, r.cluster), l.kube.AppsV1(), metav1.ListOptions{ResourceVersion: version}
	if _, ok := mirrored.(*apps.ReplicaSet); ok {
		list, err := client.Deployments(r.GetNamespace()).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if o := &list.Items[i]; uids[o.UID] {
				return historyOwnerOf(o, o.Spec.Template), nil
			}
		}
		return nil, nil
	}
	sets, err := client.StatefulSets(r.GetNamespace()).List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range sets.Items {
		if o := &sets.Items[i]; uids[o.UID] {
			return historyOwnerOf(o, o.Spec.Template), nil
		}
	}
	daemons, err := client.DaemonSets(r.GetNamespace()).List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range daemons.Items {
		if o := &daemons.Items[i]; uids[o.UID] {
			return historyOwnerOf(o, o.Spec.Template), nil
		}
	}
	return nil, nil
}
