package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/sync/semaphore"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
	"github.com/atoll-dev/atoll/pkg/processors"
)

const (
	// maxParts is what all parts of OpenAPI documents that are kept may weigh, compressed.
	// 160 real definitions, of all versions and in all encodings, weigh a third of it.
	maxParts = 32 << 20
	// maxMerging is what the parts may weigh that are being written, kept or not, and
	// maxMergingOfOne those for one logical cluster.
	maxMerging      = 256 << 20
	maxMergingOfOne = 64 << 20
	// written is how many bytes a part weighs for each byte of the definition, at most,
	// and beside these: paths and what all definitions repeat.
	writtenEach, writtenAlways = 2, 64 << 10
)

// ErrGone is the error of a Part whose definition is gone. It is not remembered: an equal
// one may be made.
var ErrGone = errors.New("the definition is gone")

// Part is what one definition has in the documents of one version of a group.
type Part struct {
	// Key identifies the content, over all logical clusters.
	Key string
	// Size is how many bytes the definition has.
	Size int64
	// V2 and V3 make the schemas, or say ErrGone.
	V2 func() (*spec.Swagger, error)
	V3 func() (*spec3.OpenAPI, error)
}

// partKey is that of a part as it is written.
type partKey struct {
	key      string
	version  int // of OpenAPI
	encoding string
}

// openAPI keeps parts as bytes.
type openAPI struct {
	builtin *BuiltinOpenAPI
	parts   *weighed.Cache[partKey, *packed]
	// making bounds how many processors make parts: that is the work, and everybody's
	// requests wait for it in order.
	making *semaphore.Weighted
	room   *weighed.Room
}

func newOpenAPI(builtin *BuiltinOpenAPI) *openAPI {
	return &openAPI{
		builtin: builtin, parts: weighed.New[partKey](maxParts, (*packed).weight),
		making: semaphore.NewWeighted(int64(max(1, processors.Count()/2))),
		room:   weighed.NewRoom(maxMerging, maxMergingOfOne),
	}
}

// part is p, as it is written.
func (o *openAPI) part(ctx context.Context, p Part, version int, e encoding) (*rendered, error) {
	kept, err := o.parts.Get(ctx, partKey{p.Key, version, e.kind}, func() (*packed, error) {
		text := &rendered{}
		if e.kind != encodingJSON.kind {
			var err error
			if text, err = o.part(ctx, p, version, encodingJSON); err != nil || text.err != nil {
				return &packed{err: text.failure()}, err
			}
		}
		if err := o.making.Acquire(ctx, 1); err != nil {
			return nil, fmt.Errorf("waiting for a processor: %w", err)
		}
		defer o.making.Release(1)
		if e.kind == encodingJSON.kind {
			made := o.makePart(p, version)
			if errors.Is(made.err, ErrGone) {
				return nil, made.err
			}
			return pack(made)
		}
		made, err := toProtobuf(layouts[version], text)
		if err != nil {
			made = &rendered{err: err}
		}
		return pack(made)
	})
	if err != nil {
		return nil, err
	}
	return kept.unpack()
}

var layouts = map[int]layout{2: layoutV2, 3: layoutV3}

// makePart makes JSON of p. What cannot be made is remembered as such.
func (o *openAPI) makePart(p Part, version int) *rendered {
	write := o.makeV3
	if version == 2 {
		write = o.makeV2
	}
	data, err := write(p)
	if err != nil {
		return &rendered{err: err}
	}
	r, err := splitJSON(layouts[version], data)
	if err != nil {
		return &rendered{err: err}
	}
	return r
}

func (o *openAPI) makeV3(p Part) ([]byte, error) {
	s, err := p.V3()
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// makeV2 is the part of p that the built-in document does not have already.
func (o *openAPI) makeV2(p Part) ([]byte, error) {
	s, err := p.V2()
	if err != nil {
		return nil, err
	}
	builtin, err := o.builtin.v2()
	if err != nil {
		return nil, err
	}
	merged, err := builtin.json.besides(s)
	if err != nil {
		return nil, fmt.Errorf("merging the OpenAPI v2 schemas: %w", err)
	}
	// Nothing is protobuf without these; a document has those of the built-in one.
	merged.Swagger, merged.Info = "2.0", &spec.Info{InfoProps: spec.InfoProps{Title: "part", Version: "1"}}
	return merged.MarshalJSON()
}

// besides is s without what r has, too. What has the name of something else in r gets
// another one, as upstream does it.
func (r *rendered) besides(s *spec.Swagger) (*spec.Swagger, error) {
	same := &spec.Swagger{SwaggerProps: spec.SwaggerProps{Definitions: spec.Definitions{}, Parameters: map[string]spec.Parameter{}, Paths: &spec.Paths{Paths: map[string]spec.PathItem{}}}}
	for name := range s.Definitions {
		var known map[string]spec.Schema
		if ok, err := r.read(1, name, &known); err != nil {
			return nil, err
		} else if ok {
			same.Definitions[name] = known[name]
		}
	}
	for name := range s.Parameters {
		var known map[string]spec.Parameter
		if ok, err := r.read(2, name, &known); err != nil {
			return nil, err
		} else if ok {
			same.Parameters[name] = known[name]
		}
	}
	definitions, parameters := slices.Collect(maps.Keys(same.Definitions)), slices.Collect(maps.Keys(same.Parameters))
	if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(same, s); err != nil {
		return nil, err
	}
	for _, name := range definitions {
		delete(same.Definitions, name)
	}
	for _, name := range parameters {
		delete(same.Parameters, name)
	}
	return same, nil
}

// read parses the item of a set that has a name, into a map with that name; false if there is none.
func (r *rendered) read(set int, name string, into any) (bool, error) {
	n, ok := slices.BinarySearchFunc(r.sets[set], name, func(i item, name string) int { return strings.Compare(i.name, name) })
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(slices.Concat([]byte("{"), r.sets[set][n].body, []byte("}")), into)
}

// writing is one document of a logical cluster: base, if not nil, and parts.
type writing struct {
	*openAPI
	cluster logicalcluster.Name
	version int
	base    func(encoding) (*rendered, error)
	parts   []Part
}

// write is that of answer.
func (w writing) write(ctx context.Context, e encoding) ([][]byte, func(), error) {
	weight := int64(0)
	for _, p := range w.parts {
		weight += writtenEach*p.Size + writtenAlways
	}
	done, err := w.room.Take(ctx, w.cluster, weight)
	if err != nil {
		return nil, nil, fmt.Errorf("writing an OpenAPI document: %w: try again in some seconds", err)
	}
	all, err := w.collect(ctx, e)
	if err != nil {
		done()
		return nil, nil, err
	}
	return e.join(layouts[w.version], merge(all)), done, nil
}

// collect has all that the document is made of. One part that cannot be made hides no other.
func (w writing) collect(ctx context.Context, e encoding) (all []*rendered, err error) {
	if w.base != nil {
		base, err := w.base(e)
		if err != nil {
			return nil, err
		}
		all = append(all, base)
	}
	var broken error
	for _, p := range w.parts {
		r, err := w.part(ctx, p, w.version, e)
		switch {
		case err != nil:
			return nil, err
		case r.err != nil:
			broken = r.err
		default:
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("making the schemas: %w", broken)
	}
	return all, nil
}
