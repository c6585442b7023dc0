package controller

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"
)

// values are what JSON is read as.
func values(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.String().AsAny(),
		rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).AsAny(),
		rapid.SampledFrom([]any{int64(math.MaxInt64), 1e300, 5e-324, 1.0, "", "\xff\xfe", "0", "2026-11-28T00:00:00Z", "aGk="}),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	return rapid.OneOf(append(leaves,
		rapid.SliceOfN(values(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), values(depth-1), 0, 4).AsAny())...)
}

// forgotten is e as it is when the collector has been there.
func forgotten(e *encoded) *encoded {
	return &encoded{identity: e.identity, bytes: e.bytes, whole: e.whole}
}

func TestObjectsComeBackAsTheyWereEncoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		obj := &unstructured.Unstructured{Object: rapid.MapOfN(rapid.String(), values(4), 0, 6).Draw(t, "object")}
		obj.SetName("x")
		obj.SetUID("u")
		obj.SetResourceVersion("7")
		e := encode(obj)
		if e.identity != (identity{"u", "7"}) {
			t.Fatalf("got %+v", e.identity)
		}
		if diff := cmp.Diff(obj.Object, forgotten(e).object().Object); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// What a tenant may store, or a physical cluster show, must not end the process.
func TestWhateverIsReadComesBack(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"as deep as JSON may be": `{"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`,
		"deep maps":              strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000),
		"a long list":            `{"a":[` + strings.Repeat("1,", 300_000) + `1]}`,
		"large numbers":          `{"a":[18446744073709551615,9223372036854775808,-9223372036854775809,1e308,0.1,-0,-0.0,1E+2]}`,
		"names":                  `{"":1,"\u0000":2,"\ud800":3,"é":4}`,
	} {
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := forgotten(encode(&unstructured.Unstructured{Object: object})).object().Object; !reflect.DeepEqual(object, got) { // cmp takes more than ten minutes for such depth
			t.Errorf("%s: it comes back as %.2000v", name, got)
		}
	}
}

func TestWhatWouldNotComeBackIsKept(t *testing.T) {
	t.Parallel()
	var maps, lists any
	for range 10_001 {
		maps, lists = map[string]any{"": maps}, []any{lists}
	}
	for name, object := range map[string]map[string]any{"no JSON": {"a": make(chan int)}, "maps, too deep": {"": maps}, "lists, too deep": {"": lists}} {
		obj := &unstructured.Unstructured{Object: object}
		if forgotten(encode(obj)).object() != obj {
			t.Errorf("%s: it is another one", name)
		}
	}
}

// What is too deep is longer than what is not tried: lists are the shortest levels.
func TestWhatIsNotTriedIsNeverTooDeep(t *testing.T) {
	t.Parallel()
	var v any
	for range alwaysDecoded - 8 {
		v = []any{v}
	}
	e := encode(&unstructured.Unstructured{Object: map[string]any{"": v}})
	if e.whole != nil || len(e.bytes) > alwaysDecoded {
		t.Fatalf("%d bytes", len(e.bytes))
	}
	forgotten(e).object() // does not panic
}

// Readers share one object while any of them has it.
func TestReadersShareWhatWasDecoded(t *testing.T) {
	t.Parallel()
	e := forgotten(encode(&unstructured.Unstructured{Object: map[string]any{"a": "b"}}))
	first := e.object()
	for range 3 {
		runtime.GC()
		if e.object() != first {
			t.Fatal("another one was decoded")
		}
	}
	runtime.KeepAlive(first)
}

func TestInformersKeepBytesOfUnstructuredObjects(t *testing.T) {
	t.Parallel()
	i := NewInformer("test", &unstructured.Unstructured{}, ListWatch{}, InformerOptions[*unstructured.Unstructured]{})
	if _, ok := i.store.(*tree[*unstructured.Unstructured, *encoded]); !ok {
		t.Errorf("the store is a %T", i.store)
	}
	typed := NewInformer("test", &appsv1.Deployment{}, ListWatch{}, InformerOptions[*appsv1.Deployment]{})
	if _, ok := typed.store.(*tree[*appsv1.Deployment, *appsv1.Deployment]); !ok {
		t.Errorf("the store is a %T", typed.store)
	}
}

// BenchmarkUnstructuredHeap prints what an informer keeps of an object below, and what reading
// it costs after a collection.
func BenchmarkUnstructuredHeap(b *testing.B) {
	text, err := os.ReadFile(filepath.Join("testdata", "deployment.json"))
	if err != nil {
		b.Fatal(err)
	}
	const n = 2000
	read := func(i int) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal(text, &obj.Object); err != nil {
			b.Fatal(err)
		}
		obj.SetName(fmt.Sprint("d-", i))
		obj.SetUID(uuid.NewUUID())
		return obj
	}
	keep := func(b *testing.B, newStore func(map[string]func(*unstructured.Unstructured) []string) store[*unstructured.Unstructured]) {
		before := heap()
		s := newStore(nil)
		for i := range n {
			obj := read(i)
			s.put(obj.GetName(), obj)
		}
		b.ReportMetric(float64(heap()-before)/n, "B/object")
		runtime.KeepAlive(s)
	}
	b.Run("as they are", func(b *testing.B) {
		for b.Loop() {
			keep(b, newStore[*unstructured.Unstructured])
		}
	})
	b.Run("encoded", func(b *testing.B) {
		for b.Loop() {
			keep(b, newEncodedStore)
		}
	})
	e := encode(read(0))
	b.Run("encode", func(b *testing.B) {
		obj := read(0)
		b.ReportAllocs()
		for b.Loop() {
			encode(obj)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			forgotten(e).object()
		}
	})
	b.Run("decode JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			read(0)
		}
	})
}

// TestTheEncodedStoreIndexesAsItDid changes and removes objects that the collector took.
func TestTheEncodedStoreIndexesAsItDid(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	value := func(o *unstructured.Unstructured) []string { return []string{o.GetLabels()["a"]} }
	s := newEncodedStore(map[string]func(*unstructured.Unstructured) []string{"a": value})
	naive := map[string]string{}
	for n := range 500 {
		name, a := fmt.Sprint(random.IntN(20)), fmt.Sprint(random.IntN(3))
		obj := &unstructured.Unstructured{}
		obj.SetName(name)
		obj.SetAnnotations(map[string]string{logicalcluster.AnnotationKey: "c"})
		obj.SetLabels(map[string]string{"a": a})
		key := RequestFor(obj).String()
		if random.IntN(3) == 0 {
			s.remove(key)
			delete(naive, key)
		} else {
			s.put(key, obj)
			naive[key] = a
		}
		if n%50 == 0 {
			runtime.GC()
		}
		for _, v := range []string{"0", "1", "2"} {
			found := map[string]string{}
			for o := range s.byIndex("a", v) {
				found[RequestFor(o).String()] = v
			}
			want := map[string]string{}
			for key, a := range naive {
				if a == v {
					want[key] = a
				}
			}
			if diff := cmp.Diff(want, found); diff != "" {
				t.Fatalf("step %d: (-want +got)\n%s", n, diff)
			}
		}
	}
}
