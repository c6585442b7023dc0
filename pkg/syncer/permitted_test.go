package syncer

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
)

// deploymentWith is the input for a Deployment that was never applied, with something in
// the spec of its pods.
func deploymentWith(field string, value any) Input {
	in := situation{kind: "Deployment", logical: "live", copy: "current"}.input()
	setNested(in.Logical.Object, value, "spec", "template", "spec", field)
	in.Ruled = true
	return in
}

func TestWhatIsNotPermittedIsNotAppliedAndTheCopySaysWhy(t *testing.T) {
	in := deploymentWith("nodeSelector", map[string]any{"pool": "finance"})
	actions := Plan(in)
	if len(actions) != 1 || actions[0].Verb != WriteCopy {
		t.Fatalf("%v", describe(actions))
	}
	status := actions[0].Copy.Status
	if status.State != placementv1alpha1.CopyFailed || status.Reason != ReasonNotPermitted ||
		!strings.HasPrefix(status.Message, "spec.template.spec.nodeSelector[pool]: selects nodes") {
		t.Errorf("%+v", status)
	}
	in.Permits = boundary.Permits{NodeLabels: []string{"pool"}}
	if actions := Plan(in); !hasVerb(actions, Apply) {
		t.Errorf("permitted, but %v", describe(actions))
	}
}

func TestWhatIsLeftOutIsAReasonOnTheSyncedCopyOnce(t *testing.T) {
	in := deploymentWith("priorityClassName", "system-node-critical")
	actions := Plan(in)
	if !hasVerb(actions, Apply) {
		t.Fatalf("%v", describe(actions))
	}
	in.Physical = actions[0].Object
	in.Physical.SetUID("p")
	in.Applied, in.Settled = true, Fingerprint(in.Physical)
	actions = Plan(in)
	if len(actions) != 1 || actions[0].Verb != WriteCopy {
		t.Fatalf("%v", describe(actions))
	}
	status := actions[0].Copy.Status
	if status.State != placementv1alpha1.CopySynced || status.Reason != ReasonAdjusted || !strings.Contains(status.Message, "spec.template.spec.priorityClassName") {
		t.Errorf("%+v", status)
	}
	in.Copy, in.Applied = actions[0].Copy, false
	if actions := Plan(in); len(actions) != 0 {
		t.Errorf("said already, but %v", describe(actions))
	}
}

func TestASummaryIsBounded(t *testing.T) {
	findings := make([]boundary.Finding, 50)
	for i := range findings {
		findings[i] = boundary.Finding{Field: "spec.x", Why: "is not carried"}
	}
	if got := summary(findings); !strings.HasSuffix(got, "; and 47 more") || strings.Count(got, "spec.x") != maxFindings {
		t.Errorf("%s", got)
	}
	if got := summary(nil); got != "" {
		t.Errorf("%q", got)
	}
}

func TestAnAdminsStricterLevelStays(t *testing.T) {
	const key = "pod-security.kubernetes.io/enforce"
	owned := func(manager string, operation metav1.ManagedFieldsOperationType) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + key + `":{}}}}`)}
	}
	us, admin := owned(FieldManager, metav1.ManagedFieldsOperationApply), owned("kubectl", metav1.ManagedFieldsOperationUpdate)
	for name, c := range map[string]struct {
		ours, below fleetv1alpha1.PodSecurityLevel
		by          []metav1.ManagedFieldsEntry
		applied     bool
	}{
		"none there":                      {"baseline", "", nil, true},
		"looser, of an admin":             {"baseline", "privileged", []metav1.ManagedFieldsEntry{admin}, true},
		"stricter, of an admin":           {"baseline", "restricted", []metav1.ManagedFieldsEntry{admin}, false},
		"stricter, of us":                 {"baseline", "restricted", []metav1.ManagedFieldsEntry{us}, true},
		"stricter, of us and of an admin": {"baseline", "restricted", []metav1.ManagedFieldsEntry{us, admin}, false},
	} {
		desired, physical := &unstructured.Unstructured{Object: map[string]any{}}, &unstructured.Unstructured{Object: map[string]any{}}
		desired.SetLabels(map[string]string{key: string(c.ours)})
		physical.SetLabels(map[string]string{key: string(c.below)})
		physical.SetManagedFields(c.by)
		keepStricterLevel(desired, physical)
		if _, applied := desired.GetLabels()[key]; applied != c.applied {
			t.Errorf("%s: applied: %v, want %v", name, applied, c.applied)
		}
	}
}
