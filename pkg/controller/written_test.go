package controller_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/atoll-dev/atoll/pkg/controller"
)

func ofVersion(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: version}}
}

// newest is the version of what is known; "" of an informer is nothing.
func newest(w *controller.Written[string, *corev1.ConfigMap], informed string) string {
	var obj *corev1.ConfigMap
	if informed != "" {
		obj = ofVersion(informed)
	}
	got, ok := w.Newest("k", obj, obj != nil)
	if !ok {
		return "nothing"
	}
	return got.ResourceVersion
}

func TestTheNewerOfWhatWasWrittenAndWhatAnInformerHasCounts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written, informed string
		age               time.Duration
		want              string
		kept              bool
	}{
		"nothing was written":                          {"", "9", 0, "9", false},
		"nothing was written, and nothing is there":    {"", "", 0, "nothing", false},
		"the informer is late":                         {"10", "9", 29 * time.Second, "10", true},
		"the informer has not seen it at all":          {"10", "", 4 * time.Second, "10", true},
		"the informer has it":                          {"10", "10", 0, "10", false},
		"the informer has what others wrote later":     {"10", "11", 0, "11", false},
		"a longer number is newer, not a greater text": {"10", "100", 0, "100", false},
		"the server went back and caught up":           {"10", "9", 31 * time.Second, "9", false},
		"it is gone again, and no watch passed so":     {"10", "", 6 * time.Second, "nothing", false},
		"a version of the informer that is no number":  {"10", "v9", 0, "v9", false},
		"a version of the answer that is no number":    {"v10", "9", 0, "9", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controller.NewWritten[string, *corev1.ConfigMap]()
				if c.written != "" {
					w.Put("k", ofVersion(c.written))
				}
				time.Sleep(c.age) // of the bubble
				if got := newest(w, c.informed); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				if kept := w.Len() > 0; kept != c.kept {
					t.Errorf("remembered: %v", kept)
				}
			})
		})
	}
}

func TestAWriteIsBelievedUntilTheInformerHasGotAsFar(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		informed, reached string
		// later is what the informer has by the time at which it is asked how far it is.
		later, want string
		kept        bool
	}{
		"a watch that was cut for minutes":               {"9", "9", "9", "10", true},
		"one that has not shown it at all":               {"", "9", "", "10", true},
		"deleted by others, as the informer knows":       {"", "12", "", "nothing", false},
		"an older one from a server that went back":      {"9", "10", "9", "9", false},
		"the informer got there while it was asked":      {"9", "11", "11", "11", false},
		"it is deleted while the informer is asked":      {"9", "11", "", "nothing", false},
		"the informer has it, and is no further":         {"10", "10", "10", "10", false},
		"what others wrote later, of which it tells now": {"11", "9", "11", "11", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controller.NewWritten[string, *corev1.ConfigMap]()
				w.Reached = func(_, version string) bool {
					c, err := resourceversion.CompareResourceVersion(c.reached, version)
					return err == nil && c >= 0
				}
				w.Informed = func(string) (*corev1.ConfigMap, bool) {
					if c.later == "" {
						return nil, false
					}
					return ofVersion(c.later), true
				}
				w.Put("k", ofVersion("10"))
				time.Sleep(time.Hour) // of the bubble
				if got := newest(w, c.informed); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
				if kept := w.Len() > 0; kept != c.kept {
					t.Errorf("remembered: %v", kept)
				}
			})
		})
	}
}

func TestWhatAServerSaysIsGoneIsNotHadFromAnInformerThatIsLate(t *testing.T) {
	t.Parallel()
	other := ofVersion("12")
	other.UID = "v"
	for name, c := range map[string]struct {
		age      time.Duration
		informed *corev1.ConfigMap
		// later is what happens after the answer.
		later func(w *controller.Written[string, *corev1.ConfigMap])
		found bool
	}{
		"the informer has it":                     {0, ofVersion("9"), nil, false},
		"for half a minute":                       {31 * time.Second, ofVersion("9"), nil, true},
		"the informer has another one":            {0, other, nil, true},
		"another one was written":                 {0, ofVersion("9"), func(w *controller.Written[string, *corev1.ConfigMap]) { w.Put("k", other) }, true},
		"the informer has heard of it, and again": {0, ofVersion("9"), func(w *controller.Written[string, *corev1.ConfigMap]) { w.Forget("k", "u") }, true},
		"another one is gone":                     {0, ofVersion("9"), func(w *controller.Written[string, *corev1.ConfigMap]) { w.Forget("k", "v") }, false},
		"an event of before comes":                {0, ofVersion("9"), func(w *controller.Written[string, *corev1.ConfigMap]) { w.Arrived("k", ofVersion("9")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := controller.NewWritten[string, *corev1.ConfigMap]()
				w.Put("k", ofVersion("10"))
				w.Gone("k", "u")
				if c.later != nil {
					c.later(w)
				}
				if _, found := w.Newest("k", nil, false); found && c.later == nil {
					t.Error("it is found though the informer does not have it")
				}
				time.Sleep(c.age) // of the bubble
				if _, found := w.Newest("k", c.informed, true); found != c.found {
					t.Errorf("found: %v", found)
				}
			})
		})
	}
}

func TestAnOwnWriteThatComesBackIsNotTakenForThatOfAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arrives string
		own     bool
		left    string
	}{
		"one before it":          {"9", false, "10"},
		"the write":              {"10", true, ""},
		"one after it":           {"11", false, ""},
		"one nobody can compare": {"x", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := controller.NewWritten[string, *corev1.ConfigMap]()
			if w.Arrived("k", ofVersion(c.arrives)) {
				t.Error("nothing was written, but it is taken for an own write")
			}
			w.Put("k", ofVersion("10"))
			if got := w.Arrived("k", ofVersion(c.arrives)); got != c.own {
				t.Errorf("own: %v", got)
			}
			if got := w.Version("k"); got != c.left {
				t.Errorf("version %q is still to come back, not %q", got, c.left)
			}
			if again := w.Outstanding("k") > 0; again != (c.left != "") {
				t.Errorf("to be looked at again: %v", again)
			}
		})
	}
}

func TestADeletionForgetsTheWriteToTheObjectOfItsUIDOnly(t *testing.T) {
	t.Parallel()
	w := controller.NewWritten[string, *corev1.ConfigMap]()
	w.Put("k", ofVersion("10"))
	w.Forget("k", "another")
	if got := newest(w, ""); got != "10" {
		t.Errorf("the deletion of another object was held against it: %s", got)
	}
	w.Forget("k", "u")
	if got := newest(w, ""); got != "nothing" {
		t.Errorf("it was deleted: %s", got)
	}
	w.Forget("k", "u")
}

func TestOwnWritesAreRememberedWithinABound(t *testing.T) {
	t.Parallel()
	w := controller.NewWritten[int, *corev1.ConfigMap]()
	passed := 0
	w.OnPut = func(*corev1.ConfigMap) { passed++ }
	const many = 10000
	for n := range many {
		w.Put(n, ofVersion(strconv.Itoa(n+1)))
	}
	if w.Len() > many/2 {
		t.Errorf("%d are remembered", w.Len())
	}
	if got := w.Version(many - 1); got != strconv.Itoa(many) {
		t.Errorf("the last one is forgotten: %q", got)
	}
	if passed != many {
		t.Errorf("%d answers were passed on", passed)
	}
}
