package controller

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/atoll-dev/atoll/pkg/sharing"
)

type partial = metav1.PartialObjectMetadata

func keyOf(o *partial) string { return RequestFor(o).String() }

// TestTheStoreAgreesWithASearch changes a store at random and compares every
// answer with a walk over all objects.
func TestTheStoreAgreesWithASearch(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	labels := func(o *partial) []string {
		return slices.Sorted(func(yield func(string) bool) {
			for _, v := range o.Labels {
				if !yield(v) {
					return
				}
			}
		})
	}
	s := newPackedStore(map[string]func(*partial) []string{"labels": labels})
	naive := map[string]*partial{}
	for range 5000 {
		o := &partial{ObjectMeta: metav1.ObjectMeta{
			Namespace:   []string{"", "n0", "n1"}[random.IntN(3)],
			Name:        fmt.Sprint(random.IntN(20)),
			Annotations: map[string]string{logicalcluster.AnnotationKey: fmt.Sprint("c", random.IntN(2))},
			Labels:      map[string]string{"a": fmt.Sprint(random.IntN(5)), "b": fmt.Sprint(random.IntN(5))},
		}}
		if random.IntN(3) == 0 {
			s.remove(keyOf(o))
			delete(naive, keyOf(o))
		} else {
			s.put(keyOf(o), o)
			naive[keyOf(o)] = o
		}
		value := fmt.Sprint(random.IntN(5))
		var want, got []string
		for key, o := range naive {
			if slices.Contains(labels(o), value) {
				want = append(want, key)
			}
		}
		for o := range s.byIndex("labels", value) {
			got = append(got, keyOf(o))
		}
		if n := s.countIndex("labels", value); n != len(got) {
			t.Fatalf("seed %d: value %s: %d are counted, %d found", seed, value, n, len(got))
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: value %s: %s", seed, value, diff)
		}
		prefix := []string{"", clusterPrefix("c0"), clusterPrefix("c1"), namespacePrefix("c1", "n0"), namespacePrefix("c1", "n"), "c1|2"}[random.IntN(6)]
		want = nil
		for _, key := range slices.Sorted(maps.Keys(naive)) {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		got = nil
		for o := range s.below(prefix) {
			got = append(got, keyOf(o))
		}
		if diff := cmp.Diff(want, got); diff != "" || s.count(prefix, math.MaxInt) != len(want) || s.count(prefix, 1) != min(1, len(want)) {
			t.Fatalf("seed %d: below %q, of which there are %d: %s", seed, prefix, s.count(prefix, math.MaxInt), diff)
		}
		if all := slices.Sorted(maps.Keys(naive)); !slices.Equal(s.keys(), all) || len(s.identities()) != len(all) {
			t.Fatalf("seed %d: the keys are %v, want %v", seed, s.keys(), all)
		}
	}
}

// BenchmarkMetadataHeap prints what one object of a logical cluster costs, and
// how much of that is the copy that the server sent.
func BenchmarkMetadataHeap(b *testing.B) {
	const clusters, each = 10000, 6
	own := func(s string) string { return string([]byte(s)) } // as decoded: not shared
	for range b.N {
		before := heap()
		objs := make([]any, 0, clusters*each)
		for c := range clusters {
			for n := range each {
				objs = append(objs, &partial{
					TypeMeta: metav1.TypeMeta{Kind: own("PartialObjectMetadata"), APIVersion: own("meta.k8s.io/v1")},
					ObjectMeta: metav1.ObjectMeta{
						Namespace: own("default"), Name: fmt.Sprint("object-", n),
						UID: uuid.NewUUID(), ResourceVersion: fmt.Sprint(c*each + n),
						Annotations: map[string]string{own(logicalcluster.AnnotationKey): fmt.Sprint("cluster-", c)},
					},
				})
			}
		}
		sent := heap()
		i := NewInformer("test", &partial{}, ListWatch{}, InformerOptions[*partial]{
			Transform: (&Metadata{maps: &sharing.Maps{}}).trim,
			Indexers:  map[string]func(*partial) []string{OwnerIndex: ownerUIDs},
			newStore:  newPackedStore,
		})
		if err := (sink[*partial]{i}).Replace(objs, "1"); err != nil {
			b.Fatal(err)
		}
		clear(objs)
		b.ReportMetric(float64(sent-before)/(clusters*each), "sent-B/object")
		b.ReportMetric(float64(heap()-before)/(clusters*each), "kept-B/object")
		runtime.KeepAlive(i)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
