package placement

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	typed "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/typed/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// warned is a client whose warnings are collected.
func warned() (typed.PlacementV1alpha1Interface, *warnings) {
	w := &warnings{}
	config := scope.ScopedConfig(rest.CopyConfig(shared.Config))
	config.WarningHandler = w
	return versioned.NewForConfigOrDie(config).PlacementV1alpha1(), w
}

// patched patches a ClusterPlacementPolicy.
func patched(ctx context.Context, client typed.PlacementV1alpha1Interface, name, patch string) error {
	_, err := client.ClusterPlacementPolicies().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// An edit says how much it moves, and above the bound of an admin it has to carry the number.
func testGate(t *testing.T) {
	ctx := newCluster(t, "gate")
	policy(t, "gate", func(s *placementv1alpha1.PolicySpec) {
		s.Terms, s.Move = only("region", "eu"), &placementv1alpha1.MoveRules{}
	})
	for _, name := range []string{"a", "b", "c"} {
		namespace(t, ctx, name)
		create(t, ctx, name, deployment("app"))
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shell"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox"}}}}
	if _, err := shared.Kube.CoreV1().Pods("b").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, said := warned()
	// Informers have to have what was just written.
	until(t, "the count of a dry run", func() string {
		if _, err := client.ClusterPlacementPolicies().Patch(root(t), "gate", types.MergePatchType, []byte(`{"spec":{"terms":[{"matchLabels":{"region":"us"}}]}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err.Error()
		}
		return unlike("this moves 3 units with 1 pod (gate:a, gate:b, gate:c), as far as there is somewhere to go", strings.Join(said.take(), "; "))
	})

	// What moves nothing is said by nobody.
	if err := patched(root(t), client, "gate", `{"spec":{"confirmAbove":2,"maxCount":5}}`); err != nil || len(said.take()) > 0 {
		t.Fatalf("setting the bound: %v", err)
	}
	const move = `"spec":{"terms":[{"matchLabels":{"region":"us"}}]}`
	const lift = `"spec":{"confirmAbove":99,"terms":[{"matchLabels":{"region":"us"}}]}`
	const key = placementv1alpha1.ConfirmMovesAnnotation
	for name, c := range map[string]struct{ patch, says string }{
		"without a number":      {`{` + move + `}`, `it moves 3 units with 1 pod (gate:a, gate:b, gate:c), 3 of them of policy gate, which permits 2 without a confirmation: annotate it with ` + key + `=3 if you mean that`},
		"with less":             {`{"metadata":{"annotations":{"` + key + `":"2"}},` + move + `}`, "(it carries 2)"},
		"with what is none":     {`{"metadata":{"annotations":{"` + key + `":"all"}},` + move + `}`, `("all" is no number)`},
		"that lifts the bound":  {`{` + lift + `}`, "which permits 2"},
		"that confirms the end": {`{"metadata":{"annotations":{"` + placementv1alpha1.ConfirmDeletionAnnotation + `":"3"}},` + move + `}`, key + "=3 if you mean that"},
	} {
		if err := patched(root(t), client, "gate", c.patch); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("an edit %s: %v, want %q", name, err, c.says)
		}
	}
	// The bound of root holds for a tenant, too.
	local := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "local"}}
	local.Spec.Terms = only("region", "us")
	if _, err := client.ClusterPlacementPolicies().Create(ctx, local, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "3 units with 1 pod (a, b, c), 3 of them of policy gate, which permits 2") {
		t.Errorf("a tenant's policy: %v", err)
	}
	said.take()
	own := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	own.Spec.Terms = only("region", "us")
	if _, err := client.PlacementPolicies("b").Create(ctx, own, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a policy for as many as are permitted: %v", err)
	} else if list := said.take(); !slices.Equal(list, []string{"this moves 1 unit with 1 pod (b), as far as there is somewhere to go"}) {
		t.Errorf("it says %q", list)
	}

	if err := patched(root(t), client, "gate", `{"metadata":{"annotations":{"`+key+`":"3"}},`+move+`}`); err != nil {
		t.Fatalf("with the number: %v", err)
	}
	if list := said.take(); len(list) != 1 || !strings.HasPrefix(list[0], "this moves 3 units") {
		t.Errorf("it says %q", list)
	}
	for _, name := range []string{"a", "c"} { // what the bare Pod is in cannot move
		eventually(t, ctx, name, func(p *placementv1alpha1.Placement) string {
			return unlike("west", strings.Join(stamp.Decided(p).Names(), ","))
		})
	}

	// The number of an earlier edit confirms nothing.
	create(t, ctx, newNamespace(t, ctx, "d"), deployment("app"))
	create(t, ctx, newNamespace(t, ctx, "e"), deployment("app"))
	until(t, "a stale number", func() string {
		err := patched(root(t), client, "gate", `{"spec":{"terms":[{"matchLabels":{"region":"eu"}}],"confirmAbove":1}}`)
		if !apierrors.IsForbidden(err) {
			return "not refused"
		}
		if strings.Contains(err.Error(), "4 units") && !strings.Contains(err.Error(), "it carries 3") {
			return err.Error()
		}
		return ""
	})
}

func newNamespace(t *testing.T, ctx context.Context, name string) string {
	t.Helper()
	namespace(t, ctx, name)
	return name
}

// The deletion of a policy moves, too, and carries its number on the policy.
func testGateOfDeletion(t *testing.T) {
	ctx := newCluster(t, "gate-end")
	policy(t, "gate-end", func(s *placementv1alpha1.PolicySpec) { s.ConfirmAbove = new(int32(0)) })
	client, said := warned()
	two := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "two"}}
	two.Spec.Count = new(int32(2))
	if _, err := client.ClusterPlacementPolicies().Create(ctx, two, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a policy for nothing: %v", err)
	}
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("app"))
	until(t, "the refusal", func() string {
		err := client.ClusterPlacementPolicies().Delete(ctx, "two", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "annotate it with "+placementv1alpha1.ConfirmDeletionAnnotation+"=1 if you mean that") {
			return errorText(err)
		}
		return ""
	})
	if err := client.ClusterPlacementPolicies().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting all: %v", err)
	}
	if err := patched(ctx, client, "two", `{"metadata":{"annotations":{"`+placementv1alpha1.ConfirmDeletionAnnotation+`":"1"}}}`); err != nil {
		t.Fatal(err)
	}
	said.take()
	if err := client.ClusterPlacementPolicies().Delete(ctx, "two", metav1.DeleteOptions{}); err != nil {
		t.Fatalf("with the number: %v", err)
	}
	if list := said.take(); len(list) != 1 || !strings.HasPrefix(list[0], "this moves 1 unit ") {
		t.Errorf("it says %q", list)
	}
	eventually(t, ctx, "web", func(p *placementv1alpha1.Placement) string {
		if p.Spec.Transition == nil || len(p.Spec.Transition.From) != 1 {
			return "it does not move"
		}
		return ""
	})
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// A policy that makes a unit of what runs moves that unit only.
func testGateOfUnits(t *testing.T) {
	ctx := newCluster(t, "gate-units")
	policy(t, "gate-units", func(*placementv1alpha1.PolicySpec) {})
	pinnedNamespace(t, ctx, "web", "east")
	front := deployment("front")
	front.Labels = map[string]string{"tier": "front"}
	create(t, ctx, "web", front)
	create(t, ctx, "web", deployment("rest"))
	client, said := warned()
	made := &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "front"}}
	made.Spec.Objects = &placementv1alpha1.ObjectSelection{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}
	made.Spec.Terms = only("region", "us")
	none := made.DeepCopy()
	none.Spec.Objects.LabelSelector.MatchLabels["tier"] = "none"
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	until(t, "the warning", func() string {
		if _, err := client.PlacementPolicies("web").Create(ctx, made, dry); err != nil {
			return err.Error()
		}
		return unlike("this moves 1 unit with 0 pods (web/front), as far as there is somewhere to go", strings.Join(said.take(), "; "))
	})
	if _, err := client.PlacementPolicies("web").Create(ctx, none, dry); err != nil || len(said.take()) > 0 {
		t.Errorf("a policy that selects nothing: %v", err)
	}
}
