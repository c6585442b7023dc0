// Package audit makes upstream's audit events tell the logical cluster: as the
// annotation atoll.dev/cluster (and atoll.dev/target for the view of a physical
// cluster), and in the URI, which is the one that the client sent.
//
// Upstream makes an event behind the filter that takes the scope out of the path.
// So the scope and the original URI travel as annotations, which may be added
// before, and the backend puts the URI where it belongs.
package audit

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/spf13/pflag"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// PhysicalClusterAnnotation of an event is the logical cluster of its request.
	PhysicalClusterAnnotation = "atoll.dev/cluster"
	// TargetAnnotation is the physical cluster whose view was asked for.
	TargetAnnotation = "atoll.dev/target"
	// uriAnnotation is never seen: see backend.
	uriAnnotation = "atoll.dev/request-uri"
)

// Options are those of upstream's that have a flag here.
type Options struct{ *genericoptions.AuditOptions }

// NewOptions returns upstream's defaults: no audit.
func NewOptions() Options { return Options{genericoptions.NewAuditOptions()} }

// flags of upstream's that are offered.
var flags = []string{"audit-policy-file", "audit-log-path", "audit-log-format", "audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize",
	"audit-webhook-config-file"}

// AddFlags binds the options to flags.
func (o Options) AddFlags(fs *pflag.FlagSet) {
	all := pflag.NewFlagSet("audit", pflag.ContinueOnError)
	o.AuditOptions.AddFlags(all)
	for _, name := range flags {
		if f := all.Lookup(name); f != nil {
			fs.AddFlag(f)
		}
	}
}

// ApplyTo configures the backends; the authenticator must be configured before.
func (o Options) ApplyTo(g *genericapiserver.Config) error {
	if o.AuditOptions == nil {
		return nil
	}
	if err := o.AuditOptions.ApplyTo(g); err != nil {
		return fmt.Errorf("configuring audit: %w", err)
	}
	if g.AuditBackend == nil {
		return nil
	}
	g.AuditBackend = backend{g.AuditBackend}
	g.Authentication.Authenticator = annotator{g.Authentication.Authenticator}
	return nil
}

type uriKey struct{}

// WithURI returns a context that remembers the URI of a request before its scope
// is taken out.
func WithURI(ctx context.Context, uri string) context.Context {
	return context.WithValue(ctx, uriKey{}, uri)
}

// annotator annotates before it authenticates: it is the first of ours to run
// when the event exists, and runs for requests that are refused, too.
type annotator struct{ authenticator.Request }

// AuthenticateRequest implements authenticator.Request.
func (a annotator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	ctx := req.Context()
	if s, ok := scope.From(ctx); ok && audit.AuditContextFrom(ctx) != nil { // a TokenReview has no event of its own
		annotations := []string{PhysicalClusterAnnotation, s.Cluster.String()}
		if s.Target != "" {
			annotations = append(annotations, TargetAnnotation, s.Target)
		}
		if uri, ok := ctx.Value(uriKey{}).(string); ok {
			annotations = append(annotations, uriAnnotation, uri)
		}
		audit.AddAuditAnnotations(ctx, annotations...)
	}
	return a.Request.AuthenticateRequest(req)
}

// backend gives events the URI that the client sent.
type backend struct{ audit.Backend }

// ProcessEvents implements audit.Sink.
func (b backend) ProcessEvents(events ...*auditinternal.Event) bool {
	out := make([]*auditinternal.Event, len(events))
	for i, e := range events {
		out[i] = original(e)
	}
	return b.Backend.ProcessEvents(out...)
}

// original returns a copy: the event goes on to collect what happens to the request.
func original(e *auditinternal.Event) *auditinternal.Event {
	uri, ok := e.Annotations[uriAnnotation]
	if !ok {
		return e
	}
	e2 := *e
	e2.RequestURI = uri
	e2.Annotations = maps.Clone(e.Annotations)
	delete(e2.Annotations, uriAnnotation)
	return &e2
}
