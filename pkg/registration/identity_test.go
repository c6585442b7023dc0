package registration

import (
	"crypto/x509"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestACertificateIsThatOfOnePhysicalCluster(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// by is a certificate that the server signs now, byHand one of atoll kubeconfig --syncer.
	by := func(uris ...*url.URL) *x509.Certificate {
		return &x509.Certificate{NotBefore: now.Add(-Backdate), NotAfter: now.Add(MaxLifetime), URIs: uris}
	}
	byHand := &x509.Certificate{NotBefore: now.Add(-ByHandBackdate), NotAfter: now.Add(365 * 24 * time.Hour)}
	registered := func(uid types.UID, at time.Duration) *fleetv1alpha1.PhysicalCluster {
		return &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: uid, CreationTimestamp: metav1.Time{Time: now.Add(at)}}}
	}
	going, forgotten, push := registered("1", -time.Hour), registered("1", -time.Hour), registered("1", -time.Hour)
	going.DeletionTimestamp, forgotten.Spec.Forget, push.Spec.Connection.Type = &metav1.Time{Time: now}, true, fleetv1alpha1.ConnectionPush
	parse := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for name, c := range map[string]struct {
		certificate *x509.Certificate
		pc          *fleetv1alpha1.PhysicalCluster
		wrong       string
	}{
		"its own":                                   {by(URI("east", "1")), registered("1", -time.Hour), ""},
		"its own, which goes":                       {by(URI("east", "1")), going, ""},
		"its own, forgotten":                        {by(URI("east", "1")), forgotten, ""},
		"its own, connected to by now":              {by(URI("east", "1")), push, ""},
		"its own, by a clock that is behind":        {by(URI("east", "1")), registered("1", time.Hour), ""},
		"a successor":                               {by(URI("east", "1")), registered("2", time.Hour), "unregistered"},
		"a successor, by a clock that is behind":    {by(URI("east", "1")), registered("2", -time.Hour), "unregistered"},
		"none":                                      {by(URI("east", "1")), nil, "not registered"},
		"no UID, registered before":                 {by(), registered("1", -time.Minute), ""},
		"no UID, registered in the same second":     {by(), registered("1", 0), ""},
		"no UID, registered later":                  {by(), registered("1", time.Second), "signed before"},
		"no UID, none":                              {by(), nil, "not registered"},
		"by hand, registered before":                {byHand, registered("1", -time.Minute), ""},
		"by hand, registered later":                 {byHand, registered("1", time.Second), "signed before"},
		"by hand, none":                             {byHand, nil, "not registered"},
		"of another name":                           {by(URI("west", "1")), registered("1", -time.Hour), "not that of the syncer"},
		"of a logical cluster":                      {by(parse("atoll-cluster:east?uid=1")), registered("1", -time.Hour), "not that of the syncer"},
		"with a URI that has no UID":                {by(parse(scheme + ":east")), registered("1", -time.Hour), "not that of the syncer"},
		"with two":                                  {by(URI("east", "2"), URI("east", "1")), registered("1", -time.Hour), "not that of the syncer"},
		"made longer, as if it had begun by hand":   {&x509.Certificate{NotBefore: byHand.NotBefore, NotAfter: byHand.NotAfter, URIs: []*url.URL{URI("east", "1")}}, registered("2", -time.Hour), "unregistered"},
		"of a short life, without one":              {&x509.Certificate{NotBefore: now.Add(-Backdate), NotAfter: now.Add(time.Minute)}, registered("1", time.Second), "signed before"},
		"that ends with its authority, without one": {&x509.Certificate{NotBefore: now.Add(-Backdate), NotAfter: now.Add(time.Minute)}, registered("1", -time.Minute), ""},
	} {
		i, err := IdentityOf(c.certificate, "east")
		if err == nil {
			err = i.Accept(c.pc)
		}
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", name, err, c.wrong)
		}
	}
}

func TestAUserHasOneUID(t *testing.T) {
	t.Parallel()
	for want, extra := range map[types.UID]map[string][]string{"1": {UIDKey: {"1"}}, "": {UIDKey: {"1", "2"}, "other": {"3"}}} {
		if got := UIDOf(extra); got != want {
			t.Errorf("%v: %q, want %q", extra, got, want)
		}
	}
}
