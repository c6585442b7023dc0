package protect

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

const (
	targets   = "placement.atoll.dev/targets"
	finalizer = "placement.atoll.dev/copies"
)

func TestHostileKeysOnCreateAreDroppedAndTheRestStays(t *testing.T) {
	obj := &metav1.ObjectMeta{
		Labels: map[string]string{"app": "web", "atoll.dev/managed-by": "me"},
		Annotations: map[string]string{
			targets: `{"east":{}}`, "kcp.io/cluster": "other", "x.y.atoll.dev/z": "1",
			"placement.atoll.dev/cluster": "east", "notatoll.dev/a": "1", "atoll.dev.example.com/a": "1", "kcp.io/other": "1",
		},
		Finalizers: []string{"a", finalizer, "b", "fleet.atoll.dev/copies"},
	}
	Create(obj)
	want := &metav1.ObjectMeta{
		Labels: map[string]string{"app": "web"},
		Annotations: map[string]string{
			"placement.atoll.dev/cluster": "east", "notatoll.dev/a": "1", "atoll.dev.example.com/a": "1", "kcp.io/other": "1",
		},
		Finalizers: []string{"a", "b"},
	}
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnUpdateGetsTheSystemsKeysBack(t *testing.T) {
	stored := metav1.ObjectMeta{
		Labels:      map[string]string{"app": "web"},
		Annotations: map[string]string{targets: `{"east":{}}`, "kcp.io/cluster": "shop", "note": "old"},
		Finalizers:  []string{"a", finalizer, "b"},
	}
	for _, c := range []struct {
		name      string
		sent      metav1.ObjectMeta
		want      metav1.ObjectMeta
		untouched bool
	}{
		{
			name: "that leaves all of it out",
			sent: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Finalizers: []string{"a", "b"}},
			want: metav1.ObjectMeta{
				Labels:      map[string]string{"app": "web"},
				Annotations: map[string]string{targets: `{"east":{}}`, "kcp.io/cluster": "shop"},
				Finalizers:  []string{"a", finalizer, "b"},
			},
		},
		{
			name: "that forges values",
			sent: metav1.ObjectMeta{
				Labels:      map[string]string{"atoll.dev/managed-by": "me"},
				Annotations: map[string]string{targets: `{"west":{}}`, "kcp.io/cluster": "other", "note": "new", "atoll.dev/uid": "1"},
				Finalizers:  []string{finalizer, "fleet.atoll.dev/copies", "b"},
			},
			want: metav1.ObjectMeta{
				Annotations: map[string]string{targets: `{"east":{}}`, "kcp.io/cluster": "shop", "note": "new"},
				Finalizers:  []string{"b", finalizer},
			},
		},
		{
			name: "that removes all finalizers",
			sent: metav1.ObjectMeta{Annotations: stored.Annotations},
			want: metav1.ObjectMeta{Annotations: stored.Annotations, Finalizers: []string{finalizer}},
		},
		{
			name: "that changes none of it",
			sent: metav1.ObjectMeta{Annotations: map[string]string{targets: `{"east":{}}`, "kcp.io/cluster": "shop"}, Finalizers: []string{finalizer, "c"}},
			want: metav1.ObjectMeta{Annotations: map[string]string{targets: `{"east":{}}`, "kcp.io/cluster": "shop"}, Finalizers: []string{finalizer, "c"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			Update(&c.sent, &stored)
			if diff := cmp.Diff(c.want, c.sent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !Equal(&c.sent, &stored) {
				t.Error("the system's keys still differ")
			}
		})
	}
}

// Whatever is sent, the system's keys end up as stored and the user's as sent.
func TestWhoBroughtAnObjectUpLetsItGoOnceItIsBeingDeleted(t *testing.T) {
	now := metav1.Unix(1, 0)
	for _, c := range []struct {
		name     string
		deleting *metav1.Time
		sent     []string
		want     []string
	}{
		{"it is let go", &now, []string{"a", "b"}, []string{"a", "b"}},
		{"it is kept", &now, []string{"a", finalizer, "b"}, []string{"a", finalizer, "b"}},
		{"nobody deletes it", nil, []string{"a", "b"}, []string{"a", finalizer, "b"}},
	} {
		stored := &metav1.ObjectMeta{DeletionTimestamp: c.deleting, Annotations: map[string]string{targets: `{}`}, Finalizers: []string{"a", finalizer, "b"}}
		sent := &metav1.ObjectMeta{DeletionTimestamp: c.deleting, Finalizers: c.sent}
		UpdateObserved(sent, stored)
		want := &metav1.ObjectMeta{DeletionTimestamp: c.deleting, Annotations: stored.Annotations, Finalizers: c.want}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestUpdateDependsOnTheUserForTheUsersKeysOnly(t *testing.T) {
	keys := rapid.SampledFrom([]string{targets, "kcp.io/cluster", "atoll.dev/uid", "a", "b.example.com/c", "placement.atoll.dev/cluster"})
	meta := func(t *rapid.T, name string) *metav1.ObjectMeta {
		m := rapid.MapOfN(keys, rapid.StringN(0, 2, 4), 0, 4)
		return &metav1.ObjectMeta{
			Labels: m.Draw(t, name+" labels"), Annotations: m.Draw(t, name+" annotations"),
			Finalizers: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{finalizer, "fleet.atoll.dev/copies", "a", "b"}), 0, 4, rapid.ID[string]).Draw(t, name+" finalizers"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		sent, stored := meta(t, "sent"), meta(t, "stored")
		got := sent.DeepCopy()
		Update(got, stored)
		if !Equal(got, stored) {
			t.Fatalf("the system's keys are not those that were stored:\n%s", cmp.Diff(stored, got))
		}
		users := func(m *metav1.ObjectMeta) *metav1.ObjectMeta {
			m = m.DeepCopy()
			Create(m) // what is left are the user's keys
			return m
		}
		if diff := cmp.Diff(users(sent), users(got), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the user's keys changed (-sent +got):\n%s", diff)
		}
		again := got.DeepCopy()
		Update(again, got)
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("a second update changes something:\n%s", diff)
		}
	})
}

func TestManagedFieldsOfUsersDoNotClaimTheSystemsKeys(t *testing.T) {
	entry := func(fields string) metav1.ManagedFieldsEntry {
		f := &metav1.FieldsV1{}
		f.SetRawBytes([]byte(fields))
		return metav1.ManagedFieldsEntry{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: f}
	}
	for _, c := range []struct{ name, sent, want string }{
		{
			"annotations, labels and finalizers",
			`{"f:metadata":{"f:annotations":{".":{},"f:note":{},"f:placement.atoll.dev/targets":{},"f:kcp.io/cluster":{}},"f:labels":{"f:atoll.dev/managed-by":{}},"f:finalizers":{".":{},"v:\"placement.atoll.dev/copies\"":{},"v:\"a\"":{}}},"f:spec":{"f:replicas":{}}}`,
			`{"f:metadata":{"f:annotations":{".":{},"f:note":{}},"f:finalizers":{".":{},"v:\"a\"":{}}},"f:spec":{"f:replicas":{}}}`,
		},
		{"nothing but ours", `{"f:metadata":{"f:annotations":{"f:kcp.io/cluster":{}}}}`, `{}`},
		{"the user's own key", `{"f:metadata":{"f:annotations":{"f:placement.atoll.dev/cluster":{}}}}`, `{"f:metadata":{"f:annotations":{"f:placement.atoll.dev/cluster":{}}}}`},
		{"a value that looks like ours", `{"f:data":{"f:placement.atoll.dev/targets":{}}}`, `{"f:data":{"f:placement.atoll.dev/targets":{}}}`},
		{"what cannot be read", `{"f:metadata":["atoll.dev/"]}`, `{"f:metadata":["atoll.dev/"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared := []metav1.ManagedFieldsEntry{entry(`{"f:spec":{}}`), entry(c.sent)}
			obj := &metav1.ObjectMeta{ManagedFields: shared}
			Create(obj)
			if diff := cmp.Diff(c.want, obj.ManagedFields[1].FieldsV1.GetRawString()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := shared[1].FieldsV1.GetRawString(); got != c.sent {
				t.Errorf("the entries of the caller were changed: %s", got)
			}
		})
	}
}
