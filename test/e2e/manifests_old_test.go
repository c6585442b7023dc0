package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// fromBeforeManifests has a syncer be as one was that did not know of Manifests: it says so, and sees none.
func fromBeforeManifests(t *testing.T) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/manifests") {
			http.NotFound(w, r)
			return true
		}
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/physicalclusters/") {
			return false
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		var pc fleetv1alpha1.PhysicalCluster
		if err := json.Unmarshal(body, &pc); err != nil {
			t.Errorf("a report is no JSON: %v", err)
		} else if i := slices.Index(pc.Status.Features, fleetv1alpha1.FeatureManifests); i >= 0 {
			pc.Status.Features = slices.Delete(pc.Status.Features, i, i+1)
			if body, err = json.Marshal(&pc); err != nil {
				t.Error(err)
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return false
	}
}

// A syncer is replaced by one from before Manifests, which runs what tenants have: nobody says of a Manifest there that it is
// applied, or gone, until it is upgraded.
func TestOfManifestsWhereTheSyncerIsTooOldNothingIsKnown(t *testing.T) {
	t.Parallel()
	const name = "skerries"
	ctx, root := context.Background(), theLab.root
	p, syncer := theLab.startPull(t, name)
	theLab.setApart(t, name)
	must(t)(root.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: too-old, annotations: {placement.atoll.dev/cluster: "+name+"}}}"))
	in, carried := root.In("too-old"), p.In("kube-system")
	carry := func(manifest string) {
		t.Helper()
		must(t)(in.Apply(ctx, manifestOf(manifest, "{apiVersion: v1, kind: ConfigMap, metadata: {name: "+manifest+", namespace: kube-system}}")))
	}
	says := func(manifest, want string) {
		t.Helper()
		eventually(t, func() error {
			out, err := in.Run(ctx, "get", "manifest", manifest, "-o", `jsonpath={.status.conditions[?(@.type=="Applied")].status} {.status.conditions[?(@.type=="Applied")].reason}: {.status.conditions[?(@.type=="Applied")].message}`)
			if err == nil && !strings.HasPrefix(out, want) {
				err = fmt.Errorf("Applied of %s is %q", manifest, out)
			}
			return err
		})
	}
	carry("stays")
	carry("goes")
	says("stays", "True")
	says("goes", "True")

	between := startProxy(t, theLab.path("--syncer"+name+".kubeconfig"))
	between.put(fromBeforeManifests(t))
	if err := syncer.Stop(); err != nil {
		t.Fatal(err)
	}
	old := start(t, process.Spec{
		Path: process.Binary("atoll-syncer"), Args: append(syncer.Args(), "--kubeconfig", between.kubeconfig),
		Log: theLab.path(name + "-syncer-old.log"), Ready: "Syncing",
	})
	tooOld := "Unknown SyncerTooOld: " + name + ": its syncer does not know of Manifests, upgrade the syncer of physical cluster " + name
	says("stays", tooOld)
	carry("comes")
	says("comes", tooOld)
	must(t)(in.Run(ctx, "delete", "manifest", "goes", "--wait=false"))
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster="+name))
	must(t)(k.Apply(ctx, deployment("app", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)("", errors.Join(isThere(carried, &corev1.ConfigMap{}, "configmap", "stays"), isThere(carried, &corev1.ConfigMap{}, "configmap", "goes"),
		gone(carried, "configmap", "comes")))
	if out := must(t)(in.Run(ctx, "get", "manifests", "-o", "name")); strings.Count(out, "/goes") != 1 {
		t.Errorf("the end of a Manifest is acknowledged by a syncer that does not know of it: there are %s", out)
	}

	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	restart(t, syncer)
	says("stays", "True")
	says("comes", "True")
	must(t)(in.Run(ctx, "wait", "--for=delete", "manifest/goes", "--timeout=1m"))
	must(t)("", errors.Join(isThere(carried, &corev1.ConfigMap{}, "configmap", "stays"), isThere(carried, &corev1.ConfigMap{}, "configmap", "comes"),
		absent(carried, &corev1.ConfigMap{}, "configmap", "goes")))
	must(t)(root.Run(ctx, "delete", "namespace", "too-old", "--timeout=3m"))
}
