package apiservices

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

func TestAnAPIServiceOfAGroupOfTheServerIsRefusedUnlessApplicationsBringIt(t *testing.T) {
	for group, kept := range map[string]bool{"apps": false, "metrics.k8s.io": true, "custom.metrics.k8s.io": true} {
		s := created{apiservice.NewStrategy(legacyscheme.Scheme), sets.New("apps", "metrics.k8s.io")}
		made := &apiregistration.APIService{Spec: apiregistration.APIServiceSpec{
			Group: group, Version: "v1", Service: &apiregistration.ServiceReference{Namespace: "kube-system", Name: "own"}}}
		s.PrepareForCreate(t.Context(), made)
		if refused := refuse(made, s.reserved); (len(refused) == 0) != kept {
			t.Errorf("%s: got the refusal %v", group, refused)
		}
		claimed := group == "metrics.k8s.io"
		if says := apiregistration.IsAPIServiceConditionTrue(made, apiregistration.Available); says != claimed {
			t.Errorf("%s: Available is %t before anybody has asked its server", group, says)
		}
		warned := strings.Join(s.WarningsOnCreate(t.Context(), made), "\n")
		if strings.Contains(warned, "this Service is not called") != claimed {
			t.Errorf("%s: got the warning %q", group, warned)
		}
	}
}
