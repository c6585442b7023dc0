package native

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// manifestOf carries an object, with the defaults of one.
func manifestOf(object string, change ...func(*fleet.ManifestSpec)) *fleet.Manifest {
	m := &fleet.Manifest{Spec: fleet.ManifestSpec{Object: runtime.RawExtension{Raw: []byte(object)}}}
	for _, f := range change {
		f(&m.Spec)
	}
	Manifest().Default(m)
	return m
}

const (
	carriedConfig = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"monitoring","name":"a"}}`
	carriedSecret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"token":"aHVzaA=="}`
)

func TestAManifestThatCannotHoldIsRefusedByItsField(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		was    string
		change func(*fleet.ManifestSpec)
		want   string
	}{
		"good":                        {object: carriedConfig},
		"of a definition":             {object: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"}}`},
		"of a role, with its colons":  {object: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"system:monitoring"}}`},
		"of a kind that nobody knows": {object: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`},
		"with a field of any kind":    {object: `{"apiVersion":"v1","kind":"Widget","metadata":{"name":"a"},"data":[1]}`},
		"nothing":                     {object: "", want: "spec.object"},
		"a null":                      {object: "null", want: "spec.object"},
		"an array":                    {object: `[{"apiVersion":"v1"}]`, want: "spec.object"},
		"no JSON":                     {object: carriedSecret, want: "spec.object"},
		"no kind":                     {object: `{"apiVersion":"v1","metadata":{"name":"a"}}`, want: "spec.object"},
		"no version":                  {object: `{"kind":"ConfigMap","metadata":{"name":"a"}}`, want: "spec.object.apiVersion"},
		"a group without a version":   {object: `{"apiVersion":"apps/","kind":"Deployment","metadata":{"name":"a"}}`, want: "spec.object.apiVersion"},
		"a version of three parts":    {object: `{"apiVersion":"a/b/c","kind":"Deployment","metadata":{"name":"a"}}`, want: "spec.object"},
		"our own":                     {object: `{"apiVersion":"fleet.atoll.dev/v1alpha1","kind":"Manifest","metadata":{"name":"a"}}`, want: "spec.object.apiVersion"},
		"our own, of any group":       {object: `{"apiVersion":"atoll.dev/v1","kind":"Widget","metadata":{"name":"a"}}`, want: "spec.object.apiVersion"},
		"not our own":                 {object: `{"apiVersion":"notatoll.dev/v1","kind":"Widget","metadata":{"name":"a"}}`},
		"a list":                      {object: `{"apiVersion":"v1","kind":"List","metadata":{"name":"a"},"items":[]}`, want: "spec.object.kind"},
		"no name":                     {object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"a"}}`, want: "spec.object.metadata.name"},
		"a name to generate":          {object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-"}}`, want: "spec.object.metadata.generateName"},
		"a name that leads elsewhere": {object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../secrets/a"}}`, want: "spec.object.metadata.name"},
		"the name of the parent":      {object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":".."}}`, want: "spec.object.metadata.name"},
		"a namespace that is none":    {object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"a/b"}}`, want: "spec.object.metadata.namespace"},
		"a removal that is none":      {object: carriedConfig, change: func(s *fleet.ManifestSpec) { s.Removal = "Orphan" }, want: "spec.removal"},

		"other content":     {object: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"monitoring","name":"a"},"data":{"a":"b"}}`, was: carriedConfig},
		"another removal":   {object: carriedConfig, was: carriedConfig, change: func(s *fleet.ManifestSpec) { s.Removal = fleet.RemovalKeep }},
		"another version":   {object: `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"}}`, was: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`},
		"another group":     {object: `{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"name":"a"}}`, was: `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, want: "spec.object.apiVersion"},
		"another kind":      {object: strings.Replace(carriedConfig, "ConfigMap", "Secret", 1), was: carriedConfig, want: "spec.object.kind"},
		"another namespace": {object: strings.Replace(carriedConfig, "monitoring", "kube-system", 1), was: carriedConfig, want: "spec.object.metadata.namespace"},
		"no namespace":      {object: strings.Replace(carriedConfig, `"namespace":"monitoring",`, "", 1), was: carriedConfig, want: "spec.object.metadata.namespace"},
		"another name":      {object: strings.Replace(carriedConfig, `"a"`, `"b"`, 1), was: carriedConfig, want: "spec.object.metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			m := manifestOf(c.object)
			if c.change != nil {
				c.change(&m.Spec)
			}
			errs := validateManifest(m, nil)
			if c.was != "" {
				errs = validateManifest(m, manifestOf(c.was))
			}
			if (len(errs) > 0) != (c.want != "") || len(errs) > 0 && errs[0].Field != c.want {
				t.Errorf("got %v, want %q", errs, c.want)
			}
			if text := errs.ToAggregate(); text != nil && strings.Contains(text.Error(), "aHVzaA==") {
				t.Errorf("it repeats what is in a Secret: %v", text)
			}
		})
	}
}

func TestWhatBecomesOfWhatIsCarriedByDefault(t *testing.T) {
	adopt := func(s *fleet.ManifestSpec) { s.Adopt = true }
	for name, c := range map[string]struct {
		manifest *fleet.Manifest
		want     fleet.ManifestRemoval
	}{
		"anything":          {manifestOf(carriedConfig), fleet.RemovalDelete},
		"what was there":    {manifestOf(carriedConfig, adopt), fleet.RemovalKeep},
		"a Namespace":       {manifestOf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`), fleet.RemovalKeep},
		"a volume":          {manifestOf(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"}}`), fleet.RemovalKeep},
		"a claim":           {manifestOf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"a"}}`), fleet.RemovalKeep},
		"a definition":      {manifestOf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a"}}`), fleet.RemovalKeep},
		"of any version":    {manifestOf(`{"apiVersion":"apiextensions.k8s.io/v2","kind":"CustomResourceDefinition","metadata":{"name":"a"}}`), fleet.RemovalKeep},
		"another Namespace": {manifestOf(`{"apiVersion":"example.com/v1","kind":"Namespace","metadata":{"name":"a"}}`), fleet.RemovalDelete},
		"as it is said": {manifestOf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`,
			func(s *fleet.ManifestSpec) { s.Removal = fleet.RemovalDelete }), fleet.RemovalDelete},
		"as it is said of what was there": {manifestOf(carriedConfig, adopt, func(s *fleet.ManifestSpec) { s.Removal = fleet.RemovalDelete }), fleet.RemovalDelete},
		"what is no object":               {manifestOf("[]"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if c.manifest.Spec.Removal != c.want {
				t.Errorf("got %q, want %q", c.manifest.Spec.Removal, c.want)
			}
		})
	}
}
