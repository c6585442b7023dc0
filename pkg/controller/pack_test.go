package controller

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"
)

// minimal is an object as most are.
func minimal() *partial {
	return &partial{ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: "x", UID: "0123abcd-4567-89ef-0123-456789abcdef", ResourceVersion: "42", Generation: 3,
		CreationTimestamp: metav1.Unix(1_700_000_000, 0),
		Labels:            map[string]string{"app": "web"}, Annotations: map[string]string{logicalcluster.AnnotationKey: "a"},
	}}
}

// Whatever metadata an object has, readers get it back: also fields that the next
// release of Kubernetes adds.
func TestMetadataComesBackAsItWasPacked(t *testing.T) {
	t.Parallel()
	check := func(what string, o *partial) {
		t.Helper()
		p := pack(o)
		want := o.DeepCopy()
		if got := unpack(keyOf(o), p); !cmp.Equal(want, got) {
			t.Errorf("%s: (-want +got)\n%s", what, cmp.Diff(want, got))
		}
	}
	check("nothing", &partial{})
	check("as most", minimal())
	for _, uid := range []types.UID{"", "7", "0123ABCD-4567-89ef-0123-456789abcdef", "0123abcd04567-89ef-0123-456789abcdef", "0123abcd-4567-89ef-0123-456789abcde-", "zzzzabcd-4567-89ef-0123-456789abcdef"} {
		o := minimal()
		o.UID = uid
		check("UID "+string(uid), o)
	}
	for _, version := range []string{"", "0", "007", "18446744073709551615", "18446744073709551616", "-1", "x"} {
		o := minimal()
		o.ResourceVersion = version
		check("version "+version, o)
	}
	for _, created := range []metav1.Time{{}, metav1.Unix(0, 0), metav1.Unix(-1, 0), metav1.Unix(5, 7), {Time: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC).Local()}} {
		o := minimal()
		o.CreationTimestamp = created
		check("created "+created.String(), o)
	}
	o := minimal()
	o.Namespace, o.Name = "", "system:node|x"
	check("without a namespace", o)
	check("a name for all", &partial{ObjectMeta: metav1.ObjectMeta{Name: "x"}})

	fill := randfill.New().NilChance(0).NumElements(1, 2)
	for i := range reflect.TypeFor[metav1.ObjectMeta]().NumField() {
		field := reflect.TypeFor[metav1.ObjectMeta]().Field(i)
		if field.Name == "Name" || field.Name == "Namespace" || field.Name == "Annotations" {
			continue // these make the key
		}
		o := minimal()
		fill.Fill(reflect.ValueOf(&o.ObjectMeta).Elem().Field(i).Addr().Interface())
		check(field.Name, o)
	}
	o = minimal()
	o.TypeMeta = metav1.TypeMeta{Kind: "Pod"}
	check("TypeMeta", o)
}

func TestMostObjectsArePacked(t *testing.T) {
	t.Parallel()
	if pack(minimal()).whole != nil {
		t.Error("an object as most are is kept whole")
	}
}

func TestOfAnObjectThatIsNoMoreThanItsMetadataNothingElseIsKept(t *testing.T) {
	t.Parallel()
	active := func(m metav1.ObjectMeta) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: m, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	}
	made := newThinStore(func(n *corev1.Namespace) *metav1.ObjectMeta { return &n.ObjectMeta }, active)(nil)
	meta := minimal().ObjectMeta
	meta.Namespace = ""
	for name, tc := range map[string]struct {
		change func(*corev1.Namespace)
		kept   bool
	}{
		"as most":       {func(*corev1.Namespace) {}, false},
		"another phase": {func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating }, true},
		"more spec":     {func(n *corev1.Namespace) { n.Spec.Finalizers = []corev1.FinalizerName{"x"} }, true},
		"a finalizer":   {func(n *corev1.Namespace) { n.Finalizers = []string{"x"} }, true},
		"an owner":      {func(n *corev1.Namespace) { n.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, true},
	} {
		obj := active(*meta.DeepCopy())
		tc.change(obj)
		want := obj.DeepCopy()
		key := RequestFor(obj).String()
		made.put(key, obj)
		got, found := made.get(key)
		if !found || !cmp.Equal(want, got) {
			t.Errorf("%s: (-want +got)\n%s", name, cmp.Diff(want, got))
		}
		if kept := got == obj; kept != tc.kept {
			t.Errorf("%s: the object itself is kept: %v, want %v", name, kept, tc.kept)
		}
	}
}
