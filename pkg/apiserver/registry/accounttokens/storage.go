package accounttokens

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/dynamic"
	authentication "k8s.io/kubernetes/pkg/apis/authentication"
	api "k8s.io/kubernetes/pkg/apis/core"
	serviceaccountstore "k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage"

	"github.com/atoll-dev/atoll/pkg/reads"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// readTimeout is for one read of a namespace.
	readTimeout = 30 * time.Second
	// remembered is for how long it is known which object mounts a token: that one is read again, and
	// not all of the namespace.
	remembered = time.Minute
)

// place is a namespace on a physical cluster.
type place struct {
	cluster           logicalcluster.Name
	namespace, target string
}

// REST serves serviceaccounts/token.
type REST struct {
	*serviceaccountstore.TokenREST
	accounts rest.Getter
	objects  dynamic.Interface
	kinds    workload.Source
	// mounts are what is mounted where.
	mounts *reads.Shared[place, mounted]
}

// NewREST puts the fence around stock. The client takes the logical cluster from the
// context.
func NewREST(stock *serviceaccountstore.TokenREST, accounts rest.Getter, objects dynamic.Interface, kinds workload.Source) *REST {
	r := &REST{TokenREST: stock, accounts: accounts, objects: objects, kinds: kinds}
	r.mounts = reads.New(readTimeout, remembered, r.mounted)
	return r
}

// errNotMounted is all that a syncer hears: whether the account, or the namespace, exists
// elsewhere is not its business.
var errNotMounted = errors.New("no pod that is placed on the physical cluster mounts such a token")

// Create implements rest.NamedCreater.
func (r *REST) Create(ctx context.Context, name string, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	target, viewed := scope.TargetFrom(ctx)
	if !viewed {
		return r.TokenREST.Create(ctx, name, obj, validate, options)
	}
	request, ok := obj.(*authentication.TokenRequest)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("unexpected type %T of a TokenRequest", obj))
	}
	ctx = scope.WithTarget(ctx, "")
	refused := apierrors.NewForbidden(api.Resource("serviceaccounts/token"), name, errNotMounted)
	account, err := r.account(ctx, name)
	if err != nil {
		return nil, err
	}
	permitted, err := r.permitted(ctx, target, name, request, account)
	switch {
	case err != nil:
		return nil, err
	case !permitted:
		return nil, refused
	case account != nil && request.UID != account.UID:
		return nil, apierrors.NewConflict(api.Resource("serviceaccounts/token"), name, errors.New("the service account has another UID than the one that is asked for"))
	}
	// It ends with the physical cluster.
	request.Spec.BoundObjectRef = &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: target}
	return r.TokenREST.Create(ctx, name, request, validate, options)
}

// account is the service account; nil if there is none.
func (r *REST) account(ctx context.Context, name string) (*api.ServiceAccount, error) {
	obj, err := r.accounts.Get(ctx, name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	account, ok := obj.(*api.ServiceAccount)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("a service account is a %T", obj))
	}
	return account, nil
}

// permitted looks for a template that mounts the token, among the objects of the namespace
// as they are stored.
func (r *REST) permitted(ctx context.Context, target, name string, request *authentication.TokenRequest, account *api.ServiceAccount) (bool, error) {
	namespace, ok := genericapirequest.NamespaceFrom(ctx)
	if !ok || namespace == "" || len(request.Spec.Audiences) > 1 || len(request.Spec.Attestations) > 0 {
		return false, nil
	}
	cluster, ok := scope.ClusterFrom(ctx)
	if !ok {
		return false, nil
	}
	token := workload.TokenUse{Account: name, Seconds: request.Spec.ExpirationSeconds}
	if len(request.Spec.Audiences) == 1 {
		token.Audience = request.Spec.Audiences[0]
	}
	var automount *bool
	if account != nil {
		automount = account.AutomountServiceAccountToken
	}
	in := place{cluster, namespace, target}
	if last, ok := r.mounts.Last(in); ok {
		if by, ok := last.permits(token, automount); ok {
			if now, err := r.mountedBy(ctx, in, by); err != nil {
				return false, err
			} else if _, ok := now.permits(token, automount); ok {
				return true, nil
			}
		}
	}
	found, err := r.mounts.Get(ctx, in)
	if err != nil {
		return false, err
	}
	_, ok = found.permits(token, automount)
	return ok, nil
}

// mountedBy is what the pods of one object mount, as it is stored now; nothing if there is none.
func (r *REST) mountedBy(ctx context.Context, in place, o object) (mounted, error) {
	found := newMounted()
	kind, ok := workload.In(r.kinds, in.cluster).ByResource(o.resource)
	if !ok {
		return found, nil
	}
	obj, err := r.objects.Resource(kind.GroupVersionResource()).Namespace(in.namespace).Get(ctx, o.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return found, nil
	case err != nil:
		return found, fmt.Errorf("reading %s %s: %w", kind.Kind, o.name, err)
	}
	found.add(kind, obj, in.target)
	return found, nil
}

// mounted reads what pods of a namespace mount on a physical cluster, of what is stored, not of what
// the view shows of it by now.
func (r *REST) mounted(ctx context.Context, p place) (mounted, error) {
	ctx = scope.WithCluster(ctx, p.cluster)
	found := newMounted()
	for _, kind := range workload.In(r.kinds, p.cluster).Kinds() {
		if kind.PodTemplate == nil || !kind.Copied() {
			continue
		}
		list, err := r.objects.Resource(kind.GroupVersionResource()).Namespace(p.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return mounted{}, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			found.add(kind, &list.Items[i], p.target)
		}
	}
	return found, nil
}
