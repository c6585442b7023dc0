package discovery

import (
	"fmt"
	"net/http"

	"github.com/kcp-dev/logicalcluster/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Source is where groups beside the built-in ones come from.
type Source interface {
	// Served says what the logical cluster serves now: equal keys mean equal
	// versions, whichever logical cluster they are of. The key is empty if there is
	// nothing. It is cheap: every request for a document asks. Versions must return
	// what the key identifies, whatever has happened since: its result is kept for
	// the key.
	Served(c logicalcluster.Name) (key string, versions func() ([]Version, error))
}

// Private is a Source whose keys name their logical cluster. What is made for such
// a key is kept once for each logical cluster and replaced with it.
type Private interface {
	Source
	Private()
}

// Version is one version of a group.
type Version struct {
	Group string
	// Discovery has the resources, and whether they are current.
	Discovery apidiscoveryv2.APIVersionDiscovery
	// GroupPriority and VersionPriority order groups and versions, as those of an
	// APIService.
	GroupPriority, VersionPriority int
	// StorageHashes are upstream's storage version hashes by resource.
	StorageHashes map[string]string
	// Parts have the schemas, for OpenAPI.
	Parts []Part
	// Elsewhere serves the documents of a version that another server serves; nil if
	// this one does. Controllers leave such versions out. OpenAPIHash is a hash of what
	// it says as OpenAPI v3; empty if nothing.
	Elsewhere   http.Handler
	OpenAPIHash string
}

func (v Version) groupVersion() string { return v.Group + "/" + v.Discovery.Version }

// resources are the same as a client without aggregated discovery sees them.
func (v Version) resources() []metav1.APIResource {
	var out []metav1.APIResource
	for _, r := range v.Discovery.Resources {
		namespaced := r.Scope == apidiscoveryv2.ScopeNamespace
		resource := metav1.APIResource{
			Name: r.Resource, SingularName: r.SingularResource, Namespaced: namespaced, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories, StorageVersionHash: v.StorageHashes[r.Resource],
		}
		if r.ResponseKind != nil {
			resource.Kind = r.ResponseKind.Kind
		}
		out = append(out, resource)
		for _, s := range r.Subresources {
			sub := metav1.APIResource{Name: r.Resource + "/" + s.Subresource, Namespaced: namespaced, Verbs: s.Verbs}
			if k := s.ResponseKind; k != nil {
				sub.Kind = k.Kind
				if k.Group != v.Group || k.Version != v.Discovery.Version {
					sub.Group, sub.Version = k.Group, k.Version
				}
			}
			out = append(out, sub)
		}
	}
	return out
}

// served is what all sources say at a time.
type served struct {
	key string
	// place is where the document is kept: equal for equal documents.
	place    string
	versions []func() ([]Version, error)
}

// ask asks all sources.
func ask(sources []Source, c logicalcluster.Name) served {
	var s served
	empty, private := true, false
	for _, source := range sources {
		key, versions := source.Served(c)
		empty = empty && key == ""
		if _, ok := source.(Private); ok && key != "" {
			private = true
		}
		s.key += fmt.Sprintf("%d:%s", len(key), key)
		s.versions = append(s.versions, versions)
	}
	if empty {
		s.key = ""
	}
	if s.place = s.key; private {
		s.place = "of " + c.String()
	}
	return s
}
