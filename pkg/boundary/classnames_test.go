package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Each class is the one that the physical cluster has for its name, wherever an object names it, and its
// user reads so. What is permitted is permitted by the names that users write.
func TestNamesOfStorageAndIngressClassesAreMapped(t *testing.T) {
	permits := Permits{
		StorageClasses: []string{"fast", "slow"}, StorageClassNames: map[string]string{"fast": "gp3", "slow": "gp3"},
		IngressClasses: []string{"nginx"}, IngressClassNames: map[string]string{"nginx": "inside"},
	}
	for name, c := range map[string]struct{ object, want, said string }{
		"a claim": {object("PersistentVolumeClaim", "v1", "spec: {storageClassName: fast}"), object("PersistentVolumeClaim", "v1", "spec: {storageClassName: gp3}"),
			"spec.storageClassName: is the class gp3 on the physical cluster"},
		"the template of a claim": {object("StatefulSet", "apps/v1", "spec: {volumeClaimTemplates: [{metadata: {name: x}, spec: {storageClassName: slow}}]}"),
			object("StatefulSet", "apps/v1", "spec: {volumeClaimTemplates: [{metadata: {name: x}, spec: {storageClassName: gp3}}]}"),
			"spec.volumeClaimTemplates[0].spec.storageClassName: is the class gp3 on the physical cluster"},
		"a claim of a pod": {podOf("volumes: [{name: x, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}]"),
			podOf("volumes: [{name: x, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: gp3}}}}]"),
			"spec.template.spec.volumes[0].ephemeral.volumeClaimTemplate.spec.storageClassName: is the class gp3 on the physical cluster"},
		"a claim without a class": {object("PersistentVolumeClaim", "v1", "spec: {resources: {}}"), object("PersistentVolumeClaim", "v1", "spec: {resources: {}}"), ""},
		"an Ingress": {object("Ingress", "networking.k8s.io/v1", "spec: {ingressClassName: nginx}"), object("Ingress", "networking.k8s.io/v1", "spec: {ingressClassName: inside}"),
			"spec.ingressClassName: is the class inside on the physical cluster"},
		"an Ingress from long ago": {object("Ingress", "networking.k8s.io/v1", "metadata: {annotations: {kubernetes.io/ingress.class: nginx}}"),
			object("Ingress", "networking.k8s.io/v1", "metadata: {annotations: {kubernetes.io/ingress.class: inside}}"), ""},
		"a quota": {object("ResourceQuota", "v1", `spec: {hard: {pods: "2", fast.storageclass.storage.k8s.io/requests.storage: 3Gi, slow.storageclass.storage.k8s.io/requests.storage: 1Gi, tape.storageclass.storage.k8s.io/persistentvolumeclaims: "4"}}`),
			object("ResourceQuota", "v1", `spec: {hard: {pods: "2", gp3.storageclass.storage.k8s.io/requests.storage: 4Gi, tape.storageclass.storage.k8s.io/persistentvolumeclaims: "4"}}`), ""},
	} {
		obj := parseObject(t, c.object)
		findings := Filter(kindOf(obj), obj.Object, Passage{Permits: permits})
		said := ""
		if len(findings) == 1 && findings[0].Verdict == Mapped {
			said = findings[0].String()
		}
		if said != c.said || len(findings) > 1 {
			t.Errorf("%s: %v, want %q", name, findings, c.said)
		}
		if diff := cmp.Diff(parseObject(t, c.want).Object, obj.Object); diff != "" {
			t.Errorf("%s (-want +got): %s", name, diff)
		}
	}
	for _, text := range []string{object("PersistentVolumeClaim", "v1", "spec: {storageClassName: gp3}"), object("Ingress", "networking.k8s.io/v1", "spec: {ingressClassName: inside}")} {
		obj := parseObject(t, text)
		if findings := Filter(kindOf(obj), obj.Object, Passage{Permits: permits}); len(Refusals(findings)) != 1 {
			t.Errorf("a name of the physical cluster: %v, and %s was not permitted", findings, text)
		}
	}
}

// Who serves an Ingress is the class that it is mapped to.
func TestAnIngressWaitsForTheClassThatItsOwnIsMappedTo(t *testing.T) {
	for has, want := range map[string]Verdict{"inside": Mapped, "nginx": Waits} {
		obj := parseObject(t, object("Ingress", "networking.k8s.io/v1", "spec: {ingressClassName: nginx}"))
		findings := Filter(kindOf(obj), obj.Object, Passage{
			Permits: Permits{IngressClassNames: map[string]string{"nginx": "inside"}}, Offered: Classes{Ingress: &fleetv1alpha1.ReportedNames{Names: []string{has}}},
		})
		if len(findings) != 1 || findings[0].Verdict != want {
			t.Errorf("it has %s: %v, want %s", has, findings, want)
		}
	}
}
