package crds

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

// claims are the names that the other definitions of a group hold.
type claims struct{ resources, kinds sets.Set[string] }

// claimed collects what all but the definition called name hold.
func claimed(group []*apiextensionsv1.CustomResourceDefinition, name string) claims {
	c := claims{resources: sets.New[string](), kinds: sets.New[string]()}
	for _, crd := range group {
		if crd.Name == name {
			continue
		}
		n := crd.Status.AcceptedNames
		c.resources.Insert(n.Plural, n.Singular)
		c.resources.Insert(n.ShortNames...)
		c.kinds.Insert(n.Kind, n.ListKind)
	}
	return c
}

// status is what the status of crd has to be, given what is wrong with its schemas, and the
// claims of the others.
// The rules are upstream's, where five controllers apply them one after the other:
//
//	names      each name that is free or already ours is accepted; one that is not
//	           leaves what was accepted before, and NamesAccepted is False
//	schema     NonStructuralSchema appears while a schema is not structural
//	approval   KubernetesAPIApprovalPolicyConformant for *.k8s.io and *.kubernetes.io
//	establish  once all names are accepted and the CA bundle of the conversion
//	           webhook can be read; never taken back
func status(crd *apiextensionsv1.CustomResourceDefinition, schemas structure, others claims) apiextensionsv1.CustomResourceDefinitionStatus {
	out := crd.DeepCopy()
	if !settledNames(&Definition{CustomResourceDefinition: crd}) {
		setNames(out, others)
	}
	if c := schemaCondition(crd, schemas); c != nil {
		setCondition(out, *c)
	} else {
		apihelpers.RemoveCRDCondition(out, apiextensionsv1.NonStructuralSchema)
	}
	if c := approvalCondition(crd); c != nil {
		setCondition(out, *c)
	}
	establish(out)
	return out.Status
}

// settledNames reports whether the names asked for are those that were accepted
// (or refused) before.
func settledNames(d *Definition) bool {
	if apihelpers.FindCRDCondition(d.CustomResourceDefinition, apiextensionsv1.NamesAccepted) == nil {
		return false
	}
	return equality.Semantic.DeepEqual(d.Spec.Names, d.Status.AcceptedNames) &&
		apihelpers.IsCRDConditionTrue(d.CustomResourceDefinition, apiextensionsv1.NamesAccepted)
}

// setCondition changes a condition only if it says something else: setting an
// equal one would still be a write.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition) {
	if apihelpers.IsCRDConditionEquivalent(&c, apihelpers.FindCRDCondition(crd, c.Type)) {
		return
	}
	apihelpers.SetCRDCondition(crd, c)
}

func setNames(crd *apiextensionsv1.CustomResourceDefinition, others claims) {
	asked, accepted := crd.Spec.Names, &crd.Status.AcceptedNames
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
		Reason: "NoConflicts", Message: "no conflicts found",
	}
	refuse := func(reason string, err error) {
		condition.Status, condition.Reason, condition.Message = apiextensionsv1.ConditionFalse, reason, err.Error()
	}
	take := func(asked string, accepted *string, used sets.Set[string], reason string) {
		if asked != *accepted && used.Has(asked) {
			refuse(reason, inUse(asked))
			return
		}
		*accepted = asked
	}
	take(asked.Plural, &accepted.Plural, others.resources, "PluralConflict")
	take(asked.Singular, &accepted.Singular, others.resources, "SingularConflict")
	var errs []error
	for _, short := range asked.ShortNames {
		if !slices.Contains(accepted.ShortNames, short) && others.resources.Has(short) {
			errs = append(errs, inUse(short))
		}
	}
	if err := errors.Join(errs...); err != nil {
		refuse("ShortNamesConflict", err)
	} else {
		accepted.ShortNames = asked.ShortNames
	}
	take(asked.Kind, &accepted.Kind, others.kinds, "KindConflict")
	take(asked.ListKind, &accepted.ListKind, others.kinds, "ListKindConflict")
	accepted.Categories = asked.Categories
	setCondition(crd, condition)

	if apihelpers.FindCRDCondition(crd, apiextensionsv1.Established) == nil {
		setCondition(crd, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
}

func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }

func establish(crd *apiextensionsv1.CustomResourceDefinition) {
	if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted) || apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		return
	}
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	if c := crd.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(field.NewPath(""), c.Webhook.ClientConfig.CABundle)) > 0 {
		condition.Status, condition.Reason = apiextensionsv1.ConditionFalse, "InvalidCABundle"
		condition.Message = "The conversion webhook CABundle is invalid"
	}
	setCondition(crd, condition)
}

// structure is what is wrong with the schemas of versions.
type structure struct {
	// unreadable says that a schema could not be looked at.
	unreadable string
	problems   field.ErrorList
}

func structureOf(versions []apiextensionsv1.CustomResourceDefinitionVersion) (out structure) {
	for i, v := range versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		in := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, in, nil); err != nil {
			continue // its validation has seen to it
		}
		s, err := structuralschema.NewStructural(in.OpenAPIV3Schema)
		if err != nil {
			return structure{unreadable: fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)}
		}
		path := field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema")
		out.problems = append(out.problems, structuralschema.ValidateStructural(path, s)...)
	}
	return out
}

func schemaCondition(crd *apiextensionsv1.CustomResourceDefinition, s structure) *apiextensionsv1.CustomResourceDefinitionCondition {
	condition := &apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionUnknown}
	if s.unreadable != "" {
		condition.Reason, condition.Message = "StructuralError", s.unreadable
		return condition
	}
	var problems field.ErrorList
	if crd.Spec.PreserveUnknownFields {
		problems = append(problems, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	problems = append(problems, s.problems...)
	if len(problems) == 0 {
		return nil
	}
	condition.Status, condition.Reason, condition.Message = apiextensionsv1.ConditionTrue, "Violations", problems.ToAggregate().Error()
	return condition
}

func approvalCondition(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionCondition {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return nil
	}
	condition := &apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	state, reason := apihelpers.GetAPIApprovalState(crd.Annotations)
	condition.Message = reason
	switch state {
	case apihelpers.APIApproved:
		condition.Status, condition.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		condition.Reason = "UnapprovedAnnotation"
	case apihelpers.APIApprovalMissing:
		condition.Reason = "MissingAnnotation"
	case apihelpers.APIApprovalInvalid:
		condition.Reason = "InvalidAnnotation"
	default:
		condition.Status, condition.Reason = apiextensionsv1.ConditionUnknown, "UnknownAnnotation"
	}
	return condition
}
