package push

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Links are the ways into the pods of physical clusters that the server connects to.
type Links struct {
	kube kubernetes.Interface

	mu    sync.Mutex
	known map[string]link
}

// link is one and what it was made from.
type link struct {
	uid    types.UID
	digest [sha256.Size]byte
	direct *reach.Direct
}

// NewLinks reads kubeconfigs with kube, which acts in the logical cluster of its context.
func NewLinks(kube kubernetes.Interface) *Links {
	return &Links{kube: kube, known: map[string]link{}}
}

// To is the way to pc, with the kubeconfig that its Secret has now; the error is fit for
// a tenant.
func (l *Links) To(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) (reach.Link, error) {
	kubeconfig, err := readKubeconfig(scope.With(ctx, scope.Scope{Cluster: scope.Root}), l.kube, pc)
	if err != nil {
		var unusable *unusableError
		if errors.As(err, &unusable) {
			return nil, reach.Unavailable("its kubeconfig cannot be used")
		}
		return nil, err
	}
	digest := sha256.Sum256(kubeconfig)
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.known[pc.Name]; ok && known.uid == pc.UID && known.digest == digest {
		return known.direct, nil
	}
	config, err := parse(kubeconfig)
	if err != nil {
		return nil, reach.Unavailable("its kubeconfig cannot be used")
	}
	direct, err := reach.NewDirect(config)
	if err != nil {
		return nil, reach.Unavailable("its kubeconfig cannot be used")
	}
	l.known[pc.Name] = link{uid: pc.UID, digest: digest, direct: direct}
	return direct, nil
}

// Forget drops what is known of a physical cluster.
func (l *Links) Forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, name)
}
