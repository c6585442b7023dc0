package egress

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

const targets = "placement.atoll.dev/targets"

// hook is a Service on two targets, of which west receives no traffic.
func hook(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "hook", UID: "service", Annotations: map[string]string{targets: `{"east":{},"west":{"state":"Draining"}}`}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "hook"},
			Ports: []corev1.ServicePort{
				{Name: "https", Port: 443, TargetPort: intstr.FromString("webhook")},
				{Name: "number", Port: 8443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(9443)},
				{Name: "udp", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(53)},
			},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// backend is a ready pod of it on east.
func backend(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "web", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "hook", "x": "y"},
			Annotations: map[string]string{targets: `{"east":{"state":"Observed","uid":"1"}}`},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "webhook", ContainerPort: 9444, Protocol: corev1.ProtocolTCP}}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if change != nil {
		change(&p)
	}
	return p
}

func on(target string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[targets] = target }
}

func notReady(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func TestAServiceBelowIsItsReadyPods(t *testing.T) {
	t.Parallel()
	is := func(name string, port int32) Backend {
		return Backend{Namespace: "web", Pod: name, UID: types.UID("uid-" + name), Port: port}
	}
	type result struct {
		Backends []Backend
		Reason   string
	}
	for title, c := range map[string]struct {
		service *corev1.Service
		pods    []corev1.Pod
		port    int32
		want    result
	}{
		"several, by name":               {hook(nil), []corev1.Pod{backend("b", nil), backend("a", nil)}, 443, result{Backends: []Backend{is("a", 9444), is("b", 9444)}}},
		"a port by number":               {hook(nil), []corev1.Pod{backend("a", nil)}, 8443, result{Backends: []Backend{is("a", 9443)}}},
		"one of a user":                  {hook(nil), []corev1.Pod{backend("a", on(`{"east":{}}`))}, 443, result{Backends: []Backend{is("a", 9444)}}},
		"a port that it lacks":           {hook(nil), []corev1.Pod{backend("a", nil)}, 80, result{Reason: ServicePortError}},
		"a port of UDP":                  {hook(nil), []corev1.Pod{backend("a", nil)}, 53, result{Reason: ServicePortError}},
		"no pod":                         {hook(nil), nil, 443, result{Reason: EndpointsNotFound}},
		"a pod that it does not select":  {hook(nil), []corev1.Pod{backend("a", func(p *corev1.Pod) { p.Labels["app"] = "other" })}, 443, result{Reason: EndpointsNotFound}},
		"a pod of another namespace":     {hook(nil), []corev1.Pod{backend("a", func(p *corev1.Pod) { p.Namespace = "other" })}, 443, result{Reason: EndpointsNotFound}},
		"no selector selects nothing":    {hook(func(s *corev1.Service) { s.Spec.Selector = nil }), []corev1.Pod{backend("a", nil)}, 443, result{Reason: EndpointsNotFound}},
		"one that is being deleted":      {hook(nil), []corev1.Pod{backend("a", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, 443, result{Reason: EndpointsNotFound}},
		"one that ended":                 {hook(nil), []corev1.Pod{backend("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, 443, result{Reason: EndpointsNotFound}},
		"one that failed":                {hook(nil), []corev1.Pod{backend("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, 443, result{Reason: EndpointsNotFound}},
		"none that is ready":             {hook(nil), []corev1.Pod{backend("a", notReady)}, 443, result{Reason: MissingEndpoints}},
		"the ready one":                  {hook(nil), []corev1.Pod{backend("a", notReady), backend("b", nil)}, 443, result{Backends: []Backend{is("b", 9444)}}},
		"one that need not be ready":     {hook(func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }), []corev1.Pod{backend("a", notReady)}, 443, result{Backends: []Backend{is("a", 9444)}}},
		"without the named port":         {hook(nil), []corev1.Pod{backend("a", func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Name = "other" })}, 443, result{Reason: MissingEndpoints}},
		"the named port of a sidecar":    {hook(nil), []corev1.Pod{backend("a", sidecar)}, 443, result{Backends: []Backend{is("a", 9444)}}},
		"a port that is none":            {hook(func(s *corev1.Service) { s.Spec.Ports[1].TargetPort = intstr.FromInt32(70000) }), []corev1.Pod{backend("a", nil)}, 8443, result{Reason: MissingEndpoints}},
		"where traffic goes":             {hook(nil), []corev1.Pod{backend("a", on(`{"west":{"state":"Observed","uid":"1"}}`)), backend("b", nil)}, 443, result{Backends: []Backend{is("b", 9444)}}},
		"where it is withdrawn, at last": {hook(nil), []corev1.Pod{backend("a", on(`{"west":{"state":"Observed","uid":"1"}}`)), backend("b", notReady)}, 443, result{Backends: []Backend{is("a", 9444)}}},
	} {
		var got result
		var err error
		got.Backends, err = Backends(c.service, Known{Pods: c.pods}, c.port)
		var unlocated *UnlocatedError
		if errors.As(err, &unlocated) {
			got.Reason = unlocated.Reason
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", title, diff)
		}
		if err != nil && !strings.Contains(err.Error(), "service web/hook ") {
			t.Errorf("%s: %q does not name the Service", title, err)
		}
	}
}

// An idle connection into a physical cluster that is cut takes a request, and never answers it.
func TestAServiceBelowIsNoPodOfAPhysicalClusterThatIsSilentIfThereAreOthers(t *testing.T) {
	t.Parallel()
	west := on(`{"west":{"state":"Observed","uid":"1"}}`)
	for title, c := range map[string]struct {
		pods   []corev1.Pod
		silent sets.Set[string]
		want   string
	}{
		"nothing is silent":                  {[]corev1.Pod{backend("a", nil), backend("b", west)}, nil, "a"},
		"where traffic goes is silent":       {[]corev1.Pod{backend("a", nil), backend("b", west)}, sets.New("east"), "b"},
		"everything is silent":               {[]corev1.Pod{backend("a", nil), backend("b", west)}, sets.New("east", "west"), "a"},
		"the one that is heard is not ready": {[]corev1.Pod{backend("a", nil), backend("b", func(p *corev1.Pod) { west(p); notReady(p) })}, sets.New("east"), "a"},
	} {
		got, err := Backends(hook(nil), Known{Pods: c.pods, Silent: c.silent}, 443)
		if err != nil || len(got) != 1 || got[0].Pod != c.want {
			t.Errorf("%s: %v (%v), want %s", title, got, err, c.want)
		}
	}
}

func sidecar(p *corev1.Pod) {
	p.Spec.InitContainers = p.Spec.Containers
	p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	p.Spec.Containers = nil
}

func TestAHostOfPodsIsNoNameThatAnybodyCanGiveAndChangesWithThem(t *testing.T) {
	t.Parallel()
	locate := func(s *corev1.Service, pods ...corev1.Pod) string {
		t.Helper()
		hosts, err := Locate(s, Known{Pods: pods}, 443)
		if err != nil || len(hosts) != 1 {
			t.Fatalf("it is at %v, %v", hosts, err)
		}
		return hosts[0]
	}
	one := locate(hook(nil), backend("a", nil), backend("b", nil))
	if other := locate(hook(nil), backend("b", nil), backend("a", nil)); one != other {
		t.Errorf("the same pods are at %s and %s", one, other)
	}
	for what, other := range map[string]string{
		"fewer pods":      locate(hook(nil), backend("a", nil)),
		"one anew":        locate(hook(nil), backend("a", nil), backend("b", func(p *corev1.Pod) { p.UID = "new" })),
		"another port":    locate(hook(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(1) }), backend("a", nil), backend("b", nil)),
		"another Service": locate(hook(func(s *corev1.Service) { s.UID = "new" }), backend("a", nil), backend("b", nil)),
	} {
		if one == other {
			t.Errorf("%s: the host is the same", what)
		}
	}
	host, _, err := net.SplitHostPort(one)
	if err != nil {
		t.Fatal(err)
	}
	if len(validation.IsDNS1123Subdomain(host)) == 0 {
		t.Errorf("%s is a name", host)
	}
	if namespace, name, ok := serviceOf(host); !ok || namespace != "web" || name != "hook" {
		t.Errorf("%s is of %s/%s", host, namespace, name)
	}
	if got := HostHeader(one); got != "hook.web.svc" {
		t.Errorf("requests to it name %s", got)
	}
	if got := HostHeader("192.0.2.1:443"); got != "192.0.2.1:443" {
		t.Errorf("requests to an address name %s", got)
	}
}

func TestAWebhookWithAURLHasNoWayIntoPods(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Options{})
	g.DialPods(func(context.Context, string, string, types.UID, int32, func()) (net.Conn, error) {
		t.Error("a pod is dialled")
		return nil, errors.New("not this way")
	})
	config, err := g.Webhooks(Services{Cluster: "shop"})(nil).ClientConfigFor("anything")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Dial(t.Context(), "tcp", "_pods.00.hook.web:443"); err == nil {
		t.Error("it is connected to")
	}
}

func TestAnotherPodIsTriedIfOneCannotBeReached(t *testing.T) {
	t.Parallel()
	backends := []Backend{{Pod: "a"}, {Pod: "b"}, {Pod: "c"}, {Pod: "d"}}
	dialer := func(reached string) (DialPod, *[]string) {
		var tried []string
		return func(_ context.Context, _, name string, _ types.UID, _ int32, _ func()) (net.Conn, error) {
			tried = append(tried, name)
			if name == reached {
				conn, _ := net.Pipe()
				return conn, nil
			}
			return nil, errors.New("no way to " + name)
		}, &tried
	}
	dial, tried := dialer("b")
	if _, err := dialFirst(t.Context(), dial, backends, nil); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a", "b"}, *tried); diff != "" {
		t.Errorf("tried: %s", diff)
	}
	dial, tried = dialer("d")
	if _, err := dialFirst(t.Context(), dial, backends, nil); err == nil || err.Error() != "pod a: no way to a" {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, *tried); diff != "" {
		t.Errorf("tried: %s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dial, tried = dialer("b")
	if _, err := dialFirst(ctx, dial, backends, nil); err == nil || len(*tried) != 1 {
		t.Errorf("nobody waits any more: %v, tried %v", err, *tried)
	}
}
