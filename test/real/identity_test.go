//go:build linux

package real

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/test/real/lab"
)

const (
	mount = "/var/run/secrets/kubernetes.io/serviceaccount/"
	// itself is what a pod asks about itself, in its environment and in files.
	itself = `
env:
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: POD_ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
- {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
volumeMounts: [{name: itself, mountPath: /itself}, {name: both, mountPath: /both}]
`
	itselfVolumes = `
serviceAccountName: robot
securityContext: {runAsNonRoot: true, runAsUser: 65532}
hostAliases: [{ip: ` + lab.ServerHost + `, hostnames: [elsewhere.example.com]}]
volumes:
- {name: itself, downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}, {path: uid, fieldRef: {fieldPath: metadata.uid}}]}}
- {name: both, projected: {sources: [{downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}}, {serviceAccountToken: {path: vault, audience: vault, expirationSeconds: 3600}}]}}
`
)

func TestAPodIsAtHomeInItsLogicalClusterAndNobodyInThePhysicalOne(t *testing.T) {
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			ctx := context.Background()
			n := newTenant(t, "home-"+on).namespace(t, "web", on)
			must(t)(n.Run(ctx, "create", "serviceaccount", "robot"))
			must(t)(n.Apply(ctx, tools("app", "hold", itself, itselfVolumes)))
			n.running(t, "app")
			pod := must(t)(n.Run(ctx, "get", "pods", "-l", "app=app", "-o", "jsonpath={.items[0].metadata.name}"))
			knowsItself(ctx, t, n, pod)
			reachesItsAPI(ctx, t, n, pod)
			isNobodyBelow(ctx, t, n, pod, on)
			getsTheAccountMadeAgain(ctx, t, n, "deployment/app")
		})
	}
}

// knowsItself: all that the pod learns of itself is as it is above.
func knowsItself(ctx context.Context, t *testing.T, n tenant, pod string) {
	t.Helper()
	uid := must(t)(n.Run(ctx, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}"))
	env := map[string]string{}
	for line := range strings.Lines(must(t)(n.in(ctx, pod, "env"))) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(name, "POD_") {
			env[name] = value
		}
	}
	want := map[string]string{"POD_NAME": pod, "POD_NAMESPACE": "web", "POD_ACCOUNT": "robot", "POD_UID": uid}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("the environment (-want +got):\n%s", diff)
	}
	for file, want := range map[string]string{"/itself/namespace": "web", "/itself/uid": uid, "/both/namespace": "web", mount + "namespace": "web"} {
		if got := must(t)(n.in(ctx, pod, "cat", file)); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
}

// reachesItsAPI: by the configuration that client-go finds in a pod, and by every name.
func reachesItsAPI(ctx context.Context, t *testing.T, n tenant, pod string) {
	t.Helper()
	want := "system:serviceaccount:web:robot " + must(t)(n.Run(ctx, "get", "serviceaccount", "robot", "-o", "jsonpath={.metadata.uid}"))
	for _, url := range []string{"", "https://kubernetes", "https://kubernetes.default", "https://kubernetes.default.svc", "https://kubernetes.default.svc.cluster.local"} {
		words := append([]string{"api"}, strings.Fields(url)...)
		if got := must(t)(n.in(ctx, pod, words...)); got != want {
			t.Errorf("at %q the pod is %q, want %q", url, got, want)
		}
	}
	// The certificate is good for these names, not for whatever name leads there.
	if got, err := n.in(ctx, pod, "api", "https://elsewhere.example.com"); err == nil || !strings.Contains(err.Error(), "certificate is valid for") {
		t.Errorf("by a name that is not in the certificate the pod is %q: %v", got, err)
	}
}

// isNobodyBelow: the physical API server takes no token that the pod has, though it can be
// reached, and takes one of its own.
func isNobodyBelow(ctx context.Context, t *testing.T, n tenant, pod, on string) {
	t.Helper()
	below := n.below(t, on)
	address := theLab.PhysicalCluster(on).Address()
	for _, server := range []string{"https://10.96.0.1", "https://" + address + ":6443"} {
		url := server + "/api/v1/namespaces/" + below.Namespace + "/secrets"
		for _, token := range []string{mount + "token", "/both/vault"} {
			if got := must(t)(n.in(ctx, pod, "call", url, token)); !strings.HasPrefix(got, "401 ") {
				t.Errorf("the physical API server at %s answers %s: %s", server, token, got)
			}
		}
		own := strings.TrimSpace(must(t)(below.Run(ctx, "create", "token", "default")))
		if got := must(t)(n.in(ctx, pod, "call", url, own)); !strings.HasPrefix(got, "403 ") {
			t.Errorf("VOID: a token of the physical cluster is not taken either: %s", got)
		}
		if got := must(t)(n.in(ctx, pod, "call", url)); !strings.HasPrefix(got, "403 ") && !strings.HasPrefix(got, "401 ") {
			t.Errorf("the physical API server answers nobody: %s", got)
		}
	}
}

// getsTheAccountMadeAgain: an account that is deleted and made again is another one; pods
// start anew with tokens of it.
func getsTheAccountMadeAgain(ctx context.Context, t *testing.T, n tenant, pod string) {
	t.Helper()
	before := must(t)(n.in(ctx, pod, "api"))
	must(t)(n.Run(ctx, "delete", "serviceaccount", "robot"))
	eventually(t, func() error {
		if got, err := n.in(ctx, pod, "api"); err == nil {
			return fmt.Errorf("without its account it is %s", got)
		}
		return nil
	})
	must(t)(n.Run(ctx, "create", "serviceaccount", "robot"))
	want := "system:serviceaccount:web:robot " + must(t)(n.Run(ctx, "get", "serviceaccount", "robot", "-o", "jsonpath={.metadata.uid}"))
	eventually(t, func() error {
		if got, err := n.in(ctx, pod, "api"); err != nil || got != want || got == before {
			return fmt.Errorf("with the account made again it is %q, want %q (before: %s): %w", got, want, before, err)
		}
		return nil
	})
}

// A controller as its framework makes it: its lock, and what it makes itself the owner of,
// live as long as its pod. What has an owner that never was is collected meanwhile.
func TestALeaderElectedControllerKeepsItsLeaseAndWhatItOwnsAsLongAsItsPod(t *testing.T) {
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			ctx := context.Background()
			n := newTenant(t, "leads-"+on).namespace(t, "web", on)
			must(t)(n.Apply(ctx, leaderRights+tools("operator", "lead", itself, itselfVolumes)))
			n.running(t, "operator")
			first := leads(ctx, t, n)
			must(t)(n.Run(ctx, "wait", "--for=delete", "configmap/of-nobody", "--timeout=3m"))
			must(t)(n.Run(ctx, "get", "configmap/state", "lease/operator"))
			must(t)(n.Run(ctx, "delete", "pod", first, "--timeout=3m"))
			if second := leads(ctx, t, n, first); second == first {
				t.Errorf("%s leads after it was deleted", second)
			}
			restarts := must(t)(n.Run(ctx, "get", "pods", "-l", "app=operator", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"))
			if strings.Trim(restarts, "0 ") != "" {
				t.Errorf("the controller restarted: %s", restarts)
			}
		})
	}
}

// leads waits for a pod, other than those before, that holds the lock and owns it and its state.
func leads(ctx context.Context, t *testing.T, n tenant, before ...string) (pod string) {
	t.Helper()
	eventually(t, func() error {
		holder, err := n.Run(ctx, "get", "lease", "operator", "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil || holder == "" || strings.Join(before, "") == holder {
			return fmt.Errorf("%q leads: %w", holder, err)
		}
		uid, err := n.Run(ctx, "get", "pod", holder, "-o", "jsonpath={.metadata.uid}")
		if err != nil {
			return err
		}
		owners, err := n.Run(ctx, "get", "lease/operator", "configmap/state", "-o", "jsonpath={.items[*].metadata.ownerReferences[*].uid}")
		if err == nil && owners != uid+" "+uid {
			err = fmt.Errorf("the owners are %q, want twice %s", owners, uid)
		}
		pod = holder
		return err
	})
	return pod
}

const leaderRights = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: robot}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}
- {apiGroups: [""], resources: [configmaps], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: robot}
subjects: [{kind: ServiceAccount, name: robot}]
---
`
