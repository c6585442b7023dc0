package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// hush is in what is carried, and for one physical cluster only.
const hush = "hush-hush"

// manifestOf carries a Secret.
func manifestOf(name string) *fleetv1alpha1.Manifest {
	return &fleetv1alpha1.Manifest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: fleetv1alpha1.ManifestSpec{Object: runtime.RawExtension{Raw: []byte(
			`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"default","name":"` + name + `"},"stringData":{"token":"` + hush + `"}}`)}},
	}
}

// carry makes a namespace in root that is on one physical cluster, and a Manifest in it.
func (w *World) carry(ctx context.Context, physical string, m *fleetv1alpha1.Manifest) (made *fleetv1alpha1.Manifest, remove func(), err error) {
	root := scope.WithCluster(ctx, scope.Root)
	namespace := fmt.Sprintf("carried-%d", w.clusters.Add(1))
	if err := w.namespace(root, namespace, map[string]string{placementv1alpha1.PhysicalClusterAnnotation: physical}); err != nil {
		return nil, nil, err
	}
	manifests := w.admin.atoll.FleetV1alpha1().Manifests(namespace)
	remove = func() {
		root := context.WithoutCancel(root)
		_ = manifests.Delete(root, m.Name, metav1.DeleteOptions{})
		_ = w.admin.kube.CoreV1().Namespaces().Delete(root, namespace, metav1.DeleteOptions{})
	}
	if made, err = manifests.Create(root, m, metav1.CreateOptions{}); err != nil {
		remove()
		return nil, nil, fmt.Errorf("making a Manifest: %w", err)
	}
	if err := eventually(root, "the Manifest is placed", func() error {
		if made, err = manifests.Get(root, m.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if targets := stamp.TargetsOf(made.Annotations).Names(); len(targets) != 1 || targets[0] != physical {
			return fmt.Errorf("it is on %v", targets)
		}
		return nil
	}); err != nil {
		remove()
		return nil, nil, err
	}
	return made, remove, nil
}

// neighbour is a physical cluster beside the hostile one, which looks well for as long as an attack
// takes, and its syncer.
func (w *World) neighbour(ctx context.Context, name string) (who clients, unregister func(), err error) {
	root := scope.WithCluster(ctx, scope.Root)
	fleet := w.admin.atoll.FleetV1alpha1().PhysicalClusters()
	if _, err := fleet.Create(root, &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return clients{}, nil, fmt.Errorf("registering %s: %w", name, err)
	}
	unregister = func() {
		root := context.WithoutCancel(root)
		_, _ = fleet.Patch(root, name, types.MergePatchType, []byte(`{"spec":{"forget":true}}`), metav1.PatchOptions{})
		_ = fleet.Delete(root, name, metav1.DeleteOptions{})
	}
	data, err := app.Kubeconfig(w.Dir, name, true)
	if err != nil {
		unregister()
		return clients{}, nil, fmt.Errorf("the credential of the syncer: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		unregister()
		return clients{}, nil, fmt.Errorf("reading the credential of the syncer: %w", err)
	}
	who = clientsOf(config)
	own := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: name})
	if err := eventually(own, name+" reports", func() error {
		now := metav1.NowMicro()
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
		if _, err := who.kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace).Create(own, lease, metav1.CreateOptions{}); ignoreExisting(err) != nil {
			return err
		}
		pc, err := who.atoll.FleetV1alpha1().PhysicalClusters().Get(own, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		meta.SetStatusCondition(&pc.Status.Conditions, metav1.Condition{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonHeartbeat})
		pc.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
		_, err = who.atoll.FleetV1alpha1().PhysicalClusters().UpdateStatus(own, pc, metav1.UpdateOptions{})
		return err
	}); err != nil {
		unregister()
		return clients{}, nil, err
	}
	return who, unregister, nil
}

// carriedElsewhere are what admins have on another physical cluster.
var carriedElsewhere = Attack{
	Name: "a syncer reads no Manifest that is meant for another physical cluster, writes none, and records nothing of them",
	Fence: func(ctx context.Context, w *World) error {
		_, unregister, err := w.neighbour(ctx, "carrier")
		if err != nil {
			return err
		}
		defer unregister()
		theirs, remove, err := w.carry(ctx, "carrier", manifestOf("theirs"))
		if err != nil {
			return err
		}
		defer remove()
		mine, remove, err := w.carry(ctx, Mallory, manifestOf("mine"))
		if err != nil {
			return err
		}
		defer remove()
		for _, half := range []func(context.Context, clients, *fleetv1alpha1.Manifest, *fleetv1alpha1.Manifest) error{
			readsNot, writesNoManifest, recordsNot, keepsWhatIsCarried, saysNothingElsewhere,
		} {
			if err := half(ctx, w.mallory, mine, theirs); err != nil {
				return err
			}
		}
		return nil
	},
	// The syncer that it is meant for reads it, and records what became of it.
	Control: func(ctx context.Context, w *World) error {
		who, unregister, err := w.neighbour(ctx, "receiver")
		if err != nil {
			return err
		}
		defer unregister()
		m, remove, err := w.carry(ctx, "receiver", manifestOf("theirs"))
		if err != nil {
			return err
		}
		defer remove()
		own := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: "receiver"})
		if err := eventually(own, "it sees the Manifest", func() error {
			got, err := who.atoll.FleetV1alpha1().Manifests(m.Namespace).Get(own, m.Name, metav1.GetOptions{})
			if err == nil && !strings.Contains(string(got.Spec.Object.Raw), hush) {
				err = errors.New("without what it carries")
			}
			return err
		}); err != nil {
			return err
		}
		if _, err := who.atoll.PlacementV1alpha1().Copies(m.Namespace).Create(own, recordOfManifest(m, "receiver"), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("recording a copy: %w", err)
		}
		if _, err := who.kube.CoreV1().Events(m.Namespace).Create(own, eventIn(m.Namespace), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("recording an event: %w", err)
		}
		return nil
	},
}

// refusedTo fails if an answer is none by which somebody is refused; that there is no such thing is one.
func refusedTo(what string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, errors.Join(errors.New("it is not refused"), err))
}

// readsNot looks for a Manifest of others in all that the hostile syncer may ask for.
func readsNot(ctx context.Context, who clients, mine, theirs *fleetv1alpha1.Manifest) error {
	root := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: Mallory})
	for where, view := range map[string]context.Context{"its view of root": root, "its view of all": scope.With(ctx, scope.Scope{Cluster: scope.Wildcard, Target: Mallory})} {
		if err := eventually(view, "its own in "+where, func() error {
			has, err := lists(view, who, metav1.ListOptions{}, mine.UID)
			if err == nil && !has {
				err = errors.New("it is not listed")
			}
			return err
		}); err != nil {
			return err
		}
		for _, o := range []metav1.ListOptions{
			{}, {ResourceVersion: "0"}, {Limit: 1}, {FieldSelector: "metadata.name=" + theirs.Name}, {FieldSelector: "metadata.namespace=" + theirs.Namespace},
		} {
			if has, err := lists(view, who, o, theirs.UID); err == nil && has { // an error is an answer, too
				return fmt.Errorf("%s lists the Manifest of another one by %+v", where, o)
			}
		}
		if err := watchesNot(view, who, theirs); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
		namespaces, err := who.kube.CoreV1().Namespaces().List(view, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing namespaces in %s: %w", where, err)
		}
		for _, n := range namespaces.Items {
			if n.Name == theirs.Namespace || n.Name == fleetv1alpha1.LeaseNamespace {
				return fmt.Errorf("%s lists the namespace %s", where, n.Name)
			}
		}
	}
	outside := map[string]context.Context{"root itself": scope.WithCluster(ctx, scope.Root), "the view of another one": scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: "carrier"})}
	for where, view := range outside {
		_, err := who.atoll.FleetV1alpha1().Manifests("").List(view, metav1.ListOptions{})
		if err := refusedTo("listing Manifests in "+where, err); err != nil {
			return err
		}
	}
	outside["its view of root"] = root
	for where, view := range outside {
		_, err := who.atoll.FleetV1alpha1().Manifests(theirs.Namespace).Get(view, theirs.Name, metav1.GetOptions{})
		if err := refusedTo("reading the Manifest of another one in "+where, err); err != nil {
			return err
		}
		_, err = who.kube.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).List(view, metav1.ListOptions{})
		if err := refusedTo("reading Secrets in "+where, err); err != nil {
			return err
		}
	}
	return nil
}

// lists reports whether a Manifest is on one of the pages of a list.
func lists(view context.Context, who clients, o metav1.ListOptions, uid types.UID) (bool, error) {
	for {
		list, err := who.atoll.FleetV1alpha1().Manifests("").List(view, o)
		if err != nil {
			return false, err
		}
		for _, m := range list.Items {
			if m.UID == uid {
				return true, nil
			}
		}
		if o.Continue = list.Continue; o.Continue == "" {
			return false, nil
		}
	}
}

// watchesNot fails if a watch from the beginning has the Manifest of another one.
func watchesNot(view context.Context, who clients, theirs *fleetv1alpha1.Manifest) error {
	events, err := who.atoll.FleetV1alpha1().Manifests("").Watch(view, metav1.ListOptions{ResourceVersion: "0", TimeoutSeconds: ptr.To[int64](2)})
	if err != nil {
		return fmt.Errorf("watching Manifests: %w", err)
	}
	defer events.Stop()
	for {
		select {
		case e, open := <-events.ResultChan():
			if !open {
				return nil
			}
			if m, ok := e.Object.(*fleetv1alpha1.Manifest); ok && m.UID == theirs.UID && e.Type != watch.Deleted {
				return errors.New("the Manifest of another one is watched")
			}
		case <-time.After(5 * time.Second):
			return nil
		case <-view.Done():
			return view.Err()
		}
	}
}

// writesNoManifest tries each way to write one, its own as well: what it carries would be applied elsewhere.
func writesNoManifest(ctx context.Context, who clients, mine, theirs *fleetv1alpha1.Manifest) error {
	own := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: Mallory})
	for _, m := range []*fleetv1alpha1.Manifest{mine, theirs} {
		manifests := who.atoll.FleetV1alpha1().Manifests(m.Namespace)
		changed := m.DeepCopy()
		changed.Spec.Object.Raw = []byte(strings.ReplaceAll(string(m.Spec.Object.Raw), hush, "changed"))
		for what, try := range map[string]func() error{
			"making one": func() error {
				_, err := manifests.Create(own, manifestOf("planted"), metav1.CreateOptions{})
				return err
			},
			"updating one": func() error {
				_, err := manifests.Update(own, changed, metav1.UpdateOptions{})
				return err
			},
			"updating its status": func() error {
				_, err := manifests.UpdateStatus(own, changed, metav1.UpdateOptions{})
				return err
			},
			"patching its targets": func() error {
				patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"{\"%s\":{},\"carrier\":{}}"}}}`, placementv1alpha1.TargetsAnnotation, Mallory)
				_, err := manifests.Patch(own, m.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			},
			"applying one": func() error {
				_, err := manifests.Patch(own, m.Name, types.ApplyPatchType, []byte(`{"apiVersion":"fleet.atoll.dev/v1alpha1","kind":"Manifest","metadata":{"name":"`+m.Name+`"},"spec":{"removal":"Keep"}}`),
					metav1.PatchOptions{FieldManager: "a", Force: ptr.To(true)})
				return err
			},
			"taking its finalizer": func() error {
				_, err := manifests.Patch(own, m.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return err
			},
			"deleting one": func() error { return manifests.Delete(own, m.Name, metav1.DeleteOptions{}) },
			"deleting all": func() error {
				return manifests.DeleteCollection(own, metav1.DeleteOptions{}, metav1.ListOptions{})
			},
		} {
			if err := refusedTo(what+" in "+m.Namespace, try()); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordOfManifest is what a syncer records of a Manifest before anything is applied.
func recordOfManifest(m *fleetv1alpha1.Manifest, physical string) *placementv1alpha1.Copy {
	return &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(fleetv1alpha1.Resource("manifests"), m.Name, physical)},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: physical, Object: placementv1alpha1.ObjectReference{
			Group: fleetv1alpha1.GroupName, Version: "v1alpha1", Resource: "manifests", Kind: "Manifest", Name: m.Name, UID: m.UID,
		}},
		Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, Carried: placementv1alpha1.CarriedObject{
			Version: "v1", Kind: "Secret", Resource: "secrets", Namespace: "default", Name: m.Name,
		}},
	}
}

// recordsNot acknowledges, as the hostile syncer, what is not for it.
func recordsNot(ctx context.Context, who clients, mine, theirs *fleetv1alpha1.Manifest) error {
	own := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: Mallory})
	copies := who.atoll.PlacementV1alpha1()
	for what, try := range map[string]struct {
		namespace string
		record    *placementv1alpha1.Copy
	}{
		"its Copy of the Manifest of another one": {theirs.Namespace, recordOfManifest(theirs, Mallory)},
		"the Copy of another one":                 {theirs.Namespace, recordOfManifest(theirs, "carrier")},
		"a Copy for another one of its own":       {mine.Namespace, recordOfManifest(mine, "carrier")},
		"a Copy in the namespace of credentials":  {fleetv1alpha1.LeaseNamespace, recordOfManifest(theirs, Mallory)},
		"a Copy in a namespace that is not there": {"made-up", recordOfManifest(theirs, Mallory)},
	} {
		_, err := copies.Copies(try.namespace).Create(own, try.record, metav1.CreateOptions{})
		if err := refusedTo(what, err); err != nil {
			return err
		}
	}
	return nil
}

// keepsWhatIsCarried changes, as the hostile syncer, what its own Manifest is below.
func keepsWhatIsCarried(ctx context.Context, who clients, mine, _ *fleetv1alpha1.Manifest) error {
	own := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: Mallory})
	copies := who.atoll.PlacementV1alpha1().Copies(mine.Namespace)
	record, err := copies.Create(own, recordOfManifest(mine, Mallory), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("recording its own copy: %w", err)
	}
	for what, change := range map[string]func(*placementv1alpha1.CarriedObject){
		"another name":      func(c *placementv1alpha1.CarriedObject) { c.Name = "theirs" },
		"another namespace": func(c *placementv1alpha1.CarriedObject) { c.Namespace = "kube-system" },
		"another kind":      func(c *placementv1alpha1.CarriedObject) { c.Kind, c.Resource = "ConfigMap", "configmaps" },
		"another group":     func(c *placementv1alpha1.CarriedObject) { c.Group = "example.com" },
		"nothing":           func(c *placementv1alpha1.CarriedObject) { *c = placementv1alpha1.CarriedObject{} },
	} {
		changed := record.DeepCopy()
		change(&changed.Status.Carried)
		if _, err := copies.Update(own, changed, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("%s is recorded as what is carried: %w", what, errors.Join(errors.New("it is not refused"), err))
		}
	}
	record.Status.State = placementv1alpha1.CopySynced
	if _, err := copies.Update(own, record, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("recording its state: %w", err)
	}
	return nil
}

func eventIn(namespace string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "said", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "1"}},
		InvolvedObject: corev1.ObjectReference{APIVersion: "fleet.atoll.dev/v1alpha1", Kind: "Manifest", Namespace: namespace, Name: "said"},
		Reason:         "Said", Message: "an admin reads this", Type: corev1.EventTypeWarning,
	}
}

// saysNothingElsewhere writes events for admins to read.
func saysNothingElsewhere(ctx context.Context, who clients, mine, theirs *fleetv1alpha1.Manifest) error {
	own := scope.With(ctx, scope.Scope{Cluster: scope.Root, Target: Mallory})
	for _, namespace := range []string{theirs.Namespace, fleetv1alpha1.LeaseNamespace, metav1.NamespaceDefault, metav1.NamespaceSystem, "made-up"} {
		_, err := who.kube.CoreV1().Events(namespace).Create(own, eventIn(namespace), metav1.CreateOptions{})
		if err := refusedTo("an event in "+namespace, err); err != nil {
			return err
		}
	}
	said, err := who.kube.CoreV1().Events(mine.Namespace).Create(own, eventIn(mine.Namespace), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("an event where its own Manifest is: %w", err)
	}
	return refusedTo("deleting an event", who.kube.CoreV1().Events(mine.Namespace).Delete(own, said.Name, metav1.DeleteOptions{}))
}
