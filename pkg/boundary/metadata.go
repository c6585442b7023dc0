package boundary

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psa "k8s.io/pod-security-admission/api"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Controllers of physical clusters act on annotations, and on labels of
// namespaces, for whoever wrote them. So what goes down there is what is known to
// concern nobody but its own object; an admin permits more by prefix. Labels and
// annotations of other kinds and of pods go down, save those of believed.

// harmless are prefixes of annotations that only describe.
var harmless = []string{
	"app.kubernetes.io/", "argocd.argoproj.io/", "checksum/", "config.kubernetes.io/", "fluxcd.io/", "helm.sh/",
	"kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "meta.helm.sh/", "prometheus.io/",
	"kubernetes.io/description", "kubernetes.io/change-cause", "description",
}

// routing are annotations of Ingresses that shape the traffic of that Ingress;
// none of them holds configuration in the controller's own language, or names
// what is elsewhere.
var routing = func() []string {
	var keys []string
	for name := range strings.FieldsSeq(`affinity affinity-mode app-root backend-protocol client-body-buffer-size
		cors-allow-credentials cors-allow-headers cors-allow-methods cors-allow-origin cors-expose-headers cors-max-age enable-cors
		force-ssl-redirect limit-connections limit-rps limit-rpm load-balance preserve-trailing-slash proxy-body-size proxy-buffer-size
		proxy-buffering proxy-connect-timeout proxy-http-version proxy-next-upstream proxy-next-upstream-timeout
		proxy-next-upstream-tries proxy-read-timeout proxy-request-buffering proxy-send-timeout rewrite-target
		session-cookie-expires session-cookie-max-age session-cookie-name session-cookie-path session-cookie-samesite
		session-cookie-secure ssl-passthrough ssl-redirect upstream-hash-by use-regex whitelist-source-range x-forwarded-prefix`) {
		keys = append(keys, "nginx.ingress.kubernetes.io/"+name)
	}
	return keys
}()

// believed are prefixes of keys, on any kind and on pods, by which schedulers,
// networks and distributions let an object choose what is not its own: the image, settings and
// gaps of a mesh's proxy, that a node of all is kept, Secrets of other namespaces, names in the DNS.
var believed = []string{
	"scheduler.alpha.kubernetes.io/", "openshift.io/", "security.openshift.io/", "k8s.v1.cni.cncf.io/", "v1.multus-cni.io/",
	"cni.projectcalico.org/", "k8s.ovn.org/", "io.cilium.", "cilium.io/", "kubevirt.io/", "iam.amazonaws.com/",
	"eks.amazonaws.com/", "iam.gke.io/", "azure.workload.identity/", "vault.hashicorp.com/", "vault.security.banzaicloud.io/", "aadpodidbinding",
	"ipam.cilium.io/", "network.cilium.io/", "policy.cilium.io/", "ovn.kubernetes.io/", "networking.gke.io/", "vpc.amazonaws.com/", "io.kubernetes.cri-o.", "io.katacontainers.",
	"sidecar.istio.io/", "traffic.sidecar.istio.io/", "inject.istio.io/", "proxy.istio.io/", "linkerd.io/", "config.linkerd.io/",
	"cluster-autoscaler.kubernetes.io/", "karpenter.sh/",
	"replicator.v1.mittwald.de/", "reflector.v1.k8s.emberstack.com/", "external-dns.alpha.kubernetes.io/",
}

const (
	whyAnnotation     = "controllers of the physical cluster may act on it; it does not go down"
	whyNamespaceLabel = "is set on namespaces of the physical cluster by its admins only"
)

// is says that an object is of a kind, by its group, too: one that admins declare may have the name
// of a built-in one.
func (f *filter) is(group, kind string) bool {
	return f.kind == schema.GroupKind{Group: group, Kind: kind}
}

// metadata filters labels and annotations. What else the metadata of an object itself
// has is of the logical cluster, and its own concern.
func (f *filter) metadata(value any, at *field.Path) {
	metadata, _ := value.(map[string]any)
	root := at.String() == "metadata"
	switch {
	case root && f.is("", "Namespace"):
		f.podSecurityLabels(metadata, at)
		f.keys(metadata, "labels", at, whyNamespaceLabel, func(key string, _ any) bool {
			return fleetv1alpha1.PermitsKey(key, f.Permits.NamespaceLabels)
		})
		f.keys(metadata, "annotations", at, whyAnnotation, f.describes)
	case root && (f.is("", "Service") || f.is("", "PersistentVolumeClaim")):
		f.keys(metadata, "annotations", at, whyAnnotation, f.describes)
		f.keys(metadata, "labels", at, whyAnnotation, f.unbelieved)
	case root && f.is("networking.k8s.io", "Ingress"):
		f.keys(metadata, "labels", at, whyAnnotation, f.unbelieved)
		f.keys(metadata, "annotations", at, whyAnnotation, func(key string, value any) bool {
			return f.describes(key, value) || fleetv1alpha1.PermitsKey(key, routing) || f.ingressAnnotation(key, str(value))
		})
		if annotations, _ := metadata["annotations"].(map[string]any); annotations[ingressClassAnnotation] != nil {
			annotations[ingressClassAnnotation] = f.Permits.IngressClass(str(annotations[ingressClassAnnotation]))
		}
	default:
		f.keys(metadata, "annotations", at, whyAnnotation, f.unbelieved)
		f.keys(metadata, "labels", at, whyAnnotation, f.unbelieved)
	}
	if !root {
		f.template(metadata, at)
	}
}

// template takes off the metadata of a template what would hold the objects that
// controllers make of it, or give them to others.
func (f *filter) template(metadata map[string]any, at *field.Path) {
	for _, name := range []string{"finalizers", "ownerReferences"} {
		if !unset(metadata[name]) {
			f.find(at.Child(name), Stripped, "is not carried in templates")
		}
		delete(metadata, name)
	}
}

// podSecurityLabels are never those of a tenant on a physical namespace; see
// Passage.NamespaceLabels. What the labels for warnings ask for is done in the
// logical cluster.
func (f *filter) podSecurityLabels(metadata map[string]any, at *field.Path) {
	labels, _ := metadata["labels"].(map[string]any)
	if asked := fleetv1alpha1.PodSecurityLevel(str(labels[psa.EnforceLevelLabel])); asked != "" {
		if level := f.Permits.Level(); level.Stricter(asked) != asked {
			f.find(at.Child("labels").Key(psa.EnforceLevelLabel), Mapped,
				fmt.Sprintf("is %s on the physical cluster: tenants may only be stricter", level))
		}
	}
	maps.DeleteFunc(labels, func(key string, _ any) bool { return strings.HasPrefix(key, podSecurityDomain) })
}

const podSecurityDomain = "pod-security.kubernetes.io/"

// ingressClassAnnotation is what Ingresses named their class with before they had a field for it.
const ingressClassAnnotation = "kubernetes.io/ingress.class"

// ingressAnnotation: what names an object of its own namespace, or a class that may
// be named.
func (f *filter) ingressAnnotation(key, value string) bool {
	switch key {
	case ingressClassAnnotation:
		return f.ingressClass(value)
	case "nginx.ingress.kubernetes.io/auth-secret", "nginx.ingress.kubernetes.io/auth-tls-secret", "nginx.ingress.kubernetes.io/proxy-ssl-secret":
		return !strings.Contains(value, "/")
	}
	return false
}

func (f *filter) ingressClass(name string) bool {
	return len(f.Permits.IngressClasses) == 0 || slices.Contains(f.Permits.IngressClasses, name)
}

func (f *filter) describes(key string, _ any) bool {
	return fleetv1alpha1.PermitsKey(key, harmless, f.Permits.Annotations)
}

func (f *filter) unbelieved(key string, _ any) bool {
	if placementv1alpha1.IsSystemKey(key) {
		return false // a mark that nobody but the syncer makes
	}
	return !slices.ContainsFunc(believed, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) ||
		fleetv1alpha1.PermitsKey(key, f.Permits.Annotations)
}

// keys takes those off that are not permitted. Nobody hears of keys that the
// system, a client or a controller keeps for itself.
func (f *filter) keys(metadata map[string]any, name string, at *field.Path, why string, permitted func(key string, value any) bool) {
	entries, _ := metadata[name].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if permitted(key, entries[key]) {
			continue
		}
		delete(entries, key)
		if !silent(key) && (name != "labels" || why != whyNamespaceLabel || !fleetv1alpha1.PermitsKey(key, harmless)) {
			f.find(at.Child(name).Key(key), Stripped, why)
		}
	}
}

// silent are keys that users do not write themselves.
func silent(key string) bool {
	return key == "kubernetes.io/metadata.name" || key == "kubectl.kubernetes.io/last-applied-configuration" ||
		strings.HasPrefix(key, "pv.kubernetes.io/") || strings.HasPrefix(key, "volume.kubernetes.io/") ||
		strings.HasPrefix(key, "volume.beta.kubernetes.io/") || placementv1alpha1.IsSystemKey(key) || placementv1alpha1.IsOrder(key)
}
