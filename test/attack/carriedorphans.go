package attack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// plantedMarks are written by who may write ConfigMaps on a physical cluster: an operator that passes on the
// metadata of its own, or somebody who has others removed by an order of the admin for all.
var plantedMarks = Attack{
	Name: "no order for all Orphans removes what has the marks of what a Manifest carries, and is another",
	Real: true,
	Fence: func(ctx context.Context, w *World) error {
		g, stop, err := w.ground(ctx)
		if err != nil {
			return err
		}
		defer stop()
		planted := map[string]func(*corev1.ConfigMap){
			"a-child":   func(c *corev1.ConfigMap) { c.Annotations[syncer.CarriedAnnotation] = identityOf(g.carried.Name) },
			"of-others": func(c *corev1.ConfigMap) { c.Labels[placementv1alpha1.CarriedByLabel] = "another" },
			"both":      func(c *corev1.ConfigMap) { c.Labels[placementv1alpha1.ManagedByLabel] = g.controlPlane },
			"a-tenants": func(c *corev1.ConfigMap) {
				c.Annotations[placementv1alpha1.LogicalClusterAnnotation] = "shop"
			},
			"half": func(c *corev1.ConfigMap) { delete(c.Annotations, syncer.ObjectAnnotation) },
			"of-the-living": func(c *corev1.ConfigMap) { // a Manifest that is there, and carries another
				c.Annotations = maps.Clone(g.carried.Annotations)
				c.Annotations[syncer.CarriedAnnotation] = identityOf(c.Name)
			},
		}
		uids := map[string]types.UID{g.carried.Name: g.carried.UID}
		for name, change := range planted {
			made, err := g.plant(ctx, name, change)
			if err != nil {
				return err
			}
			uids[name] = made.UID
		}
		// What is seen last, and removed, says that the others were seen as well.
		if err := g.removesOne(ctx, "last"); err != nil {
			return err
		}
		for name, uid := range uids {
			there, err := g.below.Get(ctx, name, metav1.GetOptions{})
			if err != nil || there.UID != uid {
				return fmt.Errorf("%s is not there any more: %w", name, errors.Join(err, errors.New("it has another UID")))
			}
		}
		return nil
	},
	// What nothing above knows goes by the order, and stays without it.
	Control: func(ctx context.Context, w *World) error {
		g, stop, err := w.ground(ctx)
		if err != nil {
			return err
		}
		defer stop()
		return g.removesOne(ctx, "lost")
	},
}

// ground is where a Manifest carries a ConfigMap, on a physical cluster whose admin has all Orphans removed.
type ground struct {
	*World
	below interface {
		Create(context.Context, *corev1.ConfigMap, metav1.CreateOptions) (*corev1.ConfigMap, error)
		Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error)
		Delete(context.Context, string, metav1.DeleteOptions) error
	}
	carried      *corev1.ConfigMap
	controlPlane string
	// made are the names of what was planted.
	made *[]string
}

const groundCluster = "east"

func identityOf(name string) string { return "ConfigMap/default/" + name }

func (w *World) ground(ctx context.Context) (g ground, stop func(), err error) {
	kube, err := kubernetes.NewForConfig(w.Physical[groundCluster])
	if err != nil {
		return g, nil, fmt.Errorf("the admin of the physical cluster: %w", err)
	}
	g = ground{World: w, below: kube.CoreV1().ConfigMaps(metav1.NamespaceDefault), made: &[]string{}}
	m := manifestOf(fmt.Sprintf("ground-%d", w.clusters.Add(1)))
	m.Spec.Object.Raw = []byte(strings.NewReplacer(`"Secret"`, `"ConfigMap"`, "stringData", "data").Replace(string(m.Spec.Object.Raw)))
	_, remove, err := w.carry(ctx, groundCluster, m)
	if err != nil {
		return g, nil, err
	}
	stop = func() {
		ctx := context.WithoutCancel(ctx)
		_ = g.order(ctx, "null")
		for _, name := range *g.made {
			_ = g.below.Delete(ctx, name, metav1.DeleteOptions{})
		}
		remove()
	}
	err = eventually(ctx, "it is carried", func() (err error) {
		g.carried, err = g.below.Get(ctx, m.Name, metav1.GetOptions{})
		return err
	})
	if err == nil {
		g.controlPlane = g.carried.Labels[placementv1alpha1.CarriedByLabel]
		until := metav1.NewTime(time.Now().Add(time.Hour)).UTC().Format(time.RFC3339)
		err = g.order(ctx, `{"order":"`+string(fleetv1alpha1.OrphanRemove)+`","foundBefore":"`+until+`"}`)
	}
	if err != nil {
		stop()
		return g, nil, err
	}
	return g, stop, nil
}

func (g ground) order(ctx context.Context, order string) error {
	_, err := g.admin.atoll.FleetV1alpha1().PhysicalClusters().Patch(scope.WithCluster(ctx, scope.Root), groundCluster, types.MergePatchType, []byte(`{"spec":{"orphans":`+order+`}}`), metav1.PatchOptions{})
	return err
}

// plant makes a ConfigMap that says of itself that a Manifest carried it which is gone.
func (g ground) plant(ctx context.Context, name string, change func(*corev1.ConfigMap)) (*corev1.ConfigMap, error) {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(g.carried.Labels), Annotations: maps.Clone(g.carried.Annotations)}}
	c.Annotations[syncer.ObjectAnnotation] = "manifests.fleet.atoll.dev/" + name
	c.Annotations[placementv1alpha1.UIDAnnotation] = "gone-" + name
	c.Annotations[syncer.CarriedAnnotation] = identityOf(name)
	change(c)
	*g.made = append(*g.made, name)
	made, err := g.below.Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("planting %s: %w", name, err)
	}
	return made, nil
}

// removesOne plants what nothing above knows, and waits until it is removed as is ordered.
func (g ground) removesOne(ctx context.Context, name string) error {
	if _, err := g.plant(ctx, name, func(*corev1.ConfigMap) {}); err != nil {
		return err
	}
	return eventually(ctx, name+" goes", func() error {
		_, err := g.below.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return errors.New("it is there")
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}
