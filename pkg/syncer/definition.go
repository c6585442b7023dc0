package syncer

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Answer is what an API server says of what it was asked for.
type Answer string

const (
	// AnswerThere: it exists.
	AnswerThere Answer = "There"
	// AnswerGone: the server said of this very object that it does not exist.
	AnswerGone Answer = "Gone"
	// AnswerSilent: the server did not answer, or asks to come back later.
	AnswerSilent Answer = "Silent"
	// AnswerUnclear: the answer is about something else, or a refusal.
	AnswerUnclear Answer = "Unclear"
)

// AnswerOf is what err says of an object by its name.
func AnswerOf(err error, gr schema.GroupResource, name string) Answer {
	switch {
	case err == nil:
		return AnswerThere
	case IsGone(err, gr, name):
		return AnswerGone
	case IsSilence(err):
		return AnswerSilent
	}
	return AnswerUnclear
}

// automanaged is the label of the APIServices that an API server keeps itself, and ofDefinitions its value
// on those of custom resources.
const automanaged, ofDefinitions = "kube-aggregator.kubernetes.io/automanaged", "true"

// KindGone says whether it is proven that there is nothing of a kind which the physical cluster does not
// serve. definition is what was said of its CustomResourceDefinition, listed of the list of APIServices;
// again says that an answer is missing which may prove it.
//
//	the definition   the APIServices      one of the group that is          then
//	silent           any                  any                               again
//	gone             silent               any                               again
//	there, unclear   any                  any                               not proven
//	gone             gone, unclear        any                               not proven
//	gone             there                of a server of its own            not proven: it may be down
//	gone             there                of the API server itself          not proven: other versions may be
//	                                                                        served, with the object
//	gone             there                none, or of other definitions     proven: a definition goes after its
//	                                                                        objects
//
// The group of the API server itself that has no name is always there.
func KindGone(group string, definition, listed Answer, services []metav1.PartialObjectMetadata) (gone, again bool) {
	switch {
	case group == "":
		return false, false
	case definition == AnswerSilent, definition == AnswerGone && listed == AnswerSilent:
		return false, true
	case definition != AnswerGone || listed != AnswerThere:
		return false, false
	}
	for _, s := range services {
		if _, of, _ := strings.Cut(s.Name, "."); of == group && s.Labels[automanaged] != ofDefinitions {
			return false, false
		}
	}
	return true, false
}

// ServedAs finds in what is served of a group and version how a kind is.
func ServedAs(served metav1.APIResourceList, kind string) (resource string, namespaced, ok bool) {
	for _, r := range served.APIResources {
		if r.Kind == kind && r.Group == "" && r.Version == "" && !strings.Contains(r.Name, "/") {
			return r.Name, r.Namespaced, true
		}
	}
	return "", false, false
}

// NotFound is what an answer "not found" is about.
type NotFound string

const (
	// NotFoundObject: the object does not exist.
	NotFoundObject NotFound = "Object"
	// NotFoundNamespace: the namespace that it is to be in does not.
	NotFoundNamespace NotFound = "Namespace"
	// NotFoundUnclear: it does not say; the kind may not be served any more.
	NotFoundUnclear NotFound = "Unclear"
)

// NotFoundOf is what an answer "not found" says of what a Manifest carries.
//
//	the answer names                            it is about
//	the resource and the object                 the object
//	namespaces and that of the object           the namespace: nothing can be in it
//	anything else, as a proxy or one that does  unclear
//	not serve the kind
func NotFoundOf(err error, c placementv1alpha1.CarriedObject) NotFound {
	switch {
	case IsGone(err, schema.GroupResource{Group: c.Group, Resource: c.Resource}, c.Name):
		return NotFoundObject
	case c.Namespace != "" && IsGone(err, schema.GroupResource{Resource: "namespaces"}, c.Namespace):
		return NotFoundNamespace
	}
	return NotFoundUnclear
}

// CarriedNotServed is the failure that the physical cluster does not serve the kind of what a Manifest
// carries. Its definition may be on the way.
func CarriedNotServed(gvk schema.GroupVersionKind) *Failure {
	return &Failure{Reason: reasonNotServed, Message: "the physical cluster does not serve " + gvk.Kind + " of " + gvk.GroupVersion().String()}
}

// CarriedNoNamespace is the failure that there is no namespace for it.
func CarriedNoNamespace(c placementv1alpha1.CarriedObject) *Failure {
	return &Failure{Reason: fleetv1alpha1.ReasonNamespaceMissing, Message: "the physical cluster has no namespace " + c.Namespace}
}

// CarriedTooManyKinds is the failure that there is no room for a watch of its kind.
func CarriedTooManyKinds() *Failure {
	return &Failure{Reason: fleetv1alpha1.ReasonTooManyKinds,
		Message: fmt.Sprintf("Manifests carry %d other kinds there, and each is watched; there may be no more", fleetv1alpha1.MaxManifestKinds)}
}

// CarriedNotKnown is the failure that the physical cluster does not say what it has of a kind; nil if it
// may do so by itself.
func CarriedNotKnown(err error, kind workload.Kind) *Failure {
	refusal, refused := RefusalOf(err, kind)
	if !refused {
		return nil
	}
	refusal.Reason = fleetv1alpha1.ReasonKindsNotKnown
	if apierrors.IsForbidden(err) {
		refusal.Message += grantCarried
	}
	return &refusal
}

// grantCarried is what helps where a syncer may not do what a Manifest needs.
const grantCarried = "; the identity of the syncer needs rights to what is carried there, which an admin of the physical cluster grants by a ClusterRoleBinding"

// CarriedRefused is the failure that the physical cluster refuses what a Manifest carries; ok as in
// RefusalOf.
func CarriedRefused(err error, kind workload.Kind) (f Failure, ok bool) {
	f, ok = RefusalOf(err, kind)
	if ok && apierrors.IsForbidden(err) {
		f.Message += grantCarried
	}
	return f, ok
}
