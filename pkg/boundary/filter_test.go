package boundary

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func parseObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// kindOf is the kind as the catalog has it.
func kindOf(obj *unstructured.Unstructured) workload.Kind {
	kind, ok := workload.Builtin().ByKind(obj.GroupVersionKind().GroupKind())
	if !ok {
		kind.GroupVersionKind = obj.GroupVersionKind()
	}
	return kind
}

// podOf is a Deployment with lines in the spec of its pods.
func podOf(lines ...string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      " +
		strings.Join(append([]string{"containers: [{name: web, image: web}]"}, lines...), "\n      ")
}

func object(kind, apiVersion string, lines ...string) string {
	return "apiVersion: " + apiVersion + "\nkind: " + kind + "\n" + strings.Join(lines, "\n")
}

// TestWhatAnAttackerSendsDoesNotGoDown has what an attack on a shared physical
// cluster sent down, each with what becomes of it by default and where the
// physical cluster permits it.
func TestWhatAnAttackerSendsDoesNotGoDown(t *testing.T) {
	const pod = "spec.template.spec."
	for name, c := range map[string]struct {
		object  string
		path    string // of the first finding, relative to the object
		verdict Verdict
		permits Permits // with which there is nothing to say
	}{
		"a toleration of everything": {podOf("tolerations: [{operator: Exists}]"), pod + "tolerations[0]", Stripped, Permits{Taints: []string{"*"}}},
		"a toleration of a taint of the admin": {podOf("tolerations: [{key: dedicated, operator: Exists}]"), pod + "tolerations[0]", Stripped,
			Permits{Taints: []string{"dedicated"}}},
		"a system priority": {podOf("priorityClassName: system-node-critical"), pod + "priorityClassName", Stripped,
			Permits{PriorityClasses: map[string]string{"system-node-critical": "system-node-critical"}}},
		"a scheduler":                   {podOf("schedulerName: theirs"), pod + "schedulerName", Stripped, Permits{Schedulers: []string{"theirs"}}},
		"nodes by a label of the admin": {podOf("nodeSelector: {pool: finance}"), pod + "nodeSelector[pool]", Refused, Permits{NodeLabels: []string{"pool"}}},
		"nodes by affinity": {podOf("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}"),
			pod + "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key", Refused,
			Permits{NodeLabels: []string{"pool"}}},
		"a port of the node": {podOf("initContainers: [{name: x, ports: [{containerPort: 80, hostPort: 10250}]}]"), pod + "initContainers[0].ports[0].hostPort", Refused,
			Permits{HostPorts: []fleetv1alpha1.PortRange{{First: 10250, Last: 10250}}}},
		"a volume of somebody by NFS": {podOf("volumes: [{name: x, nfs: {server: nfs, path: /}}]"), pod + "volumes[0].nfs", Refused, Permits{Volumes: []string{"nfs"}}},
		"a volume of somebody by an ephemeral claim": {podOf("volumes: [{name: x, ephemeral: {volumeClaimTemplate: {spec: {volumeName: theirs}}}}]"),
			pod + "volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName", Refused, Permits{StaticVolumes: true}},
		"a volume of somebody by a claim template": {object("StatefulSet", "apps/v1", "spec: {volumeClaimTemplates: [{metadata: {name: x}, spec: {volumeName: theirs}}]}"),
			"spec.volumeClaimTemplates[0].spec.volumeName", Refused, Permits{StaticVolumes: true}},
		"volumes by a selector":    {object("PersistentVolumeClaim", "v1", "spec: {selector: {}}"), "spec.selector", Refused, Permits{StaticVolumes: true}},
		"any volume that is there": {object("PersistentVolumeClaim", "v1", `spec: {storageClassName: ""}`), "spec.storageClassName", Refused, Permits{StaticVolumes: true}},
		"any volume that is there, by a claim template": {object("StatefulSet", "apps/v1", `spec: {volumeClaimTemplates: [{metadata: {name: x}, spec: {storageClassName: ""}}]}`),
			"spec.volumeClaimTemplates[0].spec.storageClassName", Refused, Permits{StaticVolumes: true}},
		"an address of somebody": {object("Service", "v1", "spec: {externalIPs: [192.0.2.1]}"), "spec.externalIPs", Refused,
			Permits{ExternalIPs: []string{"192.0.2.1"}}},
		"a class of load balancers": {object("Service", "v1", "spec: {type: LoadBalancer, loadBalancerClass: example.com/theirs}"), "spec.loadBalancerClass", Mapped,
			Permits{LoadBalancerClasses: []string{"example.com/theirs"}}},
		"an address at the load balancer": {object("Service", "v1", "spec: {loadBalancerIP: 192.0.2.1}"), "spec.loadBalancerIP", Refused,
			Permits{LoadBalancerIPs: []string{"192.0.2.1"}}},
		"a label that a mesh believes": {object("Namespace", "v1", "metadata: {labels: {istio-injection: enabled}}"), "metadata.labels[istio-injection]", Stripped,
			Permits{NamespaceLabels: []string{"istio-injection"}}},
		"a privileged container": {podOf("initContainers: [{name: x, securityContext: {privileged: true}}]"), "spec.template.spec", Judged,
			Permits{PodSecurity: fleetv1alpha1.PodSecurityPrivileged}},
		"namespaces of the host": {podOf("hostNetwork: true", "hostPID: true", "hostIPC: true"), "spec.template.spec", Judged,
			Permits{PodSecurity: fleetv1alpha1.PodSecurityPrivileged}},
		"a folder of the host": {podOf("volumes: [{name: x, hostPath: {path: /}}]"), "spec.template.spec", Judged,
			Permits{PodSecurity: fleetv1alpha1.PodSecurityPrivileged}},
		"an annotation that a scheduler believes": {object("Namespace", "v1", "metadata: {annotations: {scheduler.alpha.kubernetes.io/node-selector: pool=finance}}"),
			"metadata.annotations[scheduler.alpha.kubernetes.io/node-selector]", Stripped, Permits{Annotations: []string{"scheduler.alpha.kubernetes.io/"}}},
		"an annotation that somebody may believe": {object("Namespace", "v1", "metadata: {annotations: {team: finance}}"), "metadata.annotations[team]", Stripped,
			Permits{Annotations: []string{"team"}}},
		"configuration of the ingress controller": {object("Ingress", "networking.k8s.io/v1", "metadata: {annotations: {nginx.ingress.kubernetes.io/server-snippet: x}}"),
			"metadata.annotations[nginx.ingress.kubernetes.io/server-snippet]", Stripped, Permits{Annotations: []string{"nginx.ingress.kubernetes.io/"}}},
		"an account of the cloud by a label": {object("Service", "v1", "metadata: {labels: {aadpodidbinding: admin}}"), "metadata.labels[aadpodidbinding]", Stripped,
			Permits{Annotations: []string{"aadpodidbinding"}}},
		"a network of somebody": {podOf("schedulerName: default-scheduler") + "\n    metadata: {annotations: {ovn.kubernetes.io/logical_switch: theirs}}",
			"spec.template.metadata.annotations[ovn.kubernetes.io/logical_switch]", Stripped, Permits{Annotations: []string{"ovn.kubernetes.io/"}}},
		"settings of the container runtime": {podOf("schedulerName: default-scheduler") + "\n    metadata: {annotations: {io.kubernetes.cri-o.userns-mode: auto}}",
			"spec.template.metadata.annotations[io.kubernetes.cri-o.userns-mode]", Stripped, Permits{Annotations: []string{"io.kubernetes.cri-o."}}},
		"an account of the cloud": {podOf("schedulerName: default-scheduler") + "\n    metadata: {annotations: {iam.amazonaws.com/role: admin}}",
			"spec.template.metadata.annotations[iam.amazonaws.com/role]", Stripped, Permits{Annotations: []string{"iam.amazonaws.com/"}}},
	} {
		obj := parseObject(t, c.object)
		findings := Filter(kindOf(obj), obj.Object, Passage{})
		if len(findings) != 1 || findings[0].Field != c.path || findings[0].Verdict != c.verdict || findings[0].Why == "" {
			t.Errorf("%s: %v, want %s %s", name, findings, c.verdict, c.path)
		}
		obj = parseObject(t, c.object)
		if findings := Filter(kindOf(obj), obj.Object, Passage{Permits: c.permits}); len(findings) != 0 {
			t.Errorf("%s: permitted, but: %v", name, findings)
		}
		if diff := cmp.Diff(parseObject(t, c.object).Object, obj.Object); diff != "" {
			t.Errorf("%s: permitted, but changed: %s", name, diff)
		}
	}
}

// TestWhatNobodyPermits has what no admin of a physical cluster can permit.
func TestWhatNobodyPermits(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"a node by its name": {podOf("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}}}"),
			"spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields"},
		"a certificate of the physical cluster": {podOf("volumes: [{name: x, projected: {sources: [{podCertificate: {signerName: s, keyType: ED25519}}]}}]"),
			"spec.template.spec.volumes[0].projected.sources[0].podCertificate"},
		"a device":                       {podOf("resourceClaims: [{name: gpu}]"), "spec.template.spec.resourceClaims"},
		"a Service of the physical one":  {object("Service", "v1", "spec: {externalName: kubernetes.default.svc}"), "spec.externalName"},
		"an object of another namespace": {object("PersistentVolumeClaim", "v1", "spec: {dataSourceRef: {kind: X, name: y, namespace: theirs}}"), "spec.dataSourceRef.namespace"},
		"a field that came later":        {podOf("newField: {x: y}"), "spec.template.spec.newField"},
		"a node for pods of a template":  {podOf("nodeName: node-1"), "spec.template.spec.nodeName"},
		"a finalizer on pods":            {podOf("schedulerName: default-scheduler") + "\n    metadata: {finalizers: [x/y]}", "spec.template.metadata.finalizers"},
		"the level of its namespace":     {object("Namespace", "v1", "metadata: {labels: {pod-security.kubernetes.io/enforce: privileged}}"), "metadata.labels[pod-security.kubernetes.io/enforce]"},
		"a secret of somebody":           {object("Ingress", "networking.k8s.io/v1", "metadata: {annotations: {nginx.ingress.kubernetes.io/auth-secret: theirs/s}}"), "metadata.annotations[nginx.ingress.kubernetes.io/auth-secret]"},
	} {
		obj := parseObject(t, c.object)
		findings := Filter(kindOf(obj), obj.Object, Passage{})
		if len(findings) != 1 || findings[0].Field != c.want || findings[0].Why == "" {
			t.Errorf("%s: %v, want something about %s", name, findings, c.want)
		}
	}
}

// TestWhatEverybodyDoesPasses: nothing of it is changed, and nothing said.
func TestWhatEverybodyDoesPasses(t *testing.T) {
	for _, text := range []string{
		podOf("nodeSelector: {kubernetes.io/arch: amd64, topology.kubernetes.io/zone: a}", "schedulerName: default-scheduler",
			"tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}]",
			"affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}}]}}",
			"volumes: [{name: c, configMap: {name: c}}, {name: e, emptyDir: {}}, {name: p, persistentVolumeClaim: {claimName: p}}, {name: t, projected: {sources: [{secret: {name: s}}]}}]",
			"topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]"),
		object("Service", "v1", "spec: {ports: [{port: 80, targetPort: http}], selector: {app: web}, externalName: db.example.com, type: LoadBalancer}"),
		object("Ingress", "networking.k8s.io/v1", "metadata: {annotations: {nginx.ingress.kubernetes.io/rewrite-target: /, kubernetes.io/ingress.class: nginx, nginx.ingress.kubernetes.io/auth-secret: s}}",
			"spec: {ingressClassName: nginx, tls: [{hosts: [h], secretName: s}], rules: [{host: h, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}"),
		object("NetworkPolicy", "networking.k8s.io/v1", "spec: {podSelector: {}, ingress: [{from: [{podSelector: {}}, {ipBlock: {cidr: 192.0.2.0/24}}]}], policyTypes: [Ingress]}"),
		object("PersistentVolumeClaim", "v1", "spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}"),
		object("Secret", "v1", "type: Opaque", "data: {a: YQ==}"),
	} {
		obj := parseObject(t, text)
		if findings := Filter(kindOf(obj), obj.Object, Passage{}); len(findings) != 0 {
			t.Errorf("%s: %v", text, findings)
		}
		if diff := cmp.Diff(parseObject(t, text).Object, obj.Object); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestARefusalIsAmongTheFindings(t *testing.T) {
	obj := parseObject(t, podOf("schedulerName: theirs", "nodeSelector: {pool: finance}"))
	findings := Filter(kindOf(obj), obj.Object, Passage{})
	if len(findings) != 2 {
		t.Errorf("%v", findings)
	}
	refusals := Refusals(findings)
	if len(refusals) != 1 || !strings.HasPrefix(refusals[0].String(), "spec.template.spec.nodeSelector[pool]: ") {
		t.Errorf("%v", refusals)
	}
}

func TestAServiceWithAClassOfLoadBalancersThatIsNotPermittedGetsNone(t *testing.T) {
	const text = "spec: {type: LoadBalancer, loadBalancerClass: example.com/theirs, allocateLoadBalancerNodePorts: true, loadBalancerSourceRanges: [192.0.2.0/24], " +
		"externalTrafficPolicy: Local, ports: [{port: 80}]}"
	for name, c := range map[string]struct {
		permits Permits
		want    string
	}{
		"not permitted": {Permits{}, "spec: {type: NodePort, externalTrafficPolicy: Local, ports: [{port: 80}]}"},
		"permitted":     {Permits{LoadBalancerClasses: []string{"example.com/theirs"}}, text},
	} {
		obj := parseObject(t, object("Service", "v1", text))
		Filter(kindOf(obj), obj.Object, Passage{Permits: c.permits, Tenant: "t"})
		if diff := cmp.Diff(parseObject(t, object("Service", "v1", c.want)).Object, obj.Object); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestNoExternalNameIsCompletedToThatOfAService(t *testing.T) {
	for name, want := range map[string]string{
		"example.com": "example.com.", "kubernetes.default": "kubernetes.default.", "kubernetes": "kubernetes.", "example.com.": "example.com.",
		"db.example.com": "db.example.com", "example": "example.", "db1.example.com": "db1.example.com", "10.example.com": "10.example.com", "db.example.x1": "db.example.x1",
		"metadata.example.com": "metadata.example.com",
	} {
		obj := parseObject(t, object("Service", "v1", "spec: {type: ExternalName, externalName: "+name+"}"))
		findings := Filter(kindOf(obj), obj.Object, Passage{})
		if got, _, _ := unstructured.NestedString(obj.Object, "spec", "externalName"); got != want || len(findings) > 0 {
			t.Errorf("%s goes down as %q, not %q: %v", name, got, want, findings)
		}
	}
	for _, name := range []string{"kubernetes.default.svc", "kubernetes.default.svc.example.org", "a.b.pod.", "x.CLUSTER.LOCAL"} {
		obj := parseObject(t, object("Service", "v1", "spec: {type: ExternalName, externalName: "+name+"}"))
		if findings := Filter(kindOf(obj), obj.Object, Passage{}); len(Refusals(findings)) != 1 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

func TestAnExternalNameThatIsAnAddressLeadsNowhere(t *testing.T) {
	for _, name := range []string{
		"10.0.3.7", "169.254.169.254", "127.1", "0x7f.1", "2130706433", "10.0.3.7.", "017700000001", "a.0x1f", "localhost", "db.localhost", "localhost.localdomain",
		"metadata.google.internal", "instance-data.ec2.internal",
	} {
		obj := parseObject(t, object("Service", "v1", "spec: {type: ExternalName, externalName: "+strconv.Quote(name)+"}"))
		findings := Filter(kindOf(obj), obj.Object, Passage{})
		if got, _, _ := unstructured.NestedString(obj.Object, "spec", "externalName"); got != nowhere || len(findings) != 1 || findings[0].Verdict != Mapped {
			t.Errorf("%s goes down as %q: %v", name, got, findings)
		}
	}
}

// TestNobodyChoosesByAKeyWhatIsNotItsOwn: on what is no pod, too, and in the labels by which some controllers
// read the same.
func TestNobodyChoosesByAKeyWhatIsNotItsOwn(t *testing.T) {
	pod := func(field, key string) string {
		return podOf("schedulerName: default-scheduler") + "\n    metadata: {" + field + ": {" + key + ": x}}"
	}
	of := func(kind, apiVersion, key string) string {
		return object(kind, apiVersion, "metadata: {annotations: {"+key+": x}}")
	}
	for key, object := range map[string]string{
		"sidecar.istio.io/proxyImage":                                pod("annotations", "sidecar.istio.io/proxyImage"),
		"sidecar.istio.io/inject":                                    pod("labels", "sidecar.istio.io/inject"),
		"traffic.sidecar.istio.io/excludeOutboundPorts":              pod("annotations", "traffic.sidecar.istio.io/excludeOutboundPorts"),
		"inject.istio.io/templates":                                  pod("annotations", "inject.istio.io/templates"),
		"proxy.istio.io/config":                                      pod("annotations", "proxy.istio.io/config"),
		"linkerd.io/inject":                                          pod("annotations", "linkerd.io/inject"),
		"config.linkerd.io/proxy-image":                              pod("annotations", "config.linkerd.io/proxy-image"),
		"cluster-autoscaler.kubernetes.io/safe-to-evict":             pod("annotations", "cluster-autoscaler.kubernetes.io/safe-to-evict"),
		"karpenter.sh/do-not-disrupt":                                pod("annotations", "karpenter.sh/do-not-disrupt"),
		"external-dns.alpha.kubernetes.io/internal-hostname":         pod("annotations", "external-dns.alpha.kubernetes.io/internal-hostname"),
		"replicator.v1.mittwald.de/replicate-from":                   of("Secret", "v1", "replicator.v1.mittwald.de/replicate-from"),
		"reflector.v1.k8s.emberstack.com/reflects":                   of("ConfigMap", "v1", "reflector.v1.k8s.emberstack.com/reflects"),
		"external-dns.alpha.kubernetes.io/hostname":                  of("Gateway", "gateway.networking.k8s.io/v1", "external-dns.alpha.kubernetes.io/hostname"),
		"external-dns.alpha.kubernetes.io/target":                    of("Service", "v1", "external-dns.alpha.kubernetes.io/target"),
		"external-dns.alpha.kubernetes.io/ingress-hostname-source":   of("Ingress", "networking.k8s.io/v1", "external-dns.alpha.kubernetes.io/ingress-hostname-source"),
		"reflector.v1.k8s.emberstack.com/reflection-auto-namespaces": of("Secret", "v1", "reflector.v1.k8s.emberstack.com/reflection-auto-namespaces"),
	} {
		obj := parseObject(t, object)
		findings := Filter(kindOf(obj), obj.Object, Passage{})
		if len(findings) != 1 || findings[0].Verdict != Stripped || !strings.HasSuffix(findings[0].Field, "["+key+"]") {
			t.Errorf("%s: %v", key, findings)
		}
		obj = parseObject(t, object)
		if findings := Filter(kindOf(obj), obj.Object, Passage{Permits: Permits{Annotations: []string{key}}}); len(findings) != 0 {
			t.Errorf("%s: permitted, but: %v", key, findings)
		}
	}
}

func TestStorageClassesAreThosePermitted(t *testing.T) {
	for _, c := range []struct {
		spec    string
		permits Permits
		want    bool
	}{
		{"{storageClassName: fast}", Permits{}, true},
		{"{storageClassName: fast}", Permits{StorageClasses: []string{"fast"}}, true},
		{"{storageClassName: local}", Permits{StorageClasses: []string{"fast"}}, false},
		{"{storageClassName: local}", Permits{StorageClasses: []string{"fast"}, StaticVolumes: true}, false},
		{"{storageClassName: null}", Permits{StorageClasses: []string{"fast"}}, true}, // that of the physical cluster's admin
		{"{}", Permits{StorageClasses: []string{"fast"}}, true},
	} {
		obj := parseObject(t, object("PersistentVolumeClaim", "v1", "spec: "+c.spec))
		findings := Filter(kindOf(obj), obj.Object, Passage{Permits: c.permits})
		if got := len(Refusals(findings)) == 0; got != c.want || !c.want && findings[0].Field != "spec.storageClassName" {
			t.Errorf("%s with %+v: %v", c.spec, c.permits, findings)
		}
	}
}

func TestClassesAreMapped(t *testing.T) {
	obj := parseObject(t, podOf("priorityClassName: high", "preemptionPolicy: PreemptLowerPriority"))
	findings := Filter(kindOf(obj), obj.Object, Passage{Permits: Permits{PriorityClasses: map[string]string{"*": "tenants"}}})
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec")
	if len(findings) != 1 || findings[0].Verdict != Mapped || spec["priorityClassName"] != "tenants" || spec["preemptionPolicy"] != nil {
		t.Errorf("%v: %v", findings, spec)
	}
}

// FuzzFilter: whatever a tenant sends, what is left needs nothing taken off it.
func FuzzFilter(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n","volumes":[{"name":"x","projected":{"sources":[{"serviceAccountToken":{}}]}}]}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","spec":{"tolerations":[1,null,{}],"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"namespaces":["a"]}]}}}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Service","spec":{"externalIPs":"x","ports":{"a":1}},"metadata":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		obj := &unstructured.Unstructured{}
		if obj.UnmarshalJSON(data) != nil {
			return
		}
		Filter(kindOf(obj), obj.Object, Passage{})
		left := runtime.DeepCopyJSON(obj.Object)
		for _, finding := range Filter(kindOf(obj), obj.Object, Passage{}) {
			// Selectors are made anew in each pass.
			if finding.Verdict != Mapped && finding.Verdict != Judged {
				t.Errorf("a second look: %v in %v", finding, left)
			}
		}
	})
}

func TestEveryPodTemplateOfADeclaredKindIsFenced(t *testing.T) {
	kind := workload.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Machine"}, Resource: "machines", Role: workload.Placed, Declared: true,
		PodTemplate: []string{"spec", "template"}, PodTemplates: [][]string{{"spec", "groups", "*", "template"}},
	}
	pod := func(spec map[string]any) map[string]any { return map[string]any{"spec": spec} }
	containers := []any{map[string]any{"name": "c", "image": "i"}}
	for name, c := range map[string]struct {
		group   any
		refused string
	}{
		"harmless":         {pod(map[string]any{"containers": containers}), ""},
		"on a node":        {pod(map[string]any{"containers": containers, "nodeName": "n1"}), "spec.groups.*.template.spec.nodeName"},
		"no template":      {"text", "spec.groups.*.template"},
		"other accounts":   {pod(map[string]any{"containers": containers, "serviceAccountName": "admin"}), "spec.groups.*.template.spec.serviceAccountName"},
		"the host network": {pod(map[string]any{"containers": containers, "hostNetwork": true}), "spec"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := map[string]any{"spec": map[string]any{
				"template": pod(map[string]any{"containers": containers}),
				"groups":   []any{map[string]any{"template": c.group}},
			}}
			refusals := Refusals(Filter(kind, obj, Passage{Tenant: "t"}))
			if (len(refusals) > 0) != (c.refused != "") || len(refusals) > 0 && !strings.HasPrefix(refusals[0].Field, c.refused) {
				t.Errorf("got %v, want %q refused", refusals, c.refused)
			}
		})
	}
}

// TestOnlyVolumesAreVolumesOfTokens: who calls a container, a term or a port like the volume of a token, in
// an object that nobody has typed, has it filtered all the same.
func TestOnlyVolumesAreVolumesOfTokens(t *testing.T) {
	kind := workload.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Machine"}, Resource: "machines", Role: workload.Placed, Declared: true,
		PodTemplate: []string{"spec", "template"},
	}
	like := func(m map[string]any) map[string]any {
		m["name"], m["projected"] = "kube-api-access-x", map[string]any{"sources": []any{}}
		return m
	}
	containers := []any{map[string]any{"name": "c", "image": "i"}}
	term := map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{"n1"}}}}
	for name, c := range map[string]struct {
		spec    map[string]any
		refused bool
	}{
		"the volume of a token": {map[string]any{"containers": containers, "volumes": []any{like(map[string]any{})}}, false},
		"a port of the node": {map[string]any{"containers": []any{like(map[string]any{
			"image": "i", "ports": []any{map[string]any{"containerPort": int64(80), "hostPort": int64(80)}},
		})}}, true},
		"a chosen node": {map[string]any{"containers": containers, "affinity": map[string]any{"nodeAffinity": map[string]any{
			"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": []any{like(term)}},
		}}}, true},
	} {
		obj := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": c.spec}}}
		if got := Refusals(Filter(kind, obj, Passage{Tenant: "t"})); (len(got) > 0) != c.refused {
			t.Errorf("%s: %v, want it refused: %v", name, got, c.refused)
		}
	}
}

func TestADeclaredKindWithTheNameOfABuiltInOneIsFilteredAsAnyOther(t *testing.T) {
	filtered := func(name string) (map[string]any, []Finding) {
		keys := func() map[string]any {
			return map[string]any{"k8s.ovn.org/vpc": "other", "example.com/team": "a", "pod-security.kubernetes.io/enforce": "privileged"}
		}
		containers := []any{map[string]any{"name": "c", "image": "i"}}
		obj := map[string]any{"metadata": map[string]any{"labels": keys(), "annotations": keys()},
			"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": keys()}, "spec": map[string]any{"containers": containers, "nodeName": "n1"}}}}
		findings := Filter(workload.Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: name}, Resource: "machines", Role: workload.Placed, Declared: true,
			PodTemplate: []string{"spec", "template"},
		}, obj, Passage{Tenant: "t"})
		return obj, findings
	}
	want, wanted := filtered("Machine")
	if _, goes := want["metadata"].(map[string]any)["labels"].(map[string]any)["k8s.ovn.org/vpc"]; goes || len(Refusals(wanted)) != 1 {
		t.Fatalf("of any other, %v goes down, with %v", want, wanted)
	}
	for _, kind := range []string{"Namespace", "Service", "PersistentVolumeClaim", "Ingress", "Pod"} {
		got, findings := filtered(kind)
		if diff := cmp.Diff(want, got) + cmp.Diff(wanted, findings); diff != "" {
			t.Errorf("%s (-any other +got):\n%s", kind, diff)
		}
	}
}

// A class that is not there, as far as is known, is said; the field goes down.
func TestAClassThatIsNotThereIsSaid(t *testing.T) {
	tenants := map[string]string{"high": "tenants", "critical": "critical"}
	for _, c := range []struct {
		name, object string
		has          *fleetv1alpha1.ReportedNames
		verdict      Verdict
		why, below   string
	}{
		{"not known", podOf("priorityClassName: critical"), nil, "", "", "critical"},
		{"there", podOf("priorityClassName: critical"), &fleetv1alpha1.ReportedNames{Names: []string{"critical"}}, "", "", "critical"},
		{"none there", podOf("priorityClassName: critical"), &fleetv1alpha1.ReportedNames{}, Waits, "no priority class critical; no pod starts", "critical"},
		{"mapped", podOf("priorityClassName: high"), &fleetv1alpha1.ReportedNames{Names: []string{"tenants"}}, Mapped, ", tenants", "tenants"},
		{"mapped to one that is not there", podOf("priorityClassName: high"), &fleetv1alpha1.ReportedNames{Names: []string{"high"}}, Waits, "no priority class tenants; no pod starts", "tenants"},
		{"mapped to none", podOf("priorityClassName: low"), &fleetv1alpha1.ReportedNames{}, Stripped, "no priority class of its own", ""},
		{"an Ingress, not known", ingressOf("nginx"), nil, "", "", "nginx"},
		{"an Ingress, there", ingressOf("nginx"), &fleetv1alpha1.ReportedNames{Names: []string{"nginx"}}, "", "", "nginx"},
		{"an Ingress, none there", ingressOf("nginx"), &fleetv1alpha1.ReportedNames{}, Waits, "no ingress class nginx; nobody serves it", "nginx"},
		{"an Ingress without a class", ingressOf(`""`), &fleetv1alpha1.ReportedNames{}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			obj := parseObject(t, c.object)
			findings := Filter(kindOf(obj), obj.Object, Passage{Permits: Permits{PriorityClasses: tenants}, Offered: Classes{Ingress: c.has, Priority: c.has}})
			got := Finding{}
			if len(findings) > 0 {
				got = findings[0]
			}
			if len(findings) > 1 || got.Verdict != c.verdict || !strings.Contains(got.Why, c.why) || len(Refusals(findings)) > 0 {
				t.Errorf("it says %v", findings)
			}
			priority, _, _ := unstructured.NestedString(obj.Object, "spec", "template", "spec", "priorityClassName")
			ingress, _, _ := unstructured.NestedString(obj.Object, "spec", "ingressClassName")
			if below := priority + ingress; below != c.below { // each object has one of them
				t.Errorf("the class below is %q, want %q", below, c.below)
			}
		})
	}
}

func ingressOf(class string) string {
	return object("Ingress", "networking.k8s.io/v1", "spec: {ingressClassName: "+class+"}")
}
