package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/registration"
)

// A watch of a syncer, by whether its PhysicalCluster is there when it begins, and what changes then:
//
//	registered      changes                        then
//	with the UID    nothing of its own             goes on
//	with the UID    it is gone, or has a successor ends
//	another, none   any                            never begins
func TestAWatchOfASyncerEndsWithItsPhysicalCluster(t *testing.T) {
	t.Parallel()
	registered := func(uid types.UID) *fleet.PhysicalCluster {
		return &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: uid}}
	}
	old, successor := registered("1"), registered("2")
	for name, c := range map[string]struct {
		verb, uid string
		now       *fleet.PhysicalCluster
		then      [2]*fleet.PhysicalCluster
		code      int
		ends      bool
	}{
		"it is changed":              {"watch", "1", old, [2]*fleet.PhysicalCluster{old, old}, 0, false},
		"another one goes":           {"watch", "1", old, [2]*fleet.PhysicalCluster{successor, nil}, 0, false},
		"it is new to this server":   {"watch", "1", old, [2]*fleet.PhysicalCluster{nil, old}, 0, false},
		"it goes":                    {"watch", "1", old, [2]*fleet.PhysicalCluster{old, nil}, 0, true},
		"it has a successor":         {"watch", "1", old, [2]*fleet.PhysicalCluster{old, successor}, 0, true},
		"it went since":              {"watch", "1", nil, [2]*fleet.PhysicalCluster{}, http.StatusUnauthorized, true},
		"it had a successor since":   {"watch", "1", successor, [2]*fleet.PhysicalCluster{}, http.StatusUnauthorized, true},
		"it goes while a list lasts": {"list", "1", old, [2]*fleet.PhysicalCluster{old, nil}, 0, false},
		"of nobody's syncer":         {"watch", "", old, [2]*fleet.PhysicalCluster{old, nil}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatches(func(context.Context, string, func(*fleet.PhysicalCluster) bool) (*fleet.PhysicalCluster, error) {
				return c.now, nil
			})
			began, end, ended := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
			handler := w.with(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				close(began)
				<-end
				ended <- req.Context().Err() != nil
			}))
			u := &user.DefaultInfo{Name: auth.SyncerUser("east"), Groups: []string{auth.SyncersGroup}}
			if c.uid != "" {
				u.Extra = map[string][]string{registration.UIDKey: {c.uid}}
			}
			ctx := request.WithRequestInfo(request.WithUser(t.Context(), u), &request.RequestInfo{Verb: c.verb})
			recorder, done := httptest.NewRecorder(), make(chan struct{})
			go func() {
				defer close(done)
				handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx))
			}()
			if c.code != 0 {
				<-done
				if recorder.Code != c.code {
					t.Errorf("it is answered %d, want %d", recorder.Code, c.code)
				}
			} else {
				select {
				case <-began:
				case <-time.After(time.Minute):
					t.Fatal("it does not begin")
				}
				w.Changed(c.then[0], c.then[1])
				close(end)
				if got := <-ended; got != c.ends {
					t.Errorf("it ended: %t, want %t", got, c.ends)
				}
				<-done
			}
			if len(w.open) > 0 {
				t.Errorf("something is left: %v", w.open)
			}
		})
	}
}
