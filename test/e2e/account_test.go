package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// What client-go's in-cluster configuration reads in a pod is read here of the pod below: the
// pods of a localcluster are simulated.

const withAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
imagePullSecrets: [{name: registry}]
---
apiVersion: v1
kind: Secret
metadata: {name: registry}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths":{}}'}
---
apiVersion: v1
kind: Secret
metadata: {name: lasting, annotations: {kubernetes.io/service-account.name: robot}}
type: kubernetes.io/service-account-token
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: robot}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: robot}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: robot}
subjects: [{kind: ServiceAccount, name: robot}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      serviceAccountName: robot
      containers: [{name: a, image: i, env: [{name: URL, value: "https://$(KUBERNETES_SERVICE_HOST)"}]}]
      volumes:
      - {name: vault, projected: {sources: [{serviceAccountToken: {path: vault, audience: vault, expirationSeconds: 600}}]}}
      - {name: lasting, secret: {secretName: lasting}}
`

func TestAPodActsAsItsAccountInItsLogicalClusterAndNowhereElse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := theLab
	harbour, err := l.startPhysical(ctx, "harbour")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := harbour.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := l.register(ctx, harbour.name, harbour.Kubeconfig, apart); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t)(l.root.Run(ctx, "delete", "physicalcluster/harbour", "--timeout=3m")) })
	must(t)(l.root.Run(ctx, "wait", "--for=condition=PodsReachServer=false", "physicalcluster/harbour", "--timeout=3m"))
	must(t)(l.root.Run(ctx, "patch", "physicalcluster/harbour", "--type=merge", "-p", `{"spec":{"pods":{"server":"https://`+l.listen+`"}}}`))
	must(t)(l.root.Run(ctx, "wait", "--for=condition=PodsReachServer", "physicalcluster/harbour", "--timeout=3m"))
	must(t)(l.root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/harbour", "--timeout=3m"))
	k := l.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=harbour"))
	must(t)(k.Apply(ctx, withAccount))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := l.homeOf(t, k, "default", harbour)

	inside := inClusterOf(t, h)
	client := clientOf(t, inside.config)
	if _, err := client.CoreV1().ConfigMaps(inside.namespace).List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("what the account may do: %v", err)
	}
	if _, err := client.CoreV1().Secrets(inside.namespace).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("what it may not do: %v", err)
	}
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := who.Status.UserInfo; got.Username != "system:serviceaccount:default:robot" || !slices.Equal(got.Extra["authentication.kubernetes.io/node-name"], []string{"harbour"}) {
		t.Errorf("the pod is %+v", got)
	}
	physical := rest.CopyConfig(inside.config)
	physical.Host = configOf(t, harbour.Kubeconfig).Host
	physical.TLSClientConfig = rest.TLSClientConfig{CAData: configOf(t, harbour.Kubeconfig).CAData, CAFile: configOf(t, harbour.Kubeconfig).CAFile}
	if _, err := clientOf(t, physical).CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the physical API server answers the pod: %v", err)
	}

	admin := clientOf(t, configOf(t, k.Kubeconfig))
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: inside.vault, Audiences: []string{"vault"}}}
	if review, err = admin.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil || !review.Status.Authenticated {
		t.Errorf("the token for another audience: %v %+v", err, review)
	}
	lasting := rest.CopyConfig(inside.config)
	lasting.BearerToken = strings.TrimSpace(must(t)(h.below().Run(ctx, "get", "secret", "lasting", "-o", "go-template={{.data.token | base64decode}}")))
	if _, err := clientOf(t, lasting).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the token that does not expire: %v", err)
	}
	if secrets := must(t)(h.below().Run(ctx, "get", "pods", "-o", "jsonpath={.items[0].spec.imagePullSecrets[*].name}")); secrets != "registry" {
		t.Errorf("images are pulled with %q", secrets)
	}
	must(t)(h.below().Run(ctx, "get", "secret", "registry"))

	askForTokens(t, k, h, admin)

	before := inside.secret
	must(t)(k.Run(ctx, "delete", "serviceaccount", "robot"))
	if _, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("the account is gone, its token: %v", err)
	}
	eventually(t, func() error { return copySays(ctx, k, "NoServiceAccount") })
	must(t)(k.Apply(ctx, withAccount))
	eventually(t, func() error {
		name, err := h.below().Run(ctx, "get", "deployment/app", "-o", mountedSecret)
		if err == nil && (name == before || name == "") {
			err = errors.New("the pods still mount " + name)
		}
		return err
	})
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	again := inClusterOf(t, h)
	if _, err := clientOf(t, again.config).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("with the account that was made again: %v", err)
	}
	log, err := os.ReadFile(l.path("atoll.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{inside.config.BearerToken, inside.vault, again.config.BearerToken} {
		if bytes.Contains(log, []byte(token)) {
			t.Error("a token is in the log of the server")
		}
	}
}

// askForTokens has the syncer ask for tokens that are none of its business.
func askForTokens(t *testing.T, k process.Kubectl, h home, admin kubernetes.Interface) {
	t.Helper()
	ctx := context.Background()
	syncer := configOf(t, theLab.kubeconfig(t, "--syncer", h.name))
	above, err := url.Parse(configOf(t, k.Kubeconfig).Host)
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(syncer.Host)
	if err != nil {
		t.Fatal(err)
	}
	syncer.Host = base.Scheme + "://" + base.Host + "/targets/" + h.name + above.Path
	robot, err := admin.CoreV1().ServiceAccounts("default").Get(ctx, "robot", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(namespace, account string, audiences []string, seconds int64) error {
		_, err := clientOf(t, syncer).CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
			ObjectMeta: metav1.ObjectMeta{UID: robot.UID},
			Spec:       authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: ptr.To(seconds)},
		}, metav1.CreateOptions{})
		return err
	}
	must(t)(k.Run(ctx, "create", "namespace", "other"))
	must(t)(k.In("other").Run(ctx, "create", "serviceaccount", "robot"))
	for name, err := range map[string]error{
		"an account that nothing there uses": ask("default", "default", nil, 600),
		"an account that does not exist":     ask("default", "nobody", nil, 600),
		"another namespace":                  ask("other", "robot", nil, 600),
		"a namespace of the system":          ask("kube-system", "default", nil, 600),
		"another audience":                   ask("default", "robot", []string{"cloud"}, 600),
		"two audiences":                      ask("default", "robot", []string{"vault", "cloud"}, 600),
		"longer than the template says":      ask("default", "robot", []string{"vault"}, 3600),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"what every pod mounts":    ask("default", "robot", nil, 24*3600),
		"what the template mounts": ask("default", "robot", []string{"vault"}, 600),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A mirror is what the syncer itself says.
	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=1"))
	other := configOf(t, theLab.kubeconfig(t, "--syncer", "east"))
	other.Host = base.Scheme + "://" + base.Host + "/targets/east" + above.Path
	_, err = clientOf(t, other).CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{ObjectMeta: metav1.ObjectMeta{UID: robot.UID}}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("the syncer of another physical cluster: %v", err)
	}
}

// inside is what a pod finds.
type inside struct {
	config            *rest.Config
	namespace, secret string
	vault             string
}

const mountedSecret = "jsonpath={.spec.template.spec.volumes[?(@.name=='kube-api-access-atoll')].projected.sources[0].secret.name}"

// inClusterOf reads below what client-go reads in the pod.
func inClusterOf(t *testing.T, h home) inside {
	t.Helper()
	ctx := context.Background()
	var pods corev1.PodList
	if err := json.Unmarshal([]byte(must(t)(h.below().Run(ctx, "get", "pods", "-o", "json"))), &pods); err != nil {
		t.Fatal(err)
	}
	secret := must(t)(h.below().Run(ctx, "get", "deployment/app", "-o", mountedSecret))
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && mounts(p, secret) })
	if i < 0 {
		t.Fatalf("no pod mounts %s", secret)
	}
	pod := pods.Items[i]
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	token := func(secret string) string {
		return must(t)(h.below().Run(ctx, "get", "secret", secret, "-o", "go-template={{.data.token | base64decode}}"))
	}
	found := inside{secret: secret, config: &rest.Config{
		Host: "https://" + env["KUBERNETES_SERVICE_HOST"] + ":" + env["KUBERNETES_SERVICE_PORT"], BearerToken: token(secret),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: []byte(must(t)(h.below().Run(ctx, "get", "configmap", "atoll-root-ca.crt", "-o", `jsonpath={.data.ca\.crt}`))), ServerName: "kubernetes.default.svc",
		},
	}}
	for _, v := range pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			switch {
			case s.ServiceAccountToken != nil:
				t.Error("a token of the physical cluster is mounted")
			case v.Name == "vault" && s.Secret != nil:
				found.vault = token(s.Secret.Name)
			case v.Name == "kube-api-access-atoll" && s.DownwardAPI != nil:
				path := s.DownwardAPI.Items[0].FieldRef.FieldPath
				found.namespace = pod.Annotations[strings.TrimSuffix(strings.TrimPrefix(path, "metadata.annotations['"), "']")]
			}
		}
	}
	return found
}

func mounts(pod corev1.Pod, secret string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.Secret != nil && s.Secret.Name == secret
		})
	})
}

func copySays(ctx context.Context, k process.Kubectl, reason string) error {
	reasons, err := k.Run(ctx, "get", "copies", "-o", "jsonpath={.items[*].status.reason}")
	if err == nil && !strings.Contains(reasons, reason) {
		err = fmt.Errorf("the Copies say %s", reasons)
	}
	return err
}

func configOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func clientOf(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
