package metrics

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	metricsapi "k8s.io/metrics/pkg/apis/metrics"

	"github.com/atoll-dev/atoll/pkg/apiserver/registry/pods"
	"github.com/atoll-dev/atoll/pkg/reach"
)

func pod(namespace, name string, containers ...string) *api.Pod {
	p := &api.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, api.Container{Name: c})
	}
	return p
}

func measured1(namespace, name, containers string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":%q,"labels":{"app":"forged"}},"timestamp":"2026-01-02T03:04:05Z","window":"15s","containers":[%s]}`, name, namespace, containers)
}

func container(name, cpu, memory string) string {
	return fmt.Sprintf(`{"name":%q,"usage":{"cpu":%q,"memory":%q}}`, name, cpu, memory)
}

// figures are what is taken of an answer, in short.
func figures(t *testing.T, q question, items ...string) (out []string, err error) {
	t.Helper()
	err = each(strings.NewReader(`{"kind":"PodMetricsList","metadata":{},"items":[`+strings.Join(items, ",")+`]}`), func(i item) {
		m, ok := q.take(i)
		if !ok {
			return
		}
		s := fmt.Sprintf("%s/%s %v", m.Namespace, m.Name, m.Labels)
		for _, c := range m.Containers {
			s += fmt.Sprintf(" %s=%s,%s", c.Name, c.Usage.Cpu(), c.Usage.Memory())
		}
		out = append(out, s)
	})
	return out, err
}

func TestAnAnswerAddsFiguresToKnownPodsAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		items []string
		want  []string
	}{
		"what runs":                     {[]string{measured1("p", "a", container("x", "12345n", "10Mi")+","+container("y", "1m", "1Ki"))}, []string{"web/a map[app:a] x=12345n,10Mi y=1m,1Ki"}},
		"an invented pod":               {[]string{measured1("p", "b", container("x", "1", "1"))}, nil},
		"a pod of another namespace":    {[]string{measured1("q", "a", container("x", "1", "1"))}, nil},
		"the same pod again":            {[]string{measured1("p", "a", container("x", "1", "1")), measured1("p", "a", container("x", "9", "9"))}, []string{"web/a map[app:a] x=1,1"}},
		"an invented container":         {[]string{measured1("p", "a", container("x", "1", "1")+","+container("z", "9", "9"))}, []string{"web/a map[app:a] x=1,1"}},
		"the same container again":      {[]string{measured1("p", "a", container("x", "1", "1")+","+container("x", "9", "9"))}, []string{"web/a map[app:a] x=1,1"}},
		"no container":                  {[]string{measured1("p", "a", "")}, nil},
		"less than nothing":             {[]string{measured1("p", "a", container("x", "-1", "1"))}, nil},
		"a number that costs a minute":  {[]string{measured1("p", "a", container("x", "1e99999999", "1"))}, nil},
		"a number of a thousand digits": {[]string{measured1("p", "a", container("x", strings.Repeat("9", 1000), "1"))}, nil},
		"memory that nobody measured":   {[]string{measured1("p", "a", `{"name":"x","usage":{"cpu":"1"}}`)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := question{place{"east", "p", "web"}, map[string]*api.Pod{"a": pod("web", "a", "x", "y")}}
			got, err := figures(t, q, c.items...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// endless is an answer that does not end, and counts what is read of it.
type endless struct {
	begin, more string
	read        int64
}

func (e *endless) Read(p []byte) (int, error) {
	text := e.more
	if e.begin != "" {
		text, e.begin = e.begin, ""
	}
	n := copy(p, text)
	e.read += int64(n)
	return n, nil
}

func TestAnAnswerWithoutEndIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin, more string
		most        int64
	}{
		"many items":         {`{"items":[{}`, ",{}", maxAnswer},
		"one item":           {`{"items":[{"metadata":{"name":"`, strings.Repeat("a", 512), maxItem + 4<<10},
		"one that comes not": {`{"other":"`, strings.Repeat("a", 512), maxItem + 4<<10},
		"containers":         {`{"items":[{"containers":[{}`, ",{}", maxItem + 4<<10},
	} {
		t.Run(name, func(t *testing.T) {
			from := &endless{begin: c.begin, more: c.more}
			if err := each(from, func(item) {}); !errors.Is(err, errTooLarge) {
				t.Errorf("got %v", err)
			}
			if from.read > c.most {
				t.Errorf("%d bytes were read, more than %d", from.read, c.most)
			}
		})
	}
}

func TestWhatIsNoListIsAnError(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"", "[]", "null", "hello", `{"items":{}}`, `{"items":null}`, `{"items":[`, `{"items":[1]}`, `{"items":[{"usage":{"cpu":1}}]}`, `{"items":[]`} {
		if err := each(strings.NewReader(said), func(item) {}); err == nil {
			t.Errorf("%q is taken for a list", said)
		}
	}
	if err := each(strings.NewReader(`{"items":[]}`), func(item) { t.Error("an item") }); err != nil {
		t.Error(err)
	}
}

func TestPodsAreAskedForWhereTheyRun(t *testing.T) {
	t.Parallel()
	ended := *pod("web", "ended")
	ended.Status.Phase = api.PodSucceeded
	all := []api.Pod{*pod("web", "a"), *pod("web", "b"), *pod("db", "c"), *pod("web", "nowhere"), ended}
	where := map[string]pods.Place{"a": {Target: "east", Namespace: "p-web"}, "b": {Target: "west", Namespace: "p-web"}, "c": {Target: "east", Namespace: "p-db"}}
	got, err := plan(all, func(p *api.Pod) (pods.Place, error) {
		if at, ok := where[p.Name]; ok {
			return at, nil
		}
		return pods.Place{}, reach.Absent("it has no place yet")
	})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, q := range got {
		for name := range q.pods {
			said = append(said, fmt.Sprintf("%v %s", q.place, name))
		}
	}
	if diff := cmp.Diff([]string{"{east p-db db} c", "{east p-web web} a", "{west p-web web} b"}, said); diff != "" {
		t.Error(diff)
	}
	if _, err := plan(all, func(*api.Pod) (pods.Place, error) { return pods.Place{}, apierrors.NewInternalError(io.EOF) }); err == nil {
		t.Error("what could not be read is taken for a pod without a place")
	}
}

func TestATotalIsAsOldAsItsOldestPart(t *testing.T) {
	t.Parallel()
	var sum total
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sum.add(usage(map[string]string{"cpu": "100m", "memory": "1Mi"}), metav1.NewTime(now), metav1.Duration{Duration: time.Second})
	sum.add(usage(map[string]string{"cpu": "1", "memory": "1Mi"}), metav1.NewTime(now.Add(-time.Minute)), metav1.Duration{Duration: 15 * time.Second})
	got := metricsOf(&api.Node{ObjectMeta: metav1.ObjectMeta{Name: "east"}}, sum)
	want := metricsapi.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: "east", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Timestamp:  metav1.NewTime(now.Add(-time.Minute)), Window: metav1.Duration{Duration: 15 * time.Second},
		Usage: corev1.ResourceList{"cpu": usage(map[string]string{"cpu": "1100m", "memory": "0"})["cpu"], "memory": usage(map[string]string{"cpu": "0", "memory": "2Mi"})["memory"]},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
