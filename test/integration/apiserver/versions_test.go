package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/skew"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// saying is a transport that says something of the version of a syncer, and keeps what the
// server answers.
type saying struct {
	says     []string
	answered http.Header
	next     http.RoundTripper
}

func (s *saying) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header[skew.SyncerHeader] = s.says
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		s.answered = resp.Header
	}
	return resp, err
}

// withVersion is a client of config that says something of the version of a syncer.
func withVersion(config *rest.Config, says ...string) (versioned.Interface, *saying) {
	t := &saying{says: says}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { t.next = next; return t })
	return versioned.NewForConfigOrDie(scope.ScopedConfig(config)), t
}

// syncerOf is the way of the syncer of a physical cluster, and the context of its view.
func syncerOf(t *testing.T, s *server.Server, target string) (*rest.Config, context.Context) {
	t.Helper()
	data, err := app.Kubeconfig(s.Dir, target, true)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	config, _, _, err = scope.UnscopedConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return config, scope.With(t.Context(), scope.Scope{Cluster: scope.Root, Target: target})
}

func TestASyncerOfAnotherVersionIsRefusedWithBothVersionsAndIsSeen(t *testing.T) {
	s := shared(t)
	mine := skew.Current()
	s.Register(t, "ancient", nil)
	config, view := syncerOf(t, s, "ancient")
	for name, c := range map[string]struct {
		says []string
		want string
	}{
		"from before the handshake": {nil, ""},
		"of this build":             {[]string{mine.Header()}, ""},
		"a later one":               {[]string{skew.Side{Build: "v9", Revision: 1<<31 - 1, Oldest: 1}.Header()}, ""},
		"one that was never there":  {[]string{skew.Side{Build: "v0.0.1"}.Header()}, "the syncer is too old for the server: it is v0.0.1 (revision 0)"},
		"one for later servers":     {[]string{skew.Side{Build: "v9", Revision: 9, Oldest: 9}.Header()}, "the server is too old for the syncer: it is " + mine.String()},
		"a negative one":            {[]string{"revision=-7, oldest=0, build=v1"}, "does not say its version as this server"},
		"no number":                 {[]string{"revision=latest, oldest=0, build=v1"}, "does not say its version as this server"},
		"two":                       {[]string{mine.Header(), mine.Header()}, "does not say its version as this server"},
		"a long one":                {[]string{strings.Repeat("revision=2,", 5_000)}, "does not say its version as this server"},
	} {
		client, said := withVersion(config, c.says...)
		_, err := client.FleetV1alpha1().PhysicalClusters().Get(view, "ancient", metav1.GetOptions{})
		var status apierrors.APIStatus
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.As(err, &status) || status.Status().Reason != fleetv1alpha1.ReasonIncompatibleSyncer || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), mine.String())):
			t.Errorf("%s: %v, want %q, and the version of the server", name, err, c.want)
		}
		if got := said.answered.Get(skew.ServerHeader); got != mine.Header() {
			t.Errorf("%s: the server says %q of itself", name, got)
		}
	}

	old, _ := withVersion(config, skew.Side{Build: "v0.0.1"}.Header())
	if _, err := old.FleetV1alpha1().PhysicalClusters().Patch(view, "ancient", "application/merge-patch+json", []byte(`{"status":{"version":"forged"}}`), metav1.PatchOptions{}, "status"); err == nil {
		t.Error("a refused syncer reports")
	}
	renewal := old.FleetV1alpha1().RESTClient().Get().AbsPath("/apis/certificates.k8s.io/v1/certificatesigningrequests", registration.RenewalName("ancient", ""))
	if _, err := renewal.DoRaw(server.InRoot(t)); !apierrors.IsNotFound(err) {
		t.Errorf("a refused syncer looks for its renewed certificate: %v, want NotFound", err)
	}
	huge, said := withVersion(config, strings.Repeat("revision=2,", 200_000))
	if _, err := huge.FleetV1alpha1().PhysicalClusters().Get(view, "ancient", metav1.GetOptions{}); err == nil || len(said.answered) > 0 && said.answered.Get(skew.ServerHeader) != "" {
		t.Errorf("a header of two megabytes reaches the server: %v, %v", err, said.answered)
	}
	eventually(t, "the PhysicalCluster says so", func() error {
		_, _ = old.FleetV1alpha1().PhysicalClusters().Get(view, "ancient", metav1.GetOptions{})
		pc, err := s.Atoll.FleetV1alpha1().PhysicalClusters().Get(server.InRoot(t), "ancient", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ready := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != fleetv1alpha1.ReasonIncompatibleSyncer || !strings.Contains(ready.Message, "v0.0.1 (revision 0)") ||
			pc.Status.Syncer == nil || pc.Status.Syncer.Version != "v0.0.1" || pc.Status.Syncer.RefusedAt == nil || pc.Status.Version != "" {
			return fmt.Errorf("%+v, %+v", ready, pc.Status.Syncer)
		}
		return nil
	})
}

// The claim of a syncer is about itself alone: nobody else is refused by a header, and while a
// syncer works another one with its credential does not make the physical cluster not Ready.
func TestTheHeaderOfASyncerMeansNothingFromAnybodyElse(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "skewed")
	s.Register(t, "modern", nil)
	tenant, said := withVersion(s.Config, skew.Side{Build: "v0.0.1"}.Header())
	for what, ctx := range map[string]context.Context{"its own logical cluster": ctx, "root": server.InRoot(t)} {
		if _, err := tenant.FleetV1alpha1().PhysicalClusters().List(ctx, metav1.ListOptions{}); apierrors.ReasonForError(err) == fleetv1alpha1.ReasonIncompatibleSyncer {
			t.Errorf("in %s: %v", what, err)
		}
		if got := said.answered.Get(skew.ServerHeader); got != "" {
			t.Errorf("in %s the server says %q", what, got)
		}
	}
	other, view := syncerOf(t, s, "modern")
	wrong, _ := withVersion(other, skew.Side{Build: "v0.0.1"}.Header())
	elsewhere := scope.With(t.Context(), scope.Scope{Cluster: scope.Root, Target: "ancient"})
	if _, err := wrong.FleetV1alpha1().PhysicalClusters().Get(elsewhere, "ancient", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the syncer of another one: %v, want Forbidden", err)
	}

	hold(t, s, "modern")
	began, reported := time.Now(), false
	for time.Since(began) < 12*time.Second { // long enough for two refusals to be noted
		if _, err := wrong.FleetV1alpha1().PhysicalClusters().Get(view, "modern", metav1.GetOptions{}); err == nil {
			t.Fatal("it is not refused")
		}
		if !reported && time.Since(began) > 3*time.Second { // as its holder does; the first refusal may have come before the news of the Lease
			s.Report(t, "modern", server.Ready)
			reported = true
		}
		time.Sleep(200 * time.Millisecond)
	}
	pc, err := s.Atoll.FleetV1alpha1().PhysicalClusters().Get(server.InRoot(t), "modern", metav1.GetOptions{})
	if err != nil || !meta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionReady) {
		t.Errorf("while another one holds the Lease: %v, %+v", err, pc.Status.Conditions)
	}
}

// hold has somebody hold the Lease of a physical cluster for the rest of a test.
func hold(t *testing.T, s *server.Server, target string) {
	t.Helper()
	s.Beat(t, target)
	leases := s.Kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace)
	if _, err := leases.Patch(server.InRoot(t), target, "application/merge-patch+json", []byte(`{"spec":{"holderIdentity":"somebody","leaseDurationSeconds":12}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
