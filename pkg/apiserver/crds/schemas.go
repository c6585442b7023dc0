package crds

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// schemas keeps equal versions once: many logical clusters install the same operators,
// and their schemas are most of what a definition weighs. It holds them weakly:
// the last definition that has a version takes it along.
//
// Schemas are asked for when a handler or a document is made, and for nothing else, so
// they are kept as compressed text, a hundredth of what they are when they are parsed.
type schemas struct {
	mu     sync.Mutex
	shared map[Shape]weak.Pointer[sharedVersions]
}

// sharedVersions are the versions of equal definitions.
type sharedVersions struct {
	// light are they without schemas.
	light []apiextensionsv1.CustomResourceDefinitionVersion
	// packed is the text of all of them, compressed.
	packed []byte
	// structure is what is wrong with the schemas.
	structure structure
	// rules says that the schemas may have expressions.
	rules bool
}

// share takes the schemas out of crd, which becomes the definition.
func (s *schemas) share(crd *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	of, text, err := shapesOf(crd)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.shared[of.versions].Value()
	if known == nil {
		if known, err = newShared(crd.Spec.Versions, text); err != nil {
			return nil, fmt.Errorf("compressing the versions of CustomResourceDefinition %s: %w", crd.Name, err)
		}
		s.shared[of.versions] = weak.Make(known)
		runtime.AddCleanup(known, s.forget, of.versions)
	}
	crd.Spec.Versions = known.light
	return &Definition{CustomResourceDefinition: crd, Shape: of.served, schema: of.schema, shown: of.shown, size: of.size, versions: known}, nil
}

// forget removes what nobody holds any more, if it was not shared again since.
func (s *schemas) forget(shape Shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared[shape].Value() == nil {
		delete(s.shared, shape)
	}
}

func newShared(versions []apiextensionsv1.CustomResourceDefinitionVersion, text []byte) (*sharedVersions, error) {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	s := &sharedVersions{
		packed: bytes.Clone(packed.Bytes()), structure: structureOf(versions), light: slices.Clone(versions), rules: bytes.Contains(text, []byte(`"x-kubernetes-validations":`)),
	}
	for i := range s.light {
		s.light[i].Schema = nil
		s.light[i] = *s.light[i].DeepCopy() // nothing of it points into what was decoded
	}
	return s, nil
}

// Full is the definition with its schemas, parsed for the caller.
func (d *Definition) Full() (*apiextensionsv1.CustomResourceDefinition, error) {
	if d.versions == nil {
		return d.CustomResourceDefinition, nil // one that was made here
	}
	crd := *d.CustomResourceDefinition
	crd.Spec.Versions = nil
	if err := json.NewDecoder(flate.NewReader(bytes.NewReader(d.versions.packed))).Decode(&crd.Spec.Versions); err != nil {
		return nil, fmt.Errorf("reading the versions of CustomResourceDefinition %s: %w", d.Name, err)
	}
	return &crd, nil
}
