package native

import (
	"fmt"
	"slices"
	"strings"

	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload/statusrule"
)

// ownGroups are those of the system; no custom resource is in them.
const ownGroups = "atoll.dev"

// extensionGroups are those of the API server that the clients of Kubernetes do not have.
var extensionGroups = []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}

func validatePlacedKind(obj, old runtime.Object) field.ErrorList {
	p := obj.(*fleet.PlacedKind)
	errs := placedName(p.Name)
	errs = append(errs, placedNames(p.Spec)...)
	errs = append(errs, metavalidation.ValidateLabelSelector(p.Spec.LogicalClusters, metavalidation.LabelSelectorValidationOptions{}, specPath.Child("logicalClusters"))...)
	errs = append(errs, placedStatus(p.Spec.Status, specPath.Child("status"))...)
	if old == nil {
		return errs
	}
	was := old.(*fleet.PlacedKind).Spec
	for _, f := range []struct{ name, was, is string }{{"version", was.Version, p.Spec.Version}, {"kind", was.Kind, p.Spec.Kind}} {
		if f.was != f.is {
			errs = append(errs, field.Forbidden(specPath.Child(f.name), "never changes; delete the declaration and make another one"))
		}
	}
	return errs
}

// placedName is <resource>.<group>, of a group that may be declared.
func placedName(name string) field.ErrorList {
	gr := schema.ParseGroupResource(name)
	switch {
	case len(validation.IsDNS1123Label(gr.Resource)) > 0 || len(validation.IsDNS1123Subdomain(gr.Group)) > 0 || !strings.Contains(gr.Group, "."):
		return field.ErrorList{field.Invalid(namePath, name, "must be that of the CustomResourceDefinition, <plural>.<group>")}
	case gr.Group == ownGroups || strings.HasSuffix(gr.Group, "."+ownGroups):
		return field.ErrorList{field.Invalid(namePath, name, "the groups of the control plane itself have no custom resources")}
	case scheme.Scheme.IsGroupRegistered(gr.Group) || slices.Contains(extensionGroups, gr.Group):
		return field.ErrorList{field.Invalid(namePath, name, fmt.Sprintf("%s is a group of Kubernetes itself, whose kinds are built in", gr.Group))}
	}
	return nil
}

func placedNames(s fleet.PlacedKindSpec) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1035Label(s.Version) {
		errs = append(errs, field.Invalid(specPath.Child("version"), s.Version, problem))
	}
	for _, problem := range validation.IsDNS1035Label(strings.ToLower(s.Kind)) {
		errs = append(errs, field.Invalid(specPath.Child("kind"), s.Kind, problem))
	}
	if s.Changes != fleet.ChangesUpdate && s.Changes != fleet.ChangesRecreate {
		errs = append(errs, field.NotSupported(specPath.Child("changes"), s.Changes, []fleet.PlacedKindChanges{fleet.ChangesUpdate, fleet.ChangesRecreate}))
	}
	templates := specPath.Child("podTemplates")
	for i, template := range s.PodTemplates {
		if i == 0 && strings.Contains(template, "*") || template == "" {
			errs = append(errs, field.Invalid(templates.Index(i), template, "the first path must lead to one template; those in lists come after it"))
		}
		errs = append(errs, placedPath(template, templates.Index(i))...)
	}
	if len(s.PodTemplates) > fleet.MaxPodTemplates {
		errs = append(errs, field.TooMany(templates, len(s.PodTemplates), fleet.MaxPodTemplates))
	}
	for _, f := range []struct{ name, path string }{{"replicas", s.Replicas}, {"scales", s.Scales}} {
		if strings.Contains(f.path, "*") {
			errs = append(errs, field.Invalid(specPath.Child(f.name), f.path, "must lead to one field"))
		}
		errs = append(errs, placedPath(f.path, specPath.Child(f.name))...)
	}
	if s.Replicas != "" && len(s.PodTemplates) == 0 {
		errs = append(errs, field.Required(templates, "there is a number of pods, but no template"))
	}
	return errs
}

// maxPathFields bounds how deep a path leads.
const maxPathFields = 16

// placedPath is a path of fields in the spec.
func placedPath(path string, at *field.Path) field.ErrorList {
	if path == "" {
		return nil
	}
	fields := strings.Split(path, ".")
	switch {
	case len(fields) < 2 || fields[0] != "spec" || slices.Contains(fields, ""):
		return field.ErrorList{field.Invalid(at, path, "must be names of fields with dots between, the first of them spec")}
	case len(fields) > maxPathFields:
		return field.ErrorList{field.TooMany(at, len(fields), maxPathFields)}
	}
	return nil
}

func placedStatus(s fleet.PlacedKindStatusRules, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s.Source {
	case fleet.StatusFromCopies:
	case fleet.StatusOfLogicalCluster:
		if s.ObservedGeneration || len(s.Counters) > 0 || s.Rule != "" {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("with source %s, copies have no say in the status", s.Source)))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("source"), s.Source, []fleet.PlacedKindStatusSource{fleet.StatusFromCopies, fleet.StatusOfLogicalCluster}))
	}
	if s.Rule != "" {
		if _, err := statusrule.Compile(s.Rule); err != nil {
			errs = append(errs, field.Invalid(at.Child("rule"), field.OmitValueType{}, err.Error()))
		}
	}
	if len(s.Counters) > fleet.MaxStatusCounters {
		errs = append(errs, field.TooMany(at.Child("counters"), len(s.Counters), fleet.MaxStatusCounters))
	}
	for i, name := range s.Counters {
		if name == "" || strings.Contains(name, ".") || name == "observedGeneration" || name == "conditions" {
			errs = append(errs, field.Invalid(at.Child("counters").Index(i), name, "must name a field of the status that is a number"))
		}
	}
	return errs
}
