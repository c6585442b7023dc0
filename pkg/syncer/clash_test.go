package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestANameThatIsTakenIsTriedAgainAndThenFollowedByTheTarget(t *testing.T) {
	pods := mustKind(t, "", "pods")
	marked := thing()
	marked.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: "cp"})
	marked.SetAnnotations(map[string]string{
		placementv1alpha1.LogicalClusterAnnotation: "shop", placementv1alpha1.NamespaceAnnotation: "web",
		placementv1alpha1.UIDAnnotation: "u", ObjectAnnotation: "pods/app",
	})
	for name, c := range map[string]struct {
		clash Clash
		want  string
		after time.Duration
	}{
		"a mirror of ours":             {Clash{Physical: thing(), Existing: thing(targeted(`{"east":{"state":"Observed","uid":"q"}}`)), Tries: 1}, "", shortDelay},
		"the object of the copy":       {Clash{Physical: marked, Existing: thing(targeted(`{"east":{}}`)), Tries: 1}, "", clashDelay},
		"something else that we see":   {Clash{Physical: thing(), Existing: thing(targeted(`{"east":{}}`)), Tries: 1}, "app", 0},
		"what we do not see":           {Clash{Physical: thing(), Tries: 1}, "app", 0},
		"what we do not see and stays": {Clash{Physical: thing(), Tries: 2}, "app.east", 0},
		"that name is taken, too":      {Clash{Physical: thing(), Tries: 3}, "", clashDelay},
	} {
		c.clash.Target, c.clash.Kind, c.clash.Name = "east", pods, "app"
		if got, after := c.clash.Resolve(); got != c.want || after != c.after {
			t.Errorf("%s: %q after %s, want %q after %s", name, got, after, c.want, c.after)
		}
	}
	if diff := cmp.Diff([]string{"app.east", "app"}, NamesBelow("app.east", "east")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"app"}, NamesBelow("app", "east")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOfSeveralMirrorsTheOneThatIsBeingDeletedIsMeant(t *testing.T) {
	mirror := func(name string, options ...option) *unstructured.Unstructured {
		u := thing(options...)
		u.SetName(name)
		return u
	}
	for want, mirrors := range map[string][]*unstructured.Unstructured{
		"a":      {mirror("b"), mirror("a"), mirror("c")},
		"b":      {mirror("a"), mirror("b", being)},
		"c":      {mirror("d", being), mirror("c", being), mirror("a")},
		"a.east": {mirror("a.east", being), mirror("a")},
	} {
		if got := FirstMirror(mirrors); got.GetName() != want {
			t.Errorf("%s is meant, not %s", got.GetName(), want)
		}
	}
	if FirstMirror(nil) != nil {
		t.Error("there is one of none")
	}
}
