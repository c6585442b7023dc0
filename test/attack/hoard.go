package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

const (
	// hoardLimit is what a hoarder may keep, hoardTries how many objects of hoardBytes it
	// tries to.
	hoardLimit = 4 << 20
	hoardBytes = 512 << 10
	hoardTries = 16
)

var hoard = Attack{
	Name: "a tenant that writes without end keeps no more than its limit, and a neighbour writes on",
	Fence: func(ctx context.Context, w *World) error {
		kept, err := w.hoard(ctx, hoardLimit)
		if err != nil {
			return err
		}
		if kept > hoardLimit/hoardBytes {
			return fmt.Errorf("it keeps %d objects of %d bytes", kept, hoardBytes)
		}
		neighbour, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(neighbour)
		if err != nil {
			return err
		}
		return who.keep(neighbour, "neighbours")
	},
	Control: func(ctx context.Context, w *World) error {
		kept, err := w.hoard(ctx, tenancyv1alpha1.Unlimited)
		if err == nil && kept < hoardTries {
			err = fmt.Errorf("it keeps %d objects of %d", kept, hoardTries)
		}
		return err
	},
}

// hoard returns how many large objects a tenant with a limit keeps, and fails if one that was
// refused was not refused by the limit, or if it cannot be freed again.
func (w *World) hoard(ctx context.Context, limit int64) (kept int, err error) {
	ctx, err = w.cluster(ctx, func(c *tenancyv1alpha1.LogicalCluster) {
		c.Spec.Limits.Bytes = resource.NewQuantity(limit, resource.BinarySI)
	})
	if err != nil {
		return 0, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return 0, err
	}
	for i := range hoardTries {
		switch err := who.keep(ctx, fmt.Sprint("hoard-", i)); {
		case err == nil:
			kept++
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "spec.limits.bytes"):
			return 0, fmt.Errorf("object %d: %w", i, err)
		}
	}
	if kept == 0 {
		return 0, errors.New("nothing could be kept")
	}
	err = who.kube.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("freeing it: %w", err)
	}
	return kept, who.keep(ctx, "afterwards")
}

// keep stores a large object.
func (c clients) keep(ctx context.Context, name string) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": strings.Repeat("x", hoardBytes)}}
	_, err := c.kube.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{})
	return err
}
