package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// maxEventAge is how old an event may be, at the start of a session, to be mirrored:
	// after a restart, the ones that are likely to be missing.
	maxEventAge = 5 * time.Minute
	// eventTimeout is how long an event waits for its object to be mirrored, looking at
	// each eventInterval.
	eventTimeout  = 15 * time.Second
	eventInterval = time.Second
)

// DueEvent says whether an event below is to be mirrored, or when to look again; if
// neither, never. known says that there is an object above for the one that it is about.
//
//	last seen                            its object above  then
//	more than maxEventAge before the     any               never
//	session started
//	later                                known             mirror it
//	later, less than eventTimeout ago    unknown           look again
//	later, before that                   unknown           never
func DueEvent(event *unstructured.Unstructured, known bool, started, now time.Time) (due bool, after time.Duration) {
	seen := EventSeen(event)
	switch {
	case seen.Before(started.Add(-maxEventAge)):
		return false, 0
	case known:
		return true, 0
	case now.Sub(seen) < eventTimeout:
		return false, eventInterval
	}
	return false, 0
}

// EventSeen is when an event was last seen.
func EventSeen(event *unstructured.Unstructured) time.Time {
	var latest time.Time
	for _, path := range [][]string{{"lastTimestamp"}, {"eventTime"}, {"series", "lastObservedTime"}} {
		text, _, _ := unstructured.NestedString(event.Object, path...)
		if t, err := time.Parse(time.RFC3339, text); err == nil && t.After(latest) {
			latest = t
		}
	}
	if latest.IsZero() {
		return event.GetCreationTimestamp().Time
	}
	return latest
}
