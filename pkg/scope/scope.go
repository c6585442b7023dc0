package scope

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// Wildcard means all logical clusters in list and watch requests of
	// system identities.
	Wildcard = logicalcluster.Name("*")
	// Root is the logical cluster of the admins.
	Root = logicalcluster.Name("root")
)

const (
	clustersPrefix = "/clusters/"
	targetsPrefix  = "/targets/"
)

// Scope is the part of the control plane that a request is about.
type Scope struct {
	// Cluster is the logical cluster, or Wildcard.
	Cluster logicalcluster.Name
	// Target, if not empty, is the physical cluster whose view is asked for.
	Target string
}

// Path is the URL path prefix of the scope, without a slash at the end.
func (s Scope) Path() string {
	p := clustersPrefix + s.Cluster.String()
	if s.Target != "" {
		p = targetsPrefix + s.Target + p
	}
	return p
}

// Cut splits a URL path into its scope and the rest, which begins with a slash.
// ok is false if the path carries no scope; err says that it carries a wrong one.
func Cut(path string) (s Scope, rest string, ok bool, err error) {
	rest = path
	if tail, found := strings.CutPrefix(rest, targetsPrefix); found {
		s.Target, tail, _ = strings.Cut(tail, "/")
		if problem := ValidateName(s.Target); problem != "" {
			return s, "", true, fmt.Errorf("physical cluster %q: %s", s.Target, problem)
		}
		rest = "/" + tail
	}
	tail, found := strings.CutPrefix(rest, clustersPrefix)
	if !found {
		if s.Target != "" {
			return s, "", true, fmt.Errorf("%s%s must be followed by %s<name>", targetsPrefix, s.Target, clustersPrefix)
		}
		return s, path, false, nil
	}
	name, tail, _ := strings.Cut(tail, "/")
	s.Cluster = logicalcluster.Name(name)
	if s.Cluster != Wildcard {
		if problem := ValidateName(name); problem != "" {
			return s, "", true, fmt.Errorf("logical cluster %q: %s", name, problem)
		}
	}
	return s, "/" + tail, true, nil
}

// ValidateName says what is wrong with the name of a logical or physical
// cluster; the empty string means nothing. A name is a DNS label, so that it is
// one segment of a URL path and of a storage key and fits into a label value.
func ValidateName(name string) string {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return problems[0]
	}
	return ""
}

type clusterKey struct{}

type targetKey struct{}

// WithCluster returns a context about the logical cluster c.
func WithCluster(ctx context.Context, c logicalcluster.Name) context.Context {
	return context.WithValue(ctx, clusterKey{}, c)
}

// ClusterFrom returns the logical cluster that ctx is about.
func ClusterFrom(ctx context.Context) (logicalcluster.Name, bool) {
	c, ok := ctx.Value(clusterKey{}).(logicalcluster.Name)
	return c, ok && !c.Empty()
}

// WithTarget returns a context about the view of the physical cluster named target.
func WithTarget(ctx context.Context, target string) context.Context {
	return context.WithValue(ctx, targetKey{}, target)
}

// TargetFrom returns the physical cluster whose view ctx is about.
func TargetFrom(ctx context.Context) (string, bool) {
	t, ok := ctx.Value(targetKey{}).(string)
	return t, ok && t != ""
}

// From returns the whole scope of ctx; ok is false if it names no logical cluster.
func From(ctx context.Context) (Scope, bool) {
	c, ok := ClusterFrom(ctx)
	t, _ := TargetFrom(ctx)
	return Scope{Cluster: c, Target: t}, ok
}

// With returns a context about s.
func With(ctx context.Context, s Scope) context.Context {
	return WithTarget(WithCluster(ctx, s.Cluster), s.Target)
}
