package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Mallory is the physical cluster whose syncer is hostile: nothing runs there.
const Mallory = "mallory"

// World is a running control plane.
type World struct {
	// Config is the admin's, without a scope.
	Config *rest.Config
	// Dir is the data directory of the server.
	Dir string
	// Physical are those of the admins of the physical clusters that run beside the hostile
	// one, by name. Without them no attack that is Real can be tried.
	Physical map[string]*rest.Config
	// PID is that of the server, for attacks that are Real.
	PID int
	// Admission is where the server is asked about pods, and Advertised where other servers would
	// find it, as its flags say.
	Admission, Advertised string

	admin, mallory clients
	clusters       atomic.Int32
	stop           context.CancelFunc
	beating        chan struct{}
}

// clients take the scope of each call from its context.
type clients struct {
	config *rest.Config
	kube   kubernetes.Interface
	atoll  versioned.Interface
}

func clientsOf(config *rest.Config) clients {
	config = rest.CopyConfig(config)
	config.QPS = -1
	scoped := scope.ScopedConfig(config)
	return clients{config: config, kube: kubernetes.NewForConfigOrDie(scoped), atoll: versioned.NewForConfigOrDie(scoped)}
}

// Start registers the hostile physical cluster, which looks well until Stop.
func (w *World) Start(ctx context.Context) error {
	w.admin = clientsOf(w.Config)
	root := scope.WithCluster(ctx, scope.Root)
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: Mallory}}
	if _, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Create(root, pc, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("registering %s: %w", Mallory, err)
	}
	data, err := app.Kubeconfig(w.Dir, Mallory, true)
	if err != nil {
		return fmt.Errorf("the credential of the syncer: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return fmt.Errorf("reading the credential of the syncer: %w", err)
	}
	w.mallory = clientsOf(config)
	if err := eventually(ctx, "the first heartbeat", func() error { return w.beat(ctx) }); err != nil {
		return err
	}
	own := w.own(ctx, scope.Root)
	if err := w.claim(own, "4", "8Gi"); err != nil {
		return err
	}
	beating, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.stop, w.beating = cancel, make(chan struct{})
	go func() {
		defer close(w.beating)
		for {
			select {
			case <-beating.Done():
				return
			case <-time.After(5 * time.Second):
				_ = w.beat(beating)
			}
		}
	}()
	return nil
}

// Stop ends the heartbeat.
func (w *World) Stop() {
	if w.stop != nil {
		w.stop()
		<-w.beating
	}
}

// own is a context for the view that the hostile syncer has of a logical cluster.
func (w *World) own(ctx context.Context, c logicalcluster.Name) context.Context {
	return scope.With(ctx, scope.Scope{Cluster: c, Target: Mallory})
}

// beat renews the Lease, as the syncer, which does that by itself meanwhile, too.
func (w *World) beat(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { return w.beatOnce(w.own(ctx, scope.Root)) })
}

func (w *World) beatOnce(ctx context.Context) error {
	leases := w.mallory.kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, Mallory, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: Mallory}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// claim reports, as the syncer, to be well and to have room.
func (w *World) claim(own context.Context, cpu, memory string) error {
	return w.report(own, func(pc *fleetv1alpha1.PhysicalCluster) {
		meta.SetStatusCondition(&pc.Status.Conditions, metav1.Condition{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonHeartbeat})
		pc.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		pc.Status.Requested = nil
	})
}

// report writes the status of the hostile physical cluster, as its syncer.
func (w *World) report(own context.Context, change func(*fleetv1alpha1.PhysicalCluster)) error {
	client := w.mallory.atoll.FleetV1alpha1().PhysicalClusters()
	return eventually(own, "reporting", func() error {
		pc, err := client.Get(own, Mallory, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(pc)
		_, err = client.UpdateStatus(own, pc, metav1.UpdateOptions{})
		return err
	})
}

// cluster makes a logical cluster and returns a context about it.
func (w *World) cluster(ctx context.Context, change ...func(*tenancyv1alpha1.LogicalCluster)) (context.Context, error) {
	name := fmt.Sprintf("attacked-%d", w.clusters.Add(1))
	c := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(c)
	}
	if _, err := w.admin.atoll.TenancyV1alpha1().LogicalClusters().Create(scope.WithCluster(ctx, scope.Root), c, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating logical cluster %s: %w", name, err)
	}
	return scope.WithCluster(ctx, logicalcluster.Name(name)), nil
}

// placed makes a logical cluster with the namespace "web", in which a Deployment is
// placed on the hostile physical cluster.
func (w *World) placed(ctx context.Context) (context.Context, error) {
	ctx, err := w.cluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.place(ctx, "web", map[string]string{placementv1alpha1.PhysicalClusterAnnotation: Mallory}, "1m"); err != nil {
		return nil, err
	}
	if there, err := w.isPlaced(ctx, "web"); err != nil || !there {
		return nil, fmt.Errorf("namespace web is not placed on %s (%w)", Mallory, err)
	}
	return ctx, nil
}

// isPlaced reports whether a namespace is on the hostile physical cluster.
func (w *World) isPlaced(ctx context.Context, namespace string) (bool, error) {
	ns, err := w.admin.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	_, there := stamp.TargetsOf(ns.Annotations)[Mallory]
	return there, nil
}

// place makes a namespace and in it a Deployment, whose pod wants so much CPU.
func (w *World) place(ctx context.Context, namespace string, annotations map[string]string, cpu string) error {
	if err := w.namespace(ctx, namespace, annotations); err != nil {
		return err
	}
	return w.deploy(ctx, namespace, cpu)
}

func (w *World) namespace(ctx context.Context, name string, annotations map[string]string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	if _, err := w.admin.kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// deploy makes a Deployment, whose pod wants so much CPU.
func (w *World) deploy(ctx context.Context, namespace, cpu string) error {
	return w.request(ctx, namespace, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)})
}

// request makes a Deployment, whose pod has such requests.
func (w *World) request(ctx context.Context, namespace string, requests corev1.ResourceList) error {
	labels := map[string]string{"app": "app"}
	wants := corev1.ResourceRequirements{Requests: requests}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx", Resources: wants}}}},
	}}
	if _, err := w.admin.kube.AppsV1().Deployments(namespace).Create(ctx, d, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a Deployment: %w", err)
	}
	return nil
}

// answer is what a request is answered.
type answer struct {
	code int
	body string
}

// ask sends a request as somebody; of a long answer the beginning is kept.
func ask(ctx context.Context, config *rest.Config, method, path, body string) (answer, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(config.Host, "/")+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return answer{resp.StatusCode, string(data)}, err
}
