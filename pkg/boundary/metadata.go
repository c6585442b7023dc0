package boundary

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
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
// networks and distributions let an object choose what is not its own.
var believed = []string{
	"scheduler.alpha.kubernetes.io/", "openshift.io/", "security.openshift.io/", "k8s.v1.cni.cncf.io/", "v1.multus-cni.io/",
	"cni.projectcalico.org/", "k8s.ovn.org/", "io.cilium.", "cilium.io/", "kubevirt.io/", "iam.amazonaws.com/",
	"eks.amazonaws.com/", "iam.gke.io/", "azure.workload.identity/", "vault.hashicorp.com/",
}

const (
	whyAnnotation     = "controllers of the physical cluster may act on it; it does not go down"
	whyNamespaceLabel = "is set on namespaces of the physical cluster by its admins only"
)

// metadata filters labels and annotations. What else metadata has is of the
// logical cluster, and its own concern.
func (f *filter) metadata(value any, at *field.Path) {
	metadata, _ := value.(map[string]any)
	root := at.String() == "metadata"
	switch {
	case root && f.kind.Kind == "Namespace":
		f.keys(metadata, "labels", at, whyNamespaceLabel, func(key string) bool { return permittedKey(key, f.Permits.NamespaceLabels) })
		f.keys(metadata, "annotations", at, whyAnnotation, f.describes)
	case root && (f.kind.Kind == "Service" || f.kind.Kind == "PersistentVolumeClaim"):
		f.keys(metadata, "annotations", at, whyAnnotation, f.describes)
	case root && f.kind.Kind == "Ingress":
		f.keys(metadata, "annotations", at, whyAnnotation, func(key string) bool { return f.describes(key) || permittedKey(key, routing) })
	default:
		f.keys(metadata, "annotations", at, whyAnnotation, f.unbelieved)
		f.keys(metadata, "labels", at, whyAnnotation, f.unbelieved)
	}
}

func (f *filter) describes(key string) bool {
	return permittedKey(key, harmless, f.Permits.Annotations)
}

func (f *filter) unbelieved(key string) bool {
	return !slices.ContainsFunc(believed, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) ||
		permittedKey(key, f.Permits.Annotations)
}

// keys takes those off that are not permitted. Nobody hears of keys that the
// system, a client or a controller keeps for itself.
func (f *filter) keys(metadata map[string]any, name string, at *field.Path, why string, permitted func(key string) bool) {
	entries, _ := metadata[name].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if permitted(key) {
			continue
		}
		delete(entries, key)
		if !silent(key) {
			f.find(at.Child(name).Key(key), Stripped, why)
		}
	}
}

// silent are keys that users do not write themselves.
func silent(key string) bool {
	return key == "kubernetes.io/metadata.name" || key == "kubectl.kubernetes.io/last-applied-configuration" ||
		key == "kcp.io/cluster" || strings.HasPrefix(key, "pv.kubernetes.io/") || strings.HasPrefix(key, "volume.kubernetes.io/") ||
		strings.HasPrefix(key, "volume.beta.kubernetes.io/") || strings.Contains(key, "atoll.dev/")
}
