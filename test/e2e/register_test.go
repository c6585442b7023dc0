package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestAnAgentRegistersByItselfOnceAnAdminApproves applies the manifest of an agent to a physical
// cluster, and runs what its Deployment says: simulated nodes run no containers.
func TestAnAgentRegistersByItselfOnceAnAdminApproves(t *testing.T) {
	t.Parallel()
	if err := process.Missing("kubectl-atoll"); err != nil {
		t.Skip(err)
	}
	ctx := context.Background()
	plugin := func(args ...string) (string, error) { return runPlugin(ctx, theLab.root, args...) }
	p := theLab.addPhysical(t, "islet")
	manifest := must(t)(plugin("register", "islet", "--agent", "--image", "example.com/atoll-syncer:test"))
	t.Cleanup(func() { must(t)(theLab.root.Run(ctx, "delete", "physicalcluster/islet", "--timeout=3m")) })
	must(t)(theLab.root.Run(ctx, "patch", "physicalcluster/islet", "--type=merge", "-p", `{"spec":{"taints":[{"key":"only","effect":"PreferNoSchedule"}]}}`))
	must(t)(p.Apply(ctx, manifest))
	must(t)(p.Apply(ctx, manifest)) // again is no harm
	below := p.In("atoll-system")
	var made appsv1.Deployment
	get(t, below, &made, "deployment", "atoll-syncer")
	bootstrap := mounted(t, below, made.Spec.Template.Spec)

	t.Run("the token is good for nothing else", func(t *testing.T) { triesWithToken(t, process.Kubectl{Kubeconfig: bootstrap}) })
	if out, err := plugin("approve", "islet"); err == nil || !strings.Contains(err.Error(), "nobody asks for islet") {
		t.Errorf("approved before anybody asked: %v, %s", err, out)
	}

	args := append(argsOf(made, bootstrap), "--physical-kubeconfig", asAccount(t, p))
	agent := start(t, process.Spec{Path: process.Binary("atoll-syncer"), Args: args, Log: theLab.path("islet-syncer.log"), Ready: "certificate"})
	fingerprint := fingerprintIn(t, theLab.path("islet-syncer.log"))
	if _, err := plugin("approve", "islet", "--fingerprint", "SHA256:other"); err == nil {
		t.Error("another key was approved")
	}
	eventually(t, func() error { _, err := plugin("approve", "islet", "--fingerprint", fingerprint); return err })
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/islet", "--timeout=3m"))

	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=islet"))
	must(t)(k.Apply(ctx, deployment("app", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))

	t.Run("it is the same one after a restart, without the token", func(t *testing.T) {
		must(t)(theLab.root.Run(ctx, "delete", "serviceaccount/register-islet", "-n", "atoll-system"))
		agent.Kill()
		if err := agent.Start(ctx); err != nil {
			t.Fatal(err)
		}
		must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=2"))
		must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	})
	log, err := os.ReadFile(theLab.path("islet-syncer.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{tokenOf(t, bootstrap), "PRIVATE KEY"} {
		if strings.Contains(string(log), secret) {
			t.Error("the log has a secret")
		}
	}
}

// runPlugin runs a command of kubectl-atoll and returns what it printed; what people read is
// in the error.
func runPlugin(ctx context.Context, k process.Kubectl, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, process.Binary("kubectl-atoll"), append([]string{"--kubeconfig", k.Kubeconfig, "--context", k.Context}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl atoll %s: %w\n%s", strings.Join(args, " "), err, said.String())
	}
	return string(out), err
}

// mounted writes what the one volume of a pod has into a file, as a kubelet would.
func mounted(t *testing.T, below process.Kubectl, spec corev1.PodSpec) string {
	t.Helper()
	var secret corev1.Secret
	get(t, below, &secret, "secret", spec.Volumes[0].Secret.SecretName)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, secret.Data["kubeconfig"], 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// argsOf are those of the container of a Deployment, with the file that it mounts.
func argsOf(d appsv1.Deployment, file string) []string {
	c := d.Spec.Template.Spec.Containers[0]
	var args []string
	for _, arg := range c.Args {
		if !strings.HasPrefix(arg, "--health-address") {
			args = append(args, strings.Replace(arg, c.VolumeMounts[0].MountPath+"/kubeconfig", file, 1))
		}
	}
	return args
}

// asAccount is a kubeconfig of a physical cluster with the rights of its syncer.
func asAccount(t *testing.T, p *physicalCluster) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	token := must(t)(p.In("atoll-system").Run(context.Background(), "create", "token", "atoll-syncer", "--duration=1h"))
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{"syncer": {Token: strings.TrimSpace(token)}}
	config.Contexts[config.CurrentContext].AuthInfo = "syncer"
	file := filepath.Join(t.TempDir(), "physical.kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

var fingerprints = regexp.MustCompile(`SHA256:[A-Za-z0-9+/]+`)

func fingerprintIn(t *testing.T, log string) string {
	t.Helper()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return string(fingerprints.Find(data))
}

func tokenOf(t *testing.T, kubeconfig string) string {
	t.Helper()
	return configOf(t, kubeconfig).BearerToken
}

// triesWithToken has a thief of the token try what he may like.
func triesWithToken(t *testing.T, k process.Kubectl) {
	ctx := context.Background()
	for _, args := range [][]string{
		{"get", "secrets", "-A"}, {"get", "physicalclusters"}, {"get", "logicalclusters"}, {"get", "csr"}, {"get", "--raw", "/apis"}, {"get", "--raw", "/metrics"},
		{"get", "--raw", "/apis/certificates.k8s.io/v1/certificatesigningrequests/syncer.west.first"},
	} {
		if out, err := k.Run(ctx, args...); err == nil {
			t.Errorf("kubectl %v: %s", args, out)
		}
	}
	config := configOf(t, k.Kubeconfig)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*certificatesv1.CertificateSigningRequest){
		"another physical cluster":        func(*certificatesv1.CertificateSigningRequest) {},
		"another one, under its own name": func(r *certificatesv1.CertificateSigningRequest) { r.Name = registration.Name("islet") },
		"any user of root": func(r *certificatesv1.CertificateSigningRequest) {
			r.Name, r.Spec.SignerName = registration.Name("islet"), certificatesv1.KubeAPIServerClientSignerName
		},
	} {
		csr, err := registration.New("west", key)
		if err != nil {
			t.Fatal(err)
		}
		change(csr)
		if _, err := kube.CertificatesV1().CertificateSigningRequests().Create(ctx, csr, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("a request for %s: %v", what, err)
		}
	}
	if _, err := kube.CertificatesV1().CertificateSigningRequests().Get(ctx, registration.Name("islet"), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("one of them is there: %v", err)
	}
}
