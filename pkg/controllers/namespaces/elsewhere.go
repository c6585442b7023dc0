package namespaces

import (
	"context"
	"errors"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
)

// Elsewhere is what other servers keep in namespaces of logical clusters. No call
// waits for one of them.
type Elsewhere interface {
	// Has says whether a logical cluster has such servers.
	Has(logicalcluster.Name) bool
	// Unknown fails if it is not known of some what they keep.
	Unknown(logicalcluster.Name) error
	// Sweep has the others delete what they keep in a namespace with this UID; done
	// says that they just did, or did not: left and failed. Unknown is about the rest.
	Sweep(ctx context.Context, c logicalcluster.Name, namespace string, uid types.UID) (
		left map[schema.GroupVersionResource][]metav1.PartialObjectMetadata, failed map[schema.GroupVersionResource]error, unknown error, done bool)
	// Forget says that nobody will ask again.
	Forget(c logicalcluster.Name, namespace string)
	// Notify calls back when there is something new about a namespace or, if it is
	// empty, about all of a logical cluster.
	Notify(func(c logicalcluster.Name, namespace string))
}

const (
	// recheckInterval is when to ask although no event came.
	recheckInterval = 30 * time.Second
	// A namespace that only other servers hold is looked at again after minHeldInterval,
	// which doubles up to maxHeldInterval, and passed over once in passInterval.
	minHeldInterval = time.Second
	maxHeldInterval = 16 * time.Second
	passInterval    = 5 * time.Second
)

// hold is what the last pass saw of a namespace that only other servers hold.
type hold struct {
	why   string
	since time.Time
	tries int
}

// pause says how long not to pass over a namespace again: nothing of ours is left in
// it, and nothing can come.
func (h *hold) pause(why string, now time.Time) time.Duration {
	if h == nil || why == "" {
		return 0
	}
	if why != h.why {
		return max(0, passInterval-now.Sub(h.since))
	}
	h.tries++
	return min(minHeldInterval<<min(h.tries, 8), maxHeldInterval)
}

// gate lets the namespace go that the pass is about, if it may, and if what the
// pass left alone is empty indeed.
type gate struct {
	corev1client.NamespaceInterface
	uid types.UID // empty for none
	// verify fails with errFound if there is something.
	verify func(context.Context) error
}

var (
	errHeld  = errors.New("the namespace is held")
	errFound = errors.New("the namespace has objects that informers do not know")
)

// Finalize implements corev1client.NamespaceInterface.
func (g gate) Finalize(ctx context.Context, ns *corev1.Namespace, opts metav1.UpdateOptions) (*corev1.Namespace, error) {
	if ns.UID != g.uid {
		return nil, errHeld
	}
	if err := g.verify(ctx); err != nil {
		return nil, err
	}
	return g.NamespaceInterface.Finalize(ctx, ns, opts)
}

// joint is a client that answers for other servers from what is known of them, and
// remembers what it met of our own.
type joint struct {
	metadata.Interface
	own map[schema.GroupVersionResource]bool
	// vacant are those of own that the pass leaves alone.
	vacant map[schema.GroupVersionResource]bool
	sight

	failure   error
	remaining map[schema.GroupVersionResource]int
}

// ours says whether something of ours holds the namespace.
func (j *joint) ours() bool {
	for _, n := range j.remaining {
		if n > 0 {
			return true
		}
	}
	return j.failure != nil
}

// Resource implements metadata.Interface.
func (j *joint) Resource(gvr schema.GroupVersionResource) metadata.Getter {
	return jointGetter{j.Interface.Resource(gvr), j, gvr}
}

type jointGetter struct {
	metadata.Getter
	joint *joint
	gvr   schema.GroupVersionResource
}

// Namespace implements metadata.Getter.
func (g jointGetter) Namespace(namespace string) metadata.ResourceInterface {
	return jointResource{g.Getter.Namespace(namespace), g.joint, g.gvr}
}

type jointResource struct {
	metadata.ResourceInterface
	joint *joint
	gvr   schema.GroupVersionResource
}

// absent says that a resource is not served, or not in this way.
func absent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// asks says whether the server is asked about the resource.
func (r jointResource) asks() bool { return r.joint.own[r.gvr] && !r.joint.vacant[r.gvr] }

func (r jointResource) met(err error) error {
	if err != nil && !absent(err) {
		r.joint.failure = err
	}
	return err
}

// Delete implements metadata.ResourceInterface.
func (r jointResource) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	return r.met(r.ResourceInterface.Delete(ctx, name, options, subresources...))
}

// DeleteCollection implements metadata.ResourceInterface.
func (r jointResource) DeleteCollection(ctx context.Context, options metav1.DeleteOptions, listOptions metav1.ListOptions) error {
	if r.asks() {
		if err := r.met(r.ResourceInterface.DeleteCollection(ctx, options, listOptions)); err != nil {
			return err
		}
	}
	return r.joint.failed[r.gvr]
}

// List implements metadata.ResourceInterface.
func (r jointResource) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	out := &metav1.PartialObjectMetadataList{}
	if r.asks() {
		list, err := r.ResourceInterface.List(ctx, options)
		if r.met(err) != nil {
			return nil, err
		}
		r.joint.remaining[r.gvr] = len(list.Items)
		out.Items = list.Items
	}
	out.Items = append(out.Items, r.joint.left[r.gvr]...)
	return out, nil
}
