package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/registration"
)

func TestWhatBecomesOfTheRequestOfASyncer(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked := metav1.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := metav1.Time{Time: asked.Add(-time.Minute)}
	pull := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{UID: "1", CreationTimestamp: before},
		Spec: fleetv1alpha1.PhysicalClusterSpec{Connection: fleetv1alpha1.Connection{Type: fleetv1alpha1.ConnectionPull}}}
	push, forgotten, going, successor, later := pull.DeepCopy(), pull.DeepCopy(), pull.DeepCopy(), pull.DeepCopy(), pull.DeepCopy()
	successor.UID, later.CreationTimestamp = "2", metav1.Time{Time: asked.Add(time.Second)}
	push.Spec.Connection.Type, forgotten.Spec.Forget, going.DeletionTimestamp = fleetv1alpha1.ConnectionPush, true, ptr.To(metav1.Now())
	for name, c := range map[string]struct {
		renews, approved bool
		by, uid          string
		pc               *fleetv1alpha1.PhysicalCluster
		want             string
	}{
		"a first one":                                  {pc: pull, want: "wait"},
		"a first one that is approved":                 {pc: pull, approved: true, want: "sign"},
		"one that renews":                              {pc: pull, renews: true, want: "approve"},
		"one that renews and is approved":              {pc: pull, renews: true, approved: true, want: "sign"},
		"of a physical cluster that is not registered": {approved: true, want: "no physical cluster east is registered"},
		"of one that is forgotten":                     {pc: forgotten, renews: true, want: "no physical cluster east is registered"},
		"of one that goes":                             {pc: going, renews: true, want: "no physical cluster east is registered"},
		"of one that the server connects to":           {pc: push, approved: true, want: "not of type Pull"},
		"one that renews, of a successor":              {pc: successor, renews: true, want: "another PhysicalCluster east"},
		"the same, approved":                           {pc: successor, renews: true, approved: true, want: "another PhysicalCluster east"},
		"one that renews, of nobody knows which":       {pc: pull, renews: true, uid: "-", want: "another PhysicalCluster east"},
		"of nobody knows which, and of none":           {pc: &fleetv1alpha1.PhysicalCluster{}, renews: true, uid: "-", want: "another PhysicalCluster"},
		"one that renews, by a clock that is behind":   {pc: later, renews: true, want: "approve"},
		"a first one from before it was registered":    {pc: later, approved: true, want: "was registered after"},
		"by somebody else, approved":                   {pc: pull, approved: true, by: "eve", want: "registers no physical cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			csr, err := registration.New("east", key)
			if c.renews {
				csr, err = registration.Renew("east", "", key)
			}
			if err != nil {
				t.Fatal(err)
			}
			csr.CreationTimestamp = asked
			csr.Spec.Username = "system:serviceaccount:atoll-system:" + registration.Account("east")
			if c.renews {
				csr.Spec.Username, csr.Spec.Groups = registration.User("east"), []string{registration.Group}
				if c.uid == "" {
					csr.Spec.Extra = map[string]certificatesv1.ExtraValue{registration.UIDKey: {"1"}}
				}
			}
			if c.by != "" {
				csr.Spec.Username = c.by
			}
			if c.approved {
				csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
			}
			now := time.Now()
			v, wrong, err := judge(csr, func(string) (*fleetv1alpha1.PhysicalCluster, error) { return c.pc, nil }, now)
			got := "wait"
			switch {
			case err != nil:
				t.Fatal(err)
			case wrong != nil:
				got = wrong.Error()
			case v.approve:
				got = "approve"
			case v.sign != nil:
				got = "sign"
				if life := v.sign.NotAfter.Sub(now); v.physicalCluster != "east" || v.uid != "1" || life != 30*24*time.Hour {
					t.Errorf("it is signed for %s, %s, for %s", v.physicalCluster, v.uid, life)
				}
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
