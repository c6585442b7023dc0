package controller

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// A CronJob runs in one place of a division: it is stopped elsewhere, and that it waits is said.
func TestACronJobIsStoppedWhereADivisionDoesNotHaveIt(t *testing.T) {
	for name, c := range map[string]struct {
		targets string
		stamps  bool
		kept    string
	}{
		"each had it":             {targets: `{"east":{},"west":{}}`, stamps: true},
		"it leaves":               {targets: `{"east":{},"west":{"state":"Removing"}}`, kept: "CronJob web is removed from west, as it runs in one place"},
		"it waits":                {targets: `{"east":{"state":"Waiting"},"west":{"state":"Removing"}}`, kept: "CronJob web begins on east once it is gone from west"},
		"it is gone elsewhere":    {targets: `{"east":{"state":"Waiting"}}`, stamps: true},
		"it is where it is to be": {targets: `{"east":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := placementOf("east", "west")
			p.Spec.Decision.Division = &placementv1alpha1.DecidedDivision{By: placementv1alpha1.DivideByWeights, Targets: []placementv1alpha1.DecidedReplicas{
				{PhysicalCluster: "east", Weight: 1}, {PhysicalCluster: "west", Weight: 1},
			}}
			f := newFixture(t, complete(), p)
			cronJob := whole("CronJob", "t-1", c.targets, map[string]any{"schedule": "* * * * *"})
			cronJob.SetAPIVersion("batch/v1")
			lists := map[schema.GroupVersionResource]string{}
			for _, kind := range f.Kinds.Current().Kinds() {
				lists[kind.GroupVersionResource()] = kind.Kind + "List"
			}
			f.Dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, cronJob)
			u, ok, err := f.read(t.Context(), web)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			result, err := f.share(t.Context(), u, verdict{})
			if err != nil {
				t.Fatal(err)
			}
			if stamps := slices.ContainsFunc(f.writes(), func(w string) bool { return strings.HasPrefix(w, "patch cronjobs web") }); stamps != c.stamps {
				t.Errorf("stamped: %v: %q", stamps, f.writes())
			}
			if got := strings.Join(u.kept, "; "); got != c.kept {
				t.Errorf("it says %q, want %q", got, c.kept)
			}
			if again := result.RequeueAfter > 0; again != (c.kept != "") {
				t.Errorf("it is looked at again: %v", again)
			}
		})
	}
}
