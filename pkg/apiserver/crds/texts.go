package crds

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

// texts has equal texts of definitions once: what is not in their versions are names and what conditions say, most of
// which equal definitions of other logical clusters have, too. The zero value is ready.
type texts struct{ sharing.Fields }

// kept has the texts of what an informer keeps shared.
func (t *texts) kept(crd *apiextensionsv1.CustomResourceDefinition) {
	t.share(&crd.Name, &crd.Spec.Group)
	t.names((*apiextensions.CustomResourceDefinitionNames)(&crd.Spec.Names), (*apiextensions.CustomResourceDefinitionNames)(&crd.Status.AcceptedNames))
	t.shareAll(crd.Status.StoredVersions)
	for i := range crd.Status.Conditions {
		c := &crd.Status.Conditions[i]
		t.share((*string)(&c.Type), &c.Reason, &c.Message)
	}
}

// cached has the texts of what a watch cache keeps shared.
func (t *texts) cached(crd *apiextensions.CustomResourceDefinition) {
	t.share(&crd.Name, &crd.Spec.Group)
	t.names(&crd.Spec.Names, &crd.Status.AcceptedNames)
	t.shareAll(crd.Status.StoredVersions)
	for i := range crd.Status.Conditions {
		c := &crd.Status.Conditions[i]
		t.share((*string)(&c.Type), &c.Reason, &c.Message)
	}
}

func (t *texts) names(all ...*apiextensions.CustomResourceDefinitionNames) {
	for _, n := range all {
		t.share(&n.Plural, &n.Singular, &n.Kind, &n.ListKind)
		t.shareAll(n.ShortNames, n.Categories)
	}
}

func (t *texts) share(all ...*string) {
	for _, text := range all {
		*text = t.Text(*text)
	}
}

func (t *texts) shareAll(lists ...[]string) {
	for _, list := range lists {
		for i := range list {
			list[i] = t.Text(list[i])
		}
	}
}
