package cli

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/atoll-dev/atoll/pkg/workload"
)

var update = flag.Bool("update", false, "write what is printed into testdata")

// runLocally runs a command where there is no server and no kubeconfig.
func runLocally(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out, errOut bytes.Buffer
	command := NewCommand(workload.Builtin(), genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	command.SetArgs(append([]string{"--kubeconfig", filepath.Join(t.TempDir(), "none")}, args...))
	command.SetOut(&out)
	err := command.ExecuteContext(t.Context())
	if errOut.Len() > 0 {
		t.Errorf("%s: on stderr: %s", strings.Join(args, " "), errOut.String())
	}
	return out.String(), err
}

// locally runs a command that has to succeed.
func locally(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := runLocally(t, stdin, args...)
	if err != nil {
		t.Fatalf("kubectl atoll %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// carriedIn are the objects that Manifests carry, as one would write them.
func carriedIn(t *testing.T, manifests string) string {
	t.Helper()
	var out []string
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096); ; {
		var manifest struct {
			Spec struct {
				Object map[string]any `json:"object"`
			} `json:"spec"`
		}
		err := decoder.Decode(&manifest)
		if errors.Is(err, io.EOF) {
			return strings.Join(out, "---\n")
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := sigsyaml.Marshal(manifest.Spec.Object)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
}

func TestManifestsAreMadeOfAnAddon(t *testing.T) {
	dir := filepath.Join("testdata", "manifests")
	golden := filepath.Join(dir, "addon.golden.yaml")
	flags := []string{"manifests", "-n", "addons", "--object-namespace", "gadgets", "--removal", "Keep", "--adopt"}
	got := locally(t, "", append(flags, "-R", "-f", filepath.Join(dir, "addon"))...)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run: go test ./pkg/cli -update (-want +got):\n%s", diff)
	}
	if again := locally(t, carriedIn(t, got), append(flags, "-f", "-")...); again != got {
		t.Errorf("made of what they carry, they differ (-once +again):\n%s", cmp.Diff(got, again))
	}
}

func TestManifestsAreMadeOfAKustomization(t *testing.T) {
	got := locally(t, "", "manifests", "-n", "addons", "-k", filepath.Join("testdata", "manifests", "kustomize"))
	want := `apiVersion: fleet.atoll.dev/v1alpha1
kind: Manifest
metadata:
  name: serviceaccount--east-operator
  namespace: addons
spec:
  object:
    apiVersion: v1
    kind: ServiceAccount
    metadata:
      name: east-operator
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoManifestsAreMadeOfWhatIsWrong(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	stdin := []string{"-n", "addons", "-f", "-"}
	for _, c := range []struct {
		given string
		args  []string
		want  string
	}{
		{good, []string{"-f", "-"}, "-n NAMESPACE"},
		{good, []string{"-n", "addons"}, "-f FILE"},
		{good, []string{"-n", "addons", "-f", "-", "-k", "."}, "either -f FILE or -k DIRECTORY"},
		{good, []string{"-n", "Addons", "-f", "-"}, `--namespace: "Addons" is no name of a namespace`},
		{good, append(stdin, "--object-namespace", "a.b"), "--object-namespace"},
		{good, append(stdin, "--removal", "Orphan"), "--removal is Delete or Keep"},
		{"", stdin, "there is no object"},
		{"# nothing\n---\n", stdin, "there is no object"},
		{good, []string{"-n", "addons", "-f", filepath.Join("testdata", "manifests", "none.yaml")}, "does not exist"},
		{good + "---\n" + good, stdin, "ConfigMap a (standard input, object 2) is in standard input, object 1, too"},
		{good + "---\nmetadata: {name: b}\nstringData: {k: swordfish}\n", stdin, `error validating "standard input": error validating data: b has no kind; each object begins with apiVersion and kind`},
		{"Kind: Secret\nstringData: {k: swordfish}\n", stdin, "an object without a name has no kind"},
		{"kind: Secret\nmetadata: {name: b}\nstringData: {k: swordfish}\n", stdin, "Secret b (standard input, object 1) has no apiVersion"},
		{"apiVersion: v1\nkind: List\nitems:\n- metadata: {name: b}\n  stringData: {k: swordfish}\n", stdin, "b (standard input, object 1) has no kind"},
		{"swordfish", stdin, "standard input"},
		{"[swordfish]", stdin, "standard input"},
		{"apiVersion: v1\nkind: Secret\nmetadata: swordfish\n", stdin, "standard input"},
		{"apiVersion: v1\nkind: Secret\n stringData: {k: swordfish\n", stdin, "standard input"},
		{"apiVersion: v1\nkind: Secret\nstringData: {k: *swordfish }\n", stdin, "quote what begins with"},
		{"apiVersion: v1\nkind: Secret\nstringData: {k: !!int swordfish}\n", stdin, "quote what begins with"},
		{"apiVersion: v1\nkind: Secret\nstringData: {k: {{ swordfish }}}\n", stdin, "standard input"},
		{"", []string{"-n", "addons", "-k", filepath.Join("testdata", "manifests", "unquoted")}, "quote what begins with"},
		{`{"apiVersion": "v1", "kind": "Secret", "stringData": {"k": "swordfish}`, stdin, "standard input"},
	} {
		out, err := runLocally(t, c.given, append([]string{"manifests"}, c.args...)...)
		if err == nil || out != "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: %v, want %q; printed %q", c.given, c.args, err, c.want, out)
			continue
		}
		if strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "--validate") {
			t.Errorf("%q: %v repeats what is in it, or names a flag that is none", c.given, err)
		}
	}
}
