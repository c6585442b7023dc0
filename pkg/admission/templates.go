package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversions "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/atoll-dev/atoll/pkg/admission/history"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// templates keeps what a syncer plants out of the history of what users have:
//
//	who writes       what                                  is
//	not a syncer     Deployment, StatefulSet, DaemonSet,   noted: it has had these templates
//	                 a declared kind with templates
//	a syncer         ReplicaSet, ControllerRevision of     kept, if the owner has had the template, or it
//	                 one of those                          is the one that was there
//	                 the same, with another template       given the template that its owner has now
//	                 of nobody, or of anything else        kept, if it is the one that was there; else
//	                                                       nothing is left of the template but labels
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
	now, err := digestsOf(r, r.GetObject())
	if err != nil || len(now) == 0 {
		return err
	}
	before, err := digestsOf(r, r.GetOldObject()) // it may be of before templates were noted
	if err != nil {
		return err
	}
	if len(before) > 0 && slices.Equal(before, now) {
		return nil // who only touches it changes nothing
	}
	known := history.Parse(stamp.TemplatesOf(r.obj))
	for _, digest := range append(before, now...) {
		known = known.With(digest)
	}
	stamp.Templates(r.obj, known.String())
	return nil
}

func (p *plugin) mirroredTemplate(ctx context.Context, r *request) error {
	mirrored := r.GetObject()
	digest, ok := mirroredDigest(mirrored)
	if !ok {
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
	of, err := p.lookup.historyOwner(ctx, r, mirrored, digest)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("looking for the owner of a template: %w", err))
	}
	if of != nil && of.had(digest) {
		return nil
	}
	if of == nil || len(of.templates) == 0 {
		return strip(mirrored)
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

// digestsOf are those of the templates of an object which has a history.
func digestsOf(r *request, obj runtime.Object) ([]string, error) {
	if template := ownTemplate(obj); template != nil {
		digest, err := digestOf(template)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		return []string{digest}, nil
	}
	custom, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	kind, ok := r.kinds.ByResource(r.groupResource())
	if !ok || !kind.Declared {
		return nil, nil
	}
	var digests []string
	for _, template := range templatesOf(kind, custom.Object) {
		digest, err := history.Digest(template)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

// templatesOf are the templates of an object, without what is none: the schema of a custom resource says what else may
// be there.
func templatesOf(kind workload.Kind, obj map[string]any) (templates []corev1.PodTemplateSpec) {
	for _, content := range workload.PodTemplates(kind, obj) {
		var template corev1.PodTemplateSpec
		if data, err := json.Marshal(content); err == nil && json.Unmarshal(data, &template) == nil {
			templates = append(templates, template)
		}
	}
	return templates
}

func digestOf(template *core.PodTemplateSpec) (string, error) {
	var v1 corev1.PodTemplateSpec
	if err := corev1conversions.Convert_core_PodTemplateSpec_To_v1_PodTemplateSpec(template, &v1, nil); err != nil {
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
	templates []corev1.PodTemplateSpec
	known     history.Templates
}

func historyOwnerOf(m metav1.Object, templates ...corev1.PodTemplateSpec) *historyOwner {
	return &historyOwner{templates, history.Parse(stamp.TemplatesOf(m))}
}

// had reports whether it has, or had, a template.
func (o *historyOwner) had(digest string) bool {
	if digest == "" {
		return false
	}
	return o.known.Has(digest) || slices.ContainsFunc(o.templates, func(template corev1.PodTemplateSpec) bool {
		now, err := history.Digest(template)
		return err == nil && now == digest
	})
}

// give puts its template in place of one that it never had.
func (o *historyOwner) give(mirrored runtime.Object) error {
	template := *o.templates[0].DeepCopy()
	switch m := mirrored.(type) {
	case *apps.ReplicaSet:
		for key, value := range m.Spec.Template.Labels {
			if _, has := template.Labels[key]; history.IsHash(key) && !has {
				if template.Labels == nil {
					template.Labels = map[string]string{}
				}
				template.Labels[key] = value
			}
		}
		if err := corev1conversions.Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec(&template, &m.Spec.Template, nil); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("converting a pod template: %w", err))
		}
	case *apps.ControllerRevision:
		if err := revise(m, template); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	return nil
}

// stripped is the container and the image of a template of which nothing is left.
const stripped = "stripped"

// strip leaves of a template what its selector needs.
func strip(mirrored runtime.Object) error {
	switch m := mirrored.(type) {
	case *apps.ReplicaSet:
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: m.Spec.Template.Labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: stripped, Image: stripped}}},
		}
		object := &corev1.PodTemplate{Template: template}
		corev1conversions.SetObjectDefaults_PodTemplate(object)
		m.Spec.Template = core.PodTemplateSpec{}
		if err := corev1conversions.Convert_v1_PodTemplateSpec_To_core_PodTemplateSpec(&object.Template, &m.Spec.Template, nil); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("converting a pod template: %w", err))
		}
	case *apps.ControllerRevision:
		m.Data = runtime.RawExtension{Raw: []byte(`{}`)}
	}
	return nil
}

// historyOwner finds whose history something mirrored is, or would be taken for: kubectl goes by
// the UIDs of owners, whatever kind and name is beside them. Where those say is looked first: in the watch cache, which is
// enough if the owner had the template, and then in etcd. All that there is in the namespace is read only if they lead to
// another object, or to none.
func (l *lookup) historyOwner(ctx context.Context, r *request, mirrored runtime.Object, digest string) (*historyOwner, error) {
	refs := r.obj.GetOwnerReferences()
	if controller := metav1.GetControllerOfNoCopy(r.obj); controller != nil {
		refs = []metav1.OwnerReference{*controller} // no other one would be rolled back to it
	}
	if len(refs) == 0 || l.dynamic == nil {
		return nil, nil
	}
	ctx = at(ctx, r.cluster)
	kinds := historyKinds(r.kinds, mirrored)
	var of *historyOwner
	for _, version := range []string{"0", ""} {
		var err error
		if of, err = l.namedOwner(ctx, r, kinds, refs, version); err != nil || of != nil && of.had(digest) {
			return of, err
		}
	}
	if of != nil {
		return of, nil
	}
	return l.anyOwner(ctx, r, kinds, refs)
}

// historyKinds are those of which something mirrored may be the history.
func historyKinds(all workload.Catalog, mirrored runtime.Object) (kinds []workload.Kind) {
	resources := []string{"statefulsets", "daemonsets"}
	if _, ok := mirrored.(*apps.ReplicaSet); ok {
		resources = []string{"deployments"}
	}
	for _, resource := range resources {
		if kind, ok := all.ByResource(apps.Resource(resource)); ok {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range all.Declared() {
		if kind.PodTemplate != nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// namedOwner is the first owner that is the object of which its reference has kind and name; nil if none is.
func (l *lookup) namedOwner(ctx context.Context, r *request, kinds []workload.Kind, refs []metav1.OwnerReference, version string) (*historyOwner, error) {
	for _, ref := range refs {
		group, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			continue
		}
		for _, kind := range kinds {
			if kind.GroupKind() != group.WithKind(ref.Kind).GroupKind() {
				continue
			}
			o, err := l.dynamic.Resource(kind.GroupVersionResource()).Namespace(r.GetNamespace()).Get(ctx, ref.Name, metav1.GetOptions{ResourceVersion: version})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if o.GetUID() == ref.UID {
				return historyOwnerOf(o, templatesOf(kind, o.Object)...), nil
			}
		}
	}
	return nil, nil
}

// anyOwner is the first object that has the UID of an owner; nil if none has.
func (l *lookup) anyOwner(ctx context.Context, r *request, kinds []workload.Kind, refs []metav1.OwnerReference) (*historyOwner, error) {
	for _, kind := range kinds {
		list, err := l.dynamic.Resource(kind.GroupVersionResource()).Namespace(r.GetNamespace()).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			continue // the logical cluster does not define it
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			o := &list.Items[i]
			if slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return ref.UID == o.GetUID() }) {
				return historyOwnerOf(o, templatesOf(kind, o.Object)...), nil
			}
		}
	}
	return nil, nil
}
