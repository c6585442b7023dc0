package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestPodsThatControllersMakeAreAdmittedByTheirLogicalCluster has a sidecar injector that runs
// below as a logical cluster has it, a policy, and a control plane that does not answer.
func TestPodsThatControllersMakeAreAdmittedByTheirLogicalCluster(t *testing.T) {
	long(t)
	ctx := context.Background()
	l := newLab(t, "east")
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	p, _ := l.startPull(t, "lagoon", "--admission-address", address)
	admittingAt := func(address, whenUnavailable string) {
		t.Helper()
		must(t)(l.root.Run(ctx, "patch", "physicalcluster/lagoon", "--type=merge", "-p",
			`{"spec":{"unschedulable":false,"taints":[{"key":"only","effect":"PreferNoSchedule"}],"pods":{"admission":{"url":"https://`+address+`","whenUnavailable":"`+whenUnavailable+`"}}}}`))
	}
	admitting := func(whenUnavailable string) { t.Helper(); admittingAt(address, whenUnavailable) }
	must(t)(l.root.Run(ctx, "wait", "--for=condition=PodsAdmitted=false", "physicalcluster/lagoon", "--timeout=3m"))
	elsewhere, err := ports.Address("127.0.0.1") // the network of an API server leads to nobody
	if err != nil {
		t.Fatal(err)
	}
	admittingAt(elsewhere, "Refuse")
	eventually(t, func() error {
		out, err := l.root.Run(ctx, "get", "physicalcluster", "lagoon", "-o", `jsonpath={.status.conditions[?(@.type=="PodsAdmitted")].message}`)
		if err == nil && !strings.Contains(out, "failed calling webhook") {
			err = fmt.Errorf("of an API server that reaches nobody it says %q", out)
		}
		return err
	})
	admitting("Refuse")
	must(t)(l.root.Run(ctx, "wait", "--for=condition=PodsAdmitted", "physicalcluster/lagoon", "--timeout=3m"))
	giveKubelet(t, p)
	b := l.newBelow(t, "lagoon")
	must(t)(b.Apply(ctx, strings.ReplaceAll(injecting, "CA", b.ca)))
	must(t)(b.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: apps, labels: {inject: \"yes\"}, annotations: {placement.atoll.dev/cluster: lagoon}}}"))
	eventually(t, func() error { // the rules are known after a moment
		out, err := b.Run(ctx, "get", "namespace", "apps", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/admits-pods}`)
		if err != nil {
			return err
		}
		return want("whether pods are admitted in apps", out, "true")
	})
	apps := b.In("apps")

	must(t)(apps.Apply(ctx, deployment("app", 1)))
	must(t)(apps.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	h := l.homeOf(t, b.Kubectl, "apps", p)
	containers := func(of string) func() error {
		return func() error {
			above, err := apps.Run(ctx, "get", "pods", "-l", "injected=yes", "-o", "jsonpath={.items[*].spec.containers[*].name}")
			if err != nil {
				return err
			}
			below, err := h.below().Run(ctx, "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].name}")
			return errors.Join(err, want("containers above", above, of), want("containers below", below, of))
		}
	}
	eventually(t, containers("app sidecar"))
	if generation := must(t)(apps.Run(ctx, "get", "deployment/app", "-o", "jsonpath={.metadata.generation} {.spec.template.spec.containers[*].name}")); generation != "1 app" {
		t.Errorf("the Deployment is at %q, want it as its user wrote it", generation)
	}
	if out := must(t)(h.Run(ctx, "get", "namespaces", "-l", "atoll.dev/admits-pods=true", "-o", "jsonpath={.items[*].metadata.name}")); out != h.namespace {
		t.Errorf("pods are admitted in %q, want %s alone", out, h.namespace)
	}

	t.Run("what may not go down does not come with a webhook", func(t *testing.T) {
		must(t)(apps.Apply(ctx, strings.Replace(deployment("host", 1), "labels: {app: host}", "labels: {app: host, wants: host}", 1)))
		refusedPods(t, apps, "host", "does not go down to lagoon")
		must(t)(apps.Run(ctx, "delete", "deployment/host", "--timeout=3m"))
	})
	t.Run("a policy refuses pods, and says so above", func(t *testing.T) {
		must(t)(b.Apply(ctx, noLatest))
		refused := false
		for i := 0; !refused && i < 20; i++ { // a policy is known after a moment
			name := fmt.Sprintf("latest-%d", i)
			must(t)(apps.Apply(ctx, strings.Replace(deployment(name, 1), "labels: {app: "+name+"}", "labels: {app: "+name+", tier: forbidden}", 1)))
			eventually(t, func() error {
				if available(apps, name, 1) == nil {
					return nil
				}
				refused = saidOf(apps, name, "no pods of this tier") == nil
				if !refused {
					return fmt.Errorf("deployment %s neither runs nor is refused", name)
				}
				return nil
			})
			must(t)(apps.Run(ctx, "delete", "deployment/"+name, "--timeout=3m"))
		}
		if !refused {
			t.Error("the policy does not refuse pods")
		}
	})
	t.Run("nobody else asks", func(t *testing.T) { askAboutPods(t, b, apps.Kubeconfig) })
	t.Run("the control plane does not answer", func(t *testing.T) {
		l.server.Kill()
		must(t)(h.below().Run(ctx, "delete", "pod", "-l", "app=app", "--wait=false"))
		eventually(t, func() error {
			out, err := h.below().Run(ctx, "get", "replicasets", "-l", "app=app", "-o", `jsonpath={.items[*].status.conditions[?(@.type=="ReplicaFailure")].message}`)
			if err == nil && !strings.Contains(out, "pods.atoll.dev") {
				err = fmt.Errorf("the ReplicaSet says %q", out)
			}
			return err
		})
		if err := l.server.Start(ctx); err != nil {
			t.Fatal(err)
		}
		eventually(t, containers("app sidecar"))

		admitting("Admit")
		eventually(t, func() error {
			out, err := h.Run(ctx, "get", "mutatingwebhookconfigurations", "-l", "atoll.dev/managed-by", "-o", "jsonpath={.items[*].webhooks[0].failurePolicy}")
			return errors.Join(err, want("failure policy below", out, "Ignore"))
		})
		l.server.Kill()
		must(t)(h.below().Run(ctx, "delete", "pod", "-l", "app=app", "--wait=false"))
		eventually(t, func() error {
			out, err := h.below().Run(ctx, "get", "pods", "-l", "app=app", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[*].name}")
			return errors.Join(err, want("containers without anybody to ask", out, "app"))
		})
		if err := l.server.Start(ctx); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("what somebody changes below is put right", func(t *testing.T) {
		name := must(t)(h.Run(ctx, "get", "mutatingwebhookconfigurations", "-l", "atoll.dev/managed-by", "-o", "name"))
		must(t)(h.Run(ctx, "patch", strings.TrimSpace(name), "--type=json", "-p", `[{"op":"replace","path":"/webhooks/0/namespaceSelector","value":{}}]`))
		eventually(t, func() error {
			out, err := h.Run(ctx, "get", strings.TrimSpace(name), "-o", "jsonpath={.webhooks[0].namespaceSelector.matchLabels.atoll\\.dev/admits-pods}")
			return errors.Join(err, want("whose pods are asked about", out, "true"))
		})
	})
	must(t)(b.Run(ctx, "delete", "mutatingwebhookconfiguration/inject", "validatingadmissionpolicybinding/no", "validatingadmissionpolicy/no"))
	eventually(t, func() error {
		out, err := h.Run(ctx, "get", "namespaces", "-l", "atoll.dev/admits-pods=true", "-o", "name")
		return errors.Join(err, want("namespaces where pods are admitted", out, ""))
	})
}

// refusedPods waits until a Deployment says above why it has no pods.
func refusedPods(t *testing.T, k process.Kubectl, name, words string) {
	t.Helper()
	eventually(t, func() error { return saidOf(k, name, words) })
}

// saidOf returns an error unless a Deployment and an event say above why there are no pods.
func saidOf(k process.Kubectl, name, words string) error {
	ctx := context.Background()
	condition, err := k.Run(ctx, "get", "deployment", name, "-o", `jsonpath={.status.conditions[?(@.type=="ReplicaFailure")].message}`)
	if err == nil && !strings.Contains(condition, words) {
		err = fmt.Errorf("the Deployment says %q", condition)
	}
	if err != nil {
		return err
	}
	var events corev1.EventList
	out, err := k.Run(ctx, "get", "events", "--field-selector=reason=FailedCreate", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(out), &events)
	}
	for _, e := range events.Items {
		if strings.HasPrefix(e.InvolvedObject.Name, name+"-") && strings.Contains(e.Message, words) {
			return err
		}
	}
	return errors.Join(err, fmt.Errorf("no event of a ReplicaSet of %s says %q", name, words))
}

// askAboutPods has others ask what the logical cluster says of a pod.
func askAboutPods(t *testing.T, b *below, kubeconfig string) {
	t.Helper()
	ctx := context.Background()
	admin := configOf(t, kubeconfig)
	above, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	as := func(target string) *rest.Config {
		config := configOf(t, b.lab.kubeconfig(t, "--syncer", target))
		base, err := url.Parse(config.Host)
		if err != nil {
			t.Fatal(err)
		}
		config.Host = base.Scheme + "://" + base.Host + "/targets/" + target + above.Path
		return config
	}
	uidOf := func(namespace, name string) metav1.PartialObjectMetadata {
		var o metav1.PartialObjectMetadata
		get(t, b.In(namespace), &o, "deployment", name)
		return o
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"x-","labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"c"}]}}`
	ask := func(config *rest.Config, namespace, kind string, owner metav1.PartialObjectMetadata) (*placementv1alpha1.PodReview, error) {
		client, err := versioned.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client.PlacementV1alpha1().PodReviews(namespace).Create(ctx, &placementv1alpha1.PodReview{Spec: placementv1alpha1.PodReviewSpec{
			Owner: placementv1alpha1.PodReviewOwner{Group: "apps", Kind: kind, Name: owner.Name, UID: owner.UID}, Pod: runtime.RawExtension{Raw: []byte(pod)},
		}}, metav1.CreateOptions{})
	}
	app := uidOf("apps", "app")
	answer, err := ask(as("lagoon"), "apps", "Deployment", app)
	if err != nil || !answer.Status.Allowed || answer.Status.Pod == nil || !strings.Contains(string(answer.Status.Pod.Raw), "sidecar") {
		t.Errorf("its own syncer hears %+v, %v", answer, err)
	}
	if _, err := ask(as("east"), "apps", "Deployment", app); !apierrors.IsNotFound(err) {
		t.Errorf("the syncer of another physical cluster: %v", err)
	}
	if _, err := ask(admin, "apps", "Deployment", app); !apierrors.IsForbidden(err) {
		t.Errorf("an admin of the logical cluster: %v", err)
	}
	other := app
	other.UID = "another"
	if _, err := ask(as("lagoon"), "apps", "Deployment", other); !apierrors.IsForbidden(err) {
		t.Errorf("about an object of before: %v", err)
	}
	if _, err := ask(as("lagoon"), "kube-system", "Deployment", app); !apierrors.IsNotFound(err) {
		t.Errorf("in a namespace that is not placed there: %v", err)
	}
	if _, err := ask(as("lagoon"), "apps", "ReplicaSet", app); !apierrors.IsForbidden(err) {
		t.Errorf("about what the syncer mirrored itself: %v", err)
	}
}

const injecting = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: inject}
webhooks:
  - name: inject.example.com
    clientConfig: {service: {namespace: default, name: hook, path: /inject}, caBundle: CA}
    rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
    namespaceSelector: {matchLabels: {inject: "yes"}}
    sideEffects: None
    admissionReviewVersions: [v1]
`

const noLatest = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: "no"}
spec:
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}], namespaceSelector: {matchLabels: {inject: "yes"}}}
  validations: [{expression: "!has(object.metadata.labels.tier) || object.metadata.labels.tier != 'forbidden'", message: no pods of this tier}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: "no"}
spec: {policyName: "no", validationActions: [Deny]}
`
