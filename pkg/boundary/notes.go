package boundary

import (
	"slices"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Notes are what admission notes on an object for its way down. No user can write them.
type Notes struct {
	// Handler is that of the RuntimeClass which the pods name; empty if they name none, or one
	// that the logical cluster does not have.
	Handler string
	// NodePorts are the ports of nodes that the user of a Service asks for. Any other was chosen
	// by the server of the logical cluster, and says nothing to a physical one.
	NodePorts []int64
}

// NotesOf are the notes on an object with its metadata as it is stored.
func NotesOf(annotations map[string]string) Notes {
	return Notes{Handler: annotations[placementv1alpha1.RuntimeHandlerAnnotation], NodePorts: stamp.NodePortsOf(annotations)}
}

// Overridden are the notes on an object that policies have changed for a physical cluster: what
// they write counts as if its user had written it.
func (n Notes) Overridden(before, after map[string]any) Notes {
	had := nodePorts(before)
	n.NodePorts = slices.Clone(n.NodePorts)
	for _, port := range nodePorts(after) {
		if !slices.Contains(had, port) {
			n.NodePorts = append(n.NodePorts, port)
		}
	}
	return n
}

// nodePorts are the ports of nodes that a Service has.
func nodePorts(obj map[string]any) []int64 {
	spec, _ := obj["spec"].(map[string]any)
	list, _ := spec["ports"].([]any)
	var ports []int64
	for _, item := range list {
		port, _ := item.(map[string]any)
		if n := number(port["nodePort"]); n != 0 {
			ports = append(ports, n)
		}
	}
	return ports
}
