package sharing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// entry is decoded anew with each call, as objects are.
func entry(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: strings.Clone(manager), Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(strings.Clone(fields)),
	}
}

func TestEqualManagedFieldsBecomeOne(t *testing.T) {
	var s Fields
	a, b := []metav1.ManagedFieldsEntry{entry("kubectl", `{"f:data":{}}`), entry("kubectl", `{"f:status":{}}`)}, []metav1.ManagedFieldsEntry{entry("helm", `{"f:data":{}}`)}
	a, b = s.Share(a), s.Share(b)
	if a[0].FieldsV1 != b[0].FieldsV1 || a[0].FieldsV1 == a[1].FieldsV1 {
		t.Error("equal sets are not one, or different ones are")
	}
	want := []metav1.ManagedFieldsEntry{entry("kubectl", `{"f:data":{}}`), entry("kubectl", `{"f:status":{}}`)}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestLargeSetsOfFieldsAndNoneAreLeftAlone(t *testing.T) {
	var s Fields
	large := `{"f:data":{"` + strings.Repeat("x", mostFields) + `":{}}}`
	a, b := []metav1.ManagedFieldsEntry{entry("kubectl", large), {Manager: "reset"}}, []metav1.ManagedFieldsEntry{entry("kubectl", large)}
	a, b = s.Share(a), s.Share(b)
	s.Share(nil)
	if a[0].FieldsV1 == b[0].FieldsV1 || len(s.sets.recent) != 0 || len(s.lists.recent) != 0 || a[1].FieldsV1 != nil {
		t.Errorf("%d sets are remembered", len(s.sets.recent))
	}
}

func TestFieldsAreRememberedForAWhileOnly(t *testing.T) {
	var s Fields
	for i := range 5 * kinds {
		s.Share([]metav1.ManagedFieldsEntry{entry(fmt.Sprint(i), fmt.Sprintf(`{"f:%d":{}}`, i))})
	}
	if n := len(s.lists.recent) + len(s.lists.older); n > 2*moments {
		t.Errorf("%d lists are remembered", n)
	}
	for name, n := range map[string]int{"sets": len(s.sets.recent) + len(s.sets.older), "texts": len(s.texts.recent) + len(s.texts.older)} {
		if n > 2*kinds {
			t.Errorf("%d %s are remembered", n, name)
		}
	}
}

// Entries that differ in anything must not become one: a user would see what somebody
// else manages.
func TestListsOfManagedFieldsAreOneOnlyIfAllIsEqual(t *testing.T) {
	var s Fields
	at := metav1.Unix(1_700_000_000, 0)
	first := func() []metav1.ManagedFieldsEntry {
		e := entry("kubectl", `{"f:data":{}}`)
		e.Time = &metav1.Time{Time: at.Time}
		return []metav1.ManagedFieldsEntry{e}
	}
	shared := s.Share(first())
	if again := s.Share(first()); &again[0] != &shared[0] {
		t.Error("equal lists are not one")
	}
	for name, change := range map[string]func(*metav1.ManagedFieldsEntry){
		"manager":     func(e *metav1.ManagedFieldsEntry) { e.Manager = "helm" },
		"operation":   func(e *metav1.ManagedFieldsEntry) { e.Operation = metav1.ManagedFieldsOperationApply },
		"version":     func(e *metav1.ManagedFieldsEntry) { e.APIVersion = "v2" },
		"type":        func(e *metav1.ManagedFieldsEntry) { e.FieldsType = "" },
		"subresource": func(e *metav1.ManagedFieldsEntry) { e.Subresource = "status" },
		"time":        func(e *metav1.ManagedFieldsEntry) { e.Time = &metav1.Time{Time: at.Add(1)} },
		"no time":     func(e *metav1.ManagedFieldsEntry) { e.Time = nil },
		"fields":      func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = metav1.NewFieldsV1(`{"f:status":{}}`) },
		"no fields":   func(e *metav1.ManagedFieldsEntry) { e.FieldsV1 = nil },
	} {
		changed := first()
		change(&changed[0])
		want := changed[0].DeepCopy()
		got := s.Share(changed)
		if diff := cmp.Diff([]metav1.ManagedFieldsEntry{*want}, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if two := s.Share(append(first(), first()...)); len(two) != 2 {
		t.Errorf("two entries became %d", len(two))
	}
	if diff := cmp.Diff(first(), shared); diff != "" {
		t.Errorf("what is shared was changed: %s", diff)
	}
}
