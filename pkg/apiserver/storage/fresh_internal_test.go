package storage

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// side is the watch cache or etcd: it has so many objects at a version, and notes
// what it is asked for.
type side struct {
	storage.Interface
	name      string
	length    int
	version   int
	neverMore bool
	asked     *[]string
}

func (s *side) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return uint64(s.version), nil
}

func (s *side) RequestWatchProgress(ctx context.Context) error {
	if md, _ := metadata.FromOutgoingContext(ctx); len(md) > 0 {
		return errors.New("that is another stream than the one of the cache")
	}
	*s.asked = append(*s.asked, "progress")
	return nil
}

func (s *side) GetList(_ context.Context, _ string, o storage.ListOptions, list runtime.Object) error {
	*s.asked = append(*s.asked, s.name+" "+o.ResourceVersion)
	out := list.(*metav1.PartialObjectMetadataList)
	selected := 0
	for i := range s.length {
		if o.Predicate.MatchesObjectAttributes(labels.Set{"place": strconv.Itoa(i)}, fields.Set{}) {
			selected++
		}
	}
	version := s.version
	if o.ResourceVersionMatch == metav1.ResourceVersionMatchNotOlderThan {
		if s.neverMore {
			return storage.NewTooLargeResourceVersionError(99, uint64(s.version), 1)
		}
		version, _ = strconv.Atoi(o.ResourceVersion)
	}
	out.ResourceVersion = strconv.Itoa(version)
	out.Items = make([]metav1.PartialObjectMetadata, selected)
	return nil
}

func TestWhereAConsistentListIsReadFrom(t *testing.T) {
	for _, c := range []struct {
		name      string
		length    int
		cache     int // etcd is at 9
		neverMore bool
		limit     int64
		selector  string
		indexed   bool
		want      []string
		done      bool
	}{
		{name: "the cache is up to date", length: 50, cache: 9, want: []string{"cache 0"}, done: true},
		{name: "few objects", length: smallList, cache: 7, want: []string{"cache 0", "etcd "}, done: true},
		{name: "many objects", length: smallList + 1, cache: 7, want: []string{"cache 0", "progress", "cache 9"}, done: true},
		{name: "a page", length: 50, cache: 7, limit: 10, want: []string{"cache 0", "etcd "}, done: true},
		{name: "few of many match", length: 50, cache: 7, selector: "place=3", want: []string{"cache 0", "progress", "cache 9"}, done: true},
		{name: "few of few match", length: smallList, cache: 7, selector: "place=3", want: []string{"cache 0", "etcd "}, done: true},
		{name: "few of few match, and others are not looked at", length: smallList, cache: 7, selector: "place=3", indexed: true, want: []string{"cache 0", "progress", "cache 9"}, done: true},
		{name: "few of many match, and the cache is up to date", length: 50, cache: 9, selector: "place=3", want: []string{"cache 0"}, done: true},
		{name: "few of many match, which fit a page", length: 50, cache: 7, limit: 10, selector: "place=3", want: []string{"cache 0", "progress", "cache 9"}, done: true},
		{name: "what matches fits a page, and the cache is up to date", length: 50, cache: 9, limit: 10, selector: "place=3", want: []string{"cache 0"}, done: true},
		{name: "more match than fit a page", length: 50, cache: 9, limit: 10, selector: "place!=3", want: []string{"cache 0", "etcd "}, done: true},
		{name: "etcd does not say how far it is", length: 50, cache: 7, neverMore: true, want: []string{"cache 0", "progress", "cache 9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			s := &store{
				Interface: &side{name: "cache", length: c.length, version: c.cache, neverMore: c.neverMore, asked: &asked},
				raw:       &side{name: "etcd", length: c.length, version: 9, asked: &asked},
			}
			list := &metav1.PartialObjectMetadataList{}
			predicate := storage.Everything
			predicate.Limit = c.limit
			if c.selector != "" {
				predicate.Label, _ = labels.Parse(c.selector)
			}
			if c.indexed {
				predicate.IndexLabels = []string{"place"}
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), "of", "the request")
			done, err := s.listFresh(ctx, "shop", "/pods/shop/", storage.ListOptions{Recursive: true, Predicate: predicate}, list)
			if err != nil || done != c.done {
				t.Errorf("done %v, %v", done, err)
			}
			if done && list.ResourceVersion != "9" {
				t.Errorf("the list is of version %s", list.ResourceVersion)
			}
			if diff := cmp.Diff(c.want, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.SeparateCacheWatchRPC) {
		t.Error("upstream's cache watches etcd with other metadata")
	}
}
