package attack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/atoll-dev/atoll/pkg/workload"
)

var later = sendsDown("nothing that is down there is made to want of a physical cluster what is not the tenant's", hostileLater, changed, knownAlready)

// unchanging are parts of manifests that nobody can change an object to.
var unchanging = []string{"kind: StatefulSet", "kind: PersistentVolumeClaim", "type: kubernetes.io/service-account-token"}

// hostileLater is what of the table an object can be changed to, with a host name and a port of nodes
// that no other attack takes.
func hostileLater() []down {
	all := slices.DeleteFunc(hostileDown(), func(h down) bool {
		return slices.ContainsFunc(unchanging, func(part string) bool { return strings.Contains(h.manifest, part) })
	})
	for i, h := range all {
		all[i].manifest = strings.NewReplacer(".example.com, http:", ".later.example.com, http:", "30123", "30124").Replace(h.manifest)
		all[i].evil = strings.ReplaceAll(h.evil, "30123", "30124")
	}
	return all
}

// harmless are objects that want nothing, by kind.
var harmless = map[string]string{
	"ConfigMap":     "{apiVersion: v1, kind: ConfigMap}",
	"CronJob":       fmt.Sprintf(templates["cronjob"], plain),
	"Deployment":    fmt.Sprintf(templates["deployment"], plain),
	"Ingress":       ingressTo("a", "a.later.example.com").manifest,
	"Machine":       fmt.Sprintf(machineTemplates["machine"], plain),
	"Namespace":     "{apiVersion: v1, kind: Namespace}",
	"NetworkPolicy": "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, spec: {podSelector: {}}}",
	"Secret":        "{apiVersion: v1, kind: Secret}",
	"Service":       "{apiVersion: v1, kind: Service, spec: {ports: [{port: 80}]}}",
}

// begin makes a harmless object for each hostile one, and waits for all of them on the physical
// cluster. From then on what arrives has what update marks it with.
func (s *site) begin(ctx context.Context, all []down) error {
	if err := s.create(ctx, users); err != nil {
		return err
	}
	begins := func(step func(down) error) func(down) error {
		return func(h down) error {
			obj, _, err := h.object()
			if err != nil {
				return err
			}
			return step(down{name: h.name, manifest: harmless[obj.GetKind()]})
		}
	}
	err := each(ctx, all, begins(func(h down) error { return s.create(ctx, h) }), begins(func(h down) error {
		return s.arrived(ctx, h, func(string) error { return nil })
	}))
	s.awaited = fmt.Sprintf("%q:%q", markOfLater, "later")
	return err
}

// markOfLater is an annotation that goes down with everything.
const markOfLater = "app.kubernetes.io/version"

// update makes a hostile object of the one of its name that is there.
func (s *site) update(ctx context.Context, h down) error {
	obj, kind, err := h.object()
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = s.above.Resource(kind.GroupVersionResource())
	if kind.Role != workload.Container {
		resource = s.above.Resource(kind.GroupVersionResource()).Namespace(s.namespace)
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		is, err := resource.Get(ctx, h.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if spec, ok := obj.Object["spec"]; ok {
			is.Object["spec"] = spec
		}
		is.SetLabels(merged(is.GetLabels(), obj.GetLabels()))
		is.SetAnnotations(merged(is.GetAnnotations(), obj.GetAnnotations(), map[string]string{markOfLater: "later"}))
		_, err = resource.Update(ctx, is, metav1.UpdateOptions{})
		return err
	})
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, one := range all {
		maps.Copy(out, one)
	}
	return out
}
