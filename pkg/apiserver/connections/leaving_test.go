package connections

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAServerThatEndsSendsClientsToOtherConnections(t *testing.T) {
	leaving := make(chan struct{})
	h := Leaving(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), leaving)
	ask := func(header http.Header) (status int, connection string) {
		w, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/clusters/shop/api", nil)
		req.Header = header
		h.ServeHTTP(w, req)
		return w.Code, w.Header().Get("Connection")
	}
	if status, connection := ask(nil); status != http.StatusNoContent || connection != "" {
		t.Errorf("before: %d, Connection %q", status, connection)
	}
	close(leaving)
	if status, connection := ask(nil); status != http.StatusNoContent || connection != "close" {
		t.Errorf("when it ends: %d, Connection %q", status, connection)
	}
	if _, connection := ask(http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}); connection != "" {
		t.Errorf("an upgrade got Connection %q", connection)
	}
}
