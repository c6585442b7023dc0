package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/atoll-dev/atoll/test/framework/process"
)

// corpusDir holds applications as their authors publish them, one directory for
// each, and the result of a stock cluster. It is not part of the repository.
func corpusDir() string {
	if dir := os.Getenv("ATOLL_CORPUS"); dir != "" {
		return dir
	}
	return filepath.Join(process.Root(), "..", "shared", "acceptance")
}

// workloads are the kinds that must report that they are done.
var workloads = sets.New("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Pod", "Job")

func TestPublishedApplicationsRunAsOnAStockCluster(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(corpusDir(), "baseline.json"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no applications in %s: set ATOLL_CORPUS", corpusDir())
	}
	if err != nil {
		t.Fatal(err)
	}
	var baseline []struct {
		App       string
		OK        bool
		Workloads int
	}
	if err := json.Unmarshal(raw, &baseline); err != nil {
		t.Fatal(err)
	}
	builtIn := servedKinds(t)
	theLab.trust(t) // as a stock cluster does
	for _, b := range baseline {
		if !b.OK {
			continue // a stock cluster does not take it either
		}
		t.Run(b.App, func(t *testing.T) {
			dir := filepath.Join(corpusDir(), "corpus", b.App)
			objects := readObjects(t, dir)
			for _, o := range objects {
				if !builtIn.Has(o.GroupVersionKind().GroupVersion().String() + "/" + o.GetKind()) {
					t.Skipf("%s of %s is not a built-in kind", o.GetKind(), o.GetAPIVersion())
				}
			}
			t.Parallel()
			runApplication(t, dir, objects)
		})
	}
}

// runApplication applies a directory, waits for every workload, and deletes it.
func runApplication(t *testing.T, dir string, objects []unstructured.Unstructured) {
	ctx := context.Background()
	k := theLab.newCluster(t)
	own, named := sets.New("default", "kube-system"), sets.New[string]()
	for _, o := range objects {
		if o.GetKind() == "Namespace" {
			own.Insert(o.GetName())
		}
		if ns := o.GetNamespace(); ns != "" {
			named.Insert(ns)
		}
	}
	for ns := range named.Difference(own) {
		must(t)(k.Run(ctx, "create", "namespace", ns))
	}
	if out, err := k.Run(ctx, "apply", "-f", dir); err != nil {
		// Directories that hold a namespace after what is in it, or a policy
		// before what it binds, are applied twice by their users.
		if _, again := k.Run(ctx, "apply", "-f", dir); again != nil {
			t.Fatalf("%v\n%s", again, out)
		}
	}
	for _, o := range objects {
		if !workloads.Has(o.GetKind()) || o.GetName() == "" {
			continue
		}
		eventually(t, func() error { return finished(k, o) })
	}
	all := must(t)(k.Run(ctx, "get", "deployments,statefulsets,daemonsets,pods", "-A", "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name} {.metadata.annotations.placement\.atoll\.dev/targets}{"\n"}{end}`))
	for line := range strings.Lines(all) {
		if fields := strings.Fields(line); len(fields) == 1 {
			t.Errorf("%s has no targets", fields[0])
		}
	}

	must(t)(k.Run(ctx, "delete", "--ignore-not-found", "--timeout=3m", "-f", dir))
	for ns := range named.Union(own).Delete("default", "kube-system") {
		must(t)(k.Run(ctx, "delete", "namespace", "--ignore-not-found", "--timeout=3m", ns))
	}
}

// finished says what a workload still waits for: what a finished roll-out reports, by kind.
func finished(k process.Kubectl, o unstructured.Unstructured) error {
	var current unstructured.Unstructured
	ns := o.GetNamespace()
	if ns == "" {
		ns = "default"
	}
	ok, err := k.In(ns).Get(context.Background(), &current.Object, strings.ToLower(o.GetKind())+"/"+o.GetName())
	if err != nil {
		return err
	}
	if !ok {
		_, ttl, _ := unstructured.NestedInt64(o.Object, "spec", "ttlSecondsAfterFinished")
		if o.GetKind() == "Job" && ttl {
			return nil // done and cleared away
		}
		return fmt.Errorf("%s/%s is not there", o.GetKind(), o.GetName())
	}
	status := func(field string) int64 {
		n, _, _ := unstructured.NestedFieldNoCopy(current.Object, "status", field)
		f, _ := n.(float64)
		return int64(f)
	}
	wanted := int64(1)
	if n, found, _ := unstructured.NestedFieldNoCopy(current.Object, "spec", "replicas"); found {
		f, _ := n.(float64)
		wanted = int64(f)
	}
	phase, _, _ := unstructured.NestedString(current.Object, "status", "phase")
	conditions, _, _ := unstructured.NestedSlice(current.Object, "status", "conditions")
	suspended, _, _ := unstructured.NestedBool(current.Object, "spec", "suspend")
	done := map[string]func() bool{
		"Deployment":            func() bool { return status("availableReplicas") >= wanted && status("updatedReplicas") >= wanted },
		"StatefulSet":           func() bool { return status("readyReplicas") >= wanted },
		"ReplicaSet":            func() bool { return status("readyReplicas") >= wanted },
		"ReplicationController": func() bool { return status("readyReplicas") >= wanted },
		"DaemonSet": func() bool {
			return status("numberReady") >= status("desiredNumberScheduled") && status("numberReady") > 0
		},
		"Pod": func() bool { return phase == "Running" || phase == "Succeeded" },
		"Job": func() bool {
			return suspended || status("ready") > 0 || slices.ContainsFunc(conditions, func(c any) bool {
				m, _ := c.(map[string]any)
				return m["type"] == "Complete" && m["status"] == "True"
			})
		},
	}
	if !done[o.GetKind()]() {
		return fmt.Errorf("%s/%s reports %v", o.GetKind(), o.GetName(), current.Object["status"])
	}
	return nil
}

// servedKinds are the kinds that every logical cluster serves, as group/version/Kind.
func servedKinds(t *testing.T) sets.Set[string] {
	t.Helper()
	found := sets.New[string]()
	paths := []string{"/api/v1"}
	var groups metav1.APIGroupList
	if err := json.Unmarshal([]byte(must(t)(theLab.root.Run(context.Background(), "get", "--raw", "/apis"))), &groups); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	for _, path := range paths {
		var resources metav1.APIResourceList
		if err := json.Unmarshal([]byte(must(t)(theLab.root.Run(context.Background(), "get", "--raw", path))), &resources); err != nil {
			t.Fatal(err)
		}
		for _, r := range resources.APIResources {
			found.Insert(resources.GroupVersion + "/" + r.Kind)
		}
	}
	return found
}

// readObjects reads all manifests of a directory, lists taken apart.
func readObjects(t *testing.T, dir string) []unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s (error %v)", dir, err)
	}
	var objects []unstructured.Unstructured
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
			var o unstructured.Unstructured
			err := decoder.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch {
			case o.Object == nil:
			case o.IsList():
				list, err := o.ToList()
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				objects = append(objects, list.Items...)
			default:
				objects = append(objects, o)
			}
		}
	}
	return objects
}
