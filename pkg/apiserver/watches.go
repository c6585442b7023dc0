package apiserver

import (
	"context"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
)

// Watches are those of syncers, which are authenticated once and go on for long: they end when
// the PhysicalCluster does, or they would show what its successor of that name gets.
type Watches struct {
	registered registeredFunc

	mu   sync.Mutex
	open map[types.UID]map[*context.CancelFunc]struct{}
}

func newWatches(registered registeredFunc) *Watches {
	return &Watches{registered: registered, open: map[types.UID]map[*context.CancelFunc]struct{}{}}
}

// Changed ends the watches of the syncer of a PhysicalCluster that is gone. An informer calls it.
func (w *Watches) Changed(old, new *fleet.PhysicalCluster) {
	if old == nil || new != nil && new.UID == old.UID {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for cancel := range w.open[old.UID] {
		(*cancel)()
	}
}

func (w *Watches) add(uid types.UID, cancel *context.CancelFunc) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[uid] == nil {
		w.open[uid] = map[*context.CancelFunc]struct{}{}
	}
	w.open[uid][cancel] = struct{}{}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.open[uid], cancel); len(w.open[uid]) == 0 {
			delete(w.open, uid)
		}
	}
}

// with is behind authentication. The PhysicalCluster may have ended between that and here: so it
// is looked at once more when the watch can be found by who ends it.
func (w *Watches) with(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		user, ok := request.UserFrom(req.Context())
		info, known := request.RequestInfoFrom(req.Context())
		if !ok || !known || info.Verb != "watch" {
			next.ServeHTTP(rw, req)
			return
		}
		uid := auth.PhysicalClusterUID(user)
		if uid == "" {
			next.ServeHTTP(rw, req)
			return
		}
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer w.add(uid, &cancel)()
		name, _ := auth.SyncerOf(user)
		pc, err := w.registered(ctx, name, func(pc *fleet.PhysicalCluster) bool { return pc.UID == uid })
		if err != nil || pc == nil || pc.UID != uid {
			writeStatus(rw, apierrors.NewUnauthorized("the physical cluster is not registered any more").Status())
			return
		}
		next.ServeHTTP(rw, req.WithContext(ctx))
	})
}
