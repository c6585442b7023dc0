package stamp

import (
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// FuzzTargets: whatever the annotation says, it is read as it is written, and an object that is
// stamped twice is stamped once.
func FuzzTargets(f *testing.F) {
	f.Add(`{"east":{},"west":{"state":"Removing"}}`, "Leaves", int32(3))
	f.Add(`{"east":{"replicas":6,"share":3},"west":{"state":"Starting","replicas":-1}}`, "", int32(0))
	f.Add(`{"":{"state":"Observed","uid":"p1","adopted":true},"west":{"state":"made up","max":0}}`, "Removes", int32(-4))
	f.Add(`{"east":null}`, "Drains", int32(1<<31-1))
	f.Add(`{"east":{},"east":{},"a.b-1":{}}`, "", int32(1))
	f.Add(`{"east":{},}`, "", int32(1))
	f.Add(`{"ea\u0073t":{}}`, "", int32(1))
	kind := kindNamed(f, "Deployment")
	f.Fuzz(func(t *testing.T, annotation, part string, replicas int32) {
		targets, err := ParseTargets(annotation)
		var decoded placementv1alpha1.Targets
		if decodeErr := json.Unmarshal([]byte(annotation), &decoded); annotation != "" && ((decodeErr == nil) != (err == nil) || !reflect.DeepEqual(decoded, targets)) {
			t.Fatalf("%s is %s, %v, and as JSON %s, %v", annotation, targets, err, decoded, decodeErr)
		}
		if err != nil {
			return
		}
		again, err := ParseTargets(targets.String())
		if err != nil || !Equal(targets, again) {
			t.Fatalf("%s is read back as %s, %v", targets, again, err)
		}
		obj := &metav1.ObjectMeta{Namespace: "web", Name: "a"}
		stamp := func(current placementv1alpha1.Targets) placementv1alpha1.Targets {
			obj.Annotations = map[string]string{placementv1alpha1.TargetsAnnotation: current.String()}
			return Targets(kind, "one", obj, Source{
				Unit: Unit{"east": Part(part), "west": PartStays}, Runs: workload.RunsAnywhere, Wish: &Wish{Replicas: max(0, replicas)},
				Division: &placementv1alpha1.DecidedDivision{
					By:      placementv1alpha1.DivideByWeights,
					Targets: []placementv1alpha1.DecidedReplicas{{PhysicalCluster: "west", Weight: 1}, {PhysicalCluster: "east", Weight: 2, Max: ptr.To[int32](4)}},
				},
			})
		}
		once := stamp(targets)
		if twice := stamp(once); !Equal(once, twice) {
			t.Errorf("%s becomes %s, and then %s", targets, once, twice)
		}
	})
}
