package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

var boundaries = sendsDown("nothing that a tenant sends down gives it of a physical cluster what is not its own", hostileDown, made, knownAlready)

// byPermit parts what an admin of a physical cluster can permit from what he cannot.
func byPermit(all []down) (permitted, never []down) {
	permitted = slices.DeleteFunc(slices.Clone(all), func(h down) bool { return h.never })
	never = slices.DeleteFunc(slices.Clone(all), func(h down) bool { return !h.never })
	return permitted, never
}

// keepsOut fails if a physical cluster gets of hostile objects, sent in some way, what they want.
func (s *site) keepsOut(ctx context.Context, all []down, send func(*site, context.Context, down) error) error {
	return each(ctx, all, func(h down) error { return h.sent(send(s, ctx, h)) }, func(h down) error {
		if h.refused != "" {
			return nil
		}
		there := ""
		err := s.arrived(ctx, h, func(text string) error { there = text; return nil })
		if err == nil && strings.Contains(there, h.evil) {
			err = fmt.Errorf("it is there with %s: %s", h.evil, there)
		}
		return err
	})
}

// sent says whether the answer to an object is the one that it shall have.
func (h down) sent(answer error) error {
	if h.refused != "" && (!apierrors.IsForbidden(answer) || !strings.Contains(answer.Error(), h.refused)) {
		return errors.Join(errors.New("it is not refused by its field"), answer)
	}
	if h.refused != "" {
		return nil
	}
	return answer
}

// receives fails if a physical cluster does not get what hostile objects, sent in some way, want.
func (s *site) receives(ctx context.Context, all []down, send func(*site, context.Context, down) error) error {
	return each(ctx, all, func(h down) error {
		return eventually(ctx, "it is permitted", func() error { return send(s, ctx, h) })
	}, func(h down) error {
		return s.arrived(ctx, h, func(text string) error {
			if !strings.Contains(text, h.evil) {
				return fmt.Errorf("it has no %s: %s", h.evil, text)
			}
			return nil
		})
	})
}

// each does the steps one after the other, each for all objects for which none failed, until ctx
// ends: what was not tried then looks like what failed by it.
func each(ctx context.Context, all []down, steps ...func(down) error) error {
	var errs []error
	all = slices.Clone(all)
	for _, step := range steps {
		all = slices.DeleteFunc(all, func(h down) bool {
			if ctx.Err() != nil {
				return false
			}
			err := step(h)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", h.name, err))
			}
			return err != nil
		})
	}
	if ctx.Err() != nil {
		errs = append(errs, fmt.Errorf("not all were tried: %w", ctx.Err()))
	}
	return errors.Join(errs...)
}

// down is an object of a tenant that wants of a physical cluster what is not the tenant's.
type down struct {
	// name is that of the object, and says what it wants.
	name, manifest string
	// evil is the part of the JSON by which a physical cluster would give it.
	evil string
	// refused is what the answer says of the field; without it, the object goes down without evil.
	refused string
	// never says that no admin of a physical cluster can permit it.
	never bool
}

const (
	plain  = "containers: [{name: c, image: nginx}]"
	forged = "{app: a, atoll.dev/managed-by: forged, atoll.dev/carried-by: forged, atoll.dev/tenant: forged, labels.atoll.dev/a: forged}"
)

// templates are kinds with a template of pods: of metadata, and the lines of a spec. None
// has a pod run.
var templates = map[string]string{
	"deployment": "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {%s}}}}",
	"cronjob": `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "0 0 1 1 *", suspend: true, jobTemplate: {spec: {template: {` +
		"metadata: {labels: {app: a}}, spec: {restartPolicy: Never, %s}}}}}}",
}

// hostilePods are what each of templates is sent down with; manifest is the spec of the pods.
var hostilePods = []down{
	{"privileged", "containers: [{name: c, image: nginx, securityContext: {privileged: true}}]", `"privileged":true`, "securityContext.privileged=true", false},
	{"privileged-init", plain + ", initContainers: [{name: i, image: nginx, securityContext: {privileged: true}}]", `"privileged":true`, "securityContext.privileged=true", false},
	{"host-path", plain + ", volumes: [{name: v, hostPath: {path: /}}]", `"hostPath":`, `hostPath volumes (volume "v")`, false},
	{"host-network", plain + ", hostNetwork: true", `"hostNetwork":true`, "hostNetwork=true", false},
	{"host-pid", plain + ", hostPID: true", `"hostPID":true`, "hostPID=true", false},
	{"host-ipc", plain + ", hostIPC: true", `"hostIPC":true`, "hostIPC=true", false},
	{"capability", "containers: [{name: c, image: nginx, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]", `"SYS_ADMIN"`, "securityContext.capabilities.add", false},
	{"host-port", "containers: [{name: c, image: nginx, ports: [{containerPort: 80, hostPort: 10250}]}]", `"hostPort":10250`, "containers[0].ports[0].hostPort", false},
	{"host-port-init", plain + ", initContainers: [{name: i, image: nginx, ports: [{containerPort: 80, hostPort: 10250}]}]", `"hostPort":10250`, "initContainers[0].ports[0].hostPort", false},
	{"node-name", plain + ", nodeName: node-1", `"nodeName":`, "spec.nodeName", true},
	{"node-field", plain + ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}]}}}",
		`"matchFields":`, "matchFields", true},
	{"node-pool", plain + ", nodeSelector: {pool: finance}", `"pool":"finance"`, "nodeSelector[pool]", false},
	{"node-affinity", plain + ", affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [finance]}]}]}}}",
		`"key":"pool"`, "nodeSelectorTerms[0].matchExpressions[0].key", false},
	{"scheduler", plain + ", schedulerName: theirs", `"schedulerName":"theirs"`, "", false},
	{"tolerations", plain + ", tolerations: [{operator: Exists}]", `"tolerations":[`, "", false},
	{"priority", plain + ", priorityClassName: system-node-critical", `"priorityClassName":"system-node-critical"`, "", false},
	{"nfs", plain + ", volumes: [{name: v, nfs: {server: nfs.example.com, path: /}}]", `"nfs":`, "volumes[0].nfs", false},
	{"csi", plain + ", volumes: [{name: v, csi: {driver: csi.example.com}}]", `"csi":`, "volumes[0].csi", false},
	{"ephemeral-volume", plain + ", volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {volumeName: theirs, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]",
		`"volumeName":"theirs"`, "volumeClaimTemplate.spec.volumeName", false},
	{"token", plain + ", volumes: [{name: v, projected: {sources: [{serviceAccountToken: {audience: cloud, path: t}}]}}]", `"serviceAccountToken":`, "", true},
	{"all-namespaces", plain + ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}, namespaceSelector: {}}]}}",
		`"namespaceSelector":{}`, "", true},
}

// users is what has the Secrets and ConfigMaps among hostileObjects go down: none does of which
// nothing makes use.
var users = down{name: "users", manifest: "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: nginx, " +
	"envFrom: [{secretRef: {name: copied-secret}}, {configMapRef: {name: copied-settings}}, {configMapRef: {name: carried}}, {secretRef: {name: account-of-others}}]}]}}}}"}

// hostileObjects are the others.
var hostileObjects = []down{
	{"level", "{apiVersion: v1, kind: Namespace, metadata: {labels: {pod-security.kubernetes.io/enforce: privileged}}}", `"pod-security.kubernetes.io/enforce":"privileged"`, "", false},
	{"label", "{apiVersion: v1, kind: Namespace, metadata: {labels: {istio-injection: enabled}}}", `"istio-injection":"enabled"`, "", false},
	{"pool", "{apiVersion: v1, kind: Namespace, metadata: {annotations: {scheduler.alpha.kubernetes.io/node-selector: pool=finance}}}", `"scheduler.alpha.kubernetes.io/node-selector":`, "", false},
	{"uid-range", "{apiVersion: v1, kind: Namespace, metadata: {annotations: {openshift.io/sa.scc.uid-range: 0/1}}}", `"openshift.io/sa.scc.uid-range":`, "", false},
	{"team", "{apiVersion: v1, kind: Namespace, metadata: {annotations: {team: finance}}}", `"team":"finance"`, "", false},
	{"marked", "{apiVersion: v1, kind: Namespace, metadata: {labels: " + forged + ", annotations: {atoll.dev/logical-cluster: forged}}}", `"forged"`, "", true},
	{"carried", "{apiVersion: v1, kind: ConfigMap, metadata: {labels: " + forged + ", annotations: {atoll.dev/object: manifests.fleet.atoll.dev/forged, atoll.dev/uid: forged, atoll.dev/namespace: forged}}}",
		`forged"`, "", true},
	{"marked-deployment", "{apiVersion: apps/v1, kind: Deployment, metadata: {labels: " + forged + "}, spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: " + forged +
		", annotations: {atoll.dev/uid: forged}}, spec: {" + plain + "}}}}", `"forged"`, "", true},
	{"marked-job", `{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "0 0 1 1 *", suspend: true, jobTemplate: {metadata: {labels: ` + forged + ", annotations: {atoll.dev/uid: forged}}, " +
		"spec: {template: {metadata: {labels: " + forged + "}, spec: {restartPolicy: Never, " + plain + "}}}}}}", `"forged"`, "", true},
	{"marked-claims", claimsOf("metadata: {name: v, labels: " + forged + ", annotations: {atoll.dev/uid: forged}}, spec: {"), `"forged"`, "", true},
	{"held-pods", podsWith("finalizers: [example.com/hold]"), `"example.com/hold"`, "", true},
	{"mesh", podsWith("annotations: {sidecar.istio.io/proxyImage: theirs}"), `"sidecar.istio.io/proxyImage":`, "", false},
	{"kept-node", podsWith("annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: 'false'}"), `"cluster-autoscaler.kubernetes.io/safe-to-evict":`, "", false},
	{"network-of-others", podsWith("annotations: {k8s.v1.cni.cncf.io/networks: theirs/n}"), `"k8s.v1.cni.cncf.io/networks":`, "", false},
	{"copied-secret", "{apiVersion: v1, kind: Secret, metadata: {annotations: {replicator.v1.mittwald.de/replicate-from: theirs/s}}}", `"replicator.v1.mittwald.de/replicate-from":`, "", false},
	{"copied-settings", "{apiVersion: v1, kind: ConfigMap, metadata: {annotations: {reflector.v1.k8s.emberstack.com/reflects: theirs/c}}}", `"reflector.v1.k8s.emberstack.com/reflects":`, "", false},
	{"account-of-others", "{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {annotations: {kubernetes.io/service-account.name: default}}}",
		`"type":"kubernetes.io/service-account-token"`, "", true},
	{"claims", claimsOf("metadata: {name: v}, spec: {volumeName: theirs, "), `"volumeName":"theirs"`, "spec.volumeClaimTemplates[0].spec.volumeName", false},
	{"any-volume", claimsOf(`metadata: {name: v}, spec: {storageClassName: "", `), `"storageClassName":""`, "spec.volumeClaimTemplates[0].spec.storageClassName", false},
	{"claim", "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {volumeName: theirs, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}", `"volumeName":"theirs"`, "spec.volumeName", false},
	{"claim-by-labels", "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {selector: {matchLabels: {of: theirs}}, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}", `"of":"theirs"`, "spec.selector", false},
	{"external-ip", "{apiVersion: v1, kind: Service, spec: {externalIPs: [192.0.2.1], ports: [{port: 80}]}}", `"externalIPs":`, "spec.externalIPs", false},
	{"balancer-ip", "{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, loadBalancerIP: 192.0.2.1, ports: [{port: 80}]}}", `"loadBalancerIP":`, "spec.loadBalancerIP", false},
	{"balancer-class", "{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, loadBalancerClass: example.com/theirs, ports: [{port: 80}]}}", `"loadBalancerClass":`, "", false},
	{"node-port", "{apiVersion: v1, kind: Service, spec: {type: NodePort, ports: [{port: 80, nodePort: 30123}]}}", `"nodePort":30123`, "", false},
	{"name-in-dns", "{apiVersion: v1, kind: Service, metadata: {annotations: {external-dns.alpha.kubernetes.io/hostname: theirs.example.com}}, spec: {ports: [{port: 80}]}}",
		`"external-dns.alpha.kubernetes.io/hostname":`, "", false},
	{"service-of-others", "{apiVersion: v1, kind: Service, spec: {type: ExternalName, externalName: kubernetes.default.svc.cluster.local}}", `"externalName":`, "spec.externalName", true},
	{"service-by-search", "{apiVersion: v1, kind: Service, spec: {type: ExternalName, externalName: kubernetes.default}}", `"externalName":"kubernetes.default"`, "", true},
	{"metadata-of-a-cloud", "{apiVersion: v1, kind: Service, spec: {type: ExternalName, externalName: 169.254.169.254}}", `"externalName":"169.254.169.254"`, "", true},
	{"snippet", ingressWith("snippet", "nginx.ingress.kubernetes.io/server-snippet: return 200"), "nginx.ingress.kubernetes.io/server-snippet", "", false},
	{"secret-of-others", ingressWith("secret", "nginx.ingress.kubernetes.io/auth-secret: theirs/s"), "nginx.ingress.kubernetes.io/auth-secret", "", false},
	{"peers", "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}}", `"namespaceSelector":{}`, "", true},
}

// podsWith is a Deployment whose pods have metadata.
func podsWith(metadata string) string {
	return "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}, " + metadata + "}, spec: {" + plain + "}}}}"
}

func claimsOf(template string) string {
	return "{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 0, serviceName: a, selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {" + plain + "}}, " +
		"volumeClaimTemplates: [{" + template + "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}"
}

func ingressWith(host, annotation string) string {
	return "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {annotations: {" + annotation + "}}, spec: {rules: [{host: " + host + ".example.com, " +
		"http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}]}}"
}

// hostileDown is the table.
func hostileDown() []down {
	all := slices.Clone(hostileObjects)
	for kind, template := range templates {
		for _, h := range hostilePods {
			h.name, h.manifest = kind+"-"+h.name, fmt.Sprintf(template, h.manifest)
			all = append(all, h)
		}
	}
	return all
}

const contested = "shop.contested.example.com"

var hostNames = Attack{
	Name: "a tenant gets no request for the host name of another, nor one for all of its domain",
	Real: true,
	Fence: func(ctx context.Context, w *World) error {
		theirs, s, err := w.siteAt(ctx, "east")
		if err != nil {
			return err
		}
		if err := s.create(theirs, ingressTo("shop", contested)); err != nil {
			return err
		}
		if err := s.arrived(theirs, ingressTo("shop", contested), func(string) error { return nil }); err != nil {
			return err
		}
		mine, s, err := w.siteAt(ctx, "east")
		if err != nil {
			return err
		}
		for name, host := range map[string]string{"thief": contested, "wild": "'*.contested.example.com'"} {
			if err := s.create(mine, ingressTo(name, host)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := s.isTaken(mine, name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	},
	// Where nobody has it, it is there.
	Control: func(ctx context.Context, w *World) error {
		ctx, s, err := w.siteAt(ctx, "west")
		if err != nil {
			return err
		}
		if err := s.create(ctx, ingressTo("thief", contested)); err != nil {
			return err
		}
		return s.arrived(ctx, ingressTo("thief", contested), func(text string) error {
			if !strings.Contains(text, contested) {
				return fmt.Errorf("it is there without its host: %s", text)
			}
			return nil
		})
	},
}

func ingressTo(name, host string) down {
	return down{name: name, manifest: "{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {rules: [{host: " + host + ", " +
		"http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}]}}"}
}

// isTaken waits for an Ingress to be the loser of its host name, and fails if it is on the
// physical cluster.
func (s *site) isTaken(ctx context.Context, name string) error {
	_, kind, err := ingressTo(name, "a").object()
	if err != nil {
		return err
	}
	if err := eventually(ctx, "its Copy says so", func() error {
		record, err := s.who.atoll.PlacementV1alpha1().Copies(s.namespace).Get(ctx, syncer.CopyName(kind.GroupResource(), name, s.physical), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if record.Status.State != placementv1alpha1.CopyFailed || record.Status.Reason != syncer.ReasonHostTaken {
			return fmt.Errorf("it says %s %s", record.Status.State, record.Status.Reason)
		}
		return nil
	}); err != nil {
		return err
	}
	_, err = s.below.Resource(kind.GroupVersionResource()).Namespace(s.physicalNamespace).Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return errors.Join(errors.New("it is on the physical cluster"), err)
	}
	return nil
}

// reaching are objects that select namespaces.
var reaching = []down{
	{name: "peers", manifest: "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{namespaceSelector: {}}]}], " +
		"egress: [{to: [{podSelector: {}, namespaceSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}]}]}}"},
	{name: "affinity", manifest: fmt.Sprintf(templates["deployment"], plain+", affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "+
		"[{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {}, namespaceSelector: {}}}]}}")},
}

var neighbours = Attack{
	Name: "what a tenant selects on a physical cluster, by no label at all, is in namespaces of its own",
	Real: true,
	Fence: func(ctx context.Context, w *World) error {
		_, other, err := w.siteAt(ctx, "east")
		if err != nil {
			return err
		}
		ctx, s, err := w.siteAt(ctx, "east")
		if err != nil {
			return err
		}
		for _, h := range reaching {
			if err := s.create(ctx, h); err != nil {
				return fmt.Errorf("%s: %w", h.name, err)
			}
			if err := s.arrived(ctx, h, func(text string) error {
				return s.selects(ctx, text, func(selected []string) bool { return slices.Equal(selected, []string{s.physicalNamespace}) })
			}); err != nil {
				return fmt.Errorf("%s does not select, beside %s: %w", h.name, other.physicalNamespace, err)
			}
		}
		return nil
	},
	// The same, by somebody for whom nothing is mapped, selects both and all others.
	Control: func(ctx context.Context, w *World) (err error) {
		ctx, s, err := w.siteAt(ctx, "west")
		if err != nil {
			return err
		}
		direct, err := s.directly(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, direct.remove(ctx, nil)) }()
		for _, h := range reaching {
			if err := direct.create(ctx, h); err != nil {
				return fmt.Errorf("%s: %w", h.name, err)
			}
			if err := direct.arrived(ctx, h, func(text string) error {
				return direct.selects(ctx, text, func(selected []string) bool {
					return slices.Contains(selected, s.physicalNamespace) && slices.Contains(selected, "kube-system")
				})
			}); err != nil {
				return fmt.Errorf("%s: %w", h.name, err)
			}
		}
		return nil
	},
}

// selects fails unless all selectors of namespaces in an object select what is well.
func (s *site) selects(ctx context.Context, text string, well func(selected []string) bool) error {
	var content any
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		return err
	}
	selectors := namespaceSelectors(content)
	if len(selectors) == 0 {
		return fmt.Errorf("nothing is selected: %s", text)
	}
	namespaces := s.below.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	for _, written := range selectors {
		var selector metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(written, &selector); err != nil {
			return err
		}
		by, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil {
			return err
		}
		list, err := namespaces.List(ctx, metav1.ListOptions{LabelSelector: by.String()})
		if err != nil {
			return err
		}
		var selected []string
		for _, ns := range list.Items {
			selected = append(selected, ns.GetName())
		}
		if !well(selected) {
			return fmt.Errorf("%v selects the namespaces %v", written, selected)
		}
	}
	return nil
}

// namespaceSelectors are those anywhere in an object.
func namespaceSelectors(content any) (all []map[string]any) {
	switch content := content.(type) {
	case map[string]any:
		for name, value := range content {
			if selector, ok := value.(map[string]any); ok && name == "namespaceSelector" {
				all = append(all, selector)
			} else {
				all = append(all, namespaceSelectors(value)...)
			}
		}
	case []any:
		for _, item := range content {
			all = append(all, namespaceSelectors(item)...)
		}
	}
	return all
}
