//go:build linux

package real

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// leaderWorkerSets is what its chart runs, by the user of its Dockerfile.
var leaderWorkerSets = lab.Operator{Image: "lws/lws:v0.7.0", Binary: "lws", Path: "manager", User: "65532:65532"}

// A program that cannot work unless its webhook sees the pods that controllers make on a physical cluster: it numbers leaders and
// workers, and writes into each where its leader is. Of each leader, a pod that was mirrored, it makes a StatefulSet of workers
// that the leader owns.
func TestLeaderWorkerSetNumbersPodsThatAreMadeOnAPhysicalCluster(t *testing.T) {
	areBuilt(t, leaderWorkerSets)
	chart := rendered(t, "lws", filepath.Join(sources(t, "lws", "sigs.k8s.io/lws"), "charts", "lws"), "--include-crds",
		"--namespace=lws-system", "--set=image.manager.tag=v0.7.0,image.manager.pullPolicy=IfNotPresent")
	loads(t, chart, leaderWorkerSets)
	admitsPods(t, "west")
	offerNames(t, "west")

	n := newTenant(t, "led")
	operator, user := n.namespace(t, "lws-system", "east"), n.namespace(t, "web", "west")
	must(t)(n.Apply(t.Context(), chart, "--server-side"))
	operator.running(t, "lws-controller-manager")
	becomes(t, user, "true", "get", "namespace", "web", "-o", `jsonpath={.metadata.annotations.placement\.atoll\.dev/admits-pods}`)

	eventually(t, func() error { // its webhook answers once it has its certificate
		_, err := user.Apply(t.Context(), group)
		return err
	})
	must(t)(user.Run(t.Context(), "wait", "--for=condition=Available", "--timeout=3m", "leaderworkerset/group"))
	areNumbered(t, user, "group-0", "group-0-1", "group-0-2")
	must(t)(user.Run(t.Context(), "scale", "leaderworkerset", "group", "--replicas=2"))
	areNumbered(t, user, "group-0", "group-0-1", "group-0-2", "group-1", "group-1-1", "group-1-2")
	// The workers of a leader that is gone go with it, and others come.
	before := must(t)(user.Run(t.Context(), "get", "pod", "group-0-2", "-o", "jsonpath={.metadata.uid}"))
	must(t)(user.Run(t.Context(), "delete", "pod", "group-0", "--timeout=3m"))
	eventually(t, func() error {
		uid, err := user.Run(t.Context(), "get", "pod", "group-0-2", "-o", "jsonpath={.metadata.uid}")
		if err == nil && uid == before {
			err = errors.New("the worker is that of the leader that was deleted")
		}
		return err
	})
	areNumbered(t, user, "group-0", "group-0-1", "group-0-2", "group-1", "group-1-1", "group-1-2")
	must(t)(user.Run(t.Context(), "delete", "leaderworkerset", "group"))
	becomes(t, user, "", "get", "statefulsets,pods", "-o", "name")
}

const group = `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: group}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 3
    restartPolicy: RecreateGroupOnPodRestart
    workerTemplate:
      spec:
        terminationGracePeriodSeconds: 1
        containers: [{name: tools, image: "` + lab.ToolsImage + `", args: [hold]}]
`

// admitsPods has a physical cluster whose syncer connects to the server ask about pods, for the rest of the test.
func admitsPods(t *testing.T, on string) {
	t.Helper()
	p := theLab.PhysicalCluster(on)
	patch(t, on, `{"spec":{"pods":{"admission":{"url":"`+p.AdmissionURL()+`","whenUnavailable":"Refuse"}}}}`)
	t.Cleanup(func() {
		must(t)(theLab.Root.Run(context.Background(), "patch", "physicalcluster/"+on, "--type=merge", "-p", `{"spec":{"pods":{"admission":null}}}`))
	})
	must(t)(theLab.Root.Run(t.Context(), "wait", "--for=condition=PodsAdmitted", "physicalcluster/"+on, "--timeout=3m"))
}

// areNumbered waits until these pods run, and each knows its place and finds its leader by name.
func areNumbered(t *testing.T, n tenant, pods ...string) {
	t.Helper()
	for _, pod := range pods {
		leader, worker := pod, "0"
		if parts := strings.Split(pod, "-"); len(parts) == 3 {
			leader, worker = parts[0]+"-"+parts[1], parts[2]
		}
		eventually(t, func() error {
			env, err := n.in(t.Context(), pod, "env")
			if err != nil {
				return err
			}
			got := map[string]string{}
			for line := range strings.Lines(env) {
				if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(name, "LWS_") {
					got[name] = value
				}
			}
			want := map[string]string{"LWS_LEADER_ADDRESS": leader + ".group.web", "LWS_GROUP_SIZE": "3", "LWS_WORKER_INDEX": worker}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("what %s knows (-want +got):\n%s", pod, diff)
			}
			address, err := n.Run(t.Context(), "get", "pod", leader, "-o", "jsonpath={.status.podIP}")
			if err != nil {
				return err
			}
			found, err := n.in(t.Context(), pod, "lookup", got["LWS_LEADER_ADDRESS"])
			if want := got["LWS_LEADER_ADDRESS"] + "\t" + address; err == nil && found != want {
				err = fmt.Errorf("%s finds its leader at %q, want %q", pod, found, want)
			}
			return err
		})
	}
	must(t)(n.Run(t.Context(), "wait", "--for=condition=Ready", "--timeout=3m", "pods", "--all"))
	if got := must(t)(n.Run(t.Context(), "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")); got != strings.Join(pods, " ") {
		t.Errorf("the pods are %s, want %v", got, pods)
	}
}
