package references

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// secretTargets are those that a Secret gets which has the targets of current.
func secretTargets(current string, referrers []*holder) string {
	kind, _ := workload.Builtin().ByResource(workload.Secrets)
	secret := &metav1.ObjectMeta{Namespace: "web", Name: "key", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: current}}
	return stamp.Targets(kind, "shop", secret, stamp.Source{Referrers: targetsOf(referrers)}).String()
}

// What was deleted, or made again under its name, may still be known: that alone puts
// nothing on a physical cluster.
func TestOnlyWhatIsThereAsksForMore(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var stored []runtime.Object
	for _, name := range []string{"one", "two", "again"} {
		stored = append(stored, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(name)},
		})
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
		{"what is there is enough", "", []string{`gone gone {"east":{}}`, `one one {"east":{}}`, `two two {"east":{}}`}, `{"east":{}}`, 2},
		{"each target needs one", "", []string{`one one {"east":{}}`, `gone gone {"west":{}}`}, `{"east":{}}`, 2},
		{"nothing new is asked for: no question", `{"east":{}}`, []string{`gone gone {"east":{}}`}, `{"east":{}}`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := metadatafake.NewSimpleMetadataClient(scheme, stored...)
			var referrers []*holder
			for _, r := range c.referrers {
				fields := strings.Fields(r)
				h := &holder{resource: pods, targets: parse(t, fields[2])[0]}
				h.Namespace, h.Name, h.UID = "web", fields[0], types.UID(fields[1])
				referrers = append(referrers, h)
			}
			current := parse(t, c.current)[0]
			got, err := (&Controller{Config: Config{Kinds: workload.Builtin(), Metadata: client}}).present(t.Context(), current, referrers)
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
