package isolation

import (
	"net/http"
	"strings"
	"testing"
)

// Selectors are parsed before anybody knows who asks.
func TestAURIThatIsTooLongIsRefusedBeforeAnythingOfItIsRead(t *testing.T) {
	w := shared(t)
	selector := func(bytes int) string {
		return "/clusters/evil/api/v1/namespaces/default/configmaps?labelSelector=a+in+(" + strings.Repeat("value%2C", bytes/8) + "b)"
	}
	for who, token := range map[string]string{"mallory": malloryToken, "nobody": ""} {
		for _, bytes := range []int{40 << 10, 900_000} {
			if status, reply := w.raw(t, http.MethodGet, selector(bytes), token, ""); status != http.StatusRequestURITooLong || !strings.Contains(reply, "shorter label and field selectors") {
				t.Errorf("%s, %d bytes: %d %.200s", who, bytes, status, reply)
			}
		}
	}
	if status, reply := w.raw(t, http.MethodGet, selector(30<<10), malloryToken, ""); status != http.StatusOK {
		t.Errorf("a long one: %d %.200s", status, reply)
	}
}

func TestANameThatNobodyHasMakesNoSeries(t *testing.T) {
	w := shared(t)
	for _, path := range []string{"", "/", "/version", "/livez", "/readyz/ping", "/api", "/api/v1/pods", "/openapi/v3"} {
		for _, token := range []string{malloryToken, w.robotToken, ""} {
			w.raw(t, http.MethodGet, "/clusters/made-up"+path, token, "")
		}
	}
	for _, series := range w.series(t) {
		if strings.Contains(series, "made-up") {
			t.Error(series)
		}
	}
}
