package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// read parses YAML as an API object and finds its kind.
func read(t *testing.T, text string) (Kind, map[string]any) {
	t.Helper()
	var obj map[string]any
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	gv, err := schema.ParseGroupVersion(obj["apiVersion"].(string))
	if err != nil {
		t.Fatal(err)
	}
	kind, ok := Builtin().ByKind(gv.WithKind(obj["kind"].(string)).GroupKind())
	if !ok {
		t.Fatalf("no kind %v", obj["kind"])
	}
	return kind, obj
}

const everyReference = `
      serviceAccountName: robot
      imagePullSecrets: [{name: pull}]
      initContainers:
      - name: i
        envFrom: [{configMapRef: {name: init-env}}, {secretRef: {name: init-secret}}]
      containers:
      - name: a
        env:
        - {name: PLAIN, value: x}
        - {name: A, valueFrom: {configMapKeyRef: {name: env, key: k}}}
        - {name: B, valueFrom: {secretKeyRef: {name: env-secret, key: k, optional: true}}}
        - {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
      - name: b
        envFrom: [{configMapRef: {name: env}}]
      ephemeralContainers:
      - name: debug
        envFrom: [{configMapRef: {name: debug-env}}]
      volumes:
      - {name: v1, configMap: {name: vol}}
      - {name: v2, secret: {secretName: vol-secret}}
      - name: v3
        projected:
          sources: [{configMap: {name: projected}}, {secret: {name: projected-secret}}, {serviceAccountToken: {path: t}}]
      - {name: v4, csi: {driver: d, nodePublishSecretRef: {name: csi-secret}}}
      - {name: v5, azureFile: {secretName: azure-secret, shareName: s}}
      - {name: v6, rbd: {image: i, secretRef: {name: rbd-secret}}}
      - {name: v7, emptyDir: {}}
`

var everyName = []string{
	"configmaps/debug-env", "configmaps/env", "configmaps/init-env", "configmaps/projected", "configmaps/vol",
	"secrets/azure-secret", "secrets/csi-secret", "secrets/env-secret", "secrets/init-secret", "secrets/projected-secret",
	"secrets/pull", "secrets/rbd-secret", "secrets/vol-secret", "serviceaccounts/robot",
}

func names(refs []Reference) []string {
	var out []string
	for _, r := range refs {
		out = append(out, r.Resource.String()+"/"+r.Name)
	}
	return out
}

func TestReferencesAreFoundInEveryPodTemplate(t *testing.T) {
	indent := func(n int) string {
		return strings.ReplaceAll(everyReference, "\n", "\n"+strings.Repeat(" ", n))
	}
	for _, c := range []struct{ name, object string }{
		{"Deployment", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:" + everyReference},
		{"StatefulSet", "apiVersion: apps/v1\nkind: StatefulSet\nspec:\n  template:\n    spec:" + everyReference},
		{"DaemonSet", "apiVersion: apps/v1\nkind: DaemonSet\nspec:\n  template:\n    spec:" + everyReference},
		{"ReplicaSet", "apiVersion: apps/v1\nkind: ReplicaSet\nspec:\n  template:\n    spec:" + everyReference},
		{"ReplicationController", "apiVersion: v1\nkind: ReplicationController\nspec:\n  template:\n    spec:" + everyReference},
		{"Job", "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:" + everyReference},
		{"CronJob", "apiVersion: batch/v1\nkind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:" + indent(4)},
		{"Pod", "apiVersion: v1\nkind: Pod\nspec:" + everyReference},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, obj := read(t, c.object)
			if diff := cmp.Diff(everyName, names(References(kind, obj))); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReferencesOfOtherKinds(t *testing.T) {
	for _, c := range []struct {
		name, object string
		want         []string
	}{
		{"an ingress needs its certificates and what its annotations name", `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: web
  annotations:
    nginx.ingress.kubernetes.io/auth-secret: basic
    nginx.ingress.kubernetes.io/auth-tls-secret: web/ca
    nginx.ingress.kubernetes.io/proxy-ssl-secret: other/elsewhere
    nginx.ingress.kubernetes.io/custom-headers: headers
spec:
  tls: [{hosts: [a], secretName: cert}, {hosts: [b]}]
`, []string{"configmaps/headers", "secrets/basic", "secrets/ca", "secrets/cert"}},
		{"a pod without a service account uses the default one", "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a}]}", []string{"serviceaccounts/default"}},
		{"a service refers to nothing", "apiVersion: v1\nkind: Service\nspec: {ports: [{port: 80}]}", nil},
		{"a ConfigMap refers to nothing", "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}", nil},
		{"a broken object refers to nothing", "apiVersion: apps/v1\nkind: Deployment\nspec: nonsense", nil},
		{"broken lists are skipped", "apiVersion: v1\nkind: Pod\nspec: {volumes: [1, {configMap: {name: a}}], containers: x}", []string{"configmaps/a", "serviceaccounts/default"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, obj := read(t, c.object)
			if diff := cmp.Diff(c.want, names(References(kind, obj))); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStorageClassesThatAreAskedFor(t *testing.T) {
	for _, c := range []struct {
		name, object string
		want         []string
	}{
		{"a claim with a class", "apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {storageClassName: fast}", []string{"fast"}},
		{"a claim without one takes the default", "apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {}", []string{DefaultStorageClass}},
		{"the empty class is none", "apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {storageClassName: ''}", nil},
		{"a named volume needs none", "apiVersion: v1\nkind: PersistentVolumeClaim\nspec: {volumeName: pv}", nil},
		{"claim templates", "apiVersion: apps/v1\nkind: StatefulSet\nspec: {volumeClaimTemplates: [{spec: {storageClassName: b}}, {spec: {storageClassName: a}}, {spec: {storageClassName: b}}]}", []string{"a", "b"}},
		{"ephemeral volumes", "apiVersion: v1\nkind: Pod\nspec: {volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: e}}}}]}", []string{"e"}},
		{"no volumes", "apiVersion: v1\nkind: Service\nspec: {}", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, obj := read(t, c.object)
			if diff := cmp.Diff(c.want, StorageClasses(kind, obj)); diff != "" {
				t.Errorf("storage classes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsAreThoseOfAllPodsAtATime(t *testing.T) {
	const spec = `{containers: [{name: a, resources: {requests: {cpu: 100m, memory: 10Mi}}}, {name: b, resources: {requests: {cpu: 50m}}}], initContainers: [{name: i, resources: {requests: {memory: 64Mi}}}]}`
	for _, c := range []struct{ name, object, cpu, memory string }{
		{"replicas", "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3, template: {spec: " + spec + "}}", "450m", "192Mi"},
		{"one replica by default", "apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: " + spec + "}}", "150m", "64Mi"},
		{"zero replicas", "apiVersion: apps/v1\nkind: StatefulSet\nspec: {replicas: 0, template: {spec: " + spec + "}}", "0", "0"},
		{"parallelism of a Job", "apiVersion: batch/v1\nkind: Job\nspec: {parallelism: 2, template: {spec: " + spec + "}}", "300m", "128Mi"},
		{"parallelism of a CronJob", "apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {parallelism: 4, template: {spec: " + spec + "}}}}", "600m", "256Mi"},
		{"one pod of a DaemonSet", "apiVersion: apps/v1\nkind: DaemonSet\nspec: {template: {spec: " + spec + "}}", "150m", "64Mi"},
		{"a Pod", "apiVersion: v1\nkind: Pod\nspec: " + spec, "150m", "64Mi"},
		{"no pods", "apiVersion: v1\nkind: Service\nspec: {}", "0", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, obj := read(t, c.object)
			got, err := Requests(kind, obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.cpu, c.memory}, []string{got.Cpu().String(), got.Memory().String()}); diff != "" {
				t.Errorf("cpu, memory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMalformedPodTemplateIsAnError(t *testing.T) {
	kind, obj := read(t, "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, resources: {requests: {cpu: much}}}]}")
	if _, err := Requests(kind, obj); err == nil {
		t.Error("no error for a quantity that is none")
	}
}

func TestAPINamesTheResourceAsPhysicalClustersReportIt(t *testing.T) {
	var got []string
	for _, k := range Builtin().Kinds() {
		got = append(got, k.API())
	}
	for _, want := range []string{"/v1/pods", "apps/v1/deployments", "autoscaling/v2/horizontalpodautoscalers"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %v", want, got)
		}
	}
}
