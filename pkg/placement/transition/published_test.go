package transition

import (
	"cmp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// The time in which those who still connect to the old place are served begins when nothing leads
// there any more, not when somebody has decided that.
func TestTheDrainTimeBeginsWhenNothingLeadsThereAnyMore(t *testing.T) {
	const drains = `{"east":{"state":"Draining"},"west":{}}`
	lb := func(ips ...string) string {
		var all []string
		for _, ip := range ips {
			all = append(all, `{"ip":"`+ip+`"}`)
		}
		return `{"loadBalancer":{"ingress":[` + strings.Join(all, ",") + `]}}`
	}
	front := func(targets string, status []any, copies ...string) Object {
		o := serviceOf("web", targets, copies...)
		o.Logical.Object["status"] = map[string]any{"loadBalancer": map[string]any{"ingress": status}}
		return o
	}
	ip := func(s string) map[string]any { return map[string]any{"ip": s, "ipMode": "VIP"} }
	for name, c := range map[string]struct {
		object    Object
		endpoints map[string]int
		notReady  string
		want      string
		lasts     time.Duration
	}{
		"its address is of where it goes": {front(drains, []any{ip("192.0.2.2")}, "east: Synced "+lb("192.0.2.1"), "west: Synced "+lb("192.0.2.2")), nil, "", "", 0},
		"its address is of where it was":  {front(drains, []any{ip("192.0.2.1")}, "east: Synced "+lb("192.0.2.1"), "west: Synced "+lb("192.0.2.2")), nil, "", "Service front: its status still has 192.0.2.1 of east", 0},
		"it has both":                     {front(drains, []any{ip("192.0.2.1"), ip("192.0.2.2")}, "east: Synced "+lb("192.0.2.1"), "west: Synced "+lb("192.0.2.2")), nil, "", "Service front: its status still has 192.0.2.1 of east", 0},
		"both places share it":            {front(drains, []any{ip("192.0.2.1")}, "east: Synced "+lb("192.0.2.1"), "west: Synced "+lb("192.0.2.1")), nil, "", "", 0},
		"one of two is shared":            {front(drains, []any{ip("192.0.2.1"), ip("192.0.2.9")}, "east: Synced "+lb("192.0.2.1", "192.0.2.9"), "west: Synced "+lb("192.0.2.1")), nil, "", "Service front: its status still has 192.0.2.9 of east", 0},
		"it has another one of nobody":    {front(drains, []any{ip("198.51.100.7")}, "east: Synced "+lb("192.0.2.1"), "west: Synced "+lb("192.0.2.2")), nil, "", "", 0},
		"a host name": {front(drains, []any{map[string]any{"hostname": "a.example.com"}}, `east: Synced {"loadBalancer":{"ingress":[{"hostname":"a.example.com"}]}}`, "west: Synced "+lb("192.0.2.2")), nil, "",
			"Service front: its status still has a.example.com of east", 0},
		"it stays there":              {front(`{"east":{},"west":{}}`, []any{ip("192.0.2.1")}, "east: Synced "+lb("192.0.2.1"), "west: Synced "+lb("192.0.2.2")), map[string]int{"east": 3, "west": 3}, "", "", 0},
		"it is removed there already": {front(`{"east":{"state":"Removing"},"west":{}}`, []any{ip("192.0.2.1")}, "east: Removing "+lb("192.0.2.1"), "west: Synced "+lb("192.0.2.2")), map[string]int{"east": 3, "west": 3}, "", "", 0},
		"endpoints are ready there":   {serviceOf("web", drains, "east: Synced", "west: Synced"), map[string]int{"east": 3, "west": 3}, "", "Service front on east: 3 endpoints are not withdrawn yet", 0},
		"one is":                      {serviceOf("web", drains, "east: Synced", "west: Synced"), map[string]int{"east": 1, "west": 3}, "", "Service front on east: 1 endpoint is not withdrawn yet", 0},
		"they are, and nobody there can withdraw them": {serviceOf("web", drains, "east: Synced", "west: Synced"), map[string]int{"east": 3, "west": 3}, "silent", "", 0},
		"they are for longer than any syncer takes":    {serviceOf("web", drains, "east: Synced", "west: Synced"), map[string]int{"east": 3, "west": 3}, "", "", time.Minute},
		"they are where it goes":                       {serviceOf("web", drains, "east: Synced", "west: Synced"), map[string]int{"west": 3}, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			move := &placementv1alpha1.Transition{Phase: draining, Since: metav1.NewTime(noon), From: []string{"east"}, To: []string{"west"}, MoveTimes: placementv1alpha1.MoveTimes{DrainSeconds: 10}}
			s := State{Decided: []string{"west"}, Objects: []Object{c.object}, Now: noon.Add(cmp.Or(c.lasts, 30*time.Second)), Endpoints: map[string]map[string]int{"front": c.endpoints}, NotReady: map[string]string{"east": c.notReady}}
			wantPhase := removing
			if c.want != "" {
				wantPhase = draining
			}
			step := Next(move, s)
			if got := strings.Join(step.Waits, "; "); got != c.want || step.Phase != wantPhase {
				t.Errorf("%s, waits %q; want %s, %q", step.Phase, got, wantPhase, c.want)
			}
			move.Phase = starting
			if got := s.Published(move); got != nil {
				t.Errorf("in the phase Starting: %q", got)
			}
		})
	}
}

func TestTheDrainTimeIsCountedFromThen(t *testing.T) {
	move := &placementv1alpha1.Transition{Phase: draining, Since: metav1.NewTime(noon), From: []string{"east"}, To: []string{"west"}}
	s := State{Decided: []string{"west"}, Objects: []Object{serviceOf("web", `{"east":{"state":"Draining"},"west":{}}`, "east: Synced", "west: Synced")}, Now: noon}
	s.Endpoints = map[string]map[string]int{"front": {"east": 1, "west": 1}}
	if step := Next(move, s); step.Phase != draining { // also where no time is to pass
		t.Errorf("%s, while an endpoint is published", step.Phase)
	}
	s.Endpoints["front"]["east"] = 0
	if step := Next(move, s); step.Phase != removing {
		t.Errorf("%s, when none is", step.Phase)
	}
	move.DrainSeconds, s.DrainsSince, s.Now = 10, noon.Add(time.Minute), noon.Add(time.Minute+9*time.Second)
	if step := Next(move, s); step.Phase != draining || step.Again != time.Second {
		t.Errorf("%s, again in %s", step.Phase, step.Again)
	}
}
