package syncer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// parse makes an object from YAML, with numbers as the API machinery has them.
func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("reading YAML: %v\n%s", err, text)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(b); err != nil {
		t.Fatalf("reading an object: %v\n%s", err, text)
	}
	return u
}

func parseMap(t testing.TB, text string) map[string]any {
	t.Helper()
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return parse(t, "apiVersion: v1\nkind: Status\nstatus:\n"+indent(text)).Object["status"].(map[string]any)
}

func indent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "  " + strings.Join(lines, "\n  ") + "\n"
}

func kindOf(t testing.TB, obj *unstructured.Unstructured) workload.Kind {
	t.Helper()
	return kindNamed(t, obj.GroupVersionKind().GroupKind())
}

func kindNamed(t testing.TB, gk schema.GroupKind) workload.Kind {
	t.Helper()
	k, ok := workload.Builtin().ByKind(gk)
	if !ok {
		t.Fatalf("no kind %s", gk)
	}
	return k
}

// transcripts runs f for each file of testdata/<dir>, with the files in it by
// name.
func transcripts(t *testing.T, dir string, f func(t *testing.T, files map[string]string)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts in %s: %v", dir, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, file := range txtar.Parse(b).Files {
				files[file.Name] = string(file.Data)
			}
			f(t, files)
		})
	}
}

func asYAML(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.JSONToYAML(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(y)
}
