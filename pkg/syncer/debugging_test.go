package syncer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/boundary"
)

func TestEphemeralContainersGoDownAsFarAsTheyMay(t *testing.T) {
	const (
		above = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web, uid: l1}\nspec:\n  serviceAccountName: robot\n  containers: [{name: c}]\n"
		below = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n, uid: p1, annotations: {atoll.dev/server: 192.0.2.1 6443}}\nspec:\n  containers: [{name: c}]\n"
		shell = "  ephemeralContainers:\n  - {name: shell, image: busybox, stdin: true, targetContainerName: c, env: [{name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}, {name: WHO, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}, {name: ID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}\n"
	)
	physical := parse(t, below)
	patch, refused := EphemeralContainersBelow(kindOf(t, physical), parse(t, above+shell), physical, boundary.Permits{})
	want := map[string]any{
		"metadata": map[string]any{"uid": "p1"},
		"spec": map[string]any{"ephemeralContainers": []any{map[string]any{
			"name": "shell", "image": "busybox", "stdin": true, "targetContainerName": "c",
			"env": []any{
				map[string]any{"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.1"},
				map[string]any{"name": "NS", "value": "web"}, map[string]any{"name": "WHO", "value": "robot"}, map[string]any{"name": "ID", "value": "l1"},
				map[string]any{"name": "IP", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "status.podIP"}}},
			},
		}}},
	}
	if refused != "" || patch == nil {
		t.Fatalf("refused: %q", refused)
	}
	filter(list(field(patch.Object, "spec"), ephemeral)[0], "env", func(item any) bool { // one of these is enough
		name := text(item.(map[string]any), "name")
		return strings.HasPrefix(name, "KUBERNETES_") && name != "KUBERNETES_SERVICE_HOST"
	})
	if diff := cmp.Diff(want, patch.Object); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	going := func(text string) *unstructured.Unstructured {
		u := parse(t, text)
		u.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		return u
	}
	for name, c := range map[string]struct {
		logical, physical *unstructured.Unstructured
		refused           string
	}{
		"none was added":              {parse(t, above), parse(t, below), ""},
		"it is there, whatever it is": {parse(t, above+shell), parse(t, below+"  ephemeralContainers: [{name: shell, image: other}]\n"), ""},
		"one was added below only":    {parse(t, above), parse(t, below+shell), ""},
		"the pod goes above":          {going(above + shell), parse(t, below), ""},
		"the pod goes below":          {parse(t, above+shell), going(below), ""},
		"it is privileged":            {parse(t, above+"  ephemeralContainers: [{name: root, securityContext: {privileged: true}}]\n"), parse(t, below), "privileged"},
		"there is no pod above":       {nil, parse(t, below), ""},
		"there is none below":         {parse(t, above+shell), nil, ""},
	} {
		patch, refused := EphemeralContainersBelow(kindOf(t, physical), c.logical, c.physical, boundary.Permits{})
		if patch != nil || (refused == "") != (c.refused == "") || !strings.Contains(refused, c.refused) {
			t.Errorf("%s: patch %v, refused %q", name, patch, refused)
		}
	}
}
