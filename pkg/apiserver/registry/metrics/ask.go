package metrics

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	api "k8s.io/kubernetes/pkg/apis/core"
	metricsapi "k8s.io/metrics/pkg/apis/metrics"

	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// timeout bounds a request, whatever the physical clusters do.
	timeout = 10 * time.Second
	// atATime is how many are asked at a time for a request, maxPlaces how many in all.
	atATime   = 8
	maxPlaces = 1000
	// maxWarnings bounds the warnings of an answer.
	maxWarnings = 8
)

// Reader is a resource that is read.
type Reader interface {
	rest.Getter
	rest.Lister
}

// Config is what the resources need.
type Config struct {
	// Into leads to the physical clusters. Pods are those of the logical cluster, and Nodes
	// what it shows as such.
	Into  pods.Config
	Pods  Reader
	Nodes Reader
}

// silent are the physical clusters of which something is missing, and why.
type silent map[string]error

// clusterOf is the logical cluster of a request; views of targets and lists over all logical
// clusters have no metrics.
func clusterOf(ctx context.Context) (logicalcluster.Name, error) {
	s, ok := scope.From(ctx)
	switch {
	case !ok:
		return "", apierrors.NewInternalError(scope.ErrNoCluster)
	case s.Target != "", s.Cluster == scope.Wildcard:
		return "", apierrors.NewBadRequest("metrics are those of one logical cluster")
	}
	return s.Cluster, nil
}

// cached is fresh enough for figures that are seconds old themselves.
var cached = &metav1.GetOptions{ResourceVersion: "0"}

// ask asks about pods: what was answered, with the target of each, and who did not answer.
func (c Config) ask(ctx context.Context, all []api.Pod) (answered map[string][]metricsapi.PodMetrics, missing silent, err error) {
	cluster, err := clusterOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	questions, err := plan(all, c.locator(ctx))
	if err != nil {
		return nil, nil, err
	}
	answered, missing = map[string][]metricsapi.PodMetrics{}, silent{}
	if len(questions) > maxPlaces {
		for _, q := range questions[maxPlaces:] {
			missing[q.Target] = fmt.Errorf("only %d namespaces are asked about at a time: ask about one of them", maxPlaces)
		}
		questions = questions[:maxPlaces]
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var mu sync.Mutex
	var running sync.WaitGroup
	places := make(chan struct{}, atATime)
	for _, q := range questions {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			said, err := c.askAt(ctx, cluster, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missing[q.Target] = err
				return
			}
			answered[q.Target] = append(answered[q.Target], said...)
		})
	}
	running.Wait()
	return answered, missing, nil
}

// locator finds where pods run; the Namespace of many is read once.
func (c Config) locator(ctx context.Context) func(*api.Pod) (pods.Place, error) {
	namespaces := map[string]metav1.Object{}
	return func(pod *api.Pod) (pods.Place, error) {
		namespace, ok := namespaces[pod.Namespace]
		if !ok {
			obj, err := c.Into.Namespaces.Get(request.WithNamespace(ctx, ""), pod.Namespace, cached)
			if apierrors.IsNotFound(err) {
				return pods.Place{}, reach.Absent("its namespace is gone")
			}
			if err == nil {
				namespace, err = meta.Accessor(obj)
			}
			if err != nil {
				return pods.Place{}, err
			}
			namespaces[pod.Namespace] = namespace
		}
		return c.Into.Place(ctx, pod, namespace, cached)
	}
}

func (c Config) askAt(ctx context.Context, cluster logicalcluster.Name, q question) ([]metricsapi.PodMetrics, error) {
	var said []metricsapi.PodMetrics
	err := c.read(ctx, q.Target, reach.Call{
		Subresource: reach.PodMetrics,
		Pod:         reach.Pod{Namespace: q.Physical, LogicalCluster: cluster, LogicalNamespace: q.Logical},
	}, func(i item) {
		if m, ok := q.take(i); ok {
			said = append(said, m)
		}
	})
	return said, err
}

// askNode asks for what all nodes of a physical cluster use: for its admins.
func (c Config) askNode(ctx context.Context, target string) (total, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var t total
	err := c.read(ctx, target, reach.Call{Subresource: reach.NodeMetrics}, func(i item) {
		if used := usage(i.Usage); used != nil {
			t.add(used, i.Timestamp, i.Window)
		}
	})
	if err == nil && t.usage == nil {
		err = reach.Unavailable("it has measured none of its nodes yet")
	}
	return t, err
}

func (c Config) read(ctx context.Context, name string, call reach.Call, take func(item)) error {
	target, err := c.Into.Reach(ctx, name)
	if err != nil {
		return err
	}
	call.Method, call.AuditID = "GET", audit.GetAuditIDTruncated(ctx)
	call.Pod.PhysicalCluster, call.Pod.ControlPlane = target.UID, target.ControlPlane
	body, err := c.Into.Streams.Ask(ctx, target, name, call)
	if err != nil {
		return err
	}
	defer body.Close()
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	if err := each(io.Reader(body), take); err != nil {
		if ctx.Err() != nil {
			return reach.Unavailable("it does not answer in time")
		}
		return reach.Unavailable(err.Error())
	}
	return nil
}

// warn says what is missing.
func (s silent) warn(ctx context.Context) {
	names := slices.Sorted(maps.Keys(s))
	for i, name := range names {
		if i == maxWarnings {
			warning.AddWarning(ctx, "", fmt.Sprintf("of %d more physical clusters figures are missing, too", len(names)-i))
			return
		}
		warning.AddWarning(ctx, "", "figures of physical cluster "+name+" are missing: "+strings.TrimPrefix(s[name].Error(), "the physical cluster of the pod cannot be reached: "))
	}
}

// none is nothing at all, which is known.
func none() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(0, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(0, resource.BinarySI),
	}
}
