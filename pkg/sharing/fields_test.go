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
	s.Share(a)
	s.Share(b)
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
	s.Share(a)
	s.Share(b)
	s.Share(nil)
	if a[0].FieldsV1 == b[0].FieldsV1 || len(s.sets.recent) != 0 || a[1].FieldsV1 != nil {
		t.Errorf("%d sets are remembered", len(s.sets.recent))
	}
}

func TestFieldsAreRememberedForAWhileOnly(t *testing.T) {
	var s Fields
	for i := range 5 * kinds {
		s.Share([]metav1.ManagedFieldsEntry{entry(fmt.Sprint(i), fmt.Sprintf(`{"f:%d":{}}`, i))})
	}
	for name, n := range map[string]int{"sets": len(s.sets.recent) + len(s.sets.older), "texts": len(s.texts.recent) + len(s.texts.older)} {
		if n > 2*kinds {
			t.Errorf("%d %s are remembered", n, name)
		}
	}
}
