package controller

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"pgregory.net/rapid"
)

func drain[K comparable](q *fair[K]) (out []K) {
	for q.Len() > 0 {
		out = append(out, q.Pop())
	}
	return out
}

func TestTheQueueIsRoundRobinOverLogicalClusters(t *testing.T) {
	t.Parallel()
	q := newFair[Request]()
	for _, key := range []Request{{"big", "", "1"}, {"big", "", "2"}, {"big", "", "3"}, {"big", "", "4"}, {"small", "", "1"}, {"other", "", "1"}, {"small", "", "2"}} {
		q.Push(key)
	}
	want := []Request{{"big", "", "1"}, {"small", "", "1"}, {"other", "", "1"}, {"big", "", "2"}, {"small", "", "2"}, {"big", "", "3"}, {"big", "", "4"}}
	if diff := cmp.Diff(want, drain(q)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestKeysWithoutALogicalClusterComeInOrder(t *testing.T) {
	t.Parallel()
	q := newFair[string]()
	for _, key := range []string{"a", "b", "c"} {
		q.Push(key)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, drain(q)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// Between two keys of one logical cluster, no other one that waits all the time is
// left out, nor has two; within each, the order is that of arrival; nothing is lost.
func TestNobodyIsPassedOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, n := newFair[Request](), 0
		sent, got := map[logicalcluster.Name][]Request{}, map[logicalcluster.Name][]Request{}
		var since []logicalcluster.Name // who was popped since the last push
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if q.Len() == 0 || rapid.Bool().Draw(t, "push") {
				cluster := logicalcluster.Name(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "cluster"))
				n++
				key := Request{Cluster: cluster, Name: fmt.Sprint(n)}
				q.Push(key)
				sent[cluster], since = append(sent[cluster], key), nil
				continue
			}
			waiting := len(q.waiting)
			key := q.Pop()
			got[key.Cluster] = append(got[key.Cluster], key)
			for i := len(since) - 1; i >= 0 && len(since)-i < waiting; i-- {
				if since[i] == key.Cluster {
					t.Fatalf("%s comes again after %v, with %d waiting", key.Cluster, since, waiting)
				}
			}
			since = append(since, key.Cluster)
		}
		for _, key := range drain(q) {
			got[key.Cluster] = append(got[key.Cluster], key)
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Fatalf("within logical clusters (-sent +got):\n%s", diff)
		}
	})
}

// Keys with priority do not wait behind thousands of others, nor the other way round, and none of it concerns
// other logical clusters.
func TestKeysWithPriorityAndOthersAlternate(t *testing.T) {
	t.Parallel()
	q := newFair[Request]()
	WithPriority(func(r Request) bool { return r.Name[0] == 'm' })(q)
	for _, key := range []Request{{"big", "", "1"}, {"big", "", "2"}, {"big", "", "3"}, {"big", "", "m1"}, {"small", "", "1"}, {"big", "", "m2"}, {"big", "", "m3"}, {"big", "", "m4"}, {"small", "", "2"}} {
		q.Push(key)
	}
	want := []Request{{"big", "", "m1"}, {"small", "", "1"}, {"big", "", "1"}, {"small", "", "2"}, {"big", "", "m2"}, {"big", "", "2"}, {"big", "", "m3"}, {"big", "", "3"}, {"big", "", "m4"}}
	if diff := cmp.Diff(want, drain(q)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if len(q.waiting) != 0 || len(q.ring) != 0 {
		t.Errorf("left: %v %v", q.waiting, q.ring)
	}
}

// While some logical clusters have calls that do not end, fewer than half as many as there are workers, each with as many
// keys as there may be, one that comes finds a worker.
func TestWhoComesFindsAWorker(t *testing.T) {
	t.Parallel()
	const workers = 36
	for hogs, want := range map[int][]int{1: {24, 12}, 2: {14, 7}, 8: {4, 2}, 17: {2, 1}} {
		q := newFair[Request]()
		WithShares(q)
		q.shares.workers = workers
		for i := range hogs {
			for n := range workers {
				q.Push(Request{Cluster: logicalcluster.Name(fmt.Sprint("hog-", i)), Name: fmt.Sprint(n)})
			}
		}
		begun, calls := map[logicalcluster.Name]int{}, drain(q)
		for _, key := range calls {
			begun[key.Cluster]++
		}
		for cluster, n := range begun {
			if n < want[0] || n > want[0]+1 {
				t.Errorf("of %d, %s has %d", hogs, cluster, n)
			}
		}
		if free := workers - len(q.shares.calls); free < want[1] {
			t.Errorf("%d leave %d", hogs, free)
		}
		q.Push(Request{Cluster: "other"})
		if q.Len() == 0 || q.Pop().Cluster != "other" {
			t.Errorf("beside %d it has to wait", hogs)
		}
		if q.Len() != 0 {
			t.Error("there is room for others, which was made by nobody")
		}
		for _, key := range calls {
			if key.Cluster == "hog-0" {
				q.shares.end(key)
			}
		}
		if q.Len() == 0 {
			t.Error("who has ended all calls begins none")
		}
	}
}

func TestKeysThatNameNoLogicalClusterMayBeOfOne(t *testing.T) {
	t.Parallel()
	q := newFair[string]()
	WithClusters(func(key string) logicalcluster.Name { return logicalcluster.Name(key[:1]) })(q)
	for _, key := range []string{"a1", "a2", "a3", "b1", "b2"} {
		q.Push(key)
	}
	if diff := cmp.Diff([]string{"a1", "b1", "a2", "b2", "a3"}, drain(q)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
