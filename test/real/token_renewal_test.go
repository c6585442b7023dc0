//go:build linux

package real

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// A token lives ten minutes at least, and is renewed after five: what is to be renewed is
// made before all tests, and looked at by one that runs later.
var renewal process.Kubectl

const (
	renewed        = "/short/token"
	renewalTimeout = 10 * time.Minute
)

func beginRenewal(ctx context.Context) error {
	var err error
	if renewal, err = theLab.LogicalCluster(ctx, "renewal"); err != nil {
		return err
	}
	for _, on := range []string{"east", "west"} {
		if _, err := renewal.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+on+", annotations: {placement.atoll.dev/cluster: "+on+"}}}"); err != nil {
			return err
		}
		if _, err := renewal.In(on).Apply(ctx, tools("app", "hold", "volumeMounts: [{name: short, mountPath: /short}]",
			"volumes: [{name: short, projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 600}}]}}]")); err != nil {
			return err
		}
	}
	return nil
}

// endRenewal removes what is renewed. It is called by who comes after the test of it.
func endRenewal(t *testing.T) {
	t.Helper()
	must(t)(theLab.Root.Run(t.Context(), "delete", "logicalcluster", "renewal", "--timeout=3m"))
}

// claims are some of those of a token.
type claims struct {
	Issued  int64 `json:"iat"`
	Expires int64 `json:"exp"`
}

func claimsOf(token string) (c claims, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, fmt.Errorf("%d parts are no token", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(payload, &c)
}

func TestATokenIsRenewedInAPodThatRunsOn(t *testing.T) {
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			ctx := context.Background()
			n := tenant{Kubectl: renewal.In(on), name: "renewal"}
			n.running(t, "app")
			const podFields = "jsonpath={.items[*].metadata.uid} {.items[*].metadata.creationTimestamp} {.items[*].status.containerStatuses[*].restartCount}"
			pod := must(t)(n.Run(ctx, "get", "pods", "-o", podFields))
			made, err := time.Parse(time.RFC3339, strings.Fields(pod)[1])
			if err != nil || !strings.HasSuffix(pod, " 0") {
				t.Fatalf("the pod is %q: %v", pod, err)
			}
			var now claims
			for deadline := time.Now().Add(renewalTimeout); ; {
				token := must(t)(n.in(ctx, "deployment/app", "cat", renewed))
				if now, err = claimsOf(token); err != nil {
					t.Fatal(err)
				}
				if now.Issued > made.Add(4*time.Minute).Unix() {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the pod was made at %s, and its token at %s", made, time.Unix(now.Issued, 0))
				}
				time.Sleep(time.Second)
			}
			if life := now.Expires - now.Issued; life != 600 {
				t.Errorf("the token lives %d s, want 600", life)
			}
			if got := must(t)(n.in(ctx, "deployment/app", "call", "https://"+lab.ServerHost+"/api/v1/namespaces/"+on+"/pods", renewed)); !strings.HasPrefix(got, "403 ") {
				t.Errorf("the server does not take the token: %s", got)
			}
			if got := must(t)(n.Run(ctx, "get", "pods", "-o", podFields)); got != pod {
				t.Errorf("the pod was %q and is %q", pod, got)
			}
			t.Logf("renewed %s after the pod was made", time.Unix(now.Issued, 0).Sub(made))
		})
	}
}
