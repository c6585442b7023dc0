package cli

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
)

// unit is what is placed and moved as a whole: a namespace, or what a policy selects there.
type unit struct {
	namespace string
	// name is that of the Placement.
	name string
}

func (u unit) String() string { return report.UnitName(u.namespace, u.name) }

// whole says that it is what no policy of the namespace selects.
func (u unit) whole() bool { return u.name == placementv1alpha1.NamespaceUnit }

// unitOf is the unit that an argument means: NAMESPACE, or TYPE/NAME in the namespace of
// the context. The server says to which unit an object belongs.
func (o *options) unitOf(ctx context.Context, c *connection, arg string) (unit, error) {
	if !strings.Contains(arg, "/") {
		return unit{arg, placementv1alpha1.NamespaceUnit}, nil
	}
	namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return unit{}, err
	}
	info, err := o.factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(true, arg).SingleResourceType().Latest().Flatten().Do().Infos()
	if err != nil {
		return unit{}, err
	}
	if len(info) != 1 || info[0].Namespace == "" {
		return unit{}, fmt.Errorf("%s is not one object of a namespace", arg)
	}
	obj := info[0].Object.(*unstructured.Unstructured).DeepCopy()
	obj.SetManagedFields(nil)
	raw, err := obj.MarshalJSON()
	if err != nil {
		return unit{}, err
	}
	review, err := c.review(ctx, namespace, placementv1alpha1.PlacementReviewSpec{Object: &runtime.RawExtension{Raw: raw}})
	if err != nil {
		return unit{}, fmt.Errorf("asking to which unit %s belongs: %w", arg, err)
	}
	return unit{namespace, review.Status.Unit}, nil
}

// placement is that of a unit.
func (c *connection) placement(ctx context.Context, u unit) (*placementv1alpha1.Placement, error) {
	return c.atoll.PlacementV1alpha1().Placements(u.namespace).Get(ctx, u.name, metav1.GetOptions{})
}
