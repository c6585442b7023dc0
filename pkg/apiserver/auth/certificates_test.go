package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestACertificateOfATenantIsGoodInItsLogicalClusterOnly(t *testing.T) {
	t.Parallel()
	keys, err := pki.Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	parse := func(pem []byte, err error) *x509.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		certs, err := certutil.ParseCertsPEM(pem)
		if err != nil {
			t.Fatal(err)
		}
		return certs[0]
	}
	ofTenant := func(lasts time.Duration, name string, groups ...string) *x509.Certificate {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return parse(keys.SignTenant("shop", "1", &x509.Certificate{PublicKey: key.Public(), Subject: pkix.Name{CommonName: name, Organization: groups},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lasts)}))
	}
	admins, _, err := keys.Client("ann", "ops")
	ofAdmin := parse(admins, err)
	tenantsCA := x509.NewCertPool()
	tenantsCA.AppendCertsFromPEM(keys.TenantsCAPEM)
	shop := scope.WithCluster(t.Context(), "shop")
	for name, tc := range map[string]struct {
		ctx    context.Context
		cert   *x509.Certificate
		uid    types.UID
		lookup error
		want   []string // name and groups
		failed bool
	}{
		"in its logical cluster":         {shop, ofTenant(time.Hour, "ann", "ops"), "1", nil, []string{"ann", "ops"}, false},
		"in another one":                 {scope.WithCluster(t.Context(), "web"), ofTenant(time.Hour, "ann"), "1", nil, nil, true},
		"in all of them":                 {scope.WithCluster(t.Context(), scope.Wildcard), ofTenant(time.Hour, "ann"), "1", nil, nil, true},
		"in none":                        {t.Context(), ofTenant(time.Hour, "ann"), "1", nil, nil, true},
		"in a successor of the name":     {shop, ofTenant(time.Hour, "ann"), "2", nil, nil, true},
		"in one that cannot be asked":    {shop, ofTenant(time.Hour, "ann"), "1", errors.New("no etcd"), nil, true},
		"when it has ended":              {shop, ofTenant(-time.Minute, "ann"), "1", nil, nil, true},
		"with the name of the server":    {shop, ofTenant(time.Hour, "system:apiserver"), "1", nil, nil, true},
		"with the group of admins":       {shop, ofTenant(time.Hour, "ann", "ops", "system:masters"), "1", nil, nil, true},
		"of the authority of the server": {shop, ofAdmin, "1", nil, nil, true},
		"without a certificate":          {shop, nil, "1", nil, nil, false},
	} {
		authenticator := tenants{verified: verifying(tenantsCA), lives: func(_ context.Context, name logicalcluster.Name, uid types.UID) (bool, error) {
			return name == "shop" && uid == tc.uid, tc.lookup
		}}
		req := (&http.Request{}).WithContext(TrackBound(tc.ctx))
		if tc.cert != nil {
			req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tc.cert}}
		}
		response, ok, err := authenticator.AuthenticateRequest(req)
		var got []string
		if ok {
			got = append([]string{response.User.GetName()}, response.User.GetGroups()...)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.failed {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if IsBound(req.Context()) != ok {
			t.Errorf("%s: accepted %t, bound to the logical cluster %t", name, ok, !ok)
		}
	}
}

// The table of who is accepted is that of registration.Identity; here is what is done with its answer.
func TestTheCertificateOfASyncerIsGoodForItsPhysicalClusterOnly(t *testing.T) {
	t.Parallel()
	keys, err := pki.Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	parse := func(pem []byte, err error) *x509.Certificate {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		certs, err := certutil.ParseCertsPEM(pem)
		if err != nil {
			t.Fatal(err)
		}
		return certs[0]
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := parse(keys.SignSyncer("east", "1", &x509.Certificate{PublicKey: key.Public(), NotBefore: time.Now().Add(-registration.Backdate), NotAfter: time.Now().Add(time.Hour)}))
	made, _, err := keys.Client(SyncerUser("east"), SyncersGroup)
	byHand := parse(made, err)
	made, _, err = keys.Client("ann", "ops")
	ofAdmin := parse(made, err)
	ca := x509.NewCertPool()
	ca.AppendCertsFromPEM(keys.CAPEM)
	registered := func(uid types.UID, at time.Duration) *fleet.PhysicalCluster {
		return &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: uid, CreationTimestamp: metav1.NewTime(time.Now().Add(at))}}
	}
	for name, tc := range map[string]struct {
		cert   *x509.Certificate
		pc     *fleet.PhysicalCluster
		lookup error
		want   []string // name, groups and UID
		failed bool
	}{
		"its own":                      {signed, registered("1", -time.Minute), nil, []string{SyncerUser("east"), SyncersGroup, "1"}, false},
		"a successor":                  {signed, registered("2", -time.Minute), nil, nil, true},
		"none":                         {signed, nil, nil, nil, true},
		"one that cannot be asked for": {signed, registered("1", -time.Minute), errors.New("no etcd"), nil, true},
		"by hand, registered before":   {byHand, registered("2", -time.Minute), nil, []string{SyncerUser("east"), SyncersGroup, "2"}, false},
		"by hand, registered later":    {byHand, registered("2", time.Minute), nil, nil, true},
		"no syncer":                    {ofAdmin, nil, errors.New("no etcd"), []string{"ann", "ops", ""}, false},
		"without a certificate":        {nil, registered("1", -time.Minute), nil, nil, false},
	} {
		authenticator := syncers{verified: verifying(ca), registered: func(_ context.Context, name string, _ func(*fleet.PhysicalCluster) bool) (*fleet.PhysicalCluster, error) {
			if name != "east" {
				t.Errorf("%s: asked about %q", name, name)
			}
			return tc.pc, tc.lookup
		}}
		req := (&http.Request{}).WithContext(t.Context())
		if tc.cert != nil {
			req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tc.cert}}
		}
		response, ok, err := authenticator.AuthenticateRequest(req)
		var got []string
		if ok {
			got = append(append([]string{response.User.GetName()}, response.User.GetGroups()...), string(PhysicalClusterUID(response.User)))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.failed {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	for name, uid := range map[string]types.UID{"east": "", "": "1"} {
		if _, err := keys.SignSyncer(name, uid, &x509.Certificate{PublicKey: key.Public()}); err == nil {
			t.Errorf("signed for %q with UID %q", name, uid)
		}
	}
}
