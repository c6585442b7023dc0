package audit

import (
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

func TestAnEventGetsTheURIThatWasSentAndKeepsItsOwn(t *testing.T) {
	e := &auditinternal.Event{RequestURI: "/api/v1/pods", Annotations: map[string]string{PhysicalClusterAnnotation: "shop", uriAnnotation: "/clusters/shop/api/v1/pods"}}
	got := original(e)
	if got.RequestURI != "/clusters/shop/api/v1/pods" || got.Annotations[PhysicalClusterAnnotation] != "shop" || got.Annotations[uriAnnotation] != "" {
		t.Errorf("written down: %+v", got)
	}
	if e.RequestURI != "/api/v1/pods" || e.Annotations[uriAnnotation] == "" {
		t.Errorf("the event, which has stages to come, was changed: %+v", e)
	}
	if plain := (&auditinternal.Event{RequestURI: "/readyz"}); original(plain) != plain {
		t.Error("an event without a scope was copied")
	}
}
