package protect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestASyncerSetsNoFinalizersAndNothingThatTheServerActsUpon(t *testing.T) {
	for _, c := range []struct {
		name            string
		sent, old, want *metav1.ObjectMeta
		status          bool
	}{
		{
			name: "what it makes",
			sent: &metav1.ObjectMeta{
				Finalizers:  []string{"example.com/for-ever"},
				Labels:      map[string]string{"app": "a", "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"},
				Annotations: map[string]string{"note": "a", "placement.atoll.dev/cluster": "east"},
			},
			want: &metav1.ObjectMeta{Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"note": "a"}},
		},
		{
			name: "what a controller below manages",
			sent: &metav1.ObjectMeta{Labels: map[string]string{"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
			want: &metav1.ObjectMeta{Labels: map[string]string{"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
		},
		{
			name: "what it changes",
			sent: &metav1.ObjectMeta{Finalizers: []string{"b"}, Annotations: map[string]string{"note": "b"}},
			old:  &metav1.ObjectMeta{Finalizers: []string{"a"}, Annotations: map[string]string{"note": "a", "placement.atoll.dev/cluster": "west"}},
			want: &metav1.ObjectMeta{Finalizers: []string{"a"}, Annotations: map[string]string{"note": "b", "placement.atoll.dev/cluster": "west"}},
		},
		{
			name: "a status", status: true,
			sent: &metav1.ObjectMeta{Finalizers: []string{"b"}, Labels: map[string]string{"b": ""}, Annotations: map[string]string{"note": "b"}, OwnerReferences: []metav1.OwnerReference{{Name: "b"}}},
			old:  &metav1.ObjectMeta{Finalizers: []string{"a"}, Labels: map[string]string{"a": ""}},
			want: &metav1.ObjectMeta{Finalizers: []string{"a"}, Labels: map[string]string{"a": ""}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var old metav1.Object
			if c.old != nil {
				old = c.old
			}
			BySyncer(c.sent, old, c.status)
			if diff := cmp.Diff(c.want, c.sent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOurFinalizerIsTakenOffWhatIsBeingDeletedOnly(t *testing.T) {
	deleted := metav1.NewTime(time.Unix(1, 0))
	for _, c := range []struct {
		sent []string
		old  metav1.ObjectMeta
		want bool
	}{
		{nil, metav1.ObjectMeta{Finalizers: []string{finalizer}}, false},
		{nil, metav1.ObjectMeta{Finalizers: []string{finalizer}, DeletionTimestamp: &deleted}, true},
		{[]string{finalizer}, metav1.ObjectMeta{Finalizers: []string{finalizer}, DeletionTimestamp: &deleted}, false},
	} {
		if got := Released(&metav1.ObjectMeta{Finalizers: c.sent}, &c.old); got != c.want {
			t.Errorf("%v of %v: released %v", c.sent, c.old.Finalizers, got)
		}
	}
}
