package transition

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func six(targets string, copies ...string) Object {
	return object(deployments, "web", targets, map[string]any{"replicas": int64(6)}, copies...)
}

func TestNoPartGoesBeforeTheOthersMakeGoodForIt(t *testing.T) {
	t.Parallel()
	const undivided = `{"east":{},"west":{"replicas":3}}`
	const one, swap = `{"east":{"replicas":6},"west":{"replicas":3}}`, `{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":3}}`
	for _, c := range []struct {
		name    string
		decided []string
		object  Object
		waits   string
	}{
		{"the other one has its own part only", []string{"east"}, six(one, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), "Deployment web: 3 of 6 pods are available"},
		{"the other one has all", []string{"east"}, six(one, `east: Synced {"availableReplicas":6}`, `west: Synced {"availableReplicas":3}`), ""},
		{"what goes had one", []string{"east"}, six(one, `east: Synced {"availableReplicas":4}`, `west: Synced {"availableReplicas":1}`), ""},
		{"what goes had none", []string{"east"}, six(one, `east: Synced {"availableReplicas":2}`, `west: Synced {"availableReplicas":0}`), ""},
		{"what comes is not there yet", []string{"east", "north"}, six(swap, `east: Synced {"availableReplicas":3}`, `north: Synced {"availableReplicas":1}`, `west: Synced {"availableReplicas":3}`), "Deployment web: 4 of 6 pods are available"},
		{"what comes is there", []string{"east", "north"}, six(swap, `east: Synced {"availableReplicas":3}`, `north: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), ""},
		{"what stays was short, and is", []string{"east", "north"}, six(swap, `east: Synced {"availableReplicas":1}`, `north: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), ""},
		{"divided no more, and not raised yet", []string{"east"}, six(undivided, `east: Synced {"availableReplicas":3}`, `west: Synced {"availableReplicas":3}`), "Deployment web: 3 of 6 pods are available"},
		{"divided no more, and raised", []string{"east"}, six(undivided, `east: Synced {"availableReplicas":6}`, `west: Synced {"availableReplicas":3}`), ""},
		{"divided no more, what goes had none", []string{"east"}, six(undivided, `east: Synced {"availableReplicas":2}`, `west: Synced {"availableReplicas":0}`), ""},
		{"all of one in two parts", []string{"east", "north"}, six(`{"east":{"replicas":3},"north":{"replicas":3},"west":{"replicas":6}}`,
			`east: Synced {"availableReplicas":3}`, `north: Synced {"availableReplicas":2}`, `west: Synced {"availableReplicas":6}`), "Deployment web: 5 of 6 pods are available"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			transition := &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), From: []string{"west"}, To: []string{"north"}}
			step := Next(transition, State{Decided: c.decided, Objects: []Object{c.object}, Now: noon})
			if got := strings.Join(step.Waits, "; "); got != c.waits {
				t.Errorf("it waits for %q, want %q", got, c.waits)
			}
			if want := c.waits == ""; (step.Phase == removing) != want {
				t.Errorf("the phase is %s", step.Phase)
			}
		})
	}
}

func TestAServiceWaitsForTheEndpointsOfAllThatIsAvailableOfAPart(t *testing.T) {
	t.Parallel()
	const targets = `{"east":{"replicas":6},"west":{"replicas":3}}`
	app := object(deployments, "web", targets, map[string]any{
		"replicas": int64(6), "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}},
	}, `east: Synced {"availableReplicas":6}`, `west: Synced {"availableReplicas":3}`)
	front := serviceOf("web", `{"east":{},"west":{}}`, "east: Synced", "west: Synced")
	transition := &placementv1alpha1.Transition{Phase: starting, Since: metav1.NewTime(noon), From: []string{"west"}}
	s := State{Decided: []string{"east"}, Objects: []Object{app, front}, Now: noon}
	for ready, want := range map[int]string{3: "Service front on east: 3 of 6 endpoints are ready", 6: ""} {
		s.Endpoints = map[string]map[string]int{"front": {"east": ready, "west": 3}}
		if got := strings.Join(Next(transition, s).Waits, "; "); got != want {
			t.Errorf("with %d: %q, want %q", ready, got, want)
		}
	}
}
