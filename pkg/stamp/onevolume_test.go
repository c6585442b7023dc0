package stamp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const sharedSource = `"source":{"storageClass":"","driver":"d","handle":"h","capacity":"0","accessModes":null,"reclaimPolicy":""}`

// short writes a volume that was handed over from a physical cluster as <NAME>.
func short(targets string) string {
	for _, name := range []string{"east", "north", "west"} {
		targets = strings.ReplaceAll(targets, `"volume":{"from":"`+name+`",`+sharedSource+`}`, `<`+name+`>`)
	}
	return targets
}

func long(targets string) string {
	for _, name := range []string{"east", "north", "west"} {
		targets = strings.ReplaceAll(targets, `<`+name+`>`, `"volume":{"from":"`+name+`",`+sharedSource+`}`)
	}
	return targets
}

func TestAClaimThatManyMountHasOneVolumeOnAllTargets(t *testing.T) {
	kind, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "PersistentVolumeClaim"})
	stay, leave, arrive := PartStays, PartLeaves, PartArrives
	two, three := Unit{"east": stay, "west": stay}, Unit{"east": stay, "north": stay, "west": stay}
	for _, c := range []struct {
		name, has string
		unit      Unit
		apart     bool // it may not have one
		from      string
		want      string
	}{
		{"one makes it, the others wait", ``, three, false, "", `{"east":{},"north":{"state":"Waiting"},"west":{"state":"Waiting"}}`},
		{"who stays makes it rather than who arrives", ``, Unit{"east": arrive, "west": stay}, false, "", `{"east":{"state":"Waiting"},"west":{}}`},
		{"as long as nobody says which it is", `{"east":{},"north":{"state":"Waiting"},"west":{"state":"Waiting"}}`, three, false, "", `{"east":{},"north":{"state":"Waiting"},"west":{"state":"Waiting"}}`},
		{"then they get it", `{"east":{},"north":{"state":"Waiting"},"west":{"state":"Waiting"}}`, three, false, "east", `{"east":{},"north":{<east>},"west":{<east>}}`},
		{"and keep it", `{"east":{},"north":{<east>},"west":{<east>}}`, three, false, "", `{"east":{},"north":{<east>},"west":{<east>}}`},
		{"also where only metadata are known", `{"east":{},"north":{<east>},"west":{<east>}}`, three, true, "", `{"east":{},"north":{<east>},"west":{<east>}}`},
		{"another one comes", `{"east":{},"west":{<east>}}`, Unit{"east": stay, "north": arrive, "west": stay}, false, "", `{"east":{},"north":{"state":"Waiting"},"west":{<east>}}`},
		{"it waits also where it may not be shared any more", `{"east":{},"west":{<east>}}`, three, true, "", `{"east":{},"north":{"state":"Waiting"},"west":{<east>}}`},
		{"the one that made it leaves", `{"east":{},"west":{<east>}}`, Unit{"east": PartRemoves, "west": stay}, false, "", `{"east":{"state":"Draining"},"west":{<east>}}`},
		{"and goes", `{"east":{"state":"Draining"},"west":{<east>}}`, Unit{"east": PartClears, "west": stay}, false, "", `{"east":{"state":"Removing"},"west":{<east>}}`},
		{"two are left, and both have it", `{"north":{<east>},"west":{<east>}}`, Unit{"north": stay, "west": stay}, false, "", `{"north":{<east>},"west":{<east>}}`},
		{"of which the next one gets it", `{"north":{<east>},"west":{<east>}}`, three, false, "north", `{"east":{<north>},"north":{<east>},"west":{<east>}}`},
		{"one that got it goes, and is known to have it until it is gone", `{"east":{},"west":{<east>,"state":"Draining"}}`, Unit{"east": stay, "west": PartClears}, false, "", `{"east":{},"west":{<east>,"state":"Removing"}}`},
		{"the last one has it alone", `{"west":{<east>}}`, Unit{"west": stay}, false, "", `{"west":{}}`},
		{"not as long as another one waits for it", `{"north":{"state":"Waiting"},"west":{<east>}}`, Unit{"north": arrive, "west": stay}, false, "", `{"north":{"state":"Waiting"},"west":{<east>}}`},
		{"it moves: where it goes it waits", `{"west":{}}`, Unit{"east": arrive, "west": leave}, false, "", `{"east":{"state":"Waiting"},"west":{}}`},
		{"it moves: and gets it while it is where it was", `{"east":{"state":"Waiting"},"west":{}}`, Unit{"east": arrive, "west": leave}, false, "west", `{"east":{<west>},"west":{}}`},
		{"it moves back", `{"east":{<west>},"west":{}}`, Unit{"east": PartRemoves, "west": stay}, false, "", `{"east":{<west>,"state":"Draining"},"west":{}}`},
		{"it was lost before it said which it is", `{"east":{"state":"Removing"},"north":{"state":"Waiting"},"west":{"state":"Waiting"}}`, Unit{"east": PartClears, "north": stay, "west": stay}, false, "",
			`{"east":{"state":"Removing"},"north":{"state":"Waiting"},"west":{"state":"Waiting"}}`},
		{"it was given up then: another one makes it", `{"north":{"state":"Waiting"},"west":{"state":"Waiting"}}`, Unit{"north": stay, "west": stay}, false, "", `{"north":{},"west":{"state":"Waiting"}}`},
		{"each has its own", ``, two, true, "", `{"east":{},"west":{}}`},
		{"each has its own already", `{"east":{},"west":{}}`, three, false, "", `{"east":{},"north":{},"west":{}}`},
		{"one that is mounted in one place moves", `{"east":{<west>},"west":{"state":"Draining"}}`, Unit{"east": stay, "north": arrive, "west": PartHandsOver}, true, "", `{"east":{<west>},"north":{"state":"Waiting"},"west":{"state":"Draining"}}`},
	} {
		obj := &metav1.ObjectMeta{Namespace: "shop", Name: "data"}
		annotate(obj, placementv1alpha1.TargetsAnnotation, long(c.has))
		source := Source{Unit: c.unit, Shared: !c.apart}
		if c.from != "" {
			v := &placementv1alpha1.TargetVolume{From: c.from, Source: placementv1alpha1.VolumeSource{Driver: "d", Handle: "h"}}
			source.Volumes = map[string]*placementv1alpha1.TargetVolume{"east": v, "north": v, "west": v}
		}
		out := Targets(kind, "demo", obj, source)
		if diff := cmp.Diff(c.want, short(out.String())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		annotate(obj, placementv1alpha1.TargetsAnnotation, out.String())
		if again := Targets(kind, "demo", obj, Source{Unit: c.unit, Shared: !c.apart}); !Equal(again, out) {
			t.Errorf("%s: %s, and then %s", c.name, short(out.String()), short(again.String()))
		}
	}
}

// A claim is deleted: of those that have its volume one is the last.
func TestOfAClaimThatIsDeletedOneCopyIsTheLast(t *testing.T) {
	for _, c := range []struct {
		name, has string
		last      string
		others    string // of the last one
	}{
		{"the one that made the volume", `{"east":{<west>},"north":{<west>},"west":{}}`, "west", "east north"},
		{"it is gone: the first by name", `{"east":{<north>},"west":{<north>}}`, "east", "west"},
		{"one is on its way out", `{"east":{},"west":{<east>,"state":"Removing"}}`, "east", "west"},
		{"it moves", `{"east":{<west>},"west":{"state":"Draining"}}`, "west", "east"},
		{"others wait", `{"east":{},"west":{"state":"Waiting"}}`, "", ""},
		{"each has its own", `{"east":{},"west":{}}`, "", ""},
		{"data are copied", `{"east":{"volume":{"from":"west","copied":true}},"west":{"state":"Draining"}}`, "", ""},
		{"one", `{"east":{<west>}}`, "", ""},
	} {
		targets := TargetsOf(map[string]string{placementv1alpha1.TargetsAnnotation: long(c.has)})
		var last []string
		for _, name := range targets.Names() {
			if Outlives(targets, name) {
				last = append(last, name)
			}
		}
		if got := strings.Join(last, " "); got != c.last {
			t.Errorf("%s: %q is the last one, want %q", c.name, got, c.last)
		}
		if got := strings.Join(Alike(targets, c.last), " "); got != c.others {
			t.Errorf("%s: the others are %q, want %q", c.name, got, c.others)
		}
		left := Acknowledged(targets, func(name string) bool { return name != c.last })
		if want := len(targets); c.last == "" && len(left) != want || c.last != "" && (len(left) != 1 || Outlives(left, c.last)) {
			t.Errorf("%s: %s is left when all others are gone", c.name, short(left.String()))
		}
	}
}
