package agent

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
)

func object(uid types.UID, version string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetUID(uid)
	obj.SetResourceVersion(version)
	return obj
}

func TestWhatWasWrittenCountsUntilTheInformerHasIt(t *testing.T) {
	r := newRecent[string, *unstructured.Unstructured]()
	pick := func(informed *unstructured.Unstructured) string {
		got, ok := r.pick("k", informed, informed != nil)
		if !ok {
			return "none"
		}
		return got.GetResourceVersion()
	}
	if got := pick(object("u", "5")); got != "5" {
		t.Errorf("nothing was written: %s", got)
	}
	r.put("k", object("u", "10"))
	if got := pick(object("u", "9")); got != "10" {
		t.Errorf("the informer is late: %s", got)
	}
	if got := pick(nil); got != "10" {
		t.Errorf("the informer has not seen it at all: %s", got)
	}
	if !r.arrived("k", object("u", "10")) {
		t.Error("the echo of the write is not recognized")
	}
	if got := pick(nil); got != "none" {
		t.Errorf("it arrived and is gone again: %s", got)
	}
	r.put("k", object("u", "10"))
	if r.arrived("k", object("u", "11")) {
		t.Error("what somebody else wrote is taken for an echo")
	}
	if got := pick(object("u", "11")); got != "11" {
		t.Errorf("the informer is newer: %s", got)
	}
	r.put("k", object("u", "12"))
	r.forget("k", "another")
	if got := pick(nil); got != "12" {
		t.Errorf("the deletion of another object was held against it: %s", got)
	}
	r.forget("k", "u")
	if got := pick(nil); got != "none" {
		t.Errorf("it was deleted: %s", got)
	}
}

func TestRevertsAreRememberedForEachObjectWithinABound(t *testing.T) {
	var d damper
	now := time.Unix(0, 0)
	key := func(n int) objectKey { return objectKey{Request: controller.Request{Name: strconv.Itoa(n)}} }
	for range 7 {
		d.reverted(key(1), now)
	}
	if got, other := d.get(key(1)).Count, d.get(key(2)).Count; got != 7 || other != 0 {
		t.Errorf("reverted 7 times, it counts %d; another one counts %d", got, other)
	}
	d.forget(key(1))
	if got := d.get(key(1)).Count; got != 0 {
		t.Errorf("forgotten, it counts %d", got)
	}
	for n := range maxReverts {
		d.reverted(key(n), now)
	}
	later := now.Add(time.Hour)
	if d.reverted(key(-1), later); len(d.counts) != 1 {
		t.Errorf("%d are remembered of which one counts", len(d.counts))
	}
	for n := range 3 * maxReverts {
		d.reverted(key(n), later)
	}
	if len(d.counts) > maxReverts {
		t.Errorf("%d are remembered", len(d.counts))
	}
}

func TestAWriteThatTheServerNeverShowsIsNotBelievedForEver(t *testing.T) {
	for name, c := range map[string]struct {
		informed string
		age      time.Duration
		want     string
	}{
		"the informer is late":                        {"9", recentMax / 2, "10"},
		"the server went back and caught up":          {"9", recentMax + time.Second, "9"},
		"versions that nobody can compare":            {"v9", 0, "v9"},
		"a longer number is newer, not a greater one": {"100", 0, "100"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecent[string, *unstructured.Unstructured]()
			r.replies["k"] = reply[*unstructured.Unstructured]{obj: object("u", "10"), at: time.Now().Add(-c.age)}
			if got, ok := r.pick("k", object("u", c.informed), true); !ok || got.GetResourceVersion() != c.want {
				t.Errorf("%s, want %s", got.GetResourceVersion(), c.want)
			}
		})
	}
}
