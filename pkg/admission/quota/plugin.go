package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// tries is how often a charge is tried that others' charges make stale.
const tries = 10

// New makes the plugin; kube takes the logical cluster from the context.
func New(kube kubernetes.Interface, quotas *controller.Informer[*corev1.ResourceQuota]) (admission.Interface, error) {
	if kube == nil || quotas == nil {
		return nil, errors.New("quota admission needs a client and an informer of ResourceQuotas")
	}
	evaluators, err := core.NewEvaluators(nil, nil, measured)
	if err != nil {
		return nil, fmt.Errorf("making the quota evaluators: %w", err)
	}
	return &plugin{
		Handler:    admission.NewHandler(admission.Create, admission.Update),
		kube:       kube,
		quotas:     quotas,
		evaluators: generic.NewRegistry(evaluators),
		written:    controller.NewWritten[controller.Request, *corev1.ResourceQuota](),
		seed:       maphash.MakeSeed(),
	}, nil
}

// measured says which kinds have evaluators of their own: those that are more
// than counted and need no other objects for it.
func measured(r schema.GroupVersionResource) bool { return r.Group == "" }

type plugin struct {
	*admission.Handler
	kube       kubernetes.Interface
	quotas     *controller.Informer[*corev1.ResourceQuota]
	evaluators quotav1.Registry
	// written are quotas that were charged lately: requests that follow each other
	// closely see each other's charges.
	written *controller.Written[controller.Request, *corev1.ResourceQuota]

	// locks are shared by the namespaces whose hash is equal.
	locks [64]sync.Mutex
	seed  maphash.Seed
}

var _ admission.ValidationInterface = &plugin{}

// Validate implements admission.ValidationInterface.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetResource().GroupResource() == corev1.Resource("namespaces") {
		return nil
	}
	c, ok := scope.ClusterFrom(ctx)
	if !ok {
		return admission.NewForbidden(a, scope.ErrNoCluster)
	}
	if !p.quotas.HasNamespace(c, a.GetNamespace()) {
		return nil
	}
	evaluator := p.evaluator(a.GetResource().GroupResource())
	if evaluator == nil || !evaluator.Handles(a) {
		return nil
	}
	lock := &p.locks[maphash.String(p.seed, c.String()+"|"+a.GetNamespace())%uint64(len(p.locks))]
	lock.Lock()
	defer lock.Unlock()
	return p.charge(ctx, c, a, evaluator)
}

// evaluator of a resource; what has none of its own is counted.
func (p *plugin) evaluator(r schema.GroupResource) quotav1.Evaluator {
	if _, ignored := install.DefaultIgnoredResources()[r]; ignored {
		return nil
	}
	if e := p.evaluators.Get(r); e != nil {
		return e
	}
	return generic.NewObjectCountEvaluator(r, nil, "")
}

// charge checks a request and writes what it uses. The quotas that others
// changed in between are read again and checked anew; the charges of the rest
// stand.
func (p *plugin) charge(ctx context.Context, c logicalcluster.Name, a admission.Attributes, evaluator quotav1.Evaluator) error {
	quotas, err := p.current(ctx, c, a.GetNamespace())
	if err != nil {
		return err
	}
	for range tries {
		var checked []corev1.ResourceQuota
		if checked, err = resourcequota.CheckRequest(quotas, a, evaluator, nil); err != nil || a.IsDryRun() {
			return err
		}
		var stale []string
		if stale, err = p.write(ctx, c, quotas, checked); len(stale) == 0 {
			return err
		}
		if quotas, err = p.read(ctx, c, a.GetNamespace(), stale); err != nil {
			return err
		}
	}
	return apierrors.NewConflict(corev1.Resource("resourcequotas"), "", errors.New("others change the quotas of the namespace at the same time, try again"))
}

// current are the quotas of a namespace, each as new as this server knows it, as
// copies. One that is not counted yet, as far as is known, is read: upstream's check
// lets everything pass that a status does not limit.
func (p *plugin) current(ctx context.Context, c logicalcluster.Name, namespace string) ([]corev1.ResourceQuota, error) {
	var quotas []corev1.ResourceQuota
	var uncounted []string
	for _, q := range p.quotas.ListNamespace(c, namespace) {
		q, _ = p.written.Newest(controller.RequestFor(q), q, true)
		if !quotav1.Equals(q.Spec.Hard, q.Status.Hard) {
			uncounted = append(uncounted, q.Name)
			continue
		}
		quotas = append(quotas, *q.DeepCopy())
	}
	read, err := p.read(ctx, c, namespace, uncounted)
	if err != nil {
		return nil, err
	}
	quotas = append(quotas, read...)
	slices.SortFunc(quotas, func(a, b corev1.ResourceQuota) int { return cmp.Compare(a.Name, b.Name) })
	return quotas, nil
}

// write stores the quotas whose usage changed; stale are those that somebody
// else changed before.
func (p *plugin) write(ctx context.Context, c logicalcluster.Name, before, after []corev1.ResourceQuota) (stale []string, err error) {
	for i := range after {
		if quotav1.Equals(before[i].Status.Used, after[i].Status.Used) {
			continue
		}
		q, err := p.kube.CoreV1().ResourceQuotas(after[i].Namespace).UpdateStatus(at(ctx, c), &after[i], metav1.UpdateOptions{})
		switch {
		case err == nil:
			p.written.Put(controller.RequestFor(q), q)
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			stale = append(stale, after[i].Name)
		default:
			return nil, fmt.Errorf("charging quota %s: %w", after[i].Name, err)
		}
	}
	return stale, nil
}

// read gets quotas from the server; one that is gone needs no charge.
func (p *plugin) read(ctx context.Context, c logicalcluster.Name, namespace string, names []string) ([]corev1.ResourceQuota, error) {
	var quotas []corev1.ResourceQuota
	for _, name := range names {
		q, err := p.kube.CoreV1().ResourceQuotas(namespace).Get(at(ctx, c), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading quota %s: %w", name, err)
		}
		quotas = append(quotas, *q)
	}
	return quotas, nil
}

// at is a context for own requests about c.
func at(ctx context.Context, c logicalcluster.Name) context.Context {
	return scope.With(ctx, scope.Scope{Cluster: c})
}
