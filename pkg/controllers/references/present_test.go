package references

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// secretTargets are those that a Secret gets which has the targets of current.
func secretTargets(current string, referrers []*holder) string {
	kind, _ := workload.Builtin().ByResource(workload.Secrets)
	secret := &metav1.ObjectMeta{Namespace: "web", Name: "key", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: current}}
	return stamp.Targets(kind, "shop", secret, stamp.Source{Referrers: targetsOf(referrers)}).String()
}

// What was deleted, made again under its name, moved, or refers to something else by now may still be known as it was:
// that alone puts nothing on a physical cluster.
func TestOnlyWhatIsThereAsksForMore(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	mounts := map[string]any{"volumes": []any{map[string]any{"name": "s", "secret": map[string]any{"secretName": "key"}}}}
	var stored []runtime.Object
	for name, spec := range map[string]map[string]any{"one": mounts, "two": mounts, "again": mounts, "other": {}} {
		o := pod(`{"east":{}}`, spec)
		o.SetName(name)
		o.SetUID(types.UID(name))
		stored = append(stored, o)
	}
	for _, c := range []struct {
		name, current string
		referrers     []string // name, UID, targets
		want          string
		reads         int
	}{
		{"it is there", "", []string{`one one {"east":{}}`}, `{"east":{}}`, 1},
		{"it is gone", "", []string{`gone gone {"east":{}}`}, "", 1},
		{"it was made again", "", []string{`again before {"east":{}}`}, "", 1},
		{"it was elsewhere", `{"east":{}}`, []string{`one one {"west":{}}`}, `{"east":{}}`, 1},
		{"it was elsewhere, and asks for where it is", "", []string{`one one {"west":{}}`}, `{"east":{}}`, 1},
		{"it refers to something else", "", []string{`other other {"east":{}}`}, "", 1},
		{"what is there is enough", "", []string{`gone gone {"east":{}}`, `one one {"east":{}}`, `two two {"east":{}}`}, `{"east":{}}`, 2},
		{"each target needs one", "", []string{`one one {"east":{}}`, `gone gone {"west":{}}`}, `{"east":{}}`, 2},
		{"nothing new is asked for: no question", `{"east":{}}`, []string{`gone gone {"east":{}}`}, `{"east":{}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList"}, stored...)
			var referrers []*holder
			for _, r := range c.referrers {
				fields := strings.Fields(r)
				h := &holder{resource: pods, targets: parse(t, fields[2])[0]}
				h.Namespace, h.Name, h.UID = "web", fields[0], types.UID(fields[1])
				referrers = append(referrers, h)
			}
			current := parse(t, c.current)[0]
			k := key{controller.Request{Cluster: "shop", Namespace: "web", Name: "key"}, workload.Secrets}
			got, err := (&Controller{Config: Config{Kinds: workload.Builtin(), Dynamic: client}}).present(t.Context(), k, current, referrers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, secretTargets(c.current, got)); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			if n := len(client.Actions()); n != c.reads {
				t.Errorf("%d reads, want %d", n, c.reads)
			}
		})
	}
}
