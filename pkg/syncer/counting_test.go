package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestAStatusIsMirroredAfterThePodsThatItCounts(t *testing.T) {
	const (
		below = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: n, uid: p1, ownerReferences: [{apiVersion: apps/v1, kind: X, name: x, uid: p-owner, controller: true}]}\nstatus: {replicas: 2}\n"
		above = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: web, uid: l1, ownerReferences: [{apiVersion: apps/v1, kind: X, name: owner, uid: l-owner, controller: true}]}\n"
		other = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: web, uid: l1, labels: {old: x}, ownerReferences: [{apiVersion: apps/v1, kind: X, name: owner, uid: l-owner, controller: true}]}\n"
	)
	pods, _ := workload.Builtin().ByResource(corev1.Resource("pods"))
	pod := func(age time.Duration, going bool) func(*Observation) {
		return func(s *Observation) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetCreationTimestamp(metav1.NewTime(s.Now.Add(-age)))
			if going {
				u.SetDeletionTimestamp(ptr.To(metav1.NewTime(s.Now)))
			}
			s.Made = append(s.Made, Made{Kind: pods, Physical: u})
		}
	}
	for name, c := range map[string]struct {
		logical string
		pods    []func(*Observation)
		want    []Verb
		status  bool
	}{
		"all are mirrored":                  {above, nil, []Verb{UpdateUp}, true},
		"one comes":                         {above, []func(*Observation){pod(time.Second, false)}, []Verb{Wait}, false},
		"one comes, and the labels differ":  {other, []func(*Observation){pod(time.Second, false)}, []Verb{UpdateUp, Wait}, false},
		"one cannot be mirrored":            {above, []func(*Observation){pod(countingTimeout, false)}, []Verb{UpdateUp}, true},
		"one of two comes":                  {above, []func(*Observation){pod(time.Minute, false), pod(0, false)}, []Verb{Wait}, false},
		"one goes":                          {above, []func(*Observation){pod(0, true)}, []Verb{UpdateUp}, true},
		"the clock below is a minute ahead": {above, []func(*Observation){pod(-time.Minute, false)}, []Verb{UpdateUp}, true},
		"it is new itself":                  {"", []func(*Observation){pod(0, false)}, []Verb{CreateUp, Wait}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := observationOf(t, below, c.logical)
			s.Now = time.Unix(1_000_000, 0)
			for _, edit := range c.pods {
				edit(&s)
			}
			var verbs []Verb
			status := false
			for _, a := range Observe(s) {
				verbs = append(verbs, a.Verb)
				status = status || a.Status
			}
			if diff := cmp.Diff(c.want, verbs); diff != "" || status != c.status {
				t.Errorf("status %v (-want +got):\n%s", status, diff)
			}
			if c.logical == "" {
				if _, differs := StatusUp(s, parse(t, above)); differs {
					t.Error("what was just made gets a status that counts pods which are not there")
				}
			}
		})
	}
}

func TestTheReportOfACopyWaitsForWhatItCounts(t *testing.T) {
	const (
		three = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a}\nstatus: {replicas: 3, readyReplicas: 1, observedGeneration: 7}\n"
		same  = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a}\nstatus: {replicas: 3, readyReplicas: 1, observedGeneration: 1}\n"
		fewer = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a}\nstatus: {replicas: 3}\n"
		pod   = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {phase: Pending}\n"
	)
	now := time.Unix(1_000_000, 0)
	made := func(physical, mirror string, age time.Duration, going bool) Made {
		m := Made{Physical: parse(t, physical)}
		m.Kind = kindOf(t, m.Physical)
		m.Physical.SetCreationTimestamp(metav1.NewTime(now.Add(-age)))
		if going {
			m.Physical.SetDeletionTimestamp(ptr.To(metav1.NewTime(now)))
		}
		if mirror != "" {
			m.Mirror = parse(t, mirror)
		}
		return m
	}
	status := func(raw string) placementv1alpha1.CopyStatus {
		return placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, Observed: &runtime.RawExtension{Raw: []byte(raw)}}
	}
	before, after := status(`{"replicas":2}`), status(`{"replicas":3}`)
	removing := status(`{"replicas":3}`)
	removing.State = placementv1alpha1.CopyRemoving
	for name, c := range map[string]struct {
		after  placementv1alpha1.CopyStatus
		made   []Made
		waited time.Duration
		want   time.Duration
	}{
		"it owns nothing":                          {after, nil, 0, 0},
		"all is mirrored":                          {after, []Made{made(three, same, time.Hour, false)}, 0, 0},
		"a mirror counts others":                   {after, []Made{made(three, fewer, time.Hour, false)}, 0, countingInterval},
		"a mirror counts others, of one that goes": {after, []Made{made(three, fewer, time.Hour, true)}, 0, 0},
		"a new one has no mirror":                  {after, []Made{made(three, "", 0, false)}, 0, countingInterval},
		"an old one has none":                      {after, []Made{made(three, "", time.Hour, false)}, 0, 0},
		"a new pod has none":                       {after, []Made{made(pod, "", 0, false)}, 0, countingInterval},
		"it has waited":                            {after, []Made{made(three, fewer, time.Hour, false)}, time.Second, time.Second},
		"it has waited for nearly all":             {after, []Made{made(three, fewer, time.Hour, false)}, countingTimeout - time.Millisecond, time.Millisecond},
		"it has waited for long":                   {after, []Made{made(three, fewer, time.Hour, false)}, countingTimeout, 0},
		"the numbers are as before":                {status(`{"replicas":2,"observedGeneration":9}`), []Made{made(three, fewer, time.Hour, false)}, 0, 0},
		"it is being removed":                      {removing, []Made{made(three, fewer, time.Hour, false)}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := planner{Input: Input{Copy: &placementv1alpha1.Copy{Status: before}, Physical: parse(t, three), Now: now, Made: func(types.UID) []Made { return c.made }}}
			if c.waited > 0 {
				p.Counting = now.Add(-c.waited)
			}
			if got := p.countingDelay(&placementv1alpha1.Copy{Status: c.after}); got != c.want {
				t.Errorf("it waits for %s, want %s", got, c.want)
			}
		})
	}
}
