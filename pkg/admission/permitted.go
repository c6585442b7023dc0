package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/override"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// permitted asks for each target of an object what it does not permit of it. The
// syncers of the targets have the last word: they ask the same table.
//
//	requester  what the physical cluster says of the field     then
//	system     any                                             nothing: who restamps changes nothing of the user's
//	user       the same as of the stored object                nothing: it was there before the rule
//	user       refused                                         403 with the field
//	user       stripped, mapped, waits                         a warning with the field
//
// What policies permit besides is in the stamp.
func (p *plugin) permitted(ctx context.Context, r *request) error {
	kind, ok := r.kinds.ByResource(r.groupResource())
	debugging := kind.IsPod() && r.GetSubresource() == "ephemeralcontainers"
	if !ok || !kind.Copied() || !r.user() || r.GetSubresource() != "" && !debugging || r.obj.GetDeletionTimestamp() != nil {
		return nil
	}
	asks, err := contentOf(kind, r.GetObject())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	had, err := contentOf(kind, r.GetOldObject())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	targets := stamp.TargetsOf(r.obj.GetAnnotations())
	permits := targets // by policies
	if debugging {     // what a controller of the target made has what its namespace has
		namespace, err := r.getNamespace(ctx)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err))
		}
		permits = stamp.TargetsOf(namespace.Annotations)
	}
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if !targets[target].Keeps() && (!debugging || targets[target].State != placementv1alpha1.TargetObserved) {
			continue
		}
		physical, ok := p.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: target})
		if !ok {
			continue
		}
		findings := newFindings(kind, asks, had, boundary.Passage{
			Permits:  override.Permits(physical.Permits(), permits[target].Overrides),
			Handlers: physical.Status.RuntimeHandlers, Offered: boundary.Classes{Ingress: physical.Status.IngressClasses, Priority: physical.Status.PriorityClasses},
		})
		if refusals := boundary.Refusals(findings); len(refusals) > 0 {
			return admission.NewForbidden(r.Attributes, errors.New(notPermitted(target, refusals[0].String())))
		}
		warn(ctx, target, findings)
		p.warnOfUnasked(ctx, r, kind, physical)
	}
	p.warnOfAccount(ctx, r)
	return nil
}

// warnOfUnasked tells who makes what makes pods that nobody will ask the logical cluster about
// them, although it has webhooks or policies for pods there.
func (p *plugin) warnOfUnasked(ctx context.Context, r *request, kind workload.Kind, physical *fleetv1alpha1.PhysicalCluster) {
	if kind.PodTemplate == nil || kind.IsPod() || apimeta.IsStatusConditionTrue(physical.Status.Conditions, fleetv1alpha1.ConditionPodsAdmitted) {
		return
	}
	namespace, err := r.getNamespace(ctx)
	if err != nil || namespace.Annotations[placementv1alpha1.AdmitsPodsAnnotation] != "true" {
		return
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("webhooks and policies for pods do not see the pods that controllers make on physical cluster %s: it does not ask (condition %s)",
		physical.Name, fleetv1alpha1.ConditionPodsAdmitted))
}

// warnOfAccount: a stock cluster makes no pods for an account that is not there; a
// physical cluster, where no pod runs as one, does.
func (p *plugin) warnOfAccount(ctx context.Context, r *request) {
	spec := podSpec(r.GetObject())
	if spec == nil || spec.ServiceAccountName == "" || spec.ServiceAccountName == "default" || r.GetOperation() != admission.Create {
		return
	}
	_, err := p.lookup.kube.CoreV1().ServiceAccounts(r.GetNamespace()).Get(at(ctx, r.cluster), spec.ServiceAccountName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		warning.AddWarning(ctx, "", fmt.Sprintf("serviceAccountName: there is no service account %s yet; the pods run on physical clusters all the same", spec.ServiceAccountName))
	}
}

// notPermitted names the field and the way out.
func notPermitted(target, what string) string {
	return fmt.Sprintf("physical cluster %s does not permit %s; leave it out, or have an admin permit it, in spec.tenancy of the PhysicalCluster or in a policy", target, what)
}

// contentOf is an object as people write it; nil if there is none.
func contentOf(kind workload.Kind, obj runtime.Object) (map[string]any, error) {
	if obj == nil {
		return nil, nil
	}
	return external(kind, obj)
}

// newFindings are those about what an object asks for and did not have already.
func newFindings(kind workload.Kind, asks, had map[string]any, passage boundary.Passage) []boundary.Finding {
	passage.Asked, passage.Notes = had == nil, notesOf(asks)
	findings := boundary.Filter(kind, runtime.DeepCopyJSON(asks), passage)
	if had == nil || len(findings) == 0 {
		return findings
	}
	passage.Notes = notesOf(had)
	known := boundary.Filter(kind, runtime.DeepCopyJSON(had), passage)
	return slices.DeleteFunc(findings, func(f boundary.Finding) bool { return slices.Contains(known, f) })
}

// notesOf are the notes on an object as people write it.
func notesOf(obj map[string]any) boundary.Notes {
	return boundary.NotesOf((&unstructured.Unstructured{Object: obj}).GetAnnotations())
}

// maxWarnings bounds what one answer says for one target: each is a header.
const maxWarnings = 10

func warn(ctx context.Context, target string, findings []boundary.Finding) {
	for _, f := range findings[:min(len(findings), maxWarnings)] {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s (physical cluster %s)", f, target))
	}
	if more := len(findings) - maxWarnings; more > 0 {
		warning.AddWarning(ctx, "", fmt.Sprintf("%d more fields do not go down to physical cluster %s as they are", more, target))
	}
}
