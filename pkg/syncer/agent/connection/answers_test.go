package connection

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/answers"
	"github.com/atoll-dev/atoll/pkg/controller"
)

func TestAHostilePhysicalClusterIsReadWithinBoundsAndNotFollowed(t *testing.T) {
	followed := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	t.Cleanup(inside.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/nodes") {
			w.Header().Set("X-Much", strings.Repeat("x", 512<<10))
			return
		}
		if strings.HasSuffix(req.URL.Path, "/pods") {
			w.Header().Set("Content-Length", strconv.FormatInt(physicalAnswers.Most+1, 10))
			return
		}
		http.Redirect(w, req, inside.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	_, g, err := NewPhysical(&rest.Config{Host: s.URL}, func(next http.RoundTripper) http.RoundTripper { return next }, controller.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.probe.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !errors.Is(err, answers.ErrTooLarge) {
		t.Errorf("a list that is too large: %v", err)
	}
	if _, err := g.probe.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "header") {
		t.Errorf("a header that is too large: %v", err)
	}
	if _, err := g.probe.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{}); err == nil || followed {
		t.Errorf("a redirect was followed: %v", err)
	}
}
