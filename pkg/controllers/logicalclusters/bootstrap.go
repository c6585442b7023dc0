package logicalclusters

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// EnsureRoot makes the LogicalCluster "root" unless it exists, and its first
// objects.
func EnsureRoot(ctx context.Context, c Config) error {
	root := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{
		Name: scope.Root.String(), Finalizers: []string{ContentFinalizer},
	}}
	_, err := c.Client.TenancyV1alpha1().LogicalClusters().Create(inRoot(ctx), root, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating logical cluster %s: %w", scope.Root, err)
	}
	return Bootstrap(ctx, c, scope.Root)
}

// Bootstrap makes the first objects inside a logical cluster and then sets its
// status. What exists stays as it is. Of the Config it needs the clients, Fill
// and URL. A logical cluster that is being deleted is left alone.
func Bootstrap(ctx context.Context, c Config, name logicalcluster.Name) error {
	lc, err := c.Client.TenancyV1alpha1().LogicalClusters().Get(inRoot(ctx), name.String(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading logical cluster %s: %w", name, err)
	}
	if lc.DeletionTimestamp != nil {
		return nil
	}
	if lc, err = ensureFinalizer(ctx, c, lc); err != nil {
		return err
	}
	g, inside := errgroup.WithContext(within(ctx, name))
	for _, namespace := range systemNamespaces(name) {
		g.Go(func() error { return c.makeNamespace(inside, namespace) })
	}
	g.Go(func() error {
		if err := c.makeNamespace(inside, metav1.NamespaceDefault); err != nil {
			return err
		}
		if err := c.Fill(inside, metav1.NamespaceDefault); err != nil {
			return fmt.Errorf("filling namespace %s: %w", metav1.NamespaceDefault, err)
		}
		if name == scope.Root {
			return nil
		}
		return c.serveAt(inside, c.URL(name))
	})
	if name != scope.Root {
		g.Go(func() error { return c.makeServiceRange(inside) })
	}
	if len(lc.Spec.Owners) > 0 {
		g.Go(func() error { return c.bindOwners(inside, lc.Spec.Owners) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("making the first objects of logical cluster %s: %w", name, err)
	}
	return c.setStatus(ctx, lc, ready(c.URL(name)))
}

func (c Config) makeNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

func ensureFinalizer(ctx context.Context, c Config, lc *tenancyv1alpha1.LogicalCluster) (*tenancyv1alpha1.LogicalCluster, error) {
	for _, f := range lc.Finalizers {
		if f == ContentFinalizer {
			return lc, nil
		}
	}
	return c.setFinalizers(ctx, lc, append([]string{ContentFinalizer}, lc.Finalizers...))
}

// setFinalizers fails with a conflict if lc changed since it was read.
func (c Config) setFinalizers(ctx context.Context, lc *tenancyv1alpha1.LogicalCluster, finalizers []string) (*tenancyv1alpha1.LogicalCluster, error) {
	lc, err := c.patch(ctx, lc, map[string]any{"metadata": map[string]any{
		"uid": lc.UID, "resourceVersion": lc.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return nil, fmt.Errorf("setting finalizers: %w", err)
	}
	return lc, nil
}

// setStatus writes what follows from a logical cluster if it differs, but for the usage: who counts that writes it, and
// the one that is known here may be older. Conditions are one list, of which others write, too: what changed since lc was
// read is read again. One that is deleted meanwhile, or gone, is left to who hears of that.
func (c Config) setStatus(ctx context.Context, lc *tenancyv1alpha1.LogicalCluster, next follows) error {
	known := lc
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		status := next(known)
		if apiequality.Semantic.DeepEqual(known.Status, status) {
			return nil
		}
		status.Usage = nil
		_, err := c.patch(ctx, known, map[string]any{
			"metadata": map[string]any{"uid": known.UID, "resourceVersion": known.ResourceVersion}, "status": status,
		}, "status")
		if !apierrors.IsConflict(err) {
			return err
		}
		live, readErr := c.Client.TenancyV1alpha1().LogicalClusters().Get(inRoot(ctx), lc.Name, metav1.GetOptions{})
		switch {
		case readErr != nil:
			return readErr
		case live.UID != lc.UID || (live.DeletionTimestamp == nil) != (lc.DeletionTimestamp == nil):
			return nil
		}
		known = live
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("setting the status of logical cluster %s: %w", lc.Name, err)
	}
	return nil
}

func (c Config) patch(ctx context.Context, lc *tenancyv1alpha1.LogicalCluster, change map[string]any, subresources ...string) (*tenancyv1alpha1.LogicalCluster, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return c.Client.TenancyV1alpha1().LogicalClusters().Patch(inRoot(ctx), lc.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
}

func inRoot(ctx context.Context) context.Context { return within(ctx, scope.Root) }

// within leaves no target in the context: requests are the system's own.
func within(ctx context.Context, name logicalcluster.Name) context.Context {
	return scope.With(ctx, scope.Scope{Cluster: name})
}
