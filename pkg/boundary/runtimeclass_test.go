package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestARuntimeClassIsNoWayAroundThePermitsForTaintsAndLabelsOfNodes(t *testing.T) {
	tolerates := func(key string) *nodev1.Scheduling {
		return &nodev1.Scheduling{Tolerations: []corev1.Toleration{{Key: key, Operator: corev1.TolerationOpExists}}}
	}
	selects := func(key string) *nodev1.Scheduling {
		return &nodev1.Scheduling{NodeSelector: map[string]string{key: "x"}}
	}
	for name, c := range map[string]struct {
		gives   *nodev1.Scheduling
		permits Permits
		want    bool
	}{
		"it gives nothing":                       {nil, Permits{}, true},
		"it gives nothing, by empty fields":      {&nodev1.Scheduling{}, Permits{}, true},
		"a toleration":                           {tolerates("dedicated"), Permits{}, false},
		"a toleration that pods may have":        {tolerates("dedicated"), Permits{Taints: []string{"dedicated"}}, true},
		"another one":                            {tolerates("dedicated"), Permits{Taints: []string{"spot"}}, false},
		"one that all pods have":                 {tolerates("node.kubernetes.io/not-ready"), Permits{}, true},
		"a toleration of everything":             {tolerates(""), Permits{Taints: []string{"dedicated"}}, false},
		"one, where all taints may be tolerated": {tolerates(""), Permits{Taints: []string{"*"}}, true},
		"nodes by a label of the admin":          {selects("pool"), Permits{}, false},
		"by one that pods may select":            {selects("pool"), Permits{NodeLabels: []string{"pool"}}, true},
		"by one that says nothing of others":     {selects("kubernetes.io/arch"), Permits{}, true},
		"it is named":                            {tolerates(""), Permits{RuntimeClasses: []string{"other", "gvisor"}}, true},
		"all are":                                {tolerates(""), Permits{RuntimeClasses: []string{"*"}}, true},
		"others are named":                       {nil, Permits{RuntimeClasses: []string{"other"}}, false},
		"others are, and taints":                 {tolerates("dedicated"), Permits{RuntimeClasses: []string{"other"}, Taints: []string{"*"}}, false},
	} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc", Scheduling: c.gives}
		before := class.DeepCopy()
		if got := PermitsRuntimeClass(class, c.permits); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if diff := cmp.Diff(before, class); diff != "" {
			t.Errorf("%s: the class was changed: %s", name, diff)
		}
	}
}

func TestTheNameOfARuntimeClassIsThatOfThePhysicalClusterIfTheLogicalOneHasNoSuch(t *testing.T) {
	const at = "spec.template.spec.runtimeClassName"
	named := Permits{RuntimeClasses: []string{"gvisor"}}
	offers := func(handlers ...string) *fleetv1alpha1.ReportedNames {
		return &fleetv1alpha1.ReportedNames{Names: handlers}
	}
	for name, c := range map[string]struct {
		class   string
		passage Passage
		want    Verdict
	}{
		"any, where no classes are named": {"theirs", Passage{}, ""},
		"one that is named":               {"gvisor", Passage{Permits: named}, ""},
		"one that is not":                 {"theirs", Passage{Permits: named}, Refused},
		"all are":                         {"theirs", Passage{Permits: Permits{RuntimeClasses: []string{"*"}}}, ""},
		"it means a handler":              {"theirs", Passage{Permits: named, Notes: Notes{Handler: "runsc"}}, ""},
		"which is offered":                {"theirs", Passage{Notes: Notes{Handler: "runsc"}, Handlers: offers("kata", "runsc")}, ""},
		"which is not":                    {"theirs", Passage{Notes: Notes{Handler: "runsc"}, Handlers: offers("kata")}, Mapped},
		"what is offered says nothing of other names": {"theirs", Passage{Handlers: offers()}, ""},
	} {
		obj := parseObject(t, podOf("runtimeClassName: "+c.class))
		var got Verdict
		for _, f := range Filter(kindOf(obj), obj.Object, c.passage) {
			if got = f.Verdict; f.Field != at {
				t.Errorf("%s: %s", name, f)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
