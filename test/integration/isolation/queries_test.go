package isolation

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// continueToken is one that mallory makes up.
func continueToken(version int64, start string) string {
	data, _ := json.Marshal(map[string]any{"v": "meta.k8s.io/v1", "rv": version, "start": start})
	return base64.RawURLEncoding.EncodeToString(data)
}

// queries are what mallory puts behind the path of a list in her own.
func queries() []url.Values {
	var out []url.Values
	for _, start := range []string{"../victim/default/s", "../../secrets/victim/default/s\x00", "/victim/", "victim/default/s\x00", "..", "default/\x00", "../victim/\x00", "//", "\x00"} {
		for _, version := range []int64{0, -1, 1, 1 << 40} {
			out = append(out, url.Values{"continue": {continueToken(version, start)}, "limit": {"500"}})
		}
	}
	for _, field := range []string{"kcp.io/cluster=victim", "kcp.io/cluster!=evil", "metadata.namespace=victim/default", "metadata.name=../../victim/default/s", "metadata.name=s", "metadata.namespace=*"} {
		out = append(out, url.Values{"fieldSelector": {field}})
	}
	for _, label := range []string{"of", "of=" + marker, "!nothing", "kcp.io/cluster=victim"} {
		out = append(out, url.Values{"labelSelector": {label}})
	}
	for _, version := range []string{"0", "1", "99999999999", "-1", "x"} {
		for _, match := range []string{"", "Exact", "NotOlderThan"} {
			out = append(out, url.Values{"resourceVersion": {version}, "resourceVersionMatch": {match}})
		}
	}
	return out
}

func TestNoQueryOfOwnListsShowsOthers(t *testing.T) {
	w := shared(t)
	var asked errgroup.Group
	asked.SetLimit(16)
	ask := func(path string, q url.Values) {
		asked.Go(func() error {
			status, reply := w.raw(t, http.MethodGet, "/clusters/evil/api/v1/"+path+"?timeout=2s&timeoutSeconds=1&"+q.Encode(), malloryToken, "")
			// A watch from what is no version fails in upstream with 500, too.
			if leaks(reply) || status == http.StatusInternalServerError && !strings.Contains(reply, "invalid syntax") {
				t.Errorf("%s?%s: %d %.300s", path, q, status, reply)
			}
			return nil
		})
	}
	for _, q := range queries() {
		for _, resource := range []string{"secrets", "configmaps", "namespaces/default/secrets", "namespaces/default/configmaps"} {
			ask(resource, q)
		}
		if q.Get("continue") == "" {
			watch := maps.Clone(q)
			watch.Set("watch", "1")
			ask("secrets", watch)
			ask("namespaces/default/configmaps", watch)
		}
	}
	_ = asked.Wait()
}

func TestCountsAreOfOnesOwn(t *testing.T) {
	w := shared(t)
	for i := range 5 {
		if _, err := w.Kube.CoreV1().PodTemplates("default").Create(w.victim, podTemplate(fmt.Sprintf("v%d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if _, err := w.mallory.CoreV1().PodTemplates("default").Create(w.evil, podTemplate(fmt.Sprintf("e%d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"", "default"} {
		for _, version := range []string{"", "0"} {
			list, err := w.mallory.CoreV1().PodTemplates(namespace).List(w.evil, metav1.ListOptions{Limit: 1, ResourceVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			if version == "" && (len(list.Items) != 1 || list.RemainingItemCount == nil || *list.RemainingItemCount != 2) || len(list.Items) > 3 {
				t.Errorf("namespace %q, version %q: %d items and %v remaining, want 1 and 2", namespace, version, len(list.Items), list.RemainingItemCount)
			}
		}
	}
	// A token of the victim's list, used by mallory, goes on in mallory's own.
	first, err := w.Kube.CoreV1().PodTemplates("default").List(w.victim, metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := w.mallory.CoreV1().PodTemplates("default").List(w.evil, metav1.ListOptions{Limit: 10, Continue: first.Continue})
	if err != nil && !refused(err) {
		t.Fatal(err)
	}
	for _, item := range rest.Items {
		if item.Annotations["kcp.io/cluster"] != "evil" {
			t.Errorf("the victim's token lists %s of %s", item.Name, item.Annotations["kcp.io/cluster"])
		}
	}
}

func podTemplate(name string) *corev1.PodTemplate {
	return &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}
}

func TestAWatchFromAnyVersionShowsOnesOwnOnly(t *testing.T) {
	w := shared(t)
	list, err := w.mallory.CoreV1().ConfigMaps("").List(w.evil, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	yes, seconds := true, int64(20)
	for name, options := range map[string]metav1.ListOptions{
		"from the list":          {ResourceVersion: list.ResourceVersion},
		"from now":               {},
		"from what is cached":    {ResourceVersion: "0"},
		"with initial events":    {SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true},
		"of a name":              {FieldSelector: "metadata.name=marked"},
		"of a label":             {LabelSelector: "marked"},
		"of what it does not do": {LabelSelector: "!unmarked"},
	} {
		t.Run(name, func(t *testing.T) {
			options.TimeoutSeconds = &seconds
			watch, err := w.mallory.CoreV1().ConfigMaps("").Watch(w.evil, options)
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "marked", Labels: map[string]string{"marked": "", "of": marker}}}
			if _, err := w.Kube.CoreV1().ConfigMaps("default").Create(w.victim, marked, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := w.Kube.CoreV1().ConfigMaps("default").Delete(w.victim, "marked", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			marked.Labels["of"] = "mallory"
			if _, err := w.mallory.CoreV1().ConfigMaps("default").Create(w.evil, marked, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = w.mallory.CoreV1().ConfigMaps("default").Delete(w.evil, "marked", metav1.DeleteOptions{}) }()
			deadline := time.After(15 * time.Second)
			for {
				select {
				case e := <-watch.ResultChan():
					cm, ok := e.Object.(*corev1.ConfigMap)
					if !ok {
						t.Fatalf("%s %v", e.Type, e.Object)
					}
					if e.Type != "BOOKMARK" && (cm.Annotations["kcp.io/cluster"] != "evil" || cm.Labels["of"] == marker) {
						t.Fatalf("%s of %v", e.Type, cm)
					}
					if cm.Name == "marked" {
						return // what the victim did before was not shown
					}
				case <-deadline:
					t.Fatal("not even her own was shown")
				}
			}
		})
	}
}

func FuzzNoContinueTokenLeadsElsewhere(f *testing.F) {
	for _, start := range []string{"../victim/default/s", "victim/default/s\x00", "default/\x00", "", "/"} {
		f.Add(int64(0), start, "")
		f.Add(int64(-1), start, "metadata.name=s")
	}
	w := shared(f)
	f.Fuzz(func(t *testing.T, version int64, start, selector string) {
		q := url.Values{"continue": {continueToken(version, start)}, "fieldSelector": {selector}, "limit": {"100"}, "timeout": {"2s"}}
		for _, path := range []string{"secrets", "namespaces/default/secrets"} {
			if status, reply := w.raw(t, http.MethodGet, "/clusters/evil/api/v1/"+path+"?"+q.Encode(), malloryToken, ""); leaks(reply) || status == http.StatusInternalServerError {
				t.Errorf("version %d, start %q, selector %q: %d %.200s", version, start, selector, status, reply)
			}
		}
	})
}
