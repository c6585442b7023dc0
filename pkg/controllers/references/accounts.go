package references

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

var serviceAccounts = corev1.SchemeGroupVersion.WithResource("serviceaccounts")

// accounts has the metadata of service accounts; nil if nobody watches them.
func (c *Controller) accounts() *controller.Informer[*metav1.PartialObjectMetadata] {
	return c.Objects.For(serviceAccounts)
}

// showAccount lets the syncers see a service account on whose physical clusters something
// placed uses it: they make what its pods mount. It has no copies, so that nothing has to be
// removed, and nobody asked, before it is out of their sight again.
func (c *Controller) showAccount(ctx context.Context, k key) error {
	informer := c.accounts()
	if informer == nil {
		return nil
	}
	account, ok := informer.Get(k.Request)
	if !ok || account.DeletionTimestamp != nil {
		return nil
	}
	referrers := c.referrers(k)
	current := stamp.TargetsOf(account.Annotations)
	if stamp.Adds(current, targetsOf(referrers)...) {
		var err error
		if referrers, err = c.present(ctx, k, current, referrers); err != nil {
			return err
		}
	}
	users := stamp.Users(targetsOf(referrers)...)
	patch := stamp.Restamp(account, func(o metav1.Object) {
		if !stamp.Equal(current, users) {
			stamp.Show(o, users)
		}
	})
	if patch == nil {
		return nil
	}
	_, err := c.Metadata.Resource(serviceAccounts).Namespace(k.Namespace).Patch(ctx, k.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("showing a service account to syncers: %w", err)
	}
	return nil
}

// isToken says that a Secret holds a token of an account. It goes where a pod names it, not
// where the account is used: the list of an account says which ones its pods may name.
func (c *Controller) isToken(k key) bool {
	informer := c.objects(k.resource)
	if informer == nil {
		return false
	}
	secret, ok := informer.Get(k.Request)
	if !ok {
		return false
	}
	_, token := secret.Annotations[corev1.ServiceAccountNameKey]
	return token
}
