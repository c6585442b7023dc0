package isolation

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// dripping is a body that comes one byte at a time, and counts those that have begun.
type dripping struct {
	ctx   context.Context //nolint:containedctx // that of the request
	begun *atomic.Int32
	read  int
}

func (d *dripping) Read(p []byte) (int, error) {
	const body = `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`
	if d.read == 1 {
		d.begun.Add(1)
	}
	if d.read == len(body) {
		return 0, io.EOF
	}
	if d.read > 0 {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-d.ctx.Done():
			return 0, d.ctx.Err()
		}
	}
	p[0] = body[d.read]
	d.read++
	return 1, nil
}

// Somebody without rights shares the slots of the logical cluster with its admins.
func TestBodiesThatComeSlowlyLockNobodyOutOfTheirLogicalCluster(t *testing.T) {
	w := shared(t)
	if _, err := w.Kube.CoreV1().ServiceAccounts("default").Create(w.evil, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := w.Kube.CoreV1().ServiceAccounts("default").CreateToken(w.evil, "nobody", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", http2), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			const slow = 40 // more than there are slots, on as many as 8 processors
			var begun, late atomic.Int32
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}}
			defer client.CloseIdleConnections()
			for range slow {
				all.Go(func() {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/clusters/evil/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &dripping{ctx: ctx, begun: &begun})
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+token.Status.Token)
					req.Header.Set("Content-Type", "application/json")
					resp, err := client.Do(req)
					if err != nil {
						return
					}
					defer func() { _ = resp.Body.Close() }()
					if resp.StatusCode == http.StatusRequestTimeout {
						late.Add(1)
					}
				})
			}
			server.Eventually(t, 20*time.Second, "bodies arrive", func() error {
				if n := begun.Load(); n < slow {
					return fmt.Errorf("%d of %d", n, slow)
				}
				return nil
			})
			for range 5 {
				brief, done := context.WithTimeout(w.evil, time.Second)
				if _, err := w.robot.CoreV1().ConfigMaps("default").List(brief, metav1.ListOptions{}); err != nil {
					t.Errorf("an admin is locked out: %v", err)
				}
				_, err := w.robot.CoreV1().ConfigMaps("default").Create(brief, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				done()
				if err != nil {
					t.Errorf("an admin is locked out: %v", err)
				}
			}
			server.Eventually(t, 30*time.Second, "slow ones are answered", func() error {
				if n := late.Load(); n < slow {
					return fmt.Errorf("%d of %d", n, slow)
				}
				return nil
			})
		})
	}
}
