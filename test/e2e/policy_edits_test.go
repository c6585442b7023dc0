package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
)

// Somebody edits a policy to and fro within milliseconds, with the attribute that moves the namespace, and deletes it in
// the middle. The last one counts, and until then what serves goes on.
func TestTheLastOfManyEditsWithinAMomentCounts(t *testing.T) {
	long(t)
	ctx := context.Background()
	places := map[string]*physicalCluster{"east": theLab.east, "west": theLab.west, "third": theLab.addPush(t, "third")}
	k := theLab.newCluster(t)
	served(t, k, "east", 3)
	must(t)(k.Run(ctx, "annotate", "namespace", "shop", placementv1alpha1.PhysicalClusterAnnotation+"-"))
	below := theLab.homeOf(t, k, "shop").namespace
	config, err := clientcmd.BuildConfigFromFlags("", k.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	policies, namespaces := clientsOf(t, config)
	const name = "here"
	to := func(region string) func() error {
		return func() error {
			patch := fmt.Sprintf(`{"apiVersion":"placement.atoll.dev/v1alpha1","kind":"PlacementPolicy","metadata":{"name":%q},"spec":{"terms":[{"matchLabels":{"topology.kubernetes.io/region":%q}}]}}`, name, region)
			force := true
			_, err := policies.PlacementV1alpha1().PlacementPolicies("shop").Patch(ctx, name, types.ApplyPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "test", Force: &force})
			return err
		}
	}
	pinned := func(name string) func() error {
		value := "null"
		if name != "" {
			value = fmt.Sprintf("%q", name)
		}
		return func() error {
			_, err := namespaces.CoreV1().Namespaces().Patch(ctx, "shop", types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, placementv1alpha1.PhysicalClusterAnnotation, value)), metav1.PatchOptions{})
			return err
		}
	}
	deleted := func() error {
		return policies.PlacementV1alpha1().PlacementPolicies("shop").Delete(ctx, name, metav1.DeleteOptions{})
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	at := "east"
	for i, edits := range []func(home, other, third string) []func() error{
		func(home, other, third string) []func() error {
			return []func() error{to(other), to(home), to(third)}
		},
		func(home, other, third string) []func() error {
			return []func() error{to(other), pinned(home), to(third), pinned(third), pinned("")}
		},
		func(home, other, third string) []func() error {
			return []func() error{to(other), deleted, pinned(third), to(third), pinned("")}
		},
		func(home, other, third string) []func() error {
			return []func() error{pinned(other), to(home), pinned(third), deleted}
		},
	} {
		apart := []time.Duration{0, 5 * time.Millisecond, 800 * time.Millisecond, 2500 * time.Millisecond}[random.IntN(4)]
		o := observe(t, k, "shop")
		w := observeBelow(t, below, slices.Collect(maps.Values(places))...)
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(places)), func(name string) bool { return name == at })
		target := others[1]
		for _, edit := range edits(at, others[0], target) {
			if err := edit(); err != nil {
				t.Fatalf("edits %d: %v", i, err)
			}
			if apart > 0 {
				time.Sleep(apart/2 + time.Duration(random.Int64N(int64(apart))))
			}
		}
		began := time.Now()
		settled(t, k, "shop", target)
		serves(t, k)
		for _, name := range []string{at, others[0]} {
			eventually(t, func() error { return gone(places[name].Kubectl, "namespace", below) })
		}
		least, most := o.read()
		available, in := w.read()
		t.Logf("edits %d, %s apart: there after %s; least %d, most %d; below %d, in %d", i, apart, time.Since(began).Round(time.Second), least, most, available, in)
		if least < 3 || most > 1 || available < 3 || in > 1 {
			t.Errorf("edits %d, %s apart: there were moments with %d ready endpoints, %d pods of which one must run, %d available below, in %d places:\n%s\n%s", i, apart, least, most, available, in, o.seen(), w.seen())
		}
		at = target
	}
	must(t)(k.Run(ctx, "delete", "namespace", "shop", "--timeout=3m"))
}

func clientsOf(t *testing.T, config *rest.Config) (versioned.Interface, kubernetes.Interface) {
	t.Helper()
	policies, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespaces, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return policies, namespaces
}
