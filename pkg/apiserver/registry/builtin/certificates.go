package builtin

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	certificatesapi "k8s.io/kubernetes/pkg/apis/certificates"
	certificatesstore "k8s.io/kubernetes/pkg/registry/certificates/certificates/storage"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"

	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// certificates is the group certificates.k8s.io, where root takes requests for certificates
// of syncers from who may make them only.
type certificates struct {
	certificatesrest.RESTStorageProvider
}

func (p certificates) NewRESTStorage(resources serverstorage.APIResourceConfigSource, getter generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info, err := p.RESTStorageProvider.NewRESTStorage(resources, getter)
	if err != nil {
		return info, err
	}
	const resource = "certificatesigningrequests"
	for _, m := range info.VersionedResourcesStorageMap {
		if stored, ok := m[resource].(*certificatesstore.REST); ok {
			m[resource] = signingRequests{stored}
			return info, nil
		}
	}
	return info, fmt.Errorf("%s: there is no storage to guard", resource)
}

// signingRequests refuses at once what is never signed: it would keep its name from the one
// that is.
type signingRequests struct{ *certificatesstore.REST }

// Create implements rest.Creater.
func (r signingRequests) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if err := checkRegistration(ctx, obj); err != nil {
		return nil, err
	}
	return r.REST.Create(ctx, obj, validate, options)
}

func checkRegistration(ctx context.Context, obj runtime.Object) error {
	made, ok := obj.(*certificatesapi.CertificateSigningRequest)
	by, known := request.UserFrom(ctx)
	if c, scoped := scope.ClusterFrom(ctx); !ok || !known || !scoped || c != scope.Root {
		return nil
	}
	if registers := len(registration.NamesOf(by.GetName(), by.GetGroups(), "")) > 0; !registers && made.Spec.SignerName != registration.Signer {
		return nil
	}
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := legacyscheme.Scheme.Convert(made, csr, nil); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("converting a request: %w", err))
	}
	csr.Spec.Username, csr.Spec.Groups, csr.Spec.Extra = by.GetName(), by.GetGroups(), map[string]certificatesv1.ExtraValue{}
	for key, value := range by.GetExtra() {
		csr.Spec.Extra[key] = value
	}
	if _, _, _, err := registration.Check(csr); err != nil {
		return apierrors.NewForbidden(certificatesapi.Resource("certificatesigningrequests"), made.Name, err)
	}
	return nil
}
