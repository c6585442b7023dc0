package tokens

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// byAccount finds Secrets by the account that they are for.
const byAccount = "tokens.account"

var accounts = corev1.SchemeGroupVersion.WithResource("serviceaccounts")

// Config is what the controller needs.
type Config struct {
	// Kube acts in the logical cluster of the context.
	Kube kubernetes.Interface
	// Metadata must have serviceaccounts.
	Metadata *controller.Metadata
	// Sign makes the token of an account that a Secret will hold, for the logical
	// cluster of the context.
	Sign func(context.Context, *corev1.ServiceAccount, *corev1.Secret) (string, error)
	// RootCA is the bundle of PEM certificates that verify the server.
	RootCA []byte
	// Workers defaults to 2.
	Workers int
}

// key is a Secret, and the account that it is or was for.
type key struct {
	controller.Request
	Account string
}

// Controller fills the Secrets of all logical clusters.
type Controller struct {
	Config
	secrets  *controller.Informer[*corev1.Secret]
	accounts *controller.Informer[*metav1.PartialObjectMetadata]
	queue    *controller.Controller[key]
}

// New makes the controller.
func New(config Config) *Controller {
	if config.Workers == 0 {
		config.Workers = 2
	}
	c := &Controller{Config: config, accounts: config.Metadata.For(accounts)}
	c.queue = controller.New("tokens", config.Workers, c.reconcile)
	c.secrets = controller.NewInformer("tokens/secrets", &corev1.Secret{}, controller.Lists(config.Kube.CoreV1().Secrets(metav1.NamespaceAll)),
		controller.InformerOptions[*corev1.Secret]{
			Transform: tokensOnly,
			Indexers: map[string]func(*corev1.Secret) []string{byAccount: func(s *corev1.Secret) []string {
				return []string{accountKey(s, accountOf(s))}
			}},
			Tweak: func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)).String()
			},
		})
	c.secrets.Handle(func(old, secret *corev1.Secret) {
		if secret == nil {
			secret = old
		}
		c.queue.Enqueue(keyFor(secret))
	})
	c.accounts.Handle(func(old, account *metav1.PartialObjectMetadata) {
		if account == nil {
			for _, secret := range c.secrets.ByIndex(byAccount, accountKey(old, old.Name)) {
				c.queue.Enqueue(keyFor(secret))
			}
		}
	})
	return c
}

// tokensOnly is the transform of the informer; a source may ignore the selector.
func tokensOnly(obj runtime.Object) (*corev1.Secret, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	if secret.Type != corev1.SecretTypeServiceAccountToken {
		return nil, nil
	}
	kept := *secret // a source may have it still
	kept.ManagedFields = nil
	return &kept, nil
}

func keyFor(secret *corev1.Secret) key {
	return key{controller.RequestFor(secret), accountOf(secret)}
}

func accountKey(in metav1.Object, account string) string {
	return controller.Request{Cluster: logicalcluster.From(in), Namespace: in.GetNamespace(), Name: account}.String()
}

// Run works until ctx is done.
func (c *Controller) Run(ctx context.Context) {
	var informers sync.WaitGroup
	defer informers.Wait()
	informers.Go(func() { c.secrets.Run(ctx) })
	if c.accounts.WaitForSync(ctx) == nil && c.secrets.WaitForSync(ctx) == nil {
		c.queue.Run(ctx)
	}
}

func (c *Controller) reconcile(ctx context.Context, k key) (controller.Result, error) {
	secret, ok := c.secrets.Get(k.Request)
	if !ok {
		return controller.Result{}, c.unmention(ctx, k)
	}
	known, ok := c.accounts.Get(controller.Request{Cluster: k.Cluster, Namespace: k.Namespace, Name: accountOf(secret)})
	if ok && isFor(secret, known) && complete(secret, c.RootCA) {
		return controller.Result{}, nil
	}
	account, err := c.Kube.CoreV1().ServiceAccounts(k.Namespace).Get(ctx, accountOf(secret), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !isFor(secret, account):
		return controller.Result{}, c.remove(ctx, secret)
	case err != nil:
		return controller.Result{}, fmt.Errorf("reading service account %s: %w", accountOf(secret), err)
	case complete(secret, c.RootCA):
		return controller.Result{}, nil
	}
	return controller.Result{}, c.write(ctx, secret, account)
}

func (c *Controller) remove(ctx context.Context, secret *corev1.Secret) error {
	err := c.Kube.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &secret.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // a conflict is another Secret of the name
		return fmt.Errorf("removing a token without an account: %w", err)
	}
	return nil
}

func (c *Controller) write(ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount) error {
	filled, err := fill(secret, account, c.RootCA, func() (string, error) { return c.Sign(ctx, account, secret) })
	if err != nil {
		return fmt.Errorf("signing a token: %w", err)
	}
	_, err = c.Kube.CoreV1().Secrets(secret.Namespace).Update(ctx, filled, metav1.UpdateOptions{})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsInvalid(err): // it may be immutable
		return controller.TerminalError(fmt.Errorf("writing a token: %w", err))
	}
	return fmt.Errorf("writing a token: %w", err)
}

// unmention takes a Secret that is gone from the list of its account. That the informer
// lacks it proves nothing.
func (c *Controller) unmention(ctx context.Context, k key) error {
	if _, ok := c.accounts.Get(controller.Request{Cluster: k.Cluster, Namespace: k.Namespace, Name: k.Account}); !ok {
		return nil
	}
	if _, err := c.Kube.CoreV1().Secrets(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		if err != nil {
			return fmt.Errorf("reading the Secret: %w", err)
		}
		return nil
	}
	client := c.Kube.CoreV1().ServiceAccounts(k.Namespace)
	account, err := client.Get(ctx, k.Account, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading service account %s: %w", k.Account, err)
	}
	left := slices.DeleteFunc(slices.Clone(account.Secrets), func(r corev1.ObjectReference) bool { return r.Name == k.Name })
	if len(left) == len(account.Secrets) {
		return nil
	}
	account.Secrets = left
	if _, err := client.Update(ctx, account, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing service account %s: %w", k.Account, err)
	}
	return nil
}
