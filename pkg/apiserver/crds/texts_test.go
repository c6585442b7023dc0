package crds

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
)

// Equal definitions of two logical clusters have their texts once, and say what they said.
func TestTextsOfEqualDefinitionsAreKeptOnce(t *testing.T) {
	t.Parallel()
	of := func() *apiextensionsv1.CustomResourceDefinition {
		crd := defined("widgets", "Widget")
		crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = []string{"w"}, []string{"all"}
		crd.Status.AcceptedNames, crd.Status.StoredVersions = *crd.Spec.Names.DeepCopy(), []string{"v1"}
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted"}}
		for _, text := range textsOf(crd) { // as what is decoded has: each in memory of its own
			*text = strings.Clone(*text)
		}
		return crd
	}
	var shared texts
	first, second := of(), of()
	shared.kept(first)
	shared.kept(second)
	if diff := cmp.Diff(of(), second); diff != "" {
		t.Errorf("it says something else (-want +got):\n%s", diff)
	}
	a, b := textsOf(first), textsOf(second)
	for i := range a {
		if *a[i] != "" && unsafe.StringData(*a[i]) != unsafe.StringData(*b[i]) {
			t.Errorf("%q is there twice", *a[i])
		}
	}

	cached, want := &apiextensions.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	for _, into := range []*apiextensions.CustomResourceDefinition{cached, want} {
		if err := apiextensionsapiserver.Scheme.Convert(of(), into, nil); err != nil {
			t.Fatal(err)
		}
	}
	shared.cached(cached)
	if diff := cmp.Diff(want, cached); diff != "" {
		t.Errorf("it says something else (-want +got):\n%s", diff)
	}
	if unsafe.StringData(cached.Name) != unsafe.StringData(first.Name) || unsafe.StringData(cached.Status.Conditions[0].Message) != unsafe.StringData(first.Status.Conditions[0].Message) {
		t.Error("the texts of a watch cache are there twice")
	}
}

// textsOf are the texts that are shared.
func textsOf(crd *apiextensionsv1.CustomResourceDefinition) []*string {
	out := []*string{&crd.Name, &crd.Spec.Group, &crd.Status.StoredVersions[0], &crd.Status.Conditions[0].Reason, &crd.Status.Conditions[0].Message}
	for _, n := range []*apiextensionsv1.CustomResourceDefinitionNames{&crd.Spec.Names, &crd.Status.AcceptedNames} {
		out = append(out, &n.Plural, &n.Singular, &n.Kind, &n.ListKind, &n.ShortNames[0], &n.Categories[0])
	}
	return out
}
