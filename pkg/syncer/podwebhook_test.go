package syncer

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestWhetherPodsAreAdmittedIsWhatIsKnown(t *testing.T) {
	t.Parallel()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	uncalled := apierrors.NewInternalError(errors.New(`failed calling webhook "proof.pods.atoll.dev": connection refused`))
	for name, c := range map[string]struct {
		wanted  bool
		problem error
		failure *Failure
		status  metav1.ConditionStatus
		reason  string
	}{
		"not wanted":                      {false, ErrAdmissionNotOffered, nil, metav1.ConditionFalse, "NotOffered"},
		"nobody serves":                   {true, ErrAdmissionNotServed, nil, metav1.ConditionFalse, "NotServed"},
		"not configured":                  {true, errors.New("forbidden"), nil, metav1.ConditionFalse, "NotConfigured"},
		"it does not answer":              {true, nil, &Failure{Reason: "Unreachable"}, metav1.ConditionUnknown, "Unreachable"},
		"it asks":                         {true, Proven(true, nil), nil, metav1.ConditionTrue, "Asked"},
		"it asks, and others refuse":      {true, Proven(true, refused), nil, metav1.ConditionTrue, "Asked"},
		"it does not ask":                 {true, Proven(false, nil), nil, metav1.ConditionFalse, "NotAsked"},
		"it cannot ask":                   {true, Proven(false, uncalled), nil, metav1.ConditionFalse, "NotAsked"},
		"it refuses before it asks":       {true, Proven(false, refused), nil, metav1.ConditionUnknown, "NotProven"},
		"it does not say whether it asks": {true, Proven(false, errors.New("timeout")), nil, metav1.ConditionUnknown, "NotProven"},
	} {
		if got := AdmissionCondition(c.wanted, c.problem, c.failure, 1); got.Status != c.status || got.Reason != c.reason || got.Message == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The webhook by which a syncer finds out whether it is asked is called by the same way, for its own pods only.
func TestOnlyPodsOfTheSyncerShowThatItIsAsked(t *testing.T) {
	t.Parallel()
	webhooks := PodWebhook{ControlPlane: "cp", Admission: fleetv1alpha1.PodAdmission{URL: "https://10.0.0.1"}, Path: "/pods/x"}.Configuration().Webhooks
	pods, proof := webhooks[0], webhooks[1]
	if *pods.ClientConfig.URL != *proof.ClientConfig.URL || *proof.SideEffects != "NoneOnDryRun" || pods.Name == proof.Name {
		t.Errorf("%+v", proof)
	}
	of := ProofPod("cp", "secret")
	for name, c := range map[string]struct {
		labels labels.Set
		want   bool
	}{
		"its own":                {of.Labels, true},
		"that of another syncer": {ProofPod("other", "secret").Labels, false},
		"of a tenant":            {labels.Set{"atoll.dev/managed-by": "cp"}, false},
		"of somebody else":       {labels.Set{"app": "web"}, false},
	} {
		selector, err := metav1.LabelSelectorAsSelector(proof.ObjectSelector)
		if err != nil || selector.Matches(c.labels) != c.want {
			t.Errorf("%s: %v, %v", name, !c.want, err)
		}
	}
	if !IsProofPod(of, "secret") || IsProofPod(of, "") || IsProofPod(&metav1.ObjectMeta{Annotations: of.Annotations}, "secret") {
		t.Error("it is not known by its secret")
	}
}
