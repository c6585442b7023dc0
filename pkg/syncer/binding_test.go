package syncer

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

func TestAStatusIsMirroredAfterThePodsThatItCounts(t *testing.T) {
	const (
		below = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: n, uid: p1, ownerReferences: [{apiVersion: apps/v1, kind: X, name: x, uid: p-owner, controller: true}]}\nstatus: {replicas: 2}\n"
		above = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: web, uid: l1, ownerReferences: [{apiVersion: apps/v1, kind: X, name: owner, uid: l-owner, controller: true}]}\n"
		other = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: web, uid: l1, labels: {old: x}, ownerReferences: [{apiVersion: apps/v1, kind: X, name: owner, uid: l-owner, controller: true}]}\n"
	)
	pod := func(age time.Duration, going bool) func(*Observation) {
		return func(s *Observation) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetCreationTimestamp(metav1.NewTime(s.Now.Add(-age)))
			if going {
				u.SetDeletionTimestamp(ptr.To(metav1.NewTime(s.Now)))
			}
			s.Unmirrored = append(s.Unmirrored, u)
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
