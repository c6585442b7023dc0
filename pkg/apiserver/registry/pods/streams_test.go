package pods

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func containsText(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

func TestALogicalClusterTakesItsOwnStreamsOnly(t *testing.T) {
	t.Parallel()
	s := NewStreams()
	var ends []func()
	for range maxOfCluster {
		_, end, err := s.begin(t.Context(), "greedy", "east")
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if _, _, err := s.begin(t.Context(), "greedy", "east"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more: %v", err)
	}
	_, other, err := s.begin(t.Context(), "modest", "east")
	if err != nil {
		t.Errorf("of another logical cluster: %v", err)
	}
	ends[0]()
	ends[0]() // twice is once
	if _, end, err := s.begin(t.Context(), "greedy", "east"); err != nil {
		t.Errorf("after one ended: %v", err)
	} else {
		ends[0] = end
	}
	for _, end := range append(ends, other) {
		end()
	}
	if s.Open() != 0 || len(s.of) != 0 {
		t.Errorf("%d streams are left, of %v", s.Open(), s.of)
	}
}

func TestAServerHasABoundForStreamsOfAll(t *testing.T) {
	t.Parallel()
	s := NewStreams()
	for i := range maxStreams {
		if _, _, err := s.begin(t.Context(), logicalcluster.Name(fmt.Sprint(i)), "east"); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.begin(t.Context(), "late", "east"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more than all: %v", err)
	}
}

func TestStreamsEndWithTheirPhysicalClusterAndTheServer(t *testing.T) {
	t.Parallel()
	s := NewStreams()
	east, _, _ := s.begin(t.Context(), "shop", "east")
	west, _, _ := s.begin(t.Context(), "shop", "west")
	s.EndOn("east")
	if east.Err() == nil || west.Err() != nil {
		t.Errorf("east ended: %v, west: %v", east.Err(), west.Err())
	}
	s.Close()
	if west.Err() == nil {
		t.Error("a stream outlives the server")
	}
	if _, _, err := s.begin(t.Context(), "shop", "west"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a stream of a server that ends: %v", err)
	}
}
