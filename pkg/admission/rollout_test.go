package admission

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// stagedWorld has a namespace on two physical clusters, of which east gets changes first.
func stagedWorld() world {
	w := placedWorld()
	w.namespaces[0].Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{},"west":{}}`
	d := w.placements[0].Spec.Decision
	d.PhysicalClusters = append(d.PhysicalClusters, placementv1alpha1.DecidedPhysicalCluster{Name: "west"})
	d.Rollout = &placementv1alpha1.DecidedRollout{Waves: []placementv1alpha1.DecidedWave{{PhysicalClusters: []string{"east"}}, {PhysicalClusters: []string{"west"}}}}
	return w
}

func storedMeta(annotations map[string]string) metav1.ObjectMeta {
	m := in("shop", "x")
	m.Namespace, m.UID, m.Finalizers = "web", "u", []string{placementv1alpha1.CopiesFinalizer}
	m.Annotations[placementv1alpha1.TargetsAnnotation] = `{"east":{},"west":{}}`
	for key, value := range annotations {
		m.Annotations[key] = value
	}
	return m
}

func ofImage(meta metav1.ObjectMeta, image string) *apps.Deployment {
	return &apps.Deployment{ObjectMeta: meta, Spec: apps.DeploymentSpec{Replicas: 1, Template: core.PodTemplateSpec{Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: image}}}}}}
}

// Whoever sends an object without the system's notes, or with others, changes nothing of
// who has which content.
func TestNobodyForgesOrLosesWhoHasAChange(t *testing.T) {
	f := stagedWorld().start(t)
	old := ofImage(storedMeta(nil), "v1")
	update := func(old *apps.Deployment, image string, annotations map[string]string) *apps.Deployment {
		t.Helper()
		sent := ofImage(*old.ObjectMeta.DeepCopy(), image)
		if sent.Annotations = annotations; annotations != nil {
			sent.Annotations["kcp.io/cluster"] = "shop"
		}
		if err := f.write(shop(), attributes(admission.Update, "deployments.apps", "Deployment", sent, old, "", alice)); err != nil {
			t.Fatal(err)
		}
		return sent
	}
	const staged, whole = `{"east":{},"west":{"former":true}}`, `{"east":{},"west":{}}`
	check := func(what string, obj *apps.Deployment, targets string, notes bool) {
		t.Helper()
		if got := obj.Annotations[placementv1alpha1.TargetsAnnotation]; got != targets {
			t.Errorf("%s: targets %s, want %s", what, got, targets)
		}
		if stamp.Staged(obj) != notes || (obj.Annotations[placementv1alpha1.FormerAnnotation] != "") != notes {
			t.Errorf("%s: notes are %v, want %v", what, !notes, notes)
		}
	}
	v2 := update(old, "v2", nil)
	check("a replace without annotations", v2, staged, true)
	v2.ResourceVersion = "2"
	check("the same once more", update(v2, "v2", nil), staged, true)
	forged := map[string]string{
		placementv1alpha1.TargetsAnnotation: whole, placementv1alpha1.FormerAnnotation: "H4sI", placementv1alpha1.RolloutAnnotation: "mine",
	}
	again := update(v2, "v2", forged)
	check("forged notes", again, staged, true)
	if again.Annotations[placementv1alpha1.FormerAnnotation] != v2.Annotations[placementv1alpha1.FormerAnnotation] || stamp.Revision(again) != stamp.Revision(v2) {
		t.Error("the notes are those that were sent")
	}
	check("only labels", update(old, "v1", map[string]string{"note": "x"}), whole, false)
	check("taken back", update(v2, "v1", nil), whole, false)
	if calls := f.calls(); len(calls) > 0 {
		t.Errorf("requests: %v", calls)
	}

	// The controller writes who has it; neither that nor a scale is a change.
	opened := ofImage(*v2.ObjectMeta.DeepCopy(), "v2")
	stamp.Open(opened, []string{"west"})
	if err := f.write(shop(), attributes(admission.Update, "deployments.apps", "Deployment", opened, v2, "", loopback)); err != nil {
		t.Fatal(err)
	}
	check("the next wave", opened, whole, true)
	status := ofImage(*v2.ObjectMeta.DeepCopy(), "v1")
	status.Annotations = map[string]string{"kcp.io/cluster": "shop"}
	if err := f.write(shop(), attributes(admission.Update, "deployments.apps", "Deployment", status, v2, "status", alice)); err != nil {
		t.Fatal(err)
	}
	check("a status", status, staged, true)
}

func TestConfigMapsAndSecretsAreStagedWithTheirNamespace(t *testing.T) {
	for _, c := range []struct {
		kind, resource string
		of             func(metav1.ObjectMeta, string) runtime.Object
		meta           func(runtime.Object) *metav1.ObjectMeta
	}{
		{"ConfigMap", "configmaps", func(m metav1.ObjectMeta, v string) runtime.Object {
			return &core.ConfigMap{ObjectMeta: m, Data: map[string]string{"v": v}}
		},
			func(o runtime.Object) *metav1.ObjectMeta { return &o.(*core.ConfigMap).ObjectMeta }},
		{"Secret", "secrets", func(m metav1.ObjectMeta, v string) runtime.Object {
			return &core.Secret{ObjectMeta: m, Data: map[string][]byte{"v": []byte(v)}}
		}, func(o runtime.Object) *metav1.ObjectMeta { return &o.(*core.Secret).ObjectMeta }},
	} {
		t.Run(c.kind, func(t *testing.T) {
			f := stagedWorld().start(t)
			old, sent := c.of(storedMeta(nil), "1"), c.of(storedMeta(nil), "2")
			if err := f.write(shop(), attributes(admission.Update, c.resource, c.kind, sent, old, "", alice)); err != nil {
				t.Fatal(err)
			}
			got := c.meta(sent)
			if targets := got.Annotations[placementv1alpha1.TargetsAnnotation]; targets != `{"east":{},"west":{"former":true}}` {
				t.Errorf("targets %s", targets)
			}
			former, err := stamp.FormerContent(got)
			if err != nil || !strings.Contains(fmt.Sprint(former), "v:") {
				t.Errorf("the former content is %v, %v", former, err)
			}
		})
	}
}

func TestAChangeThatCannotBeKeptIsRefusedWithTheWayOut(t *testing.T) {
	f := stagedWorld().start(t)
	large := make([]byte, 200<<10)
	state := uint32(1)
	for i := range large { // what does not get smaller
		state = state*1664525 + 1013904223
		large[i] = byte(state >> 24)
	}
	old := &core.ConfigMap{ObjectMeta: storedMeta(nil), BinaryData: map[string][]byte{"v": large}}
	sent := &core.ConfigMap{ObjectMeta: storedMeta(nil), Data: map[string]string{"v": "1"}}
	err := f.write(shop(), attributes(admission.Update, "configmaps", "ConfigMap", sent, old, "", alice))
	if err == nil || !strings.Contains(err.Error(), "98304 bytes") || !strings.Contains(err.Error(), "make another object") {
		t.Errorf("%v", err)
	}
	// Not in a namespace without waves.
	w := stagedWorld()
	w.placements[0].Spec.Decision.Rollout = nil
	sent = &core.ConfigMap{ObjectMeta: storedMeta(nil), Data: map[string]string{"v": "1"}}
	if err := w.start(t).write(shop(), attributes(admission.Update, "configmaps", "ConfigMap", sent, old, "", alice)); err != nil || stamp.Staged(sent) {
		t.Errorf("%v", err)
	}
}
