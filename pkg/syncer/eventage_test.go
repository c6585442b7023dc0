package syncer

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAnEventWaitsForItsObjectButNotForEver(t *testing.T) {
	now := time.Unix(10000, 0)
	event := func(age time.Duration) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"lastTimestamp": now.Add(-age).UTC().Format(time.RFC3339)}}
	}
	for name, c := range map[string]struct {
		age     time.Duration
		known   bool
		started time.Duration // ago
		due     bool
		after   time.Duration
	}{
		"its object is known":                   {time.Second, true, time.Hour, true, 0},
		"its object is not known yet":           {time.Second, false, time.Hour, false, eventInterval},
		"its object does not come":              {time.Minute, false, time.Hour, false, 0},
		"of a while before the session started": {4 * time.Minute, true, 0, true, 0},
		"of long before the session started":    {6 * time.Minute, true, 0, false, 0},
		"of a long session, however old it is":  {time.Hour, true, 2 * time.Hour, true, 0},
	} {
		if due, after := DueEvent(event(c.age), c.known, now.Add(-c.started), now); due != c.due || after != c.after {
			t.Errorf("%s: due %v, after %s", name, due, after)
		}
	}
	made := thing()
	made.SetCreationTimestamp(metav1.Unix(7, 0))
	if got := EventSeen(made); got.Unix() != 7 {
		t.Errorf("without a time it was seen at %s", got)
	}
	series := event(time.Hour)
	series.Object["series"] = map[string]any{"lastObservedTime": now.UTC().Format(time.RFC3339)}
	if got := EventSeen(series); !got.Equal(now) {
		t.Errorf("one of a series was seen at %s", got)
	}
}
