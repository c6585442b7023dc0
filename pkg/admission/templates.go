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
	"k8s.io/apimachinery/pkg/types"
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
	for _, template := range declaredTemplates(kind, custom.Object) {
		digest, err := history.Digest(template)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		digests = append(digests, digest)
	}
	return digests, nil
}

// declaredTemplates are the templates of a custom resource, without what is none: its schema says what
// else may be there.
func declaredTemplates(kind workload.Kind, obj map[string]any) (templates []corev1.PodTemplateSpec) {
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
// the UIDs of owners, whatever kind and name is beside them.
func (l *lookup) historyOwner(ctx context.Context, r *request, mirrored runtime.Object, version string) (*historyOwner, error) {
	uids := map[types.UID]bool{}
	for _, ref := range r.obj.GetOwnerReferences() {
		uids[ref.UID] = true
	}
	if len(uids) == 0 {
		return nil, nil
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
		return l.declaredOwner(ctx, r, uids, options)
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
	return l.declaredOwner(ctx, r, uids, options)
}

// declaredOwner is the same among objects of declared kinds.
func (l *lookup) declaredOwner(ctx context.Context, r *request, uids map[types.UID]bool, options metav1.ListOptions) (*historyOwner, error) {
	for _, kind := range r.kinds.Declared() {
		if kind.PodTemplate == nil || l.dynamic == nil {
			continue
		}
		list, err := l.dynamic.Resource(kind.GroupVersionKind.GroupVersion().WithResource(kind.Resource)).Namespace(r.GetNamespace()).List(ctx, options)
		if apierrors.IsNotFound(err) {
			continue // the logical cluster does not define it
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if o := &list.Items[i]; uids[o.GetUID()] {
				return historyOwnerOf(o, declaredTemplates(kind, o.Object)...), nil
			}
		}
	}
	return nil, nil
}
