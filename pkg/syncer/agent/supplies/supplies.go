package supplies

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

var (
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// writtenTimeout is how long an own write is believed that the watch does not show.
const writtenTimeout = 30 * time.Second

// Config is what a Keeper works with.
type Config struct {
	View *view.View
	Up   connection.ControlPlane
	Down connection.Physical
	// Server is how pods on the physical cluster reach the control plane now.
	Server func() syncer.Server
	// Names is the namespace of the physical cluster where names of logical clusters are
	// answered now; empty if nobody offers to. Nil is never.
	Names func() string
	// NamesChanged is called when the address has changed at which they are.
	NamesChanged func()
}

// Keeper keeps supplies.
type Keeper struct {
	Config
	// queue has what sweeps found to be due.
	queue   *controller.Controller[due]
	mu      sync.Mutex
	written map[place]write
	names   nameservers
}

// write is an own write that the watch may not show yet, in a namespace of this UID: what was
// written goes with it. The UID is empty while the watch does not show the namespace either.
type write struct {
	at        time.Time
	namespace types.UID
}

// place is where a supply is.
type place struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

// New makes a Keeper.
func New(c Config) *Keeper {
	if c.Names == nil {
		c.Names = func() string { return "" }
	}
	if c.NamesChanged == nil {
		c.NamesChanged = func() {}
	}
	k := &Keeper{Config: c, written: map[place]write{}}
	k.queue = controller.New("syncer/supplies", workers, k.keep, controller.WithShares)
	return k
}

// Missing are those of some supplies that a physical namespace lacks.
func (k *Keeper) Missing(namespace string, s syncer.Supplies) (missing syncer.Supplies) {
	names, configMap := s.Names()
	for i, name := range names {
		if !k.has(place{secrets, namespace, name}) {
			missing.Tokens = append(missing.Tokens, s.Tokens[i])
		}
	}
	if configMap != "" && !k.has(place{configMaps, namespace, configMap}) {
		missing.CA = s.CA
	}
	return missing
}

func (k *Keeper) has(p place) bool {
	obj, ok := k.View.Physical(p.resource, controller.Request{Namespace: p.namespace, Name: p.name})
	ok = ok && syncer.IsSupply(k.View.ControlPlane, obj) && (p.resource != secrets || syncer.StandingOf(obj, time.Now()) != syncer.SupplyExpired)
	return k.wrote(p) || ok
}

// wrote says that it was written a moment ago, where it would be now.
func (k *Keeper) wrote(p place) bool {
	now := k.namespaceUID(p.namespace)
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.written[p]
	switch {
	case !ok:
		return false
	case time.Since(w.at) > writtenTimeout, w.namespace != "" && w.namespace != now:
		delete(k.written, p)
		return false
	}
	w.namespace = now
	k.written[p] = w
	return true
}

func (k *Keeper) namespaceUID(name string) types.UID {
	if namespace, ok := k.View.Physical(view.Namespaces, controller.Request{Name: name}); ok {
		return namespace.GetUID()
	}
	return ""
}

// Write makes supplies, or makes them anew.
func (k *Keeper) Write(ctx context.Context, in syncer.Space, s syncer.Supplies) error {
	for _, t := range s.Tokens {
		secret, err := k.request(ctx, in, t)
		if err != nil {
			return err
		}
		if err := k.put(ctx, secrets, secret); err != nil {
			return err
		}
	}
	if s.CA == "" {
		return nil
	}
	return k.put(ctx, configMaps, syncer.CAConfigMap(k.View.ControlPlane, in, s.CA))
}

// request asks the control plane for a token. It names the UID of the account: the token
// of another one is not meant.
func (k *Keeper) request(ctx context.Context, in syncer.Space, t syncer.Token) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(scope.WithCluster(ctx, in.Cluster), connection.RequestTimeout)
	defer cancel()
	request := &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: t.Account, UID: t.UID},
		Spec:       authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(t.Seconds)},
	}
	if t.Audience != "" {
		request.Spec.Audiences = []string{t.Audience}
	}
	issued := time.Now()
	answer, err := k.Up.Kube.CoreV1().ServiceAccounts(in.Namespace).CreateToken(ctx, t.Account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of service account %s: %w", t.Account, err)
	}
	return syncer.TokenSecret(k.View.ControlPlane, in, t, answer.Status.Token, issued, expires(answer, issued)), nil
}

// expires is when a token ends by the clock of this syncer, which is what it is held against. That of the server may
// differ: by the time in its answer a token of minutes had ended when it came, or was renewed after its end.
func expires(answer *authenticationv1.TokenRequest, issued time.Time) time.Time {
	if granted := answer.Spec.ExpirationSeconds; granted != nil && *granted > 0 {
		return issued.Add(time.Duration(*granted) * time.Second)
	}
	return answer.Status.ExpirationTimestamp.Time
}

// put writes a supply over the one that is there, but over nothing else.
func (k *Keeper) put(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	in := k.namespaceUID(obj.GetNamespace())
	client := k.Down.Dynamic.Resource(gvr).Namespace(obj.GetNamespace())
	_, err := client.Create(ctx, obj, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		err = k.replace(ctx, gvr, obj)
	}
	if err != nil {
		return fmt.Errorf("writing %s %s: %w", gvr.Resource, obj.GetName(), err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written[place{gvr, obj.GetNamespace(), obj.GetName()}] = write{at: time.Now(), namespace: in}
	return nil
}

func (k *Keeper) replace(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	client := k.Down.Dynamic.Resource(gvr).Namespace(obj.GetNamespace())
	present, err := client.Get(ctx, obj.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !syncer.IsSupply(k.View.ControlPlane, present) {
		return syncer.ErrSupplyNotOurs
	}
	obj.SetUID(present.GetUID())
	obj.SetResourceVersion(present.GetResourceVersion())
	// Patch is among the rights that `kubectl atoll register` gives, update is not.
	content, err := json.Marshal(obj.Object)
	if err != nil {
		return fmt.Errorf("encoding a supply: %w", err)
	}
	_, err = client.Patch(ctx, obj.GetName(), types.MergePatchType, content, metav1.PatchOptions{FieldManager: syncer.FieldManager})
	return err
}
