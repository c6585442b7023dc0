package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// equalSets are how many logical clusters have the same definitions after the first, in two steps: the first
	// fills the pools of buffers as well, which the second finds full.
	equalSets, moreEqualSets = 8, 16
	// differentSets is how many have each another half of the definitions.
	differentSets = 4
	// protobufV2 is what kubectl asks for.
	protobufV2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	jsonType   = "application/json"
	discovery  = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// documentsPart measures what a server holds because of definitions and of what clients
// ask about them: OpenAPI v2 and v3, discovery, and a list of each resource.
func documentsPart(ctx context.Context, l *lab, o options) error {
	crds, err := readDefinitions(o.definitions)
	if err != nil {
		return err
	}
	builds := []build{{name: "now", bin: l.bin}}
	if o.previous != "" {
		builds = []build{{name: "previous", bin: o.previous}, builds[0]}
	}
	t := newTable("build", "after", "heap MiB", "more KiB for each logical cluster", "RSS MiB", "goroutines", "took s")
	for _, b := range builds {
		if err := b.documents(ctx, &lab{dir: l.dir, bin: b.bin}, crds, t, o); err != nil {
			return err
		}
	}
	fmt.Printf("%d definitions.\n\n", len(crds))
	t.print()
	return nil
}

// readDefinitions reads the definitions of a directory, one in each file.
func readDefinitions(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	if dir == "" {
		return nil, fmt.Errorf("-definitions names a directory with a CustomResourceDefinition in each file")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("-definitions: %w", err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("-definitions: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil || crd.Kind != "CustomResourceDefinition" {
			return nil, fmt.Errorf("-definitions: %s is no CustomResourceDefinition (%w)", f.Name(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}

// documents fills one server in steps, and adds a row for each.
func (b build) documents(ctx context.Context, l *lab, crds []*apiextensionsv1.CustomResourceDefinition, t *table, o options) error {
	defer l.stop()
	s, err := l.startAtoll(ctx, b.name)
	if err != nil {
		return err
	}
	d := &documents{server: s}
	config := scope.ScopedConfig(s.config)
	if d.crds, err = clientset.NewForConfig(config); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	var sets []logicalcluster.Name
	half := func(i int) []*apiextensionsv1.CustomResourceDefinition {
		return slices.DeleteFunc(slices.Clone(crds), func(c *apiextensionsv1.CustomResourceDefinition) bool {
			return (slices.Index(crds, c)*7+i*5)%differentSets < differentSets/2
		})
	}
	same := func(from, to int) error {
		for i := from; i < to; i++ {
			c := logicalcluster.Name(fmt.Sprint("equal-", i))
			if err := errors.Join(d.install(ctx, c, crds), d.read(ctx, c)); err != nil {
				return err
			}
		}
		return pause(ctx, afterNoise)
	}
	before := int64(0)
	for i, step := range []struct {
		name  string
		count int
		do    func() error
	}{
		{"start", 1, func() error { return nil }},
		{"all definitions in one logical cluster", 1, func() error { return d.install(ctx, "first", crds) }},
		{"its documents", 1, func() error { return d.read(ctx, "first") }},
		// What was written just now is kept for watches that may ask for it.
		{fmt.Sprintf("%s without a write", afterNoise), 1, func() error { return pause(ctx, afterNoise) }},
		{fmt.Sprintf("the same in %d more, and %s without a write", equalSets, afterNoise), equalSets, func() error { return same(0, equalSets) }},
		{fmt.Sprintf("the same in %d more, and %s without a write", moreEqualSets, afterNoise), moreEqualSets, func() error { return same(equalSets, equalSets+moreEqualSets) }},
		{"a list of each resource in the first", 1, func() error { return d.list(ctx, "first", crds) }},
		{fmt.Sprintf("another half of them in each of %d more", differentSets), differentSets, func() error {
			for i := range differentSets {
				c := logicalcluster.Name(fmt.Sprint("different-", i))
				sets = append(sets, c)
				if err := d.use(ctx, c, half(i)); err != nil {
					return err
				}
			}
			return nil
		}},
		{fmt.Sprintf("another text in all of them in each of %d more", differentSets/2), differentSets / 2, func() error {
			for i := range differentSets / 2 {
				c := logicalcluster.Name(fmt.Sprint("own-", i))
				sets = append(sets, c)
				if err := d.use(ctx, c, reworded(crds, c)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"those of the last two rows are deleted", 1, func() error { return d.remove(ctx, sets) }},
	} {
		began := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		took := time.Since(began)
		m, err := s.memory(ctx)
		if err != nil {
			return err
		}
		if err := s.saveProfile(ctx, o.profiles, "heap", fmt.Sprintf("%s-documents-%d.heap.pb.gz", b.name, i)); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s, %s: %s MiB of heap, %.1f s\n", b.name, step.name, mib(m.heap), took.Seconds())
		t.add(b.name, step.name, mib(m.heap), kib(m.heap-before, step.count), mib(m.rss), fmt.Sprint(m.goroutines), fmt.Sprintf("%.1f", took.Seconds()))
		before = m.heap
	}
	return nil
}

func kib(bytes int64, each int) string { return fmt.Sprintf("%.0f", float64(bytes)/1024/float64(each)) }

// reworded are the same definitions with descriptions that nobody else has.
func reworded(crds []*apiextensionsv1.CustomResourceDefinition, c logicalcluster.Name) []*apiextensionsv1.CustomResourceDefinition {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range crds {
		crd = crd.DeepCopy()
		for i := range crd.Spec.Versions {
			if s := crd.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
				s.OpenAPIV3Schema.Description += " As of " + c.String() + "."
			}
		}
		out = append(out, crd)
	}
	return out
}

// documents is a server and what is asked of it.
type documents struct {
	server *server
	crds   clientset.Interface
}

// use installs definitions and asks for everything about them.
func (d *documents) use(ctx context.Context, c logicalcluster.Name, crds []*apiextensionsv1.CustomResourceDefinition) error {
	if err := d.install(ctx, c, crds); err != nil {
		return err
	}
	if err := d.read(ctx, c); err != nil {
		return err
	}
	return d.list(ctx, c, crds)
}

// install makes a logical cluster with definitions, and returns when they are served.
func (d *documents) install(ctx context.Context, c logicalcluster.Name, crds []*apiextensionsv1.CustomResourceDefinition) error {
	if err := d.server.makeLogicalCluster(ctx, c.String()); err != nil {
		return err
	}
	ctx = inCluster(ctx, c)
	for _, crd := range crds {
		if _, err := d.crds.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd.DeepCopy(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating %s: %w", crd.Name, err)
		}
	}
	for {
		list, err := d.crds.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing definitions: %w", err)
		}
		if !slices.ContainsFunc(list.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
			return !apihelpers.IsCRDConditionTrue(&crd, apiextensionsv1.Established)
		}) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// read asks for every document that a client may ask for.
func (d *documents) read(ctx context.Context, c logicalcluster.Name) error {
	config := scope.PinnedConfig(d.server.config, scope.Scope{Cluster: c})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	get := func(path, accept string, into any) error { return fetch(ctx, client, config.Host+path, accept, into) }
	var groups apidiscoveryv2.APIGroupDiscoveryList
	if err := get("/apis", discovery, &groups); err != nil {
		return err
	}
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := get("/openapi/v3", jsonType, &index); err != nil {
		return err
	}
	for path := range index.Paths {
		if err := get("/openapi/v3/"+path, jsonType, nil); err != nil {
			return err
		}
	}
	for _, accept := range []string{protobufV2, jsonType} {
		if err := get("/openapi/v2", accept, nil); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads a document, and parses it if into is not nil.
func fetch(ctx context.Context, client *http.Client, url, accept string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Accept", accept)
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("asking for a document: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	if into == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	} else {
		err = json.NewDecoder(answer.Body).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	return nil
}

// list asks for the objects of each definition in each version, of which there are none.
func (d *documents) list(ctx context.Context, c logicalcluster.Name, crds []*apiextensionsv1.CustomResourceDefinition) error {
	config := scope.PinnedConfig(d.server.config, scope.Scope{Cluster: c})
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			if err := fetch(ctx, client, config.Host+"/apis/"+crd.Spec.Group+"/"+v.Name+"/"+crd.Spec.Names.Plural, jsonType, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove deletes logical clusters and returns when they are gone.
func (d *documents) remove(ctx context.Context, clusters []logicalcluster.Name) error {
	_, own, err := d.server.scoped()
	if err != nil {
		return err
	}
	ctx = inCluster(ctx, scope.Root)
	all := own.TenancyV1alpha1().LogicalClusters()
	for _, c := range clusters {
		if err := all.Delete(ctx, c.String(), metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("deleting %s: %w", c, err)
		}
	}
	for _, c := range clusters {
		for {
			_, err := all.Get(ctx, c.String(), metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				break
			}
			if err != nil {
				return fmt.Errorf("waiting for the end of %s: %w", c, err)
			}
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}
