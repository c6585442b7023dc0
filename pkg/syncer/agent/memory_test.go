package agent

import (
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

func TestTwoWhoDisagreeAboutAnObjectDoNotWriteInTurnForEver(t *testing.T) {
	var d damper
	key := objectKey{Request: controller.Request{Name: "a"}}
	now := time.Unix(0, 0)
	for n := range freeReverts {
		if wait := d.wait(key, now); wait != 0 {
			t.Fatalf("revert %d waits %s", n, wait)
		}
	}
	writes := 0
	for range 3600 { // somebody changes it every second, for an hour
		now = now.Add(time.Second)
		if d.wait(key, now) == 0 {
			writes++
		}
	}
	if writes < 5 || writes > 30 {
		t.Errorf("%d reverts in an hour", writes)
	}
	if wait := d.wait(objectKey{Request: controller.Request{Name: "b"}}, now); wait != 0 {
		t.Error("another object has to wait")
	}
	if wait := d.wait(key, now.Add(calm+time.Minute)); wait != 0 {
		t.Errorf("after a quiet time: %s", wait)
	}
}
