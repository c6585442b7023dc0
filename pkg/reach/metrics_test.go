package reach

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// aboutPods and aboutNodes are calls for metrics.
func aboutPods(c *Call) {
	c.Subresource, c.Query, c.Pod.Name, c.Pod.UID = PodMetrics, nil, "", ""
}

func aboutNodes(c *Call) {
	aboutPods(c)
	c.Subresource = NodeMetrics
	c.Pod.Namespace, c.Pod.LogicalCluster, c.Pod.LogicalNamespace = "", "", ""
}

func aboutPresence(c *Call) {
	aboutNodes(c)
	c.Subresource = Presence
}

func TestMetricsAreThoseOfAMarkedNamespaceOfTheRightPhysicalCluster(t *testing.T) {
	t.Parallel()
	const all, nodes = "/apis/metrics.k8s.io/v1beta1/namespaces/p-web/pods", "/apis/metrics.k8s.io/v1beta1/nodes"
	p := newPhysical(t, func(w http.ResponseWriter, req *http.Request) { fmt.Fprint(w, req.URL) })
	for how, link := range p.links(t) {
		for name, c := range map[string]struct {
			about, change func(*Call)
			asked         string
			refused       func(error) bool
		}{
			"of a namespace":                 {about: aboutPods, asked: all},
			"of a namespace that is another": {aboutPods, func(c *Call) { c.Pod.Namespace = "p-other" }, "", apierrors.IsConflict},
			"of a namespace that is no copy": {aboutPods, func(c *Call) { c.Pod.Namespace = "default" }, "", apierrors.IsConflict},
			"of another logical cluster":     {aboutPods, func(c *Call) { c.Pod.LogicalCluster = "bank" }, "", apierrors.IsConflict},
			"of another physical cluster":    {aboutPods, func(c *Call) { c.Pod.PhysicalCluster = "other" }, "", apierrors.IsServiceUnavailable},
			"of all namespaces":              {aboutPods, func(c *Call) { c.Pod.Namespace = "" }, "", apierrors.IsBadRequest},
			"of no namespace's name":         {aboutPods, func(c *Call) { c.Pod.Namespace = "../.." }, "", apierrors.IsBadRequest},
			"of a pod":                       {aboutPods, func(c *Call) { c.Pod.Name, c.Pod.UID = "a", "pod" }, "", apierrors.IsBadRequest},
			"with options":                   {aboutPods, func(c *Call) { c.Query = map[string][]string{"watch": {"1"}} }, "", apierrors.IsBadRequest},
			"by a write":                     {aboutPods, func(c *Call) { c.Method = http.MethodPost }, "", apierrors.IsBadRequest},
			"of nodes":                       {about: aboutNodes, asked: nodes},
			"of nodes elsewhere":             {aboutNodes, func(c *Call) { c.Pod.PhysicalCluster = "other" }, "", apierrors.IsServiceUnavailable},
			"of its presence":                {about: aboutPresence, asked: `{"metadata":{"uid":"system"}}`},
			"of the presence of another":     {aboutPresence, func(c *Call) { c.Pod.PhysicalCluster = "other" }, "", apierrors.IsServiceUnavailable},
			"of its presence, by a write":    {aboutPresence, func(c *Call) { c.Method = http.MethodPost }, "", apierrors.IsBadRequest},
			"of nodes, in a namespace":       {aboutNodes, func(c *Call) { c.Pod.Namespace = "p-web" }, "", apierrors.IsBadRequest},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				made := call(c.about)
				if c.change != nil {
					c.change(&made)
				}
				resp, err := link.Do(t.Context(), made)
				if err == nil && resp.StatusCode >= 400 {
					err = made.Failure(resp)
				}
				if c.refused != nil {
					if err == nil || how == "direct" && !c.refused(err) {
						t.Fatalf("it is refused with %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != c.asked {
					t.Errorf("asked %q, %v; want %q", body, err, c.asked)
				}
			})
		}
	}
}

func TestWhereNoMetricsAreServedItIsSaid(t *testing.T) {
	t.Parallel()
	p := newPhysical(t, nil) // 404 for what it does not know
	for how, link := range p.links(t) {
		c := call(aboutPods)
		resp, err := link.Do(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Failure(resp); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "it serves no metrics") {
			t.Errorf("%s: %v", how, err)
		}
	}
}
