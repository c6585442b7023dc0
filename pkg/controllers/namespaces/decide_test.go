package namespaces

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
)

var fruits = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "fruits"}

func TestThePassIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	stale := errors.New("stale")
	left := map[schema.GroupVersionResource][]metav1.PartialObjectMetadata{fruits: {{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"example.org/x"}}}}}
	failed := map[schema.GroupVersionResource]error{fruits: errors.New("fruits: no answer")}
	for title, c := range map[string]struct {
		saw  sight
		want plan
	}{
		"no others":                     {sight{pods: 3}, plan{finalize: true}},
		"no others that count":          {sight{unknown: stale, failed: failed}, plan{finalize: true}},
		"others, and pods":              {sight{others: true, pods: 1, unknown: stale}, plan{pods: true}},
		"pods, whatever was swept":      {sight{others: true, pods: 1, swept: true}, plan{pods: true}},
		"others, not swept":             {sight{others: true}, plan{wait: true}},
		"others, not swept and unknown": {sight{others: true, unknown: stale}, plan{wait: true}},
		"something left":                {sight{others: true, swept: true, left: left}, plan{held: "1 fruits.example.org map[example.org/x:1]"}},
		"something failed":              {sight{others: true, swept: true, failed: failed}, plan{held: "fruits: no answer"}},
		"empty, some unknown":           {sight{others: true, swept: true, unknown: stale}, plan{held: "stale"}},
		"empty":                         {sight{others: true, swept: true}, plan{finalize: true}},
	} {
		if diff := cmp.Diff(c.want, c.saw.plan(), cmp.AllowUnexported(plan{})); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
	}
}

func TestANamespaceThatOnlyOthersHoldIsPassedOverSeldom(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	var none *hold
	h := &hold{why: "stale", since: at}
	for i, c := range []struct {
		hold *hold
		why  string
		now  time.Time
		want time.Duration
	}{
		{none, "stale", at, 0},
		{h, "", at, 0}, // it may go
		{h, "stale", at, 2 * time.Second},
		{h, "stale", at, 4 * time.Second},
		{h, "another", at.Add(time.Second), 4 * time.Second},
		{h, "another", at.Add(time.Minute), 0},
		{&hold{why: "stale", tries: 60}, "stale", at, 16 * time.Second},
	} {
		if got := c.hold.pause(c.why, c.now); got != c.want {
			t.Errorf("%d: paused for %s, want %s", i, got, c.want)
		}
	}
}

func TestAGateLetsOneNamespaceGo(t *testing.T) {
	t.Parallel()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "a"}}
	for uid, want := range map[types.UID]error{"a": nil, "b": errHeld, "": errHeld} {
		open := gate{fake.NewClientset(ns).CoreV1().Namespaces(), uid, func(context.Context) error { return nil }}
		if _, err := open.Finalize(t.Context(), ns, metav1.UpdateOptions{}); !errors.Is(err, want) {
			t.Errorf("a gate for %q: %v, want %v", uid, err, want)
		}
	}
}

// stored is a client of resources that have items.
type stored struct {
	items int
	err   error
}

func (s stored) Resource(schema.GroupVersionResource) metadata.Getter { return getter{stored: s} }

type getter struct {
	metadata.Getter
	stored stored
}

func (g getter) Namespace(string) metadata.ResourceInterface {
	return items{stored: g.stored}
}

type items struct {
	metadata.ResourceInterface
	stored stored
}

func (i items) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return &metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, i.stored.items)}, i.stored.err
}

func (i items) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return i.stored.err
}

func TestAJointClientAnswersForOthersAndRemembersWhatIsOurs(t *testing.T) {
	t.Parallel()
	failed := errors.New("no answer")
	for title, c := range map[string]struct {
		own        bool
		stored     stored
		saw        sight
		wantItems  int
		wantDelete error
		wantOurs   bool
	}{
		"ours, empty":       {own: true},
		"ours":              {own: true, stored: stored{items: 2}, wantItems: 2, wantOurs: true},
		"ours fails":        {own: true, stored: stored{err: failed}, wantDelete: failed, wantOurs: true},
		"theirs":            {stored: stored{items: 7}, saw: sight{left: map[schema.GroupVersionResource][]metav1.PartialObjectMetadata{fruits: make([]metav1.PartialObjectMetadata, 3)}}, wantItems: 3},
		"theirs fails":      {saw: sight{failed: map[schema.GroupVersionResource]error{fruits: failed}}, wantDelete: failed},
		"of both, one name": {own: true, stored: stored{items: 1}, saw: sight{left: map[schema.GroupVersionResource][]metav1.PartialObjectMetadata{fruits: make([]metav1.PartialObjectMetadata, 3)}}, wantItems: 4, wantOurs: true},
	} {
		j := &joint{Interface: c.stored, own: map[schema.GroupVersionResource]bool{fruits: c.own}, sight: c.saw, remaining: map[schema.GroupVersionResource]int{}}
		client := j.Resource(fruits).Namespace("web")
		if err := client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); !errors.Is(err, c.wantDelete) {
			t.Errorf("%s: deleting: %v", title, err)
		}
		if list, err := client.List(t.Context(), metav1.ListOptions{}); c.stored.err == nil && (err != nil || len(list.Items) != c.wantItems) {
			t.Errorf("%s: listing: %v, %v", title, list, err)
		}
		if j.ours() != c.wantOurs {
			t.Errorf("%s: ours is %v", title, j.ours())
		}
	}
}

func TestOnlyPodsAreLeftOfLists(t *testing.T) {
	t.Parallel()
	var names []string
	for gvr := range gvrs(only(pods, content(discovered()))) {
		names = append(names, gvr.Resource)
	}
	if got := strings.Join(names, " "); got != "pods" {
		t.Errorf("got %q", got)
	}
	if got := only(fruits, content(discovered())); got != nil {
		t.Errorf("what is not there: %v", got)
	}
}
