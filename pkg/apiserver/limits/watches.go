package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

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
		most, n := c.limitsOf(ctx, cluster).watches, watchesOf(req.URL.Query())
		if is, ok := c.begin(cluster, n, most); !ok {
			Refuse(w, cluster, "watches", tooMany(is, n), most)
			return
		}
		counts := &watching{n: n}
		defer func() { c.end(cluster, counts.n) }()
		if isBuiltin(info.APIGroup) {
			next.ServeHTTP(w, req)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		counts.ResponseWriter, counts.cancel = w, cancel
		counts.grow = func(n int64) *metav1.Status {
			is, ok := c.begin(cluster, n, most)
			if ok {
				return nil
			}
			return refusal(cluster, "watches", fmt.Sprintf("has %d watches at this server, and this one counts for %d more, as it keeps the largest object that it was sent", is, n), most)
		}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(counts), req.WithContext(ctx))
	})
}

// isBuiltin says that a group is one of the server's own: its serializer keeps nothing large.
func isBuiltin(group string) bool {
	return legacyscheme.Scheme.IsGroupRegistered(group) || group == apiextensions.GroupName
}

// keptBytes is how much of what it was sent each watch has room for.
const keptBytes = 64 << 10

// keptOf is how many more a watch counts for that was sent an object of so many bytes: upstream's watches of custom
// resources keep it twice until they end, as long as they are sent nothing larger. Those of built-in kinds keep nothing
// large, see pkg/apiserver/buffers.
func keptOf(bytes int) int64 { return 2 * int64(bytes) / keptBytes }

// watching is a watch of custom resources, and what it counts for. It ends if it keeps more than its logical cluster
// may have, with what is wrong as its last event, if it is one of JSON.
type watching struct {
	http.ResponseWriter
	n       int64
	largest int
	// grow counts more, or says why not.
	grow   func(n int64) *metav1.Status
	cancel func()
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *watching) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter: an event is written at once.
func (w *watching) Write(event []byte) (int, error) {
	more := keptOf(len(event)) - keptOf(w.largest)
	if more <= 0 {
		return w.ResponseWriter.Write(event)
	}
	w.largest = len(event)
	refused := w.grow(more)
	if refused == nil {
		w.n += more
		return w.ResponseWriter.Write(event)
	}
	defer w.cancel()
	n, err := w.ResponseWriter.Write(event)
	if err != nil || !strings.HasPrefix(w.Header().Get("Content-Type"), runtime.ContentTypeJSON) {
		return n, err
	}
	last, err := json.Marshal(metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Object: refused}})
	if err != nil {
		return n, fmt.Errorf("encoding why the watch ends: %w", err)
	}
	_, err = w.ResponseWriter.Write(append(last, '\n'))
	return n, err
}

// selectorBytes is how much of selectors each watch has room for. A label of any length and
// its value fit in. Parsed, so much takes about what any other watch does, and each write of the
// resource evaluates all of it.
const selectorBytes = 512

// watchesOf is how many watches one with such a query counts for.
//
//	bytes of all its selectors   counts for
//	0..512                       1
//	513..1024                    2
//	n                            n/512, rounded up
//
// Selectors are counted as they are parsed, not as they are escaped in the URI.
func watchesOf(query url.Values) int64 {
	n := 0
	for _, parameter := range []string{"labelSelector", "fieldSelector", "shardSelector"} {
		for _, value := range query[parameter] {
			n += len(value)
		}
	}
	return int64(max(1, (n+selectorBytes-1)/selectorBytes))
}

// tooMany says why a watch that counts for n is one too many beside those there are.
func tooMany(is, n int64) string {
	if n == 1 {
		return fmt.Sprintf("has %d watches at this server", is)
	}
	return fmt.Sprintf("has %d watches at this server, and one that counts for %d more is asked for, as each %d bytes of its labelSelector and fieldSelector count for one: shorter selectors count for less",
		is, n, selectorBytes)
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

// begin counts n watches more, unless that makes more than most; is what there were.
func (c *Counter) begin(cluster logicalcluster.Name, n, most int64) (is int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	is = c.watches[cluster]
	if is+n > most {
		return is, false
	}
	c.watches[cluster] = is + n
	return is, true
}

func (c *Counter) end(cluster logicalcluster.Name, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watches[cluster] -= n; c.watches[cluster] == 0 {
		delete(c.watches, cluster)
	}
}

// Refuse answers 429: the logical cluster is at a limit of this server, which passes.
func Refuse(w http.ResponseWriter, cluster logicalcluster.Name, limit, is string, most int64) {
	s := refusal(cluster, limit, is, most)
	w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	responsewriters.WriteRawJSON(http.StatusTooManyRequests, s, w)
}

// refusal says that a logical cluster is at a limit of this server.
func refusal(cluster logicalcluster.Name, limit, is string, most int64) *metav1.Status {
	field := "spec.limits." + limit
	s := apierrors.NewTooManyRequests(fmt.Sprintf("logical cluster %q %s, and %s of its LogicalCluster permits %d: try again later, or ask an admin of the control plane for more",
		cluster, is, field, most), 1).Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	s.Details.Causes = []metav1.StatusCause{{Type: CauseLimit, Field: field, Message: is}}
	return &s
}
