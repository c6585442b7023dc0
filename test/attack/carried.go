package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// tenantsManifests would be applied on a physical cluster as they are, with all rights of the syncer.
var tenantsManifests = Attack{
	Name: "a tenant with all rights in its logical cluster makes no Manifest there, and reads none of root",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(ctx)
		if err != nil {
			return err
		}
		root := scope.WithCluster(ctx, scope.Root)
		for where, in := range map[string]context.Context{"its own": ctx, "root": root, "the view of a syncer": withTarget(ctx)} {
			for what, try := range waysToMake(in, who) {
				if err := refusedTo(what+" in "+where, try()); err != nil {
					return err
				}
			}
		}
		_, err = who.atoll.FleetV1alpha1().Manifests("").List(root, metav1.ListOptions{})
		if err := refusedTo("listing those of root", err); err != nil {
			return err
		}
		list, err := w.admin.atoll.FleetV1alpha1().Manifests("").List(ctx, metav1.ListOptions{})
		if ignoreNotFound(err) != nil {
			return err
		}
		if err == nil && len(list.Items) > 0 {
			return fmt.Errorf("there are %d Manifests in the logical cluster", len(list.Items))
		}
		return nil
	},
	// An admin makes one, in root.
	Control: func(ctx context.Context, w *World) error {
		root := scope.WithCluster(ctx, scope.Root)
		if _, err := w.admin.atoll.FleetV1alpha1().Manifests("default").Create(root, manifestOf("planted"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return fmt.Errorf("the admin: %w", err)
		}
		return nil
	},
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// waysToMake are all requests after which there could be a Manifest "planted".
func waysToMake(in context.Context, who clients) map[string]func() error {
	manifests := who.atoll.FleetV1alpha1().Manifests("web")
	text := []byte(`{"apiVersion":"fleet.atoll.dev/v1alpha1","kind":"Manifest","metadata":{"name":"planted","namespace":"web"},"spec":{"object":` + string(manifestOf("planted").Spec.Object.Raw) + `}}`)
	return map[string]func() error{
		"making one": func() error {
			_, err := manifests.Create(in, manifestOf("planted"), metav1.CreateOptions{})
			return err
		},
		"making one for nobody to see": func() error {
			_, err := manifests.Create(in, manifestOf("planted"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
		"making one that names its targets": func() error {
			m := manifestOf("planted")
			m.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: `{"` + Mallory + `":{}}`}
			_, err := manifests.Create(in, m, metav1.CreateOptions{})
			return err
		},
		"applying one": func() error {
			_, err := manifests.Patch(in, "planted", types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "a", Force: ptr.To(true)})
			return err
		},
		"updating nothing to one": func() error {
			_, err := manifests.Update(in, manifestOf("planted"), metav1.UpdateOptions{})
			return err
		},
		"patching nothing to one": func() error {
			_, err := manifests.Patch(in, "planted", types.MergePatchType, text, metav1.PatchOptions{})
			return err
		},
		"the status of one": func() error {
			_, err := manifests.UpdateStatus(in, manifestOf("planted"), metav1.UpdateOptions{})
			return err
		},
		"applying the status of one": func() error {
			_, err := manifests.Patch(in, "planted", types.ApplyPatchType, text, metav1.PatchOptions{FieldManager: "a", Force: ptr.To(true)}, "status")
			return err
		},
	}
}

// clashes have the names of what an admin carries, on the physical cluster itself: an admin who names the
// physical namespace of a tenant is the only way to them.
var clashes = Attack{
	Name: "an object of a tenant is neither taken for what an admin carries nor taken over by it, however it is named and marked",
	Real: true,
	Fence: func(ctx context.Context, w *World) error {
		ctx, s, err := w.siteAt(ctx, "east")
		if err != nil {
			return err
		}
		return errors.Join(s.keepsItsOwn(ctx), s.takesNoCarried(ctx))
	},
	// What belongs to nobody is taken over.
	Control: func(ctx context.Context, w *World) error {
		ctx, s, err := w.siteAt(ctx, "east")
		if err != nil {
			return err
		}
		nobodys := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "nobodys"},
			"spec": map[string]any{"selector": map[string]any{"owner": "nobody"}, "ports": []any{map[string]any{"port": int64(80)}}},
		}}
		below := s.below.Resource(carriedServices).Namespace(s.physicalNamespace)
		if _, err := below.Create(ctx, nobodys, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("the admin of the physical cluster: %w", err)
		}
		_, remove, err := w.carry(ctx, s.physical, s.settings("nobodys", true))
		if err != nil {
			return err
		}
		defer remove()
		return s.isOf(ctx, "nobodys", "admin")
	},
}

var carriedServices = corev1.SchemeGroupVersion.WithResource("services")

// settings carry a Service into the physical namespace of the tenant.
func (s *site) settings(name string, adopt bool) *fleetv1alpha1.Manifest {
	return &fleetv1alpha1.Manifest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: fleetv1alpha1.ManifestSpec{
		Adopt: adopt, Removal: fleetv1alpha1.RemovalDelete,
		Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"` + s.physicalNamespace + `","name":"` + name + `"},"spec":{"selector":{"owner":"admin"},"ports":[{"port":80}]}}`)},
	}}
}

// forgedMarks are those of what a Manifest of root carries, on an object of the tenant.
const forgedMarks = "metadata: {labels: {atoll.dev/carried-by: forged}, annotations: {atoll.dev/logical-cluster: root, atoll.dev/namespace: NAMESPACE, " +
	"atoll.dev/object: manifests.fleet.atoll.dev/NAME, atoll.dev/uid: UID, atoll.dev/applied: forged}}"

// forgedFor is a Service of the tenant with the name and the marks of what a Manifest carries.
func forgedFor(m *fleetv1alpha1.Manifest) down {
	marks := strings.NewReplacer("NAMESPACE", m.Namespace, "NAME", m.Name, "UID", string(m.UID)).Replace(forgedMarks)
	return down{name: m.Name, manifest: "{apiVersion: v1, kind: Service, " + marks + ", spec: {selector: {owner: tenant}, ports: [{port: 80}]}}"}
}

// keepsItsOwn has an admin carry what the tenant has: neither the mark that the tenant forges nor adopt
// makes it the admin's, and to delete the Manifest does not delete it.
func (s *site) keepsItsOwn(ctx context.Context) error {
	own := down{name: "mine", manifest: "{apiVersion: v1, kind: Service, spec: {selector: {owner: tenant}, ports: [{port: 80}]}}"}
	if err := s.create(ctx, own); err != nil {
		return err
	}
	if err := s.isOf(ctx, own.name, "tenant"); err != nil {
		return err
	}
	m, remove, err := s.carry(ctx, s.physical, s.settings(own.name, true))
	if err != nil {
		return err
	}
	defer remove()
	if err := s.update(ctx, forgedFor(m)); err != nil {
		return fmt.Errorf("marking its own: %w", err)
	}
	root := scope.WithCluster(ctx, scope.Root)
	if err := s.fails(root, m.Namespace, syncer.CopyName(fleetv1alpha1.Resource("manifests"), m.Name, s.physical)); err != nil {
		return fmt.Errorf("the Manifest: %w", err)
	}
	manifests := s.admin.atoll.FleetV1alpha1().Manifests(m.Namespace)
	if err := manifests.Delete(root, m.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := eventually(root, "the Manifest goes", func() error {
		_, err := manifests.Get(root, m.Name, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		return ignoreNotFound(err)
	}); err != nil {
		return err
	}
	return s.isOf(ctx, own.name, "tenant")
}

// takesNoCarried has the tenant make what an admin carries already, and delete it.
func (s *site) takesNoCarried(ctx context.Context) error {
	m, remove, err := s.carry(ctx, s.physical, s.settings("theirs", false))
	if err != nil {
		return err
	}
	defer remove()
	if err := s.isOf(ctx, m.Name, "admin"); err != nil {
		return err
	}
	if err := s.create(ctx, forgedFor(m)); err != nil {
		return fmt.Errorf("making one of the name: %w", err)
	}
	if err := s.fails(ctx, s.namespace, syncer.CopyName(carriedServices.GroupResource(), m.Name, s.physical)); err != nil {
		return fmt.Errorf("the tenant's: %w", err)
	}
	if err := s.isOf(ctx, m.Name, "admin"); err != nil {
		return err
	}
	above := s.above.Resource(carriedServices).Namespace(s.namespace)
	if err := above.Delete(ctx, m.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := eventually(ctx, "the tenant's goes", func() error {
		_, err := above.Get(ctx, m.Name, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		return ignoreNotFound(err)
	}); err != nil {
		return err
	}
	return s.isOf(ctx, m.Name, "admin")
}

// isOf fails if a Service on the physical cluster does not become, or is not, the one of an owner.
func (s *site) isOf(ctx context.Context, name, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
	return eventually(ctx, "Service "+name+" on the physical cluster", func() error {
		obj, err := s.below.Resource(carriedServices).Namespace(s.physicalNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if is, _, _ := unstructured.NestedString(obj.Object, "spec", "selector", "owner"); is != owner {
			return fmt.Errorf("it is of %q, not of %s", is, owner)
		}
		return nil
	})
}

// fails waits until a Copy says that what has its name is of somebody else.
func (s *site) fails(ctx context.Context, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
	return eventually(ctx, "its Copy", func() error {
		record, err := s.admin.atoll.PlacementV1alpha1().Copies(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if record.Status.State != placementv1alpha1.CopyFailed || record.Status.Reason != syncer.NotOurs.Reason {
			return fmt.Errorf("it says %s %s: %s", record.Status.State, record.Status.Reason, record.Status.Message)
		}
		return nil
	})
}
