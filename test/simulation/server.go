package simulation

import (
	"context"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	_ "k8s.io/kubernetes/pkg/apis/apps/install"        // for admission, which asks what an object needs
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // as above
	_ "k8s.io/kubernetes/pkg/apis/batch/install"       // as above
	_ "k8s.io/kubernetes/pkg/apis/core/install"        // as above
	_ "k8s.io/kubernetes/pkg/apis/networking/install"  // as above
	_ "k8s.io/kubernetes/pkg/apis/policy/install"      // as above

	"github.com/atoll-dev/atoll/pkg/admission"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	copiescontroller "github.com/atoll-dev/atoll/pkg/controllers/copies"
	"github.com/atoll-dev/atoll/pkg/controllers/garbagecollector"
	"github.com/atoll-dev/atoll/pkg/controllers/imports"
	"github.com/atoll-dev/atoll/pkg/controllers/mirrors"
	namespacescontroller "github.com/atoll-dev/atoll/pkg/controllers/namespaces"
	orphanscontroller "github.com/atoll-dev/atoll/pkg/controllers/orphans"
	"github.com/atoll-dev/atoll/pkg/controllers/physicalclusters"
	"github.com/atoll-dev/atoll/pkg/controllers/references"
	"github.com/atoll-dev/atoll/pkg/controllers/status"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	placementcontroller "github.com/atoll-dev/atoll/pkg/placement/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/wire"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// server is a process of the control plane: its watch caches, admission, and the
// controllers. What is stored survives it.
type server struct {
	world *World
	name  string
	store *kube.Server
	front *front
	// line is the way of its own clients.
	line      *line
	ctx       context.Context
	stop      context.CancelFunc
	admission *admission.Chain
	running   sync.WaitGroup
	// restores is how often the database had been restored when it started.
	restores int
}

func schemaInternal(kind workload.Kind) schema.GroupVersion {
	return schema.GroupVersion{Group: kind.Group, Version: "__internal"}
}

// clients of a line.
type clients struct {
	kube     kubernetes.Interface
	atoll    versioned.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

func config(l *line, agent string) *rest.Config {
	return &rest.Config{
		Host: "http://server", Transport: l, UserAgent: agent, QPS: -1, WarningHandler: rest.NoWarnings{},
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// newClients are those of a part of a process: two that want the same at once differ by agent, so that
// a world does not depend on which of them came first.
func newClients(l *line, agent string) clients {
	c := scope.ScopedConfig(config(l, agent))
	objects, err := wire.NewDynamic(c)
	if err != nil {
		panic(err)
	}
	return clients{
		kube: kubernetes.NewForConfigOrDie(c), atoll: versioned.NewForConfigOrDie(c),
		dynamic: objects, metadata: metadata.NewForConfigOrDie(c),
	}
}

// startServer starts a process of the control plane.
func (w *World) startServer(name string) {
	s := &server{world: w, name: name, store: w.api, restores: w.restores}
	s.ctx, s.stop = context.WithCancel(w.ctx)
	s.front = newFront(w, name, w.api)
	s.front.server = s
	s.line = newLine(w, name, system, func() *front { return s.front })
	w.servers = append(w.servers, s)
	s.compose(newClients(s.line, ""))
}

// stopServer kills a process of the control plane: between any two requests that it
// makes of the database.
func (w *World) stopServer(s *server) {
	s.line.die()
	s.stop()
	for i, other := range w.servers {
		if other == s {
			w.servers = append(w.servers[:i:i], w.servers[i+1:]...)
			break
		}
	}
	for _, t := range w.streams {
		if t.front == s.front {
			t.end(errUnreachable)
			w.wait()
		}
	}
}

// compose joins informers, admission and controllers, as cmd/atoll does.
func (s *server) compose(c clients) {
	w := s.world
	informers := informersOf(c)
	id := func(context.Context) (string, error) { return controlPlane, nil }
	own, err := admission.New(admission.Config{
		Kube: c.kube, Client: c.atoll, Metadata: c.metadata, Dynamic: c.dynamic,
		Namespaces: informers.namespaces, PhysicalClusters: informers.physicalClusters, Placements: informers.placements,
		LogicalClusters: informers.logicalClusters, Policies: informers.policies, NamespacePolicies: informers.nsPolicies, ControlPlane: id, Kinds: kinds, Copies: w.copiesFor(informers), Decide: w.bugs.Decide(w),
	})
	if err != nil {
		panic(err)
	}
	s.admission = own
	var watched []schema.GroupVersionResource
	for _, kind := range kinds.Kinds() {
		watched = append(watched, kind.GroupVersionResource())
	}
	if w.imports {
		watched = append(watched, discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), placementv1alpha1.SchemeGroupVersion.WithResource("serviceimports"), placementv1alpha1.SchemeGroupVersion.WithResource("podimports"))
	}
	all := controller.NewMetadata(c.metadata, watched, garbagecollector.Indexers())
	mapper := newMapper()
	for _, i := range informers.all() {
		s.run(i)
	}
	s.run(all)
	s.running.Go(func() {
		for _, i := range append(informers.all(), all) {
			if i.WaitForSync(s.ctx) != nil {
				return
			}
		}
		ends := newClients(s.line, "mirrors")
		for _, r := range []runner{
			namespacescontroller.New(namespacescontroller.Config{Kube: c.kube, Client: newOrdered(c.metadata, w.served()), Kinds: kinds, Metadata: all, Discover: w.discover,
				Elsewhere: nowhere{}, Clusters: informers.logicalClusters}),
			garbagecollector.New(garbagecollector.Config{Client: c.metadata, Metadata: all,
				Mapper: func(context.Context, logicalcluster.Name) (meta.RESTMapper, error) { return mapper, nil }}),
			placementcontroller.New(placementcontroller.Config{Kube: c.kube, Client: c.atoll, Metadata: c.metadata, Dynamic: c.dynamic, Kinds: kinds,
				Namespaces: informers.namespaces, PhysicalClusters: informers.physicalClusters, Policies: informers.policies,
				LogicalClusters: informers.logicalClusters, NamespacePolicies: informers.nsPolicies, Placements: informers.placements, Copies: informers.copies, Objects: all, Next: w.bugs.next, Release: w.bugs.giveUp,
				Answer: w.answer}),
			references.New(references.Config{Dynamic: c.dynamic, Metadata: c.metadata, Kinds: kinds, Objects: all, ServiceAccounts: informers.serviceAccounts}),
			physicalclusters.New(physicalclusters.Config{Kube: c.kube, Client: c.atoll, Kinds: kinds,
				PhysicalClusters: informers.physicalClusters, Leases: informers.leases, Copies: informers.copies,
				Placements: informers.placements, Objects: all, ControlPlane: id}),
			orphanscontroller.New(orphanscontroller.Config{Client: c.atoll, Metadata: c.metadata, Kinds: kinds, Orphans: informers.orphans,
				PhysicalClusters: informers.physicalClusters}),
			status.New(status.Config{Dynamic: c.dynamic, Kinds: kinds, Copies: informers.copies, Metadata: all, PhysicalClusters: informers.physicalClusters, Summarize: w.bugs.Summarize()}),
			copiescontroller.New(copiescontroller.Config{Client: c.atoll, MetadataClient: c.metadata, Dynamic: c.dynamic, Kinds: kinds, Copies: informers.copies,
				Metadata: all, PhysicalClusters: informers.physicalClusters, Decide: w.bugs.Release()}),
			mirrors.New(mirrors.Config{Client: ends.atoll, MetadataClient: ends.metadata, Kinds: kinds, Metadata: all, PhysicalClusters: informers.physicalClusters}),
		} {
			s.run(r)
		}
		if w.imports {
			c := newClients(s.line, "imports")
			s.run(imports.New(imports.Config{Kube: c.kube, Client: c.atoll, Objects: all, Namespaces: informers.namespaces, PhysicalClusters: informers.physicalClusters}))
		}
		w.say("%s: ready", s.name)
	})
}

type runner interface{ Run(context.Context) }

type syncedRunner interface {
	runner
	WaitForSync(context.Context) error
}

func (s *server) run(r runner) { s.running.Go(func() { r.Run(s.ctx) }) }

// informers are those that cmd/atoll has.
type informers struct {
	namespaces       *controller.Informer[*corev1.Namespace]
	logicalClusters  *controller.Informer[*tenancyv1alpha1.LogicalCluster]
	physicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	placements       *controller.Informer[*placementv1alpha1.Placement]
	policies         *controller.Informer[*placementv1alpha1.ClusterPlacementPolicy]
	nsPolicies       *controller.Informer[*placementv1alpha1.PlacementPolicy]
	copies           *controller.Informer[*placementv1alpha1.Copy]
	orphans          *controller.Informer[*fleetv1alpha1.Orphan]
	leases           *controller.Informer[*coordinationv1.Lease]
	serviceAccounts  *controller.Informer[*corev1.ServiceAccount]
}

func informersOf(c clients) informers {
	return informers{
		namespaces: controller.NewInformer("namespaces", &corev1.Namespace{},
			controller.Lists(c.kube.CoreV1().Namespaces()), controller.InformerOptions[*corev1.Namespace]{}),
		logicalClusters: controller.NewInformer("logicalclusters", &tenancyv1alpha1.LogicalCluster{},
			controller.Lists(c.atoll.TenancyV1alpha1().LogicalClusters()), controller.InformerOptions[*tenancyv1alpha1.LogicalCluster]{}),
		physicalClusters: controller.NewInformer("physicalclusters", &fleetv1alpha1.PhysicalCluster{},
			controller.Lists(c.atoll.FleetV1alpha1().PhysicalClusters()), controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{}),
		placements: controller.NewInformer("placements", &placementv1alpha1.Placement{},
			controller.Lists(c.atoll.PlacementV1alpha1().Placements("")), controller.InformerOptions[*placementv1alpha1.Placement]{Indexers: placementcontroller.Indexers()}),
		policies: controller.NewInformer("policies", &placementv1alpha1.ClusterPlacementPolicy{},
			controller.Lists(c.atoll.PlacementV1alpha1().ClusterPlacementPolicies()), controller.InformerOptions[*placementv1alpha1.ClusterPlacementPolicy]{}),
		nsPolicies: controller.NewInformer("namespacepolicies", &placementv1alpha1.PlacementPolicy{},
			controller.Lists(c.atoll.PlacementV1alpha1().PlacementPolicies("")), controller.InformerOptions[*placementv1alpha1.PlacementPolicy]{}),
		copies: controller.NewInformer("copies", &placementv1alpha1.Copy{},
			controller.Lists(c.atoll.PlacementV1alpha1().Copies("")), controller.InformerOptions[*placementv1alpha1.Copy]{Indexers: copyindex.Indexers()}),
		orphans: controller.NewInformer("orphans", &fleetv1alpha1.Orphan{},
			controller.Lists(c.atoll.FleetV1alpha1().Orphans()), controller.InformerOptions[*fleetv1alpha1.Orphan]{Indexers: orphanscontroller.Indexers()}),
		leases: controller.NewInformer("leases", &coordinationv1.Lease{},
			controller.Lists(c.kube.CoordinationV1().Leases("")), controller.InformerOptions[*coordinationv1.Lease]{}),
		serviceAccounts: controller.NewInformer("serviceaccounts", &corev1.ServiceAccount{},
			controller.Lists(c.kube.CoreV1().ServiceAccounts("")), controller.InformerOptions[*corev1.ServiceAccount]{}),
	}
}

func (i informers) all() []syncedRunner {
	return []syncedRunner{i.namespaces, i.logicalClusters, i.physicalClusters, i.placements, i.policies, i.nsPolicies, i.copies, i.orphans, i.leases, i.serviceAccounts}
}

func newMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for gvr, res := range resources {
		s := meta.RESTScope(meta.RESTScopeRoot)
		if res.namespaced {
			s = meta.RESTScopeNamespace
		}
		m.AddSpecific(res.gvk(), gvr, gvr, s)
	}
	return m
}

// answer is what a physical cluster answers through the tunnel of its syncer that is asked whether it is there.
func (w *World) answer(_ context.Context, name string) (known bool, err error) {
	p := w.cluster(name)
	if p == nil || p.dead || p.upCut || p.downCut || len(p.syncers) == 0 || p.behind != p.front {
		return true, errUnreachable
	}
	return true, nil
}

// discover lists what logical clusters serve in namespaces.
func (w *World) discover(context.Context, logicalcluster.Name) ([]*metav1.APIResourceList, error) {
	return w.served(), nil
}

func (w *World) served() []*metav1.APIResourceList {
	if w.content == nil {
		list := slices.Clone(onPhysical)
		for _, gr := range copied {
			if has, _ := w.optional(gr); has {
				list = append(list, gr.Resource)
			}
		}
		w.content = contentOf(list)
	}
	return w.content
}

// copiesFor is where admission finds the volumes of claims, and how many runs of what is scaled; worlds without these are what
// they were before there were any.
func (w *World) copiesFor(i informers) *controller.Informer[*placementv1alpha1.Copy] {
	if w.volumes || w.scales {
		return i.copies
	}
	return nil
}

func contentOf(served []string) []*metav1.APIResourceList {
	groups := map[schema.GroupVersion]*metav1.APIResourceList{}
	var out []*metav1.APIResourceList
	add := func(res *resource) {
		l := groups[res.GroupVersion()]
		if l == nil {
			l = &metav1.APIResourceList{GroupVersion: res.GroupVersion().String()}
			groups[res.GroupVersion()] = l
			out = append(out, l)
		}
		l.APIResources = append(l.APIResources, metav1.APIResource{
			Name: res.Resource, Kind: res.kind, Group: res.Group, Version: res.Version, Namespaced: res.namespaced,
			Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
		})
	}
	for _, kind := range kinds.Kinds() {
		if slices.Contains(served, kind.Resource) {
			add(resources[kind.GroupVersionResource()])
		}
	}
	add(resources[corev1.SchemeGroupVersion.WithResource("events")])
	add(resources[placementv1alpha1.SchemeGroupVersion.WithResource("copies")])
	add(resources[placementv1alpha1.SchemeGroupVersion.WithResource("placements")])
	return out
}

// nowhere are the other servers that the logical clusters do not have.
type nowhere struct{}

func (nowhere) Has(logicalcluster.Name) bool             { return false }
func (nowhere) Unknown(logicalcluster.Name) error        { return nil }
func (nowhere) Forget(logicalcluster.Name, string)       {}
func (nowhere) Notify(func(logicalcluster.Name, string)) {}
func (nowhere) Sweep(context.Context, logicalcluster.Name, string, types.UID) (map[schema.GroupVersionResource][]metav1.PartialObjectMetadata, map[schema.GroupVersionResource]error, error, bool) {
	return nil, nil, nil, true
}
