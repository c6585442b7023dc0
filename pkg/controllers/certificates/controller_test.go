package certificates

import (
	"context"
	"crypto/x509"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
)

// TestEachRequestIsSignedFailedRemovedOrLeft runs the controller over all of them.
func TestEachRequestIsSignedFailedRemovedOrLeft(t *testing.T) {
	t.Parallel()
	named := func(name string, change func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
		csr := approved(t, change)
		csr.Name, csr.Annotations = name, map[string]string{logicalcluster.AnnotationKey: "shop"}
		return csr
	}
	old := metav1.Time{Time: now.Add(-25 * time.Hour)}
	kube := fake.NewClientset(
		named("good", nil),
		named("bad", func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Usages = nil }),
		named("pending", func(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions = nil }),
		named("forgotten", func(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions, r.CreationTimestamp = nil, old }),
		named("expired", func(r *certificatesv1.CertificateSigningRequest) { r.Status.Conditions[0].LastUpdateTime = old }),
	)
	atoll := atollfake.NewSimpleClientset(&tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "u"}})
	c := New(Config{Kube: kube, Client: atoll, Clock: testclock.NewFakePassiveClock(now),
		Sign: func(name logicalcluster.Name, uid types.UID, cert *x509.Certificate) ([]byte, error) {
			return []byte(name.String() + " " + string(uid) + " " + cert.Subject.CommonName), nil
		}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })

	want := []string{"bad Approved Failed", "good Approved: shop u ann", "pending"}
	var got []string
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		got = nil
		for i := range list.Items {
			line := list.Items[i].Name
			for _, c := range list.Items[i].Status.Conditions {
				line += " " + string(c.Type)
			}
			if signed := list.Items[i].Status.Certificate; signed != nil {
				line += ": " + string(signed)
			}
			got = append(got, line)
		}
		slices.Sort(got)
		return cmp.Equal(want, got), nil
	}); err != nil {
		t.Errorf("in the end: %s", cmp.Diff(want, got))
	}
}
