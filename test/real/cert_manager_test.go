//go:build linux

package real

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/real/lab"
)

const (
	certManagerModule  = "github.com/cert-manager/cert-manager"
	certManagerVersion = "v1.11.5"
)

// certManager is what its chart runs, by the names and users of its Containerfiles.
var certManager = []lab.Operator{
	{Image: "jetstack/cert-manager-controller:" + certManagerVersion, Binary: "cert-manager-controller", Path: "app/cmd/controller/controller", User: "1000"},
	{Image: "jetstack/cert-manager-webhook:" + certManagerVersion, Binary: "cert-manager-webhook", Path: "app/cmd/webhook/webhook", User: "1000"},
	{Image: "jetstack/cert-manager-cainjector:" + certManagerVersion, Binary: "cert-manager-cainjector", Path: "app/cmd/cainjector/cainjector", User: "1000"},
	{Image: "jetstack/cert-manager-ctl:" + certManagerVersion, Binary: "cert-manager-ctl", Path: "app/cmd/ctl/ctl", User: "1000"},
}

// Three programs that need each other, by their chart, two pods of each: the controller makes
// Secrets of Certificates, the webhook refuses bad ones, and the third writes the authority of
// the webhook where the API server looks for it.
func TestCertManagerRunsInPodsAndItsWebhookRefusesABadCertificate(t *testing.T) {
	areBuilt(t, certManager...)
	chart := renders(t)
	loads(t, chart, certManager...)
	for _, on := range []string{"east", "west"} {
		t.Run("on "+on, func(t *testing.T) {
			n := newTenant(t, "certified-"+on)
			operator, user := n.namespace(t, "cert-manager", on), n.namespace(t, "web", on)
			must(t)(n.Apply(t.Context(), chart))
			operator.running(t, "cert-manager", "cert-manager-webhook", "cert-manager-cainjector")
			isInjected(t, operator)
			must(t)(operator.Run(t.Context(), "wait", "--for=condition=Complete", "--timeout=3m", "job/cert-manager-startupapicheck")) // its own test

			must(t)(user.Apply(t.Context(), issuer))
			isIssued(t, user, "first")
			refusesBad(t, user)
			handsOver(t, operator, "cert-manager", "cert-manager-controller")
			isIssued(t, user, "second")
			handsOver(t, operator, "cert-manager-cainjector", "cert-manager-cainjector-leader-election")
			isInjectedAgain(t, operator)

			if on == "east" {
				movesAndRefuses(t, operator, user, "west")
				isIssued(t, user, "third")
				isInjectedAgain(t, operator)
			}
			// Nobody else would have refused it.
			must(t)(n.Run(t.Context(), "delete", "validatingwebhookconfiguration", webhook))
			must(t)(user.Apply(t.Context(), bad, "--dry-run=server"))
		})
	}
}

const (
	webhook = "cert-manager-webhook"
	issuer  = "{apiVersion: cert-manager.io/v1, kind: Issuer, metadata: {name: self}, spec: {selfSigned: {}}}"
	// bad is for nobody.
	bad = "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: bad}, spec: {secretName: bad, issuerRef: {name: self}}}"
	// bundle is where the authority of the webhook belongs.
	bundle = "jsonpath={.webhooks[0].clientConfig.caBundle}"
)

// renders makes the manifests of a release of what the module has: as its Makefile does, a chart
// of the templates and of the definitions. That has no authority for the webhook.
func renders(t *testing.T) string {
	t.Helper()
	deploy := filepath.Join(sources(t, "cert-manager", certManagerModule), "deploy")
	chart := filepath.Join(t.TempDir(), "cert-manager")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(deploy, "charts", "cert-manager"))); err != nil {
		t.Fatal(err)
	}
	about, err := os.ReadFile(filepath.Join(chart, "Chart.template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{
		"Chart.yaml":          strings.ReplaceAll(string(about), "ersion: v0.1.0", "ersion: "+certManagerVersion),
		"templates/crds.yaml": "{{- if .Values.installCRDs }}\n" + manifests(t, filepath.Join(deploy, "crds")) + "{{- end }}\n",
	} {
		if err := os.WriteFile(filepath.Join(chart, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var version struct{ GitVersion string }
	if err := json.Unmarshal([]byte(must(t)(theLab.Root.Run(t.Context(), "get", "--raw", "/version"))), &version); err != nil {
		t.Fatal(err)
	}
	out := rendered(t, "cert-manager", chart, "--namespace=cert-manager", "--kube-version="+version.GitVersion,
		"--set=installCRDs=true,replicaCount=2,webhook.replicaCount=2,cainjector.replicaCount=2")
	if strings.Contains(out, "caBundle: ") {
		t.Fatal("VOID: the chart has an authority for the webhook")
	}
	return out
}

// isInjected waits until the configuration of the webhook has the authority that it made itself.
func isInjected(t *testing.T, n tenant) {
	t.Helper()
	eventually(t, func() error {
		want, err := n.Run(t.Context(), "get", "secret", webhook+"-ca", "-o", `jsonpath={.data.ca\.crt}`)
		if err != nil {
			return err
		}
		for _, kind := range []string{"validatingwebhookconfiguration", "mutatingwebhookconfiguration"} {
			if got, err := n.Run(t.Context(), "get", kind, webhook, "-o", bundle); err != nil || got == "" || got != want {
				return fmt.Errorf("the authority in the %s is %q, want %q: %w", kind, got, want, err)
			}
		}
		return nil
	})
}

// isInjectedAgain: what is taken away is injected again, by who leads now.
func isInjectedAgain(t *testing.T, n tenant) {
	t.Helper()
	must(t)(n.Run(t.Context(), "patch", "validatingwebhookconfiguration", webhook, "--type=json", "-p", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`))
	isInjected(t, n)
}

func refusesBad(t *testing.T, n tenant) {
	t.Helper()
	if _, err := n.Apply(t.Context(), bad); !isRefusal(err) {
		t.Errorf("the webhook says of a Certificate for nobody: %v", err)
	}
}

func isRefusal(err error) bool {
	return err != nil && strings.Contains(err.Error(), `admission webhook "webhook.cert-manager.io" denied the request: spec: Invalid value: "": at least one of`)
}

// movesAndRefuses moves the operator to another physical cluster: whatever the phase is, the
// webhook answers.
func movesAndRefuses(t *testing.T, operator, user tenant, to string) {
	t.Helper()
	must(t)(operator.Apply(t.Context(), policy()))
	must(t)(operator.In("").Run(t.Context(), "annotate", "namespace", operator.Namespace, "--overwrite", placementv1alpha1.PhysicalClusterAnnotation+"="+to))
	phases := map[placementv1alpha1.TransitionPhase]int{}
	eventually(t, func() error {
		refusesBad(t, user)
		var p placementv1alpha1.Placement
		if ok, err := operator.Get(t.Context(), &p, "placement", placementv1alpha1.NamespaceUnit); err != nil || !ok {
			return fmt.Errorf("reading the Placement: found %v, error %w", ok, err)
		}
		if p.Spec.Transition != nil {
			phases[p.Spec.Transition.Phase]++
		}
		if p.Spec.Transition != nil || p.Spec.Decision.PhysicalClusters[0].Name != to {
			return fmt.Errorf("decision %+v, transition %+v", p.Spec.Decision, p.Spec.Transition)
		}
		return nil
	})
	t.Logf("bad Certificates that were refused, by the phase of the move: %v", phases)
	if phases[placementv1alpha1.TransitionDraining] == 0 {
		t.Error("VOID: nobody asked while the pods were withdrawn")
	}
}

// isIssued asks for a certificate, and waits for a Secret with it.
func isIssued(t *testing.T, n tenant, name string) {
	t.Helper()
	host := name + ".example.org"
	must(t)(n.Apply(t.Context(), fmt.Sprintf("{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {name: %[1]s}, spec: {secretName: %[1]s, dnsNames: [%[2]s], issuerRef: {name: self}}}", name, host)))
	must(t)(n.Run(t.Context(), "wait", "--for=condition=Ready", "certificate/"+name, "--timeout=3m"))
	var secret corev1.Secret
	if ok, err := n.Get(t.Context(), &secret, "secret", name); err != nil || !ok {
		t.Fatalf("the Secret of the Certificate %s: found %v, error %v", name, ok, err)
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		t.Fatalf("the Secret has no certificate, but %q", secret.Data[corev1.TLSCertKey])
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{host}, cert.DNSNames); diff != "" {
		t.Errorf("the names in the certificate (-want +got):\n%s", diff)
	}
	// Who asked is written by the mutating webhook, of what the API server says.
	asked := must(t)(n.Run(t.Context(), "get", "certificaterequests", "-o", `jsonpath={.items[?(@.metadata.annotations.cert-manager\.io/certificate-name=="`+name+`")].spec.username}`))
	if want := "system:serviceaccount:cert-manager:cert-manager"; asked != want {
		t.Errorf("%q asked for the certificate, want %s", asked, want)
	}
}

// handsOver deletes the pod that leads, of two: the other one leads.
func handsOver(t *testing.T, n tenant, deployment, lease string) {
	t.Helper()
	n.running(t, deployment)
	lead := func(pods string) (leader string, err error) {
		holder, err := n.In("kube-system").Run(t.Context(), "get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil {
			return "", err
		}
		for pod := range strings.FieldsSeq(pods) {
			if strings.HasPrefix(holder, pod+"_") || strings.HasPrefix(holder, pod+"-") {
				return pod, nil
			}
		}
		return "", fmt.Errorf("%q leads, of the pods %s", holder, pods)
	}
	selector := "app.kubernetes.io/component=" + map[string]string{"cert-manager": "controller", "cert-manager-cainjector": "cainjector"}[deployment]
	pods := must(t)(n.Run(t.Context(), "get", "pods", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}"))
	if len(strings.Fields(pods)) != 2 {
		t.Fatalf("there are the pods %q, want two", pods)
	}
	var first string
	eventually(t, func() (err error) {
		first, err = lead(pods)
		return err
	})
	must(t)(n.Run(t.Context(), "delete", "pod", first, "--timeout=3m"))
	eventually(t, func() error {
		pods, err := n.Run(t.Context(), "get", "pods", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		second, err := lead(pods)
		if err == nil && second == first {
			err = fmt.Errorf("%s leads after it was deleted", second)
		}
		return err
	})
}
