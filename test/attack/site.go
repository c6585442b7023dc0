package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/pkg/workload/declared"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// arrivalTimeout is how long an object may take to a physical cluster.
const arrivalTimeout = time.Minute

// site is where somebody writes objects that are looked at on a physical cluster, by its own admin.
type site struct {
	*World
	who          clients
	above, below dynamic.Interface
	physical     string
	// namespace is that of the objects, physicalNamespace the one on the physical cluster.
	namespace, physicalNamespace string
	// direct says that the admin of the physical cluster writes there himself.
	direct bool
	// awaited is what the JSON of an object has on the physical cluster, once what was sent last is there.
	awaited string
}

// siteAt makes a logical cluster with the namespace "web" on a physical cluster, and a tenant of it.
func (w *World) siteAt(ctx context.Context, physical string) (context.Context, *site, error) {
	config := rest.CopyConfig(w.Physical[physical])
	config.QPS = -1
	below, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("the admin of %s: %w", physical, err)
	}
	if ctx, err = w.cluster(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.place(ctx, "web", map[string]string{placementv1alpha1.PhysicalClusterAnnotation: physical}, "1m"); err != nil {
		return nil, nil, err
	}
	s := &site{World: w, below: below, physical: physical, namespace: "web"}
	if s.who, err = w.tenant(ctx); err != nil {
		return nil, nil, err
	}
	config = scope.ScopedConfig(s.who.config)
	config.WarningHandler = rest.NoWarnings{} // that most of it does not go down
	if s.above, err = dynamic.NewForConfig(config); err != nil {
		return nil, nil, fmt.Errorf("the tenant: %w", err)
	}
	s.physicalNamespace, err = s.physicalName(ctx, s.namespace)
	return ctx, s, err
}

// directly is the same physical cluster, without the control plane. The namespace is for remove.
func (s *site) directly(ctx context.Context) (*site, error) {
	d := *s
	d.above, d.direct = s.below, true
	d.namespace = "directly-" + s.physicalNamespace
	d.physicalNamespace = d.namespace
	return &d, d.create(ctx, down{name: d.namespace, manifest: "{apiVersion: v1, kind: Namespace}"})
}

// remove deletes the namespaces that hostile objects, written directly, are, also when the time
// of ctx is over, and waits until they are gone: other attacks make some of the same names.
func (s *site) remove(ctx context.Context, written []down) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), arrivalTimeout)
	defer cancel()
	var errs []error
	for _, h := range append(slices.Clone(written), down{name: s.namespace, manifest: "{apiVersion: v1, kind: Namespace}"}) {
		if _, kind, err := h.object(); err != nil || kind.Role != workload.Container {
			continue
		}
		errs = append(errs, eventually(ctx, "namespace "+h.name+" is gone", func() error {
			err := s.below.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Delete(ctx, h.name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is there"), err)
		}))
	}
	return errors.Join(errs...)
}

// physicalName is the name that a Namespace has on the physical cluster.
func (s *site) physicalName(ctx context.Context, namespace string) (name string, err error) {
	if s.direct {
		return namespace, nil
	}
	return name, eventually(ctx, "namespace "+namespace+" is placed", func() error {
		ns, err := s.admin.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if name = ns.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation]; name == "" {
			return fmt.Errorf("its targets are %s", ns.Annotations[placementv1alpha1.TargetsAnnotation])
		}
		return nil
	})
}

func (h down) object() (*unstructured.Unstructured, workload.Kind, error) {
	data, err := yaml.YAMLToJSON([]byte(h.manifest))
	if err != nil {
		return nil, workload.Kind{}, fmt.Errorf("reading the manifest: %w", err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(data); err != nil {
		return nil, workload.Kind{}, fmt.Errorf("reading the manifest: %w", err)
	}
	obj.SetName(h.name)
	kinds, err := workload.Builtin().With(declared.Kind(machines()))
	if err != nil {
		return nil, workload.Kind{}, fmt.Errorf("declaring machines: %w", err)
	}
	kind, ok := kinds.ByKind(obj.GroupVersionKind().GroupKind())
	if !ok {
		return nil, kind, fmt.Errorf("no kind %s goes down", obj.GetKind())
	}
	return obj, kind, nil
}

// create writes an object; one that is there already is well.
func (s *site) create(ctx context.Context, h down) error {
	obj, kind, err := h.object()
	if err != nil {
		return err
	}
	resource := s.above.Resource(kind.GroupVersionResource())
	if kind.Role != workload.Container {
		_, err := resource.Namespace(s.namespace).Create(ctx, obj, metav1.CreateOptions{})
		return ignoreExisting(err)
	}
	if !s.direct {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[placementv1alpha1.PhysicalClusterAnnotation] = s.physical
		obj.SetAnnotations(annotations)
	}
	if _, err := resource.Create(ctx, obj, metav1.CreateOptions{}); ignoreExisting(err) != nil || s.direct {
		return ignoreExisting(err)
	}
	return s.deploy(ctx, h.name, "1m")
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// arrived is an object as the physical cluster has it, once it does; ready says whether that is it.
func (s *site) arrived(ctx context.Context, h down, ready func(text string) error) error {
	ctx, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
	_, kind, err := h.object()
	if err != nil {
		return err
	}
	resource := s.below.Resource(kind.GroupVersionResource()).Namespace(s.physicalNamespace)
	name := h.name
	if kind.Role == workload.Container {
		resource = s.below.Resource(kind.GroupVersionResource())
		if name, err = s.physicalName(ctx, h.name); err != nil {
			return err
		}
	}
	err = eventually(ctx, "on the physical cluster", func() error {
		obj, err := resource.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		obj.SetManagedFields(nil)
		text, err := obj.MarshalJSON()
		if err != nil {
			return err
		}
		if !strings.Contains(string(text), s.awaited) {
			return fmt.Errorf("it is there without %s", s.awaited)
		}
		return ready(string(text))
	})
	if err != nil && !s.direct {
		err = fmt.Errorf("%w (%s)", err, s.said(context.WithoutCancel(ctx), kind, h.name))
	}
	return err
}

// said is what the Copy of an object says.
func (s *site) said(ctx context.Context, kind workload.Kind, name string) string {
	ctx, cancel := context.WithTimeout(ctx, servedTimeout)
	defer cancel()
	record, err := s.admin.atoll.PlacementV1alpha1().Copies(s.namespace).Get(ctx, syncer.CopyName(kind.GroupResource(), name, s.physical), metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("its Copy says %s %s: %s", record.Status.State, record.Status.Reason, record.Status.Message)
}

// trust has a physical cluster permit all that the sample for tenants who trust each other
// does, and addresses, a balancer and a scheduler of theirs.
func (w *World) trust(ctx context.Context, physical string) error {
	sample, err := os.ReadFile(filepath.Join(process.Root(), "config", "samples", "tenancy-trusted.yaml"))
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	patch, err := yaml.YAMLToJSON(sample)
	if err != nil {
		return fmt.Errorf("reading the sample: %w", err)
	}
	if err := w.change(ctx, physical, patch); err != nil {
		return err
	}
	return w.change(ctx, physical, []byte(`{"spec":{"tenancy":{"externalIPs":["192.0.2.1"],"loadBalancerIPs":["192.0.2.1"],"loadBalancerClasses":["example.com/theirs"],"schedulers":["theirs"]}}}`))
}

// distrust takes back what trust permits, also when the time of ctx is over.
func (w *World) distrust(ctx context.Context, physical string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), arrivalTimeout)
	defer cancel()
	return w.change(ctx, physical, []byte(`{"spec":{"tenancy":null}}`))
}

// change patches a PhysicalCluster.
func (w *World) change(ctx context.Context, physical string, patch []byte) error {
	_, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Patch(scope.WithCluster(ctx, scope.Root), physical, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("changing what %s permits: %w", physical, err)
	}
	return nil
}
