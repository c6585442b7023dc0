package report

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	resourcehelper "k8s.io/component-helpers/resource"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// inventory knows what the physical cluster has. Nodes, storage classes and the
// requests of pods are watched; the version and the served resources are asked
// for, and so are other classes, as a watch that is forbidden would hold up the rest.
type inventory struct {
	down    connection.Physical
	nodes   *controller.Informer[*corev1.Node]
	pods    *controller.Informer[*corev1.Pod]
	classes *controller.Informer[*storagev1.StorageClass]
	synced  atomic.Bool
	// allowance bounds what is held of them.
	allowance *controller.Allowance

	// What was served when it was last asked for, by look only.
	served   []string
	servedAt time.Time
	// forbidden are the declared kinds that may not be listed, of those of kinds.
	forbidden []string
	kinds     workload.Catalog
	// runtimes is what RuntimeClasses offered then, with these permits.
	runtimes runtimes
	permits  fleetv1alpha1.Tenancy
	// offered are the other classes that were there then, and snapshots those of snapshots.
	offered   boundary.Classes
	snapshots *fleetv1alpha1.ReportedSnapshotClasses
}

// runtimes is what the RuntimeClasses of the physical cluster offer that pods may run with.
type runtimes struct {
	// handlers are theirs; nil: not known.
	handlers *fleetv1alpha1.ReportedNames
	// digest changes whenever a class does, permitted or not; empty: not known. Copies may have met
	// what was there for a moment between two looks.
	digest string
}

// apisTTL is how long the list of served resources is believed.
const apisTTL = 30 * time.Second

// survey is one look at the physical cluster.
type survey struct {
	version             string
	apis                []string
	forbidden           []string
	runtimes            runtimes
	offered             boundary.Classes
	snapshots           *fleetv1alpha1.ReportedSnapshotClasses
	watched             bool // the fields below are known
	nodes               int32
	podCIDRs, nodeCIDRs []string
	capacity            corev1.ResourceList
	allocatable         corev1.ResourceList
	requested           corev1.ResourceList
	storageClasses      []string
	defaultStorageClass string
}

// mostInventory is what is held of nodes, pods and storage classes: of pods there is no more
// than what they request.
var mostInventory = controller.Held{Objects: 500_000, Bytes: 512 << 20}

func newInventory(down connection.Physical) *inventory {
	allowance := controller.NewAllowance(mostInventory, func(context.Context) controller.Held { return mostInventory })
	return &inventory{
		down: down, allowance: allowance,
		nodes: controller.NewInformer("nodes", &corev1.Node{}, controller.Lists(down.Kube.CoreV1().Nodes()),
			controller.InformerOptions[*corev1.Node]{
				Unscoped: true, Server: down.Server, Allowance: allowance, Metadata: connection.ListMetadata(down.Metadata, corev1.SchemeGroupVersion.WithResource("nodes")),
			}),
		pods: controller.NewInformer("pods of everybody", &corev1.Pod{}, controller.Lists(down.Kube.CoreV1().Pods(metav1.NamespaceAll)),
			controller.InformerOptions[*corev1.Pod]{
				Unscoped: true, Server: down.Server, Allowance: allowance, Metadata: connection.ListMetadata(down.Metadata, corev1.SchemeGroupVersion.WithResource("pods")),
				Transform: requestsOnly,
			}),
		classes: controller.NewInformer("storage classes", &storagev1.StorageClass{}, controller.Lists(down.Kube.StorageV1().StorageClasses()),
			controller.InformerOptions[*storagev1.StorageClass]{
				Unscoped: true, Server: down.Server, Allowance: allowance, Metadata: connection.ListMetadata(down.Metadata, storagev1.SchemeGroupVersion.WithResource("storageclasses")),
			}),
	}
}

// run keeps the watches until ctx is done; changed is called when something that
// is reported changed.
func (i *inventory) run(ctx context.Context, changed func()) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { i.nodes.Run(ctx) })
	running.Go(func() { i.pods.Run(ctx) })
	running.Go(func() { i.classes.Run(ctx) })
	for _, wait := range []func(context.Context) error{i.nodes.WaitForSync, i.pods.WaitForSync, i.classes.WaitForSync} {
		if wait(ctx) != nil {
			return
		}
	}
	i.synced.Store(true)
	i.nodes.Handle(func(old, new *corev1.Node) {
		if old == nil || new == nil || usable(old) != usable(new) || !slices.Equal(old.Spec.PodCIDRs, new.Spec.PodCIDRs) || !sameResources(old.Status.Allocatable, new.Status.Allocatable) {
			changed()
		}
	})
	i.classes.Handle(func(_, _ *storagev1.StorageClass) { changed() })
	i.pods.Handle(func(old, new *corev1.Pod) {
		if old == nil || new == nil || counts(old) != counts(new) {
			changed()
		}
	})
}

// unwatched is what there is no watch of.
func (i *inventory) unwatched() (all []syncer.Unwatched) {
	for _, informer := range []interface {
		Outage() (controller.Outage, bool)
	}{i.nodes, i.pods, i.classes} {
		if o, ok := informer.Outage(); ok {
			all = append(all, syncer.Unwatched{Objects: o.Name, Since: o.Since, Err: o.Err})
		}
	}
	return all
}

// survey takes the inventory of the cluster that is meant. Until the watches begin,
// what is served is known, and no more.
func (r *Reporter) survey(ctx context.Context, permits fleetv1alpha1.Tenancy) (survey, *syncer.Failure) {
	r.mu.Lock()
	inv := r.inv
	r.mu.Unlock()
	if inv == nil {
		inv = newInventory(r.down)
	}
	var kinds workload.Catalog
	if r.kinds != nil {
		kinds = r.kinds.Current()
	}
	return inv.look(ctx, kinds, permits)
}

// look asks the physical cluster whether it is there.
func (i *inventory) look(ctx context.Context, kinds workload.Catalog, permits fleetv1alpha1.Tenancy) (survey, *syncer.Failure) {
	ctx, cancel := context.WithTimeout(ctx, connection.QuestionTimeout)
	defer cancel()
	answer, err := i.down.Kube.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return survey{}, syncer.ContactFailure(err)
	}
	var v version.Info
	if err := decodeVersion(answer, &v); err != nil {
		return survey{}, &syncer.Failure{Reason: fleetv1alpha1.ReasonUnreachable, Message: "the address does not belong to a Kubernetes API server"}
	}
	s := survey{version: v.GitVersion}
	if err := i.ask(ctx, kinds, permits); err != nil {
		return survey{}, syncer.ContactFailure(err)
	}
	s.apis, s.forbidden, s.runtimes, s.offered, s.snapshots = i.served, i.forbidden, i.runtimes, i.offered, i.snapshots
	if i.synced.Load() {
		i.count(&s)
	}
	return s, nil
}

// ask finds out what is served and offered, unless that was asked a moment ago.
func (i *inventory) ask(ctx context.Context, kinds workload.Catalog, permits fleetv1alpha1.Tenancy) error {
	if time.Since(i.servedAt) <= apisTTL && i.kinds == kinds && equality.Semantic.DeepEqual(i.permits, permits) {
		return nil
	}
	var err error
	if i.served, err = i.apis(ctx); err != nil {
		return err
	}
	i.forbid(ctx, kinds)
	i.runtimes = i.runtimeClasses(ctx, permits)
	i.offered.Ingress = i.names(ctx, networkingv1.SchemeGroupVersion.WithResource("ingressclasses"), i.offered.Ingress)
	i.offered.Priority = i.names(ctx, schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), i.offered.Priority)
	i.snapshots = i.snapshotClasses(ctx)
	i.servedAt, i.kinds, i.permits = time.Now(), kinds, permits
	return nil
}

// apis are the served resources, sorted. A group whose extension server is down
// is left out, as nothing of it can be made.
func (i *inventory) apis(ctx context.Context) ([]string, error) {
	_, lists, err := discovery.ToDiscoveryInterfaceWithContext(i.down.Kube.Discovery()).ServerGroupsAndResourcesWithContext(ctx)
	switch {
	case ctx.Err() != nil: // groups that were not asked for any more have not failed
		return nil, context.Cause(ctx)
	case err != nil && !discovery.IsGroupDiscoveryFailedError(err):
		return nil, err
	}
	var apis []string
	for _, l := range lists {
		gv := l.GroupVersion
		if !strings.Contains(gv, "/") {
			gv = "/" + gv
		}
		for _, r := range l.APIResources {
			if !strings.Contains(r.Name, "/") {
				apis = append(apis, gv+"/"+r.Name)
			}
		}
	}
	slices.Sort(apis)
	return slices.Compact(apis), nil
}

// forbid takes off what is served the declared kinds that may not be listed: it counts as
// not served, as nothing of it can be watched.
func (i *inventory) forbid(ctx context.Context, kinds workload.Catalog) {
	i.forbidden = nil
	for _, kind := range kinds.Declared() {
		at, served := slices.BinarySearch(i.served, kind.API())
		if !served {
			continue
		}
		_, err := i.down.Metadata.Resource(kind.GroupVersionResource()).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsForbidden(err) {
			i.served = slices.Delete(i.served, at, at+1)
			i.forbidden = append(i.forbidden, kind.GroupResource().String())
		}
	}
}

// runtimeClasses are those that pods may run with, their handlers sorted. Whose classes may not be
// listed, or are more than may be reported, is not known to offer anything; an answer that did not come says
// nothing new.
func (i *inventory) runtimeClasses(ctx context.Context, permits fleetv1alpha1.Tenancy) runtimes {
	classes, err := i.down.Kube.NodeV1().RuntimeClasses().List(ctx, metav1.ListOptions{Limit: fleetv1alpha1.MaxReportedNames})
	switch {
	case syncer.IsSilence(err):
		return i.runtimes
	case err != nil || tooMany(classes.Continue, len(classes.Items)):
		return runtimes{}
	}
	offered, digest := &fleetv1alpha1.ReportedNames{}, sha256.New()
	for _, c := range classes.Items {
		fmt.Fprintf(digest, "%q %q\n", c.Name, c.ResourceVersion)
	}
	for _, c := range syncer.RuntimeClasses(classes.Items, permits) {
		offered.Names = append(offered.Names, c.Handler)
	}
	slices.Sort(offered.Names)
	offered.Names = slices.Compact(offered.Names)
	return runtimes{offered, hex.EncodeToString(digest.Sum(nil))}
}

// names are those of a resource of the whole physical cluster, sorted, by the rules of runtimeClasses: known before is what
// an answer that did not come leaves.
func (i *inventory) names(ctx context.Context, resource schema.GroupVersionResource, known *fleetv1alpha1.ReportedNames) *fleetv1alpha1.ReportedNames {
	list, err := i.down.Metadata.Resource(resource).List(ctx, metav1.ListOptions{Limit: fleetv1alpha1.MaxReportedNames})
	switch {
	case syncer.IsSilence(err):
		return known
	case err != nil || tooMany(list.Continue, len(list.Items)):
		return nil
	}
	out := &fleetv1alpha1.ReportedNames{}
	for _, item := range list.Items {
		out.Names = append(out.Names, item.Name)
	}
	slices.Sort(out.Names)
	out.Names = slices.Compact(out.Names)
	return out
}

// snapshotClasses are those of the physical cluster, by the rules of names, without the parameters and annotations
// that name Secrets. Where they are not served nobody is asked.
func (i *inventory) snapshotClasses(ctx context.Context) *fleetv1alpha1.ReportedSnapshotClasses {
	gvr := syncer.SnapshotClasses
	if _, served := slices.BinarySearch(i.served, gvr.GroupVersion().String()+"/"+gvr.Resource); !served {
		return nil
	}
	list, err := i.down.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: fleetv1alpha1.MaxReportedNames})
	switch {
	case syncer.IsSilence(err):
		return i.snapshots
	case err != nil || tooMany(list.GetContinue(), len(list.Items)):
		return nil
	}
	out := &fleetv1alpha1.ReportedSnapshotClasses{}
	for _, item := range list.Items {
		driver, _, _ := unstructured.NestedString(item.Object, "driver")
		policy, _, _ := unstructured.NestedString(item.Object, "deletionPolicy")
		out.Classes = append(out.Classes, fleetv1alpha1.SnapshotClass{Name: item.GetName(), Driver: driver, DeletionPolicy: policy})
	}
	slices.SortFunc(out.Classes, func(a, b fleetv1alpha1.SnapshotClass) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// tooMany says that a list, of which there may be more, has more than may be reported.
func tooMany(more string, n int) bool { return more != "" || n > fleetv1alpha1.MaxReportedNames }

func (i *inventory) count(s *survey) {
	s.watched = true
	s.capacity, s.allocatable, s.requested = corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	var ranges []string
	for _, n := range i.nodes.List() {
		ranges = append(ranges, n.Spec.PodCIDRs...)
		add(s.capacity, n.Status.Capacity)
		if usable(n) {
			s.nodes++
			add(s.allocatable, n.Status.Allocatable)
		}
	}
	s.podCIDRs, s.nodeCIDRs = syncer.JoinRanges(ranges), syncer.NodeRanges(ranges)
	if max(len(s.podCIDRs), len(s.nodeCIDRs)) > fleetv1alpha1.MaxPodCIDRs {
		s.podCIDRs, s.nodeCIDRs = nil, nil
	}
	for _, p := range i.pods.List() {
		if counts(p) {
			add(s.requested, resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}))
		}
	}
	for _, c := range i.classes.List() {
		s.storageClasses = append(s.storageClasses, c.Name)
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" && (s.defaultStorageClass == "" || c.Name < s.defaultStorageClass) {
			s.defaultStorageClass = c.Name
		}
	}
	slices.SortFunc(s.storageClasses, func(a, b string) int {
		if (a == s.defaultStorageClass) != (b == s.defaultStorageClass) {
			if a == s.defaultStorageClass {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
}

// fill writes what was seen into a status; quantities that are equal stay as
// they are written.
func (s survey) fill(status *fleetv1alpha1.PhysicalClusterStatus) {
	status.Version, status.APIs, status.Features = s.version, s.apis, syncer.Features(s.version)
	status.RuntimeHandlers, status.IngressClasses, status.PriorityClasses = s.runtimes.handlers, s.offered.Ingress, s.offered.Priority
	status.VolumeSnapshotClasses = s.snapshots
	if !s.watched {
		return
	}
	if len(s.podCIDRs) > 0 { // without nodes there are no pods, but policies stay as they are
		status.PodCIDRs, status.NodeCIDRs = s.podCIDRs, s.nodeCIDRs
	}
	status.Nodes, status.StorageClasses, status.DefaultStorageClass = s.nodes, s.storageClasses, s.defaultStorageClass
	for _, l := range []struct {
		to   *corev1.ResourceList
		from corev1.ResourceList
	}{{&status.Capacity, s.capacity}, {&status.Allocatable, s.allocatable}, {&status.Requested, s.requested}} {
		if !sameResources(*l.to, l.from) {
			*l.to = l.from
		}
	}
}

// usable: new pods can run on the node.
func usable(n *corev1.Node) bool {
	if n.Spec.Unschedulable || n.DeletionTimestamp != nil {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// counts: the pod has a claim on a node.
func counts(p *corev1.Pod) bool {
	return p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// requestsOnly keeps of a pod what it requests and where.
func requestsOnly(obj runtime.Object) (*corev1.Pod, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", obj)
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName, Overhead: p.Spec.Overhead, Resources: p.Spec.Resources},
		Status:     corev1.PodStatus{Phase: p.Status.Phase},
	}
	for _, c := range p.Spec.InitContainers {
		kept.Spec.InitContainers = append(kept.Spec.InitContainers, corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	for _, c := range p.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name, Resources: c.Resources})
	}
	return kept, nil
}

func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

func sameResources(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, ok := b[name]
		if !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
