package view

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// Resources of what is made for pods.
var (
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// informerOfAccounts watches the service accounts that something placed here uses. They
// have no copies.
func (v *View) informerOfAccounts() *objects {
	accounts := corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	return controller.NewInformer("serviceaccounts for "+v.Target, example(corev1.SchemeGroupVersion.WithKind("ServiceAccount")),
		controller.Lists(v.Up.Dynamic.Resource(accounts)),
		controller.InformerOptions[*unstructured.Unstructured]{Server: v.Up.Server, Metadata: connection.ListMetadata(v.Up.Metadata, accounts)})
}

// Account is a service account in the namespace of r; nil if the target does not see it,
// or nobody asks for one.
func (v *View) Account(r controller.Request, name string) *syncer.Account {
	if name == "" {
		return nil
	}
	r.Name = name
	if obj, ok := v.accounts.Get(r); ok && obj.GetDeletionTimestamp() == nil {
		return syncer.AccountFrom(obj)
	}
	return nil
}

// UsersOf are the objects whose pods run as a service account.
func (v *View) UsersOf(account controller.Request) []ObjectKey {
	var keys []ObjectKey
	for _, kind := range v.Kinds().Kinds() {
		if kind.PodTemplate == nil {
			continue
		}
		for _, obj := range v.ObjectsIn(kind.GroupVersionResource(), account.Cluster, account.Namespace) {
			if syncer.AccountUsed(kind, obj) == account.Name {
				keys = append(keys, KeyOf(kind, obj))
			}
		}
	}
	return keys
}

// supplied is the value of bySupply that all supplies have.
const supplied = "yes"

func (v *View) supply(obj *unstructured.Unstructured) []string {
	if syncer.IsSupply(v.ControlPlane, obj) {
		return []string{supplied}
	}
	return nil
}

// Supplies are the objects of a resource below that were made for the pods there; each is in memory while
// the walk is at it.
func (v *View) Supplies(gvr schema.GroupVersionResource) iter.Seq[*unstructured.Unstructured] {
	if i := v.now.Load().below(gvr); i != nil {
		return i.AllByIndex(bySupply, supplied)
	}
	return none
}
