package syncer

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func placingOf(t testing.TB, logical string) Placing {
	obj := parse(t, logical)
	return Placing{
		Ref:          Ref{Kind: kindOf(t, obj), Cluster: "shop", Namespace: obj.GetNamespace(), Name: obj.GetName()},
		ControlPlane: "cp", Namespace: "shop-web-1",
	}
}

// transformed is what goes down, whatever is said about it.
func transformed(logical *unstructured.Unstructured, p Placing) *unstructured.Unstructured {
	obj, _ := Transform(logical, p)
	return obj
}

// Each transcript has an object of a logical cluster and what is applied below
// for it, and what its user hears; the digest, which follows from the rest, is left
// out.
func TestWhatGoesDown(t *testing.T) {
	transcripts(t, "transform", func(t *testing.T, files map[string]string) {
		p := placingOf(t, files["logical"])
		p.Target.Overrides = overridesOf(t, files["overrides"])
		if account := files["account"]; account != "" {
			p.Account, p.Server = AccountFrom(parse(t, account)), Server{Host: strings.TrimSpace(files["server"]), Port: "6443", CA: "authority"}
		}
		got, findings := Transform(parse(t, files["logical"]), p)
		if got.GetAnnotations()[AppliedAnnotation] == "" {
			t.Error("the digest is missing")
		}
		delete(field(field(got.Object, "metadata"), "annotations"), AppliedAnnotation)
		heard := ""
		for _, f := range findings {
			heard += string(f.Verdict) + " " + f.Field + "\n"
		}
		if diff := cmp.Diff(files["findings"], heard); diff != "" {
			t.Errorf("findings (-want +got)\n%s", diff)
		}
		want := parse(t, files["below"])
		if diff := cmp.Diff(want.Object, got.Object); diff != "" {
			t.Errorf("(-want +got)\n%s\nwhole:\n%s", diff, asYAML(t, got.Object))
		}
	})
}

func TestTransformLeavesItsInputAlone(t *testing.T) {
	transcripts(t, "transform", func(t *testing.T, files map[string]string) {
		logical := parse(t, files["logical"])
		p := placingOf(t, files["logical"])
		p.Target.Overrides = overridesOf(t, files["overrides"])
		Transform(logical, p)
		if diff := cmp.Diff(parse(t, files["logical"]).Object, logical.Object); diff != "" {
			t.Errorf("changed (-before +after)\n%s", diff)
		}
	})
}

func TestEqualObjectsHaveEqualDigestsAndOthersDoNot(t *testing.T) {
	transcripts(t, "transform", func(t *testing.T, files map[string]string) {
		p := placingOf(t, files["logical"])
		logical := parse(t, files["logical"])
		first := transformed(logical, p).GetAnnotations()[AppliedAnnotation]
		logical.SetResourceVersion("99")
		logical.Object["status"] = map[string]any{"replicas": int64(7)}
		if again := transformed(logical, p).GetAnnotations()[AppliedAnnotation]; again != first {
			t.Error("status and resource version do not go down, but they change the digest")
		}
		logical.SetLabels(map[string]string{"new": "label"})
		if changed := transformed(logical, p).GetAnnotations()[AppliedAnnotation]; changed == first {
			t.Error("a label does not change the digest")
		}
	})
}

func TestTheTargetsEntrySetsReplicasAndAnAutoscalerBelowKeepsThem(t *testing.T) {
	const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web, uid: u1}
spec: {replicas: 6}
`
	replicas := func(p Placing) any { return field(transformed(parse(t, deployment), p).Object, "spec")["replicas"] }
	p := placingOf(t, deployment)
	if got := replicas(p); got != int64(6) {
		t.Errorf("without an override: %v", got)
	}
	p.Target = placementv1alpha1.Target{Replicas: ptr.To[int32](2)}
	if got := replicas(p); got != int64(2) {
		t.Errorf("with an override: %v", got)
	}
	p.OmitReplicas = true
	if got := replicas(p); got != nil {
		t.Errorf("with an autoscaler: %v", got)
	}
}

// What is mirrored is what went down: `kubectl rollout undo` and `describe` compare
// pod templates.
func TestTemplatesComeBackAsTheyWere(t *testing.T) {
	for name, spec := range map[string]string{
		"plain":           "containers: [{name: a, image: i}]",
		"service account": "serviceAccountName: robot\nserviceAccount: robot\ncontainers: [{name: a, image: i}]",
		"no token":        "automountServiceAccountToken: false\ncontainers: [{name: a, image: i}]",
		"token":           "automountServiceAccountToken: true\nserviceAccountName: robot\nserviceAccount: robot\ncontainers: [{name: a, image: i}]",
		"tokens":          "containers: [{name: a, image: i, env: [{name: KUBERNETES_SERVICE_HOST, value: mine}]}]\nvolumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t, audience: vault, expirationSeconds: 600}}, {serviceAccountToken: {path: u}}, {configMap: {name: kube-root-ca.crt}}]}}]",
		"downward API": "serviceAccountName: robot\nserviceAccount: robot\ncontainers: [{name: a, image: i, env: [{name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}, {name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}]}]\n" +
			"volumes: [{name: v, downwardAPI: {items: [{path: ns, fieldRef: {fieldPath: metadata.namespace}}]}}, {name: p, projected: {sources: [{downwardAPI: {items: [{path: ns, fieldRef: {fieldPath: metadata.namespace}}]}}]}}]",
		"DNS":             "dnsPolicy: ClusterFirst\ndnsConfig: {nameservers: [192.0.2.1], searches: [example.com], options: [{name: ndots, value: '2'}, {name: edns0}]}\ncontainers: [{name: a, image: i}]",
		"host names":      "hostAliases: [{ip: 192.0.2.1, hostnames: [a]}, {ip: 10.0.0.1, hostnames: [b, c]}]\ncontainers: [{name: a, image: i}]",
		"DNS of the node": "dnsPolicy: Default\ncontainers: [{name: a, image: i}]",
		"what is not permitted": "priorityClassName: system-node-critical\ntolerations: [{operator: Exists}]\ncontainers: [{name: a, image: i}]\n" +
			"affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, namespaceSelector: {}}]}}",
	} {
		for _, metadata := range []string{"labels: {app: web}", "labels: {app: web}\nannotations: {a: b, openshift.io/scc: x}"} {
			t.Run(name, func(t *testing.T) {
				var template map[string]any
				text := "metadata:\n" + indent(metadata) + "spec:\n" + indent(spec)
				b, err := yaml.YAMLToJSON([]byte(text))
				if err != nil || unmarshal(string(b), &template) != nil {
					t.Fatal("the template is none", err)
				}
				kind, _ := workload.Builtin().ByKind(kindOf(t, parse(t, "apiVersion: apps/v1\nkind: Deployment")).GroupVersionKind.GroupKind())
				for i, server := range []Server{{}, {Host: "10.0.0.1", Port: "6443", CA: "ca"}, {Host: "atoll.example.com", Port: "443", CA: "ca"}} {
					below := deepCopy(template).(map[string]any)
					before := contentOf(below)
					boundary.Filter(kind, map[string]any{"spec": map[string]any{"template": below}}, boundary.Passage{})
					before.note(below)
					account := &Account{UID: "a", PullSecrets: []string{"registry"}}
					templateDown(below, Placing{Ref: Ref{Kind: kind, Namespace: "web"}, ControlPlane: "cp", Account: account, Server: server,
						Nameserver: Nameserver{Address: []string{"", "10.96.1.2", "10.96.1.2"}[i]}})
					if cmp.Equal(below, template) {
						t.Error("nothing changed on the way down")
					}
					if strings.Contains(asYAML(t, below), "serviceAccountToken:") {
						t.Errorf("a token of the physical cluster: %s", asYAML(t, below))
					}
					templateUp(below)
					if diff := cmp.Diff(template, below); diff != "" {
						t.Errorf("(-before +after)\n%s", diff)
					}
				}
			})
		}
	}
}

func TestCopyNamesAreReadableUniqueAndShort(t *testing.T) {
	deployments := kindOf(t, parse(t, "apiVersion: apps/v1\nkind: Deployment")).GroupResource()
	services := kindOf(t, parse(t, "apiVersion: v1\nkind: Service")).GroupResource()
	long := string(make([]byte, 0, 253))
	for len(long) < 253 {
		long += "a"
	}
	names := map[string]bool{}
	for _, n := range []string{
		CopyName(deployments, "web", "east"), CopyName(deployments, "web", "west"), CopyName(services, "web", "east"),
		CopyName(deployments, "web2", "east"), CopyName(deployments, long, "east"), CopyName(deployments, long[:252]+"b", "east"),
	} {
		if names[n] || len(n) > 253 {
			t.Errorf("%q is taken or too long", n)
		}
		names[n] = true
	}
	if got, want := CopyName(deployments, "web", "east"), "web-83904c5f33"; got != want {
		t.Errorf("the name of a stored Copy changed from %s to %s", want, got)
	}
}

// A mark that a tenant forges may make a physical cluster, or a syncer, take an object for that of
// another one. On an object itself admission gives the system's keys back (see protect); what is
// in its templates is taken off on the way down, when the object is made and when it is changed.
func TestForgedMarksInTemplatesDoNotGoDown(t *testing.T) {
	const pods = "template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}"
	for name, c := range map[string]struct {
		object string
		at     []string // of the metadata
	}{
		"the pods of a Deployment": {"apiVersion: apps/v1\nkind: Deployment\nspec: {" + pods + "}", []string{"spec", "template", "metadata"}},
		"the pods of a DaemonSet":  {"apiVersion: apps/v1\nkind: DaemonSet\nspec: {" + pods + "}", []string{"spec", "template", "metadata"}},
		"the pods of a Job":        {"apiVersion: batch/v1\nkind: Job\nspec: {" + pods + "}", []string{"spec", "template", "metadata"}},
		"the jobs of a CronJob":    {"apiVersion: batch/v1\nkind: CronJob\nspec: {schedule: '* * * * *', jobTemplate: {metadata: {labels: {a: b}}, spec: {" + pods + "}}}", []string{"spec", "jobTemplate", "metadata"}},
		"the pods of a CronJob":    {"apiVersion: batch/v1\nkind: CronJob\nspec: {schedule: '* * * * *', jobTemplate: {spec: {" + pods + "}}}", []string{"spec", "jobTemplate", "spec", "template", "metadata"}},
		"the claims of a StatefulSet": {"apiVersion: apps/v1\nkind: StatefulSet\nspec: {" + pods + ", volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]}",
			[]string{"spec", "volumeClaimTemplates", "0", "metadata"}},
		"the pods of a StatefulSet": {"apiVersion: apps/v1\nkind: StatefulSet\nspec: {" + pods + "}", []string{"spec", "template", "metadata"}},
		"an ephemeral claim": {"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: c, image: i}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce]}}}}]}}}",
			[]string{"spec", "template", "spec", "volumes", "0", "ephemeral", "volumeClaimTemplate", "metadata"}},
	} {
		t.Run(name, func(t *testing.T) {
			plain := parse(t, c.object)
			plain.SetName("x")
			plain.SetNamespace("web")
			plain.SetUID("l1")
			plain.SetGeneration(3)
			plain.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`})
			for _, field := range []string{"labels", "annotations"} {
				setNested(partAt(plain.Object, c.at), "x", field, "example.com/of-the-user")
			}
			forged := plain.DeepCopy()
			metadata := partAt(forged.Object, c.at)
			for _, field := range []string{"labels", "annotations"} {
				for key := range forgedMarks {
					setNested(metadata, "forged", field, key)
				}
			}
			p := Placing{Ref: Ref{Kind: kindOf(t, plain), Cluster: "shop", Namespace: "web", Name: "x"}, ControlPlane: controlPlane, Namespace: "shop-web-1"}
			want := transformed(plain, p)
			unforged := func(when string, got *unstructured.Unstructured) {
				t.Helper()
				if diff := cmp.Diff(partAt(want.Object, c.at), partAt(got.Object, c.at)); diff != "" {
					t.Errorf("%s (-without marks +with)\n%s", when, diff)
				}
				if at := forgedAt(got.Object, ""); at != "" {
					t.Errorf("%s: a mark is at %s", when, at)
				}
			}
			unforged("made with marks", transformed(forged, p))

			physical := below(want)
			physical.SetUID("p1")
			actions := Plan(Input{
				Ref: p.Ref, Target: "east", ControlPlane: controlPlane, Logical: forged, Physical: physical, Ruled: true, Settled: Fingerprint(physical),
				Namespace: Namespace{Name: "shop-web-1", State: NamespaceReady},
				Copy: &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east", Object: placementv1alpha1.ObjectReference{UID: "l1"}},
					Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalNamespace: "shop-web-1", PhysicalUID: "p1"}},
			})
			if len(actions) == 0 {
				t.Error("an update is not noticed")
			}
			for _, action := range actions {
				if action.Object != nil {
					unforged("changed to have marks", action.Object)
				}
			}
			if field(partAt(want.Object, c.at), "labels")["example.com/of-the-user"] == nil { // what goes down is looked at
				t.Error("a label of the user does not go down either")
			}
		})
	}
}

// forgedMarks are keys of the system: of marks, of notes and of what nobody has thought of yet.
var forgedMarks = map[string]bool{
	placementv1alpha1.ManagedByLabel: true, placementv1alpha1.LogicalClusterAnnotation: true, placementv1alpha1.NamespaceAnnotation: true,
	placementv1alpha1.UIDAnnotation: true, placementv1alpha1.AdmitsPodsLabel: true, placementv1alpha1.TargetsAnnotation: true, placementv1alpha1.RuntimeHandlerAnnotation: true,
	AppliedAnnotation: true, replacedAnnotation: true, overriddenAnnotation: true, serviceAccountAnnotation: true, runtimeClassAnnotation: true,
	"kcp.io/cluster": true, "atoll.dev/later": true, "later.atoll.dev/x": true,
}

// forgedAt is the path of a value of those marks; empty if there is none.
func forgedAt(value any, at string) string {
	switch v := value.(type) {
	case map[string]any:
		for name, e := range v {
			if found := forgedAt(e, at+"/"+name); found != "" {
				return found
			}
		}
	case []any:
		for i, e := range v {
			if found := forgedAt(e, at+"/"+strconv.Itoa(i)); found != "" {
				return found
			}
		}
	case string:
		if v == "forged" {
			return at
		}
	}
	return ""
}

// partAt is the map at a path, in which numbers are places in lists.
func partAt(value any, path []string) map[string]any {
	for _, name := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, _ := strconv.Atoi(name)
			value = v[i]
		}
	}
	m, _ := value.(map[string]any)
	return m
}
