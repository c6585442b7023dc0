package kube

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMaps  = schema.GroupResource{Resource: "configmaps"}
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	pods        = schema.GroupResource{Resource: "pods"}
)

func newServer(t *testing.T) *Server {
	t.Helper()
	s := New("s", func() time.Time { return time.Unix(1000, 0) })
	create(t, s, Namespaces, object("v1", "Namespace", "", "web", nil))
	return s
}

func object(version, kind, namespace, name string, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	for k, v := range content {
		u.Object[k] = v
	}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func configMap(data map[string]any) *unstructured.Unstructured {
	return object("v1", "ConfigMap", "web", "a", map[string]any{"data": data})
}

func create(t *testing.T, s *Server, gr schema.GroupResource, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := s.Create("test", gr, u)
	if err != nil {
		t.Fatal(err)
	}
	return created.(*unstructured.Unstructured)
}

func TestGenerationsCountChangesOfTheSpec(t *testing.T) {
	s := newServer(t)
	d := create(t, s, deployments, object("apps/v1", "Deployment", "web", "a", map[string]any{"spec": map[string]any{"replicas": int64(1)}}))
	status := d.DeepCopy()
	status.Object["status"] = map[string]any{"replicas": float64(1)}
	if _, err := s.UpdateStatus("test", deployments, status); err != nil {
		t.Fatal(err)
	}
	if got := s.Find(s.KeyOf(deployments, d)); got.GetGeneration() != 1 || got.GetResourceVersion() == d.GetResourceVersion() {
		t.Errorf("after a status: generation %d, version %s", got.GetGeneration(), got.GetResourceVersion())
	}
	if _, err := s.Update("test", deployments, status); !apierrors.IsConflict(err) {
		t.Errorf("an update of an old version: %v", err)
	}
	if err := s.Delete("test", s.KeyOf(deployments, d), DeleteOptions{Propagation: metav1.DeletePropagationForeground}); err != nil {
		t.Fatal(err)
	}
	got := s.Find(s.KeyOf(deployments, d))
	if diff := cmp.Diff([]string{metav1.FinalizerDeleteDependents}, got.GetFinalizers()); diff != "" || got.GetGeneration() != 2 {
		t.Errorf("being deleted: generation %d, finalizers (-want +got):\n%s", got.GetGeneration(), diff)
	}
}

func TestNobodyAddsAFinalizerToWhatIsBeingDeleted(t *testing.T) {
	s := newServer(t)
	u := configMap(nil)
	u.SetFinalizers([]string{"example.com/hold"})
	u = create(t, s, configMaps, u)
	key := s.KeyOf(configMaps, u)
	if err := s.Delete("test", key, DeleteOptions{UID: "other"}); !apierrors.IsConflict(err) {
		t.Errorf("a deletion of another UID: %v", err)
	}
	if err := s.Delete("test", key, DeleteOptions{UID: u.GetUID()}); err != nil {
		t.Fatal(err)
	}
	changed := s.Find(key).DeepCopyObject().(*unstructured.Unstructured)
	changed.SetFinalizers([]string{"example.com/hold", "example.com/more"})
	if _, err := s.Update("test", configMaps, changed); !apierrors.IsInvalid(err) {
		t.Errorf("one more finalizer: %v", err)
	}
	if !s.RemoveFinalizer("test", key, "example.com/hold") || s.Find(key) != nil {
		t.Error("it stays without finalizers")
	}
}

func TestPodsOnANodeTakeTheirTime(t *testing.T) {
	s := newServer(t)
	pod := create(t, s, pods, object("v1", "Pod", "web", "a", map[string]any{"spec": map[string]any{"nodeName": "n"}}))
	key, zero := s.KeyOf(pods, pod), int64(0)
	if err := s.Delete("test", key, DeleteOptions{}); err != nil || s.Find(key) == nil {
		t.Fatalf("gone at once, or %v", err)
	}
	if err := s.Delete("test", key, DeleteOptions{Grace: &zero}); err != nil || s.Find(key) != nil {
		t.Errorf("it stays without grace, or %v", err)
	}
}

func TestAnApplyWithAVersionThatNoObjectHasOnlyCreates(t *testing.T) {
	s := newServer(t)
	mine := configMap(map[string]any{"mine": "1"})
	mine.SetResourceVersion("1")
	if _, err := s.Apply("test", configMaps, mine, "me", false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply("test", configMaps, mine, "me", false); !apierrors.IsConflict(err) {
		t.Errorf("over what exists: %v", err)
	}
	theirs := configMap(map[string]any{"theirs": "1"})
	if _, err := s.Apply("test", configMaps, theirs, "they", false); err != nil {
		t.Errorf("without a version an apply merges: %v", err)
	}
	theirs = configMap(map[string]any{"mine": "2"})
	if _, err := s.Apply("test", configMaps, theirs, "they", false); !apierrors.IsConflict(err) {
		t.Errorf("a field of mine: %v", err)
	}
}

func TestAnEditTakesFieldsFromWhoAppliedThem(t *testing.T) {
	s := newServer(t)
	applied, err := s.Apply("test", configMaps, configMap(map[string]any{"a": "1", "b": "1"}), "me", false)
	if err != nil {
		t.Fatal(err)
	}
	edited := applied.DeepCopyObject().(*unstructured.Unstructured)
	_ = unstructured.SetNestedField(edited.Object, "2", "data", "a") // a path of maps
	got, err := s.Edit("test", configMaps, edited, "they")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for _, e := range got.GetManagedFields() {
		fields[e.Manager] = e.FieldsV1.GetRawString()
	}
	want := map[string]string{"me": `{"f:data":{"f:b":{}}}`, "they": `{"f:data":{"f:a":{}}}`}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestABackupBringsBackUIDsAndRevisionsGoOn(t *testing.T) {
	s := newServer(t)
	kept := create(t, s, configMaps, configMap(map[string]any{"a": "1"}))
	b := s.Backup()
	key := s.KeyOf(configMaps, kept)
	if err := s.Delete("test", key, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := create(t, s, configMaps, configMap(map[string]any{"a": "2"}))
	s.Restore("test", b)
	got := s.Find(key)
	if got.GetUID() != kept.GetUID() || got.GetResourceVersion() <= other.GetResourceVersion() {
		t.Errorf("UID %s, version %s", got.GetUID(), got.GetResourceVersion())
	}
	if _, obj := s.ByUID(other.GetUID()); obj != nil {
		t.Error("what was made since is still there")
	}
}

func TestARewoundServerHasTheRevisionsOfThen(t *testing.T) {
	s := newServer(t)
	kept := create(t, s, configMaps, configMap(map[string]any{"a": "1"}))
	b, then := s.Backup(), s.Revision()
	key := s.KeyOf(configMaps, kept)
	if err := s.Delete("test", key, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := create(t, s, configMaps, configMap(map[string]any{"a": "2"}))
	var audited []Event
	s.Audit = func(e Event) { audited = append(audited, e) }
	s.Rewind("test", b)
	if s.Find(key) != Object(kept) || s.Revision() != then || len(s.Log(configMaps)) != 1 {
		t.Errorf("%v at %d with %d changes", s.Find(key), s.Revision(), len(s.Log(configMaps)))
	}
	if _, obj := s.ByUID(other.GetUID()); obj != nil {
		t.Error("what was made since is still there")
	}
	if len(audited) != 2 {
		t.Errorf("%d changes are shown to who audits", len(audited))
	}
	again := create(t, s, configMaps, object("v1", "ConfigMap", "web", "b", nil))
	if again.GetUID() == other.GetUID() || s.Revision() != then+1 {
		t.Errorf("UID %s, revision %d", again.GetUID(), s.Revision())
	}
}
