//go:build linux

package real

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/test/framework/process"
	"github.com/atoll-dev/atoll/test/real/lab"
)

// loads has the nodes know the images of operators, by the names that they have in text.
func loads(t *testing.T, text string, operators ...lab.Operator) {
	t.Helper()
	if err := theLab.Load(text, operators...); err != nil {
		t.Fatal(err)
	}
}

// areBuilt skips the test if one is not.
func areBuilt(t *testing.T, operators ...lab.Operator) {
	t.Helper()
	for _, o := range operators {
		built(t, o.Binary)
	}
}

// built is the path of a program of bin/operators; the test is skipped if there is none.
func built(t *testing.T, program string) string {
	t.Helper()
	binary := filepath.Join("operators", program)
	if process.Missing(binary) != nil {
		t.Skipf("%s is not built: run hack/operators.sh --pods", program)
	}
	return process.Binary(binary)
}

// rendered are the manifests of a release by a chart, as helm template makes them.
func rendered(t *testing.T, release, chart string, args ...string) string {
	t.Helper()
	var complaint strings.Builder
	cmd := exec.CommandContext(t.Context(), built(t, "helm"), append([]string{"template", release, chart}, args...)...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rendering the chart: %v: %s", err, &complaint)
	}
	return string(out)
}

// sources is the directory of a module of test/e2e/operators/modules, or of a module of its
// own in there.
func sources(t *testing.T, dir, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = filepath.Join(process.Root(), "test", "e2e", "operators", "modules", dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("finding the sources of %s: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// manifests are the files of a directory that match none of the patterns in except, in one.
func manifests(t *testing.T, dir string, except ...string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no manifests in %s: %v", dir, err)
	}
	var all bytes.Buffer
next:
	for _, file := range files {
		for _, pattern := range except {
			if ok, err := filepath.Match(pattern, filepath.Base(file)); err != nil || ok {
				continue next
			}
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("---\n")
		all.Write(content)
		all.WriteString("\n")
	}
	return all.String()
}

// defines applies CRDs and waits until they are served.
func (n tenant) defines(t *testing.T, path string) {
	t.Helper()
	must(t)(n.Run(t.Context(), "apply", "--server-side", "-f", path))
	must(t)(n.Run(t.Context(), "wait", "--for=condition=Established", "--timeout=1m", "crd", "--all"))
}
