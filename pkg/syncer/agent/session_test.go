package agent

import (
	"context"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/report"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestASessionFollowsTheCatalogWhileItRuns(t *testing.T) {
	w := viewtest.New(t, []runtime.Object{viewtest.Namespace()}, nil)
	kinds := controller.NewVariable(workload.Builtin())
	a := &Agent{Config: Config{PhysicalCluster: viewtest.Target, Kinds: workload.Builtin()}, kinds: kinds, up: w.Up(), down: w.Down()}
	a.report = report.New(report.Config{PhysicalCluster: viewtest.Target, Up: a.up, Down: a.down, Gate: &connection.Gate{}})
	s := newSession(a, report.World{ControlPlane: viewtest.ControlPlane})
	ctx, cancel := context.WithCancel(w.Ctx)
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := s.view.Start(ctx, &running); err != nil {
		t.Fatal(err)
	}
	running.Go(func() { s.follow(ctx, &running) })

	all := workload.Builtin().All()
	at := slices.IndexFunc(all, func(k workload.Kind) bool { return k.Role == workload.Mirrored })
	more, err := workload.New(slices.Insert(slices.Clone(all), at, viewtest.Widgets)...)
	if err != nil {
		t.Fatal(err)
	}
	widgets := viewtest.Widgets.GroupVersionResource()
	for range 2 {
		kinds.Set(more)
		viewtest.Eventually(t, "a kind that comes is shown", func() bool { return s.view.IsPlaced(widgets) })
		kinds.Set(workload.Builtin())
		viewtest.Eventually(t, "a kind that goes is not", func() bool { return !s.view.IsPlaced(widgets) })
	}
}

func TestCopiesAreLookedAtAnewWhenWhatDecidesThemIsAnother(t *testing.T) {
	for name, c := range map[string]struct {
		now  report.World
		anew bool
	}{
		"nothing":                                {report.World{}, false},
		"permits":                                {report.World{Tenancy: fleetv1alpha1.Tenancy{RuntimeClasses: []string{"gvisor"}}}, true},
		"permits that are written otherwise":     {report.World{Tenancy: fleetv1alpha1.Tenancy{Taints: []string{}}}, false},
		"a RuntimeClass of the physical cluster": {report.World{RuntimeClasses: "digest"}, true},
		"that it has no IngressClass":            {report.World{Classes: boundary.Classes{Ingress: &fleetv1alpha1.ReportedNames{}}}, true},
		"the way to the server":                  {report.World{Server: syncer.Server{Host: "10.0.0.1"}}, true},
		"who answers with names":                 {report.World{Names: "names"}, true},
		"what is declared of volumes":            {report.World{Volumes: []fleetv1alpha1.ClassVolumes{{}}}, true},
		"what is served":                         {report.World{APIs: []string{"/v1/pods"}}, false},
	} {
		if got := decidesAnew(report.World{}, c.now); got != c.anew {
			t.Errorf("%s: %t", name, got)
		}
	}
}
