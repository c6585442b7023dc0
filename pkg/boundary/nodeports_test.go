package boundary

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestOnlyAPortOfNodesThatIsAskedForAndPermittedGoesDown(t *testing.T) {
	permitted := Permits{NodePorts: []fleetv1alpha1.PortRange{{First: 30000, Last: 30100}}}
	for name, c := range map[string]struct {
		permits Permits
		note    string
		want    []int64
		heard   string // the field of the finding
	}{
		"chosen by the server":                    {permitted, "", nil, ""},
		"chosen by the server, not permitted":     {Permits{}, "", nil, ""},
		"asked for":                               {permitted, "30001", []int64{30001}, ""},
		"asked for, not permitted":                {Permits{}, "30001", nil, "spec.ports[0].nodePort"},
		"asked for, and out of what is permitted": {permitted, "32000", nil, "spec.ports[1].nodePort"},
		"both asked for, one permitted":           {permitted, "30001,32000", []int64{30001}, "spec.ports[1].nodePort"},
		"a note that says nothing":                {permitted, "x,,30001", []int64{30001}, ""},
	} {
		obj := parseObject(t, object("Service", "v1", "spec: {type: NodePort, ports: [{port: 80, nodePort: 30001}, {port: 81, nodePort: 32000}]}"))
		heard := ""
		for _, f := range Filter(kindOf(obj), obj.Object, Passage{Permits: c.permits, Notes: NotesOf(map[string]string{placementv1alpha1.NodePortsAnnotation: c.note})}) {
			heard += f.Field
		}
		if diff := cmp.Diff(c.want, nodePorts(obj.Object)); diff != "" || heard != c.heard {
			t.Errorf("%s: heard is %q, and below (-want +got)\n%s", name, heard, diff)
		}
	}
}

func TestWhatAPolicyOverridesIsAskedFor(t *testing.T) {
	before := parseObject(t, "spec: {ports: [{port: 80, nodePort: 30001}, {port: 81, nodePort: 30002}]}").Object
	after := parseObject(t, "spec: {ports: [{port: 80, nodePort: 30001}, {port: 81, nodePort: 30003}]}").Object
	notes := Notes{NodePorts: []int64{30001}}
	if diff := cmp.Diff([]int64{30001, 30003}, notes.Overridden(before, after).NodePorts); diff != "" || len(notes.NodePorts) != 1 {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
