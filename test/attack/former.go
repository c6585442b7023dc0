package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/tunnel"
)

// phoenix is the name that two physical clusters have, one after the other.
const phoenix = "phoenix"

// former has certificates of a physical cluster that was unregistered, one that was made by hand and
// one by a renewal, and a watch that began before. What it tries it could do before, and its successor
// can: both are tried, too.
var former = Attack{
	Name: "the syncer of a physical cluster that was unregistered is nobody when another one has its name",
	Fence: func(ctx context.Context, w *World) error {
		in, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		shop, _ := scope.ClusterFrom(in)
		root := scope.WithCluster(ctx, scope.Root)
		fleet := w.admin.atoll.FleetV1alpha1().PhysicalClusters()
		first, err := fleet.Create(root, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: phoenix}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		byHand, err := w.byHand()
		if err != nil {
			return err
		}
		renewed, err := renew(ctx, byHand, "")
		if err != nil {
			return fmt.Errorf("renewing before it is unregistered: %w", err)
		}
		old := map[string]clients{"made by hand": byHand, "renewed": renewed}
		for what, c := range old {
			if err := eventually(ctx, "before it is unregistered", func() error { return c.mayAll(ctx, shop) }); err != nil {
				return fmt.Errorf("with the certificate that is %s: %w", what, err)
			}
		}
		if _, err := renew(ctx, renewed, first.UID); err != nil {
			return fmt.Errorf("renewing what was renewed: %w", err)
		}
		view := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: phoenix})
		open, err := renewed.atoll.FleetV1alpha1().PhysicalClusters().Watch(view, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("watching before it is unregistered: %w", err)
		}
		defer open.Stop()

		made := time.Now()
		if err := fleet.Delete(root, phoenix, metav1.DeleteOptions{}); err != nil {
			return err
		}
		var second *fleetv1alpha1.PhysicalCluster
		if err := eventually(ctx, "registering another one of the name", func() (err error) {
			if time.Now().Unix() <= made.Unix() {
				return errors.New("the second in which the certificates were made is not over")
			}
			second, err = fleet.Create(root, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: phoenix}}, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
		if first.UID == second.UID {
			return errors.New("it is the same one")
		}
		for what, c := range old {
			if err := c.mayNothing(ctx, shop); err != nil {
				return fmt.Errorf("with the certificate that is %s: %w", what, err)
			}
			for _, uid := range []types.UID{"", first.UID, second.UID} {
				if _, err := renew(ctx, c, uid); !apierrors.IsUnauthorized(err) {
					return fmt.Errorf("with the certificate that is %s, %s is asked for: %w", what, registration.RenewalName(phoenix, uid), err)
				}
			}
		}
		if err := endsBefore(ctx, open, second.UID); err != nil {
			return err
		}
		own, err := w.byHand()
		if err != nil {
			return err
		}
		next, err := renew(ctx, own, second.UID)
		if err != nil {
			return fmt.Errorf("the successor renews: %w", err)
		}
		return eventually(ctx, "as the successor", func() error { return next.mayAll(ctx, shop) })
	},
}

// byHand is the syncer of phoenix, with a certificate from the keys of the server.
func (w *World) byHand() (clients, error) {
	data, err := app.Kubeconfig(w.Dir, phoenix, true)
	if err != nil {
		return clients{}, fmt.Errorf("the credential of the syncer: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return clients{}, fmt.Errorf("reading the credential of the syncer: %w", err)
	}
	return clientsOf(config), nil
}

// renew renews the certificate of c, by the request for a UID, and returns who has the new one.
func renew(ctx context.Context, c clients, uid types.UID) (clients, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return clients{}, err
	}
	csr, err := registration.Renew(phoenix, uid, key)
	if err != nil {
		return clients{}, err
	}
	root := scope.WithCluster(ctx, scope.Root)
	requests := c.kube.CertificatesV1().CertificateSigningRequests()
	if _, err := requests.Create(root, csr, metav1.CreateOptions{}); err != nil {
		return clients{}, err
	}
	config := rest.AnonymousClientConfig(c.config)
	if config.KeyData, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return clients{}, err
	}
	err = eventually(ctx, "signing "+csr.Name, func() error {
		signed, err := requests.Get(root, csr.Name, metav1.GetOptions{})
		if err == nil && len(signed.Status.Certificate) == 0 {
			err = fmt.Errorf("it is not signed: %v", signed.Status.Conditions)
		}
		if err == nil {
			config.CertData = signed.Status.Certificate
		}
		return err
	})
	return clientsOf(config), err
}

// tries are what a syncer of phoenix asks, with what it is answered as the one that is registered.
func tries(shop logicalcluster.Name) map[string]struct {
	method, body string
	want         int
} {
	type try = struct {
		method, body string
		want         int
	}
	view := scope.Scope{Cluster: scope.Root, Target: phoenix}.Path()
	all := scope.Scope{Cluster: scope.Wildcard, Target: phoenix}.Path()
	one := scope.Scope{Cluster: shop, Target: phoenix}.Path()
	return map[string]try{
		view + "/apis/fleet.atoll.dev/v1alpha1/physicalclusters/" + phoenix: {http.MethodGet, "", http.StatusOK},
		all + "/apis/apps/v1/deployments":                                   {http.MethodGet, "", http.StatusOK},
		all + "/api/v1/secrets":                                             {http.MethodGet, "", http.StatusOK},
		view + tunnel.Path:                                                  {http.MethodGet, "", http.StatusBadRequest}, // it is no upgrade
		// Nothing is placed there: what may be asked for is in the attack on tokens.
		one + "/api/v1/namespaces/default/serviceaccounts/default/token": {http.MethodPost, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`, http.StatusForbidden},
	}
}

// mayAll fails if something is not answered as it is to the syncer that is registered.
func (c clients) mayAll(ctx context.Context, shop logicalcluster.Name) error {
	for path, try := range tries(shop) {
		if got, err := ask(ctx, c.config, try.method, path, try.body); err != nil || got.code != try.want {
			return fmt.Errorf("%s is answered %d, want %d: %s (%w)", path, got.code, try.want, got.body, err)
		}
	}
	return nil
}

// mayNothing fails if something is answered.
func (c clients) mayNothing(ctx context.Context, shop logicalcluster.Name) error {
	for path, try := range tries(shop) {
		if got, err := ask(ctx, c.config, try.method, path, try.body); err != nil || got.code != http.StatusUnauthorized {
			return fmt.Errorf("%s is answered %d: %s (%w)", path, got.code, got.body, err)
		}
	}
	return nil
}

// endsBefore fails if a watch goes on, or shows anything of who has a UID.
func endsBefore(ctx context.Context, open watch.Interface, uid types.UID) error {
	for {
		select {
		case <-ctx.Done():
			return errors.New("a watch from before goes on")
		case event, ok := <-open.ResultChan():
			if !ok {
				return nil
			}
			if pc, is := event.Object.(*fleetv1alpha1.PhysicalCluster); is && pc.UID == uid {
				return errors.New("a watch from before shows the successor")
			}
		}
	}
}
