package limits

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// Watches serves with next the watches that the logical cluster may have at this server.
// It belongs behind authorization.
func (c *Counter) Watches(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		cluster, scoped := scope.ClusterFrom(ctx)
		info, ok := request.RequestInfoFrom(ctx)
		if !scoped || cluster == scope.Wildcard || !ok || info.Verb != "watch" || authorOf(ctx) != byUser {
			next.ServeHTTP(w, req)
			return
		}
		most := c.limitsOf(ctx, cluster).watches
		if !c.begin(cluster, most) {
			Refuse(w, cluster, "watches", fmt.Sprintf("has %d watches at this server", most), most)
			return
		}
		defer c.end(cluster)
		next.ServeHTTP(w, req)
	})
}

// InFlight is how many requests in flight an admin asks for, 0 for the default.
func (c *Counter) InFlight(ctx context.Context, cluster logicalcluster.Name) int64 {
	if cluster == scope.Root || cluster == scope.Wildcard {
		return 0
	}
	found, err := c.Find(ctx, cluster)
	if err != nil || found == nil {
		return 0
	}
	return found.Spec.Limits.RequestsInFlight
}

func (c *Counter) begin(cluster logicalcluster.Name, most int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[cluster] >= most {
		return false
	}
	c.watches[cluster]++
	return true
}

func (c *Counter) end(cluster logicalcluster.Name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[cluster]--; c.watches[cluster] == 0 {
		delete(c.watches, cluster)
	}
}

// Refuse answers 429: the logical cluster is at a limit of this server, which passes.
func Refuse(w http.ResponseWriter, cluster logicalcluster.Name, limit, is string, most int64) {
	field := "spec.limits." + limit
	s := apierrors.NewTooManyRequests(fmt.Sprintf("logical cluster %q %s, and %s of its LogicalCluster permits %d: try again later, or ask an admin of the control plane for more",
		cluster, is, field, most), 1).Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	s.Details.Causes = []metav1.StatusCause{{Type: CauseLimit, Field: field, Message: is}}
	w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	responsewriters.WriteRawJSON(http.StatusTooManyRequests, s, w)
}
