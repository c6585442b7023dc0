package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/core"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestAPortOfNodesIsAskedForByWhoWritesIt(t *testing.T) {
	service := func(note string, ports ...int32) *core.Service {
		s := &core.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		if note != "" {
			s.Annotations = map[string]string{placementv1alpha1.NodePortsAnnotation: note}
		}
		for i, n := range ports {
			s.Spec.Ports = append(s.Spec.Ports, core.ServicePort{Port: int32(80 + i), Protocol: core.ProtocolTCP, NodePort: n})
		}
		return s
	}
	managed := func(s *core.Service, operation metav1.ManagedFieldsOperationType, subresource, fields string) *core.Service {
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x", Operation: operation, Subresource: subresource, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}}
		return s
	}
	const port81 = `{"f:spec":{"f:ports":{".":{},"k:{\"port\":81,\"protocol\":\"TCP\"}":{".":{},"f:nodePort":{},"f:port":{}},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`
	for name, c := range map[string]struct {
		service, old *core.Service
		want         string
	}{
		"one that is made without a port":             {service("", 0), nil, ""},
		"one that is made with ports":                 {service("", 30001, 0, 30002), nil, "30001,30002"},
		"each once":                                   {service("", 30001, 30001), nil, "30001"},
		"what the server chose comes back":            {service("", 30001, 30002), service("", 30001, 30002), ""},
		"what a user asked for comes back":            {service("30001", 30001, 30002), service("30001", 30001, 30002), "30001"},
		"another port":                                {service("30001", 30005, 30002), service("30001", 30001, 30002), "30005"},
		"one more":                                    {service("", 30001, 30002), service("", 30001), "30002"},
		"a port that is left to the server again":     {service("30001", 0), service("30001", 30001), ""},
		"which then comes back":                       {service("", 30001), service("", 30001), ""},
		"one that the server chose is applied":        {managed(service("", 30001, 30002), metav1.ManagedFieldsOperationApply, "", port81), service("", 30001, 30002), "30002"},
		"one was written before there were notes":     {managed(service("", 30001, 30002), metav1.ManagedFieldsOperationUpdate, "", port81), service("", 30001, 30002), "30002"},
		"a status says nothing":                       {managed(service("", 30001, 30002), metav1.ManagedFieldsOperationUpdate, "status", port81), service("", 30001, 30002), ""},
		"managed fields that nobody understands":      {managed(service("", 30001, 30002), metav1.ManagedFieldsOperationUpdate, "", `{"f:spec":{"f:ports":[1]}}`), service("", 30001, 30002), ""},
		"who takes the managed fields off loses none": {service("30001", 30001), managed(service("30001", 30001), metav1.ManagedFieldsOperationUpdate, "", port81), "30001"},
	} {
		r := &request{Attributes: attributesOf(c.service, c.old)}
		noteNodePorts(r)
		if diff := cmp.Diff(c.want, c.service.Annotations[placementv1alpha1.NodePortsAnnotation]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	kept := service("30001", 30009)
	noteNodePorts(&request{Attributes: attributesOf(kept, service("30001", 30001)), system: true})
	if kept.Annotations[placementv1alpha1.NodePortsAnnotation] != "30001" {
		t.Error("the control plane asks for ports")
	}
}

// attributesOf are those of a write by a user.
func attributesOf(s, old *core.Service) admission.Attributes {
	operation, by := admission.Create, &user.DefaultInfo{Name: "u"}
	if old == nil {
		return attributes(operation, "services", "Service", s, nil, "", by)
	}
	return attributes(admission.Update, "services", "Service", s, old, "", by)
}
