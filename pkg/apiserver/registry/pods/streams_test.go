package pods

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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
	if s.Open() != 0 || len(s.users.of) != 0 || s.users.all != 0 {
		t.Errorf("%d streams are left, of %v", s.Open(), s.users)
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

func TestAConnectionOfTheServerWaitsForAnIdleOneToBeClosed(t *testing.T) {
	t.Parallel()
	s := NewStreams()
	idle := make(chan struct{}, maxConnections)
	var last func()
	for range maxConnections {
		_, end, err := s.connect(t.Context(), t.Context(), "greedy", "east", func() { idle <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		last = end
	}
	if _, _, err := s.begin(t.Context(), "greedy", "east"); err != nil {
		t.Errorf("a stream of a user: %v", err)
	}
	if _, _, err := s.connect(t.Context(), t.Context(), "modest", "east", func() {}); err != nil {
		t.Errorf("one of another logical cluster: %v", err)
	}
	at, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.connect(at, t.Context(), "greedy", "east", func() {}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more while none is idle: %v", err)
	}
	<-idle // it was asked for
	connected := make(chan error)
	go func() {
		_, _, err := s.connect(t.Context(), t.Context(), "greedy", "east", func() {})
		connected <- err
	}()
	last()
	if err := <-connected; err != nil {
		t.Errorf("one more after one was closed: %v", err)
	}
	if s.own.of["greedy"] != maxConnections || s.own.all != maxConnections+1 || s.users.all != 1 {
		t.Errorf("counted are %v of the server and %v of users", s.own, s.users)
	}
}

func TestConnectionsOfTheServerAreBoundedInAll(t *testing.T) {
	t.Parallel()
	s := NewStreams()
	for i := range maxAllConnections {
		if _, _, err := s.connect(t.Context(), t.Context(), logicalcluster.Name(fmt.Sprint(i)), "east", func() {}); err != nil {
			t.Fatal(err)
		}
	}
	at, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.connect(at, t.Context(), "late", "east", func() {}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one more than all: %v", err)
	}
}
