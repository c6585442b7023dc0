package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/admission/protect"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// create re-enacts a request of a user through admission: protect, place, stamp,
// store.
func (c *control) create(by string, u *unstructured.Unstructured, pause func()) error {
	gr, cluster, u := resourceOf(u), clusterOf(u), u.DeepCopy()
	protect.Create(u)
	in(cluster, u)
	if err := c.stampOn(u, true, pause); err != nil {
		return err
	}
	pause()
	created, err := c.world.api.Create(by, gr, u)
	if err == nil {
		c.world.say("created %s %s targets %s", c.world.api.KeyOf(gr, created), created.GetUID(), targetsText(created))
	}
	return err
}

// stampOn gives an object of a placed kind its targets, if its namespace has a
// decision or can have one now.
func (c *control) stampOn(u *unstructured.Unstructured, decide bool, pause func()) error {
	gr := resourceOf(u)
	if kindOf(gr).Role != workload.Placed || !stamp.GoesDown(kindOf(gr), clusterOf(u), u) || u.GetDeletionTimestamp() != nil {
		return nil
	}
	key := namespaceOf(c.world.api.KeyOf(gr, u))
	clusters := c.known(key, decide)
	if clusters == nil && decide && !stamp.HasTargets(u) {
		var err error
		if clusters, err = c.decide(key, u, pause); err != nil {
			return err
		}
	}
	if clusters != nil {
		stamp.Set(u, stamp.Targets(kindOf(gr), clusterOf(u), u, stamp.Source{Unit: stamp.On(clusters)}))
	}
	return nil
}

// known is the decision that the caches of the server have. What they say about
// a namespace counts only if it was not deleted lately.
func (c *control) known(namespace kube.Key, create bool) []string {
	p, ok := c.informers[placements].Get(placementOf(namespace)).(*placementv1alpha1.Placement)
	ns := c.informers[namespaces].Get(namespace)
	if left, ok := c.leaving[namespace]; create && (ok && c.world.now.Before(left) || ns == nil || ns.GetDeletionTimestamp() != nil) {
		ns = c.world.api.Find(namespace)
	}
	if !ok || ns == nil || !belongsTo(p, ns.GetUID()) {
		return nil
	}
	return decided(p)
}

func placementOf(namespace kube.Key) kube.Key {
	return kube.Key{Resource: placements, Cluster: namespace.Cluster, Namespace: namespace.Name, Name: placementv1alpha1.NamespaceUnit}
}

func decided(p *placementv1alpha1.Placement) []string {
	if p == nil || p.Spec.Decision == nil {
		return nil
	}
	var clusters []string
	for _, d := range p.Spec.Decision.PhysicalClusters {
		clusters = append(clusters, d.Name)
	}
	return clusters
}

func belongsTo(p *placementv1alpha1.Placement, namespace types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner == nil || owner.UID == namespace
}

// decide re-enacts the decider of admission: whoever stores first wins.
func (c *control) decide(key kube.Key, u *unstructured.Unstructured, pause func()) (clusters []string, err error) {
	for range 5 {
		pause()
		namespace := cast(c.world.api.Find(key))
		switch {
		case namespace == nil:
			return nil, apierrors.NewNotFound(namespaces, key.Name)
		case namespace.GetDeletionTimestamp() != nil:
			return nil, errors.New("the namespace is being terminated")
		}
		if clusters, err = c.try(key, namespace, u, pause); err == nil {
			return clusters, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	return nil, err
}

func (c *control) try(key kube.Key, namespace, u *unstructured.Unstructured, pause func()) ([]string, error) {
	stored, _ := c.world.api.Find(placementOf(key)).(*placementv1alpha1.Placement)
	if stored != nil && !belongsTo(stored, namespace.GetUID()) {
		pause()
		err := c.world.api.Delete(system, placementOf(key), kube.DeleteOptions{UID: stored.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		stored = nil
	}
	if clusters := decided(stored); clusters != nil && !c.world.bugs.redecides {
		return clusters, c.stampNamespace(namespace, clusters, pause)
	}
	snapshot, unit, err := c.read(key, namespace, u)
	if err != nil {
		return nil, err
	}
	decision := c.world.bugs.Decide(snapshot, unit)
	c.world.ledger.decides(snapshot, decision)
	pause()
	if err := c.store(key, namespace, stored, decision); err != nil {
		return nil, err
	}
	if !decision.Possible() {
		return nil, nil
	}
	return decision.PhysicalClusters, c.stampNamespace(namespace, decision.PhysicalClusters, pause)
}

// read assembles what Decide looks at.
func (c *control) read(key kube.Key, namespace, u *unstructured.Unstructured) (placement.Snapshot, placement.Unit, error) {
	var s placement.Snapshot
	for _, o := range c.world.api.List(physicalClusters) {
		pc := placement.PhysicalCluster{PhysicalCluster: o.(*fleetv1alpha1.PhysicalCluster)}
		for _, p := range c.informers[placements].All() {
			if slices.Contains(decided(p.(*placementv1alpha1.Placement)), pc.Name) {
				pc.Placements++
			}
		}
		s.PhysicalClusters = append(s.PhysicalClusters, pc)
	}
	// Namespaces of the logical cluster "two" run on two physical clusters.
	two := int32(2)
	policy := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "twice"}}
	policy.Spec.LogicalClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"name": "two"}}
	policy.Spec.Count = &two
	s.Policies = []placement.Policy{{ClusterPlacementPolicy: policy, Level: placement.Global}}
	kind := kindOf(resourceOf(u))
	unit := placement.Unit{
		LogicalCluster: key.Cluster, LogicalClusterLabels: map[string]string{"name": key.Cluster.String()},
		Namespace: namespace.GetName(), NamespaceLabels: namespace.GetLabels(),
		Pin:  namespace.GetAnnotations()[placementv1alpha1.PhysicalClusterAnnotation],
		APIs: []string{kind.API()}, StorageClasses: workload.StorageClasses(kind, u.Object),
	}
	var err error
	unit.Requests, err = workload.Requests(kind, u.Object)
	return s, unit, err
}

func (c *control) store(key kube.Key, namespace *unstructured.Unstructured, stored *placementv1alpha1.Placement, d placement.Decision) error {
	if stored != nil {
		if !d.Possible() {
			return nil
		}
		stored = stored.DeepCopy()
		stored.Spec.Decision = d.API()
		_, err := c.world.api.Update(system, placements, stored)
		return err
	}
	owner := kube.OwnerOf(namespace)
	p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Name, Name: placementv1alpha1.NamespaceUnit, OwnerReferences: []metav1.OwnerReference{owner},
		Annotations: map[string]string{"kcp.io/cluster": key.Cluster.String()},
	}}
	p.Spec.Decision = d.API()
	c.world.say("decided %s: %s", key, d.Message())
	_, err := c.world.api.Create(system, placements, p)
	return err
}

// stampNamespace stamps a Namespace as it was read.
func (c *control) stampNamespace(read *unstructured.Unstructured, clusters []string, pause func()) error {
	text := stamp.Restamp(read, func(o metav1.Object) {
		stamp.Set(o, stamp.Targets(kindOf(namespaces), clusterOf(read), o, stamp.Source{Unit: stamp.On(clusters)}))
		stamp.NamePhysicalNamespace(o, controlPlane, clusterOf(read))
	})
	if text == nil {
		return nil
	}
	var patch metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &patch); err != nil {
		return err
	}
	pause()
	live := cast(c.world.api.Find(kube.Key{Resource: namespaces, Cluster: clusterOf(read), Name: read.GetName()}))
	switch {
	case live == nil:
		return apierrors.NewNotFound(namespaces, read.GetName())
	case live.GetUID() != patch.UID || live.GetResourceVersion() != patch.ResourceVersion:
		return apierrors.NewConflict(namespaces, read.GetName(), fmt.Errorf("it was changed"))
	}
	u := live.DeepCopy()
	annotations := u.GetAnnotations()
	for k, v := range patch.Annotations {
		annotations[k] = v
	}
	u.SetAnnotations(annotations)
	for _, f := range patch.Finalizers {
		if !slices.Contains(u.GetFinalizers(), f) {
			u.SetFinalizers(append(u.GetFinalizers(), f))
		}
	}
	_, err := c.world.api.Update(system, namespaces, u)
	return err
}

// place re-enacts pkg/placement/controller for one Namespace.
func (c *control) place(key kube.Key, pause func()) (time.Duration, error) {
	pause()
	p, ok := c.informers[placements].Get(placementOf(key)).(*placementv1alpha1.Placement)
	namespace := cast(c.informers[namespaces].Get(key))
	if !ok || namespace == nil || !belongsTo(p, namespace.GetUID()) || namespace.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	var pending []kube.Key
	for _, gr := range content {
		for _, o := range c.informers[gr].All() {
			if k := c.world.api.KeyOf(gr, o); namespaceOf(k) == key && len(targetsOf(o)) == 0 &&
				kindOf(gr).Role == workload.Placed && o.GetDeletionTimestamp() == nil {
				pending = append(pending, k)
			}
		}
	}
	if decided(p) == nil {
		if len(pending) == 0 {
			return 0, nil
		}
		return 30 * time.Second, c.poke(pending[0], pause)
	}
	if err := c.stampNamespace(namespace, decided(p), pause); err != nil && !apierrors.IsNotFound(err) {
		return 0, err
	}
	for _, k := range pending {
		if err := c.poke(k, pause); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// poke sends an object through admission.
func (c *control) poke(key kube.Key, pause func()) error {
	pause()
	obj := cast(c.world.api.Find(key))
	if obj == nil {
		return nil
	}
	u := obj.DeepCopy()
	if err := c.stampOn(u, true, pause); err != nil {
		return err
	}
	_, err := c.world.api.Update(system, key.Resource, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// refer re-enacts pkg/controllers/references: a ConfigMap goes where something
// refers to it.
func (c *control) refer(key kube.Key, pause func()) (time.Duration, error) {
	pause()
	obj := c.informers[configMaps].Get(key)
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	wanted, kept := c.needs(key, func(schema.GroupResource, kube.Object) bool { return true })
	for name := range wanted {
		if _, ok := targetsOf(obj)[name]; !ok {
			pause()
			wanted, kept = c.needs(key, c.present)
			break
		}
	}
	targets := placementv1alpha1.Targets{}
	for name, t := range targetsOf(obj) {
		if t.State == placementv1alpha1.TargetSync && !wanted[name] && !kept[name] {
			t = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		}
		targets[name] = t
	}
	for name := range wanted {
		if _, ok := targets[name]; !ok {
			targets[name] = placementv1alpha1.Target{}
		}
	}
	if targets.String() == targetsText(obj) {
		return 0, nil
	}
	pause()
	c.world.say("references: %s -> %s", key, targets)
	return 0, c.retarget(changed(obj), targets)
}

// needs are the targets on which a ConfigMap is needed, and those where it is for a
// while, by what refers to it and counts.
func (c *control) needs(key kube.Key, counts func(schema.GroupResource, kube.Object) bool) (wanted, kept map[string]bool) {
	wanted, kept = map[string]bool{}, map[string]bool{}
	for _, kind := range []workload.Kind{kindOf(deployments), kindOf(jobs), kindOf(pods)} {
		gr := kind.GroupResource()
		for _, holder := range c.informers[gr].All() {
			if namespaceOf(c.world.api.KeyOf(gr, holder)) != namespaceOf(key) || !counts(gr, holder) ||
				!slices.Contains(workload.References(kind, cast(holder).Object), workload.Reference{Resource: configMaps, Name: key.Name}) {
				continue
			}
			for name, t := range targetsOf(holder) {
				switch t.State {
				case placementv1alpha1.TargetSync:
					wanted[name] = true
				case placementv1alpha1.TargetStateRemoving:
					kept[name] = true
				}
			}
		}
	}
	return wanted, kept
}

// present asks the store whether what refers to something is there now.
func (c *control) present(gr schema.GroupResource, holder kube.Object) bool {
	live := c.world.api.Find(c.world.api.KeyOf(gr, holder))
	return live != nil && live.GetUID() == holder.GetUID()
}

// retarget writes targets and finalizer on the version that was read.
func (c *control) retarget(u *unstructured.Unstructured, targets placementv1alpha1.Targets) error {
	annotations := u.GetAnnotations()
	annotations[placementv1alpha1.TargetsAnnotation] = targets.String()
	u.SetAnnotations(annotations)
	if !slices.Contains(u.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
		u.SetFinalizers(append(u.GetFinalizers(), placementv1alpha1.CopiesFinalizer))
	}
	_, err := c.world.api.Update(system, resourceOf(u), u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
