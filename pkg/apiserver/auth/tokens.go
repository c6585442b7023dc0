package auth

import (
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	jwt "gopkg.in/go-jose/go-jose.v2/jwt"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes"
	apiv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// clustersSegment, between an issuer of the options and the name of a logical
// cluster, makes the issuer of that logical cluster.
const clustersSegment = "/clusters/"

// Tokens issues and verifies service account tokens.
type Tokens struct {
	key       *ecdsa.PrivateKey
	public    serviceaccount.PublicKeysGetter
	client    kubernetes.Interface
	core      map[string]rest.Storage
	audiences authenticator.Audiences
	issuers   []string
}

// NewTokens signs with key, and notes through the scoped client that a token of a Secret was
// used. The first of issuers issues, all are accepted. ReadFrom has to be called before a
// token is verified.
func NewTokens(key *ecdsa.PrivateKey, client kubernetes.Interface, issuers []string) (*Tokens, error) {
	public, err := serviceaccount.StaticPublicKeysGetter([]any{&key.PublicKey})
	if err != nil {
		return nil, fmt.Errorf("reading the service account key: %w", err)
	}
	if len(issuers) == 0 {
		issuers = NewOptions().Issuers
	}
	return &Tokens{key: key, public: public, client: client, audiences: authenticator.Audiences{Audience}, issuers: issuers}, nil
}

// ReadFrom has accounts, and what else tokens are bound to, read from these storages of the
// core group, by resource. Each request with a token reads one or two objects: a request of
// the server to itself for each would cost as much as a small one of the user.
func (t *Tokens) ReadFrom(core map[string]rest.Storage) { t.core = core }

// issuer is the one that issues in a logical cluster.
func (t *Tokens) issuer(c logicalcluster.Name) string {
	return t.issuers[0] + clustersSegment + c.String()
}

// ClusterOf reads, without verifying anything, which logical cluster a service
// account token claims to belong to. The authenticator verifies the claim
// against the scope of the request.
func (t *Tokens) ClusterOf(token string) (logicalcluster.Name, bool) {
	claimed := claimsOf(token)
	for _, issuer := range t.issuers {
		name, ok := strings.CutPrefix(claimed.Issuer, issuer+clustersSegment)
		if ok && scope.ValidateName(name) == "" {
			return logicalcluster.Name(name), true
		}
	}
	return "", false
}

// claims are what a token says before anybody has verified it.
type claims struct {
	Issuer string `json:"iss"`
	// Secret holds the token, if it is one that does not expire.
	Secret string `json:"kubernetes.io/serviceaccount/secret.name"`
}

func claimsOf(token string) (c claims) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &c) != nil {
		return claims{}
	}
	return c
}

// GenerateToken implements serviceaccount.TokenGenerator for the logical cluster of ctx.
func (t *Tokens) GenerateToken(ctx context.Context, claims *jwt.Claims, private any) (string, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return "", scope.ErrNoCluster
	}
	generator, err := serviceaccount.JWTTokenGenerator(t.issuer(c), t.key)
	if err != nil {
		return "", fmt.Errorf("making a token generator: %w", err)
	}
	return generator.GenerateToken(ctx, claims, private)
}

// ForSecret signs the token of an account that a Secret will hold, for the logical
// cluster of ctx. It does not expire.
func (t *Tokens) ForSecret(ctx context.Context, account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
	claims, private := serviceaccount.LegacyClaims(*account, *secret)
	return t.GenerateToken(ctx, claims, private)
}

// AuthenticateToken implements authenticator.Token: a token is good in the
// logical cluster of its issuer only, as long as its account (and pod) lives, or
// the Secret that holds it.
func (t *Tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	c, ok := scope.ClusterFrom(ctx)
	if !ok || c == scope.Wildcard {
		return nil, false, nil
	}
	issuers := make([]string, len(t.issuers))
	for i, issuer := range t.issuers {
		issuers[i] = issuer + clustersSegment + c.String()
	}
	stock := serviceaccount.JWTTokenAuthenticator(issuers, t.public, t.audiences, serviceaccount.NewValidator(t.accounts()))
	if claimsOf(token).Secret != "" {
		validator, err := serviceaccount.NewLegacyValidator(true, t.accounts(), t.client.CoreV1())
		if err != nil {
			return nil, false, fmt.Errorf("verifying a token of a Secret: %w", err)
		}
		stock = serviceaccount.JWTTokenAuthenticator(issuers, t.public, t.audiences, validator)
	}
	response, ok, err := stock.AuthenticateToken(ctx, token)
	if ok && err == nil {
		MarkBound(ctx)
	}
	return response, ok, err
}

// accounts reads what tokens are bound to, in the logical cluster of ctx: from the
// watch cache of the server, and from etcd what is not there (yet), since a token
// is good as soon as its account exists.
type accounts struct {
	core   map[string]rest.Storage
	client kubernetes.Interface
}

func (t *Tokens) accounts() accounts { return accounts{core: t.core, client: t.client} }

func read[T any](ctx context.Context, name string, get func(context.Context, string, metav1.GetOptions) (T, error)) (T, error) {
	obj, err := get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		return get(ctx, name, metav1.GetOptions{})
	}
	return obj, err
}

// stored reads an object of the core group, in the form that storages have, which is
// shared and must not be changed, and gives it the other one.
func stored[In runtime.Object, Out any](ctx context.Context, a accounts, resource, namespace, name string, convert func(In, *Out, conversion.Scope) error) (*Out, error) {
	getter, ok := a.core[resource].(rest.Getter)
	if !ok {
		return nil, fmt.Errorf("reading %s: there is no storage", resource)
	}
	obj, err := read(genericrequest.WithNamespace(ctx, namespace), name, func(ctx context.Context, name string, options metav1.GetOptions) (runtime.Object, error) {
		return getter.Get(ctx, name, &options)
	})
	if err != nil {
		return nil, err
	}
	in, ok := obj.(In)
	if !ok {
		return nil, fmt.Errorf("reading %s: unexpected %T", resource, obj)
	}
	out := new(Out)
	return out, convert(in, out, nil)
}

func (a accounts) GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return stored(ctx, a, "serviceaccounts", namespace, name, apiv1.Convert_core_ServiceAccount_To_v1_ServiceAccount)
}

func (a accounts) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return stored(ctx, a, "pods", namespace, name, apiv1.Convert_core_Pod_To_v1_Pod)
}

func (a accounts) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return stored(ctx, a, "secrets", namespace, name, apiv1.Convert_core_Secret_To_v1_Secret)
}

func (a accounts) GetNode(ctx context.Context, name string) (*corev1.Node, error) {
	return stored(ctx, a, "nodes", metav1.NamespaceNone, name, apiv1.Convert_core_Node_To_v1_Node)
}

func (a accounts) GetValidatingWebhookConfiguration(ctx context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	return read(ctx, name, a.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get)
}

func (a accounts) GetMutatingWebhookConfiguration(ctx context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	return read(ctx, name, a.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get)
}
