package join

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/registration"
)

// root is the control plane as a syncer sees it: requests of root, over TLS, with who asked.
type root struct {
	*httptest.Server

	mu       sync.Mutex
	requests map[string]*certificatesv1.CertificateSigningRequest
	asked    []string
	// refused: no certificate is accepted.
	refused bool
	// paged: who is before the server answers whoever has a token.
	paged bool
	// settle is called with a request that is read.
	settle func(*certificatesv1.CertificateSigningRequest)
}

func newRoot(t *testing.T, settle func(*certificatesv1.CertificateSigningRequest)) *root {
	t.Helper()
	r := &root{requests: map[string]*certificatesv1.CertificateSigningRequest{}, settle: settle}
	const path = "/clusters/root/apis/certificates.k8s.io/v1/certificatesigningrequests"
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		by := req.Header.Get("Authorization")
		if len(req.TLS.PeerCertificates) > 0 {
			by = req.TLS.PeerCertificates[0].Subject.CommonName
		}
		r.asked = append(r.asked, req.Method+" "+by)
		name := strings.TrimPrefix(strings.TrimPrefix(req.URL.Path, path), "/")
		csr := r.requests[name]
		switch {
		case by == "Bearer stale" || r.refused && len(req.TLS.PeerCertificates) > 0:
			status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
			return
		case r.paged && len(req.TLS.PeerCertificates) == 0:
			http.NotFound(w, req)
			return
		case req.Method == http.MethodPost:
			csr = &certificatesv1.CertificateSigningRequest{}
			if err := json.NewDecoder(req.Body).Decode(csr); err != nil {
				t.Error(err)
			}
			r.requests[csr.Name] = csr
		case csr == nil:
			status(w, http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		case r.settle != nil:
			r.settle(csr)
		}
		w.Header().Set("Content-Type", "application/json")
		csr.TypeMeta = metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}
		_ = json.NewEncoder(w).Encode(csr)
	}))
	r.TLS = tlsWithClientCertificates()
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func status(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason})
}

// joiner is one of the physical cluster east, with a token.
func (r *root) joiner(physical *fake.Clientset, token string) *Joiner {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	return &Joiner{PhysicalCluster: "east", Physical: physical, Interval: 10 * time.Millisecond,
		Server: &rest.Config{Host: r.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: ca},
			ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}} // what the server of these tests reads
}

// signing signs what is asked for, for a while from now on.
func signing(t *testing.T, life time.Duration) func(*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return func(csr *certificatesv1.CertificateSigningRequest) {
		request, err := registration.Parse(csr.Spec.Request)
		if err != nil {
			t.Error(err)
			return
		}
		now := time.Now()
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: request.Subject.CommonName}, NotBefore: now, NotAfter: now.Add(life)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, ca)
		if err != nil {
			t.Error(err)
			return
		}
		csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
}

func TestASyncerGetsACertificateKeepsItAndRenewsIt(t *testing.T) {
	t.Parallel()
	r := newRoot(t, signing(t, time.Minute))
	physical := fake.NewClientset()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, err := r.joiner(physical, "token").Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if first.Config.BearerToken != "" || len(first.Config.KeyData) == 0 {
		t.Errorf("the identity has the token, or no key")
	}
	// One that starts anew is the same one, and needs no token.
	again, err := r.joiner(physical, "stale").Identity(ctx)
	if err != nil || string(again.certificate) != string(first.certificate) {
		t.Fatalf("after a restart it is another one: %v", err)
	}
	again.From, again.End = time.Now().Add(-time.Hour), time.Now().Add(time.Minute) // it is time
	next, err := r.joiner(physical, "stale").Renewed(ctx, again)
	if err != nil {
		t.Fatal(err)
	}
	if string(next.key) == string(first.key) {
		t.Error("it is renewed with the same key")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.asked[len(r.asked)-1]; last != "GET "+registration.User("east") {
		t.Errorf("it was renewed by %q", last)
	}
	secret, err := physical.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).Get(ctx, SecretName, metav1.GetOptions{})
	if err != nil || string(secret.Data["tls.key"]) != string(next.key) || string(secret.Data["tls.crt"]) != string(next.certificate) {
		t.Errorf("the renewed one is not kept: %v", err)
	}
}

// What is kept, by what the server accepts:
//
//	certificate  token     then
//	yes          any       it is used: TestASyncerGetsACertificateKeepsItAndRenewsIt
//	no           no        it is used: the server may not know anybody at the moment
//	no           a page    the same
//	no           yes       another one is asked for, with another key
func TestAnIdentityThatIsNotAcceptedIsReplacedByWhoMayRegister(t *testing.T) {
	t.Parallel()
	r := newRoot(t, signing(t, time.Minute))
	physical := fake.NewClientset()
	first, err := r.joiner(physical, "token").Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	clear(r.requests)
	r.refused = true
	r.mu.Unlock()
	same, err := r.joiner(physical, "stale").Identity(t.Context())
	if err != nil || string(same.certificate) != string(first.certificate) {
		t.Errorf("nobody is accepted: the identity is another one, %v", err)
	}
	r.mu.Lock()
	r.paged = true
	r.mu.Unlock()
	if same, err = r.joiner(physical, "token").Identity(t.Context()); err != nil || string(same.certificate) != string(first.certificate) {
		t.Errorf("a page answers: the identity is another one, %v", err)
	}
	r.mu.Lock()
	r.paged = false
	r.mu.Unlock()
	other, err := r.joiner(physical, "token").Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(other.key) == string(first.key) || string(other.certificate) == string(first.certificate) {
		t.Error("the key of before is used again")
	}
	secret, err := physical.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).Get(t.Context(), SecretName, metav1.GetOptions{})
	if err != nil || string(secret.Data["tls.key"]) != string(other.key) {
		t.Errorf("the new key is not kept: %v", err)
	}
}

func TestASyncerRenewsByTheUIDInItsCertificate(t *testing.T) {
	t.Parallel()
	sign := signing(t, time.Minute)
	r := newRoot(t, sign)
	physical := fake.NewClientset()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, err := r.joiner(physical, "token").Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[string]string{"": "syncer.east.renewal", "1": "syncer.east.1.renewal"} {
		first.uid, first.From, first.End = types.UID(uid), time.Now().Add(-time.Hour), time.Now().Add(time.Minute)
		if _, err := r.joiner(physical, "stale").Renewed(ctx, first); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		if r.requests[want] == nil {
			t.Errorf("with the UID %q nothing is asked for by %s", uid, want)
		}
		r.mu.Unlock()
	}
}

func TestWhatEndsTheWaitForACertificate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		token  string
		settle func(*certificatesv1.CertificateSigningRequest)
		says   string
	}{
		"an admin denies it": {"token", func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Message: "not ours"}}
		}, "Denied: not ours"},
		"it names somebody else": {"token", func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateFailed, Message: "the subject"}}
		}, "Failed: the subject"},
		"the token is not good any more": {"stale", nil, "kubectl atoll register east --agent"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := newRoot(t, c.settle).joiner(fake.NewClientset(), c.token).Identity(ctx)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

func TestTheRequestOfSomebodyElseIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRoot(t, nil)
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := parseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	stolen, err := registration.New("east", other)
	if err != nil {
		t.Fatal(err)
	}
	signing(t, time.Minute)(stolen)
	r.requests[stolen.Name] = stolen
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if identity, err := r.joiner(fake.NewClientset(), "token").Identity(ctx); err == nil {
		t.Fatalf("the certificate of another key is taken: %+v", identity)
	}
	r.mu.Lock()
	delete(r.requests, stolen.Name) // an admin has looked at it
	r.settle = signing(t, time.Minute)
	r.mu.Unlock()
	if _, err := r.joiner(fake.NewClientset(), "token").Identity(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnIdentityOfAnotherControlPlaneIsNotUsed(t *testing.T) {
	t.Parallel()
	r := newRoot(t, signing(t, time.Minute))
	physical := fake.NewClientset()
	first, err := r.joiner(physical, "token").Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := r.joiner(physical, "token")
	other.PhysicalCluster = "west"
	second, err := other.Identity(t.Context())
	if err != nil || string(second.key) == string(first.key) {
		t.Errorf("the identity of east is used for west: %v", err)
	}
	if _, err := parseKey([]byte("-----BEGIN EC PRIVATE KEY-----\nsecret")); err == nil || strings.Contains(fmt.Sprint(err), "secret\n") {
		t.Errorf("a broken key: %v", err)
	}
}

func tlsWithClientCertificates() *tls.Config {
	return &tls.Config{ClientAuth: tls.RequestClientCert}
}

func TestAKeyThatCannotBeKeptIsAnErrorAndNoLoop(t *testing.T) {
	physical := fake.NewClientset()
	tries := 0
	physical.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		tries++
		return true, nil, apierrors.NewNotFound(corev1.Resource("namespaces"), fleetv1alpha1.LeaseNamespace)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := newRoot(t, nil).joiner(physical, "token").Identity(ctx)
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), fleetv1alpha1.LeaseNamespace) || tries != 1 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}
