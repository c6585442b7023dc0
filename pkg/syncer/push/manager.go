package push

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer/agent"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/podadmission"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// recheckInterval is how often the Secret is read again when nothing announced a change.
const recheckInterval = 30 * time.Second

// Config is what a Manager needs.
type Config struct {
	Client versioned.Interface
	Kube   kubernetes.Interface
	// PhysicalClusters holds the PhysicalClusters.
	PhysicalClusters *controller.Informer[*fleetv1alpha1.PhysicalCluster]
	// Secrets, if not nil, tells of changed Secrets at once (only metadata is
	// needed); else they are looked at every 30 s.
	Secrets *controller.Informer[*metav1.PartialObjectMetadata]
	// Kinds are for the agents.
	Kinds workload.Source
	// Upstream is the way to this server, without a scope.
	Upstream *rest.Config
	// Admission is where the API servers of physical clusters ask about pods; nil if they do
	// not.
	Admission *podadmission.Server
}

// Manager runs the agents.
type Manager struct {
	Config
	queue *controller.Controller[controller.Request]
	start func(context.Context, agent.Config) error

	mu      sync.Mutex
	running map[string]running
	agents  sync.WaitGroup
}

// running is one agent and what it was started with.
type running struct {
	uid    types.UID
	digest [sha256.Size]byte
	stop   context.CancelFunc
	done   chan struct{}
}

// New makes a Manager.
func New(c Config) *Manager {
	m := &Manager{Config: c, running: map[string]running{}, start: runAgent}
	m.queue = controller.New("push", 4, m.reconcile)
	return m
}

func runAgent(ctx context.Context, c agent.Config) error {
	a, err := agent.New(c)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// Run works until ctx is done and every agent has ended.
func (m *Manager) Run(ctx context.Context) {
	if m.PhysicalClusters.WaitForSync(ctx) != nil {
		return
	}
	m.PhysicalClusters.Handle(func(old, new *fleetv1alpha1.PhysicalCluster) {
		if old != nil && new != nil && old.Generation == new.Generation && old.UID == new.UID {
			return
		}
		for _, pc := range []*fleetv1alpha1.PhysicalCluster{old, new} {
			if pc != nil {
				m.queue.Enqueue(controller.RequestFor(pc))
			}
		}
	})
	if m.Secrets != nil {
		m.Secrets.Handle(m.secretChanged)
	}
	m.queue.Run(ctx)
	m.agents.Wait()
}

func (m *Manager) secretChanged(old, new *metav1.PartialObjectMetadata) {
	secret := new
	if secret == nil {
		secret = old
	}
	r := controller.RequestFor(secret)
	if r.Cluster != scope.Root {
		return
	}
	for _, pc := range m.PhysicalClusters.List() {
		ref := pc.Spec.Connection.KubeconfigSecretRef
		if ref != nil && ref.Namespace == r.Namespace && ref.Name == r.Name {
			m.queue.Enqueue(controller.RequestFor(pc))
		}
	}
}

// reconcile starts, restarts or stops the agent of one PhysicalCluster.
func (m *Manager) reconcile(ctx context.Context, r controller.Request) (controller.Result, error) {
	pc, ok := m.PhysicalClusters.Get(r)
	// An agent stays while its PhysicalCluster is being deleted: it is the one who
	// removes the copies. A forgotten one has nobody to talk to.
	if !ok || pc.Spec.Connection.Type != fleetv1alpha1.ConnectionPush || pc.Spec.Forget {
		m.stop(r.Name)
		return controller.Result{}, nil
	}
	kubeconfig, err := readKubeconfig(ctx, m.Kube, pc)
	var config *rest.Config
	if err == nil {
		config, err = parse(kubeconfig)
	}
	var unusable *unusableError
	switch {
	case errors.As(err, &unusable):
		m.stop(r.Name)
		return controller.Result{RequeueAfter: recheckInterval}, m.refuse(ctx, pc, unusable)
	case err != nil:
		return controller.Result{}, err
	}
	m.ensure(ctx, pc, sha256.Sum256(kubeconfig), config)
	return controller.Result{RequeueAfter: recheckInterval}, nil
}

// readKubeconfig reads the Secret.
func readKubeconfig(ctx context.Context, kube kubernetes.Interface, pc *fleetv1alpha1.PhysicalCluster) ([]byte, error) {
	ref := pc.Spec.Connection.KubeconfigSecretRef
	if ref == nil {
		return nil, unusablef("spec.connection.kubeconfigSecretRef is not set")
	}
	secret, err := kube.CoreV1().Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, unusablef("there is no Secret %s/%s", ref.Namespace, ref.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", pc.Name, err)
	}
	kubeconfig := secret.Data[fleetv1alpha1.KubeconfigKey]
	if len(kubeconfig) == 0 {
		return nil, unusablef("the Secret %s/%s has no key %q", ref.Namespace, ref.Name, fleetv1alpha1.KubeconfigKey)
	}
	return kubeconfig, nil
}

// ensure runs the agent with this kubeconfig.
func (m *Manager) ensure(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster, digest [sha256.Size]byte, config *rest.Config) {
	m.mu.Lock()
	now, ok := m.running[pc.Name]
	m.mu.Unlock()
	if ok && now.uid == pc.UID && now.digest == digest {
		return
	}
	m.stop(pc.Name)

	// The context of a reconciliation names a logical cluster; an agent has many.
	ctx, cancel := context.WithCancel(ctx)
	next := running{uid: pc.UID, digest: digest, stop: cancel, done: make(chan struct{})}
	m.mu.Lock()
	m.running[pc.Name] = next
	m.mu.Unlock()
	logger := klog.FromContext(ctx).WithValues("target", pc.Name)
	m.agents.Go(func() {
		defer close(next.done)
		err := m.start(klog.NewContext(ctx, logger), agent.Config{PhysicalCluster: pc.Name, Upstream: m.Upstream, Physical: config, Kinds: m.Kinds, Admission: m.Admission})
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "The syncer ended")
		}
	})
}

// stop ends an agent and waits for it: two must not work on one physical
// cluster.
func (m *Manager) stop(name string) {
	m.mu.Lock()
	r, ok := m.running[name]
	delete(m.running, name)
	m.mu.Unlock()
	if ok {
		r.stop()
		<-r.done
	}
}

// refuse says in the Ready condition what is wrong with the kubeconfig.
func (m *Manager) refuse(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster, why *unusableError) error {
	live, err := m.Client.FleetV1alpha1().PhysicalClusters().Get(ctx, pc.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the PhysicalCluster: %w", err)
	}
	changed := apimeta.SetStatusCondition(&live.Status.Conditions, metav1.Condition{
		Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: live.Generation,
		Reason: fleetv1alpha1.ReasonInvalidKubeconfig, Message: why.Error(),
	})
	changed = apimeta.SetStatusCondition(&live.Status.Conditions, metav1.Condition{
		Type: fleetv1alpha1.ConditionSyncing, Status: metav1.ConditionFalse, ObservedGeneration: live.Generation,
		Reason: fleetv1alpha1.ReasonInvalidKubeconfig, Message: "nothing is synced without a usable kubeconfig",
	}) || changed
	if !changed {
		return nil
	}
	if _, err := m.Client.FleetV1alpha1().PhysicalClusters().UpdateStatus(ctx, live, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of the PhysicalCluster: %w", err)
	}
	return nil
}
