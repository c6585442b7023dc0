package syncer

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	psa "k8s.io/pod-security-admission/api"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/stamp"
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

func TestWhatAPolicyPermitsOfAnObjectGoesDown(t *testing.T) {
	for text, want := range map[string]bool{
		"[{name: a, permits: {nodeLabels: [pool]}}]":                                       true,
		"[{name: a, permits: {taints: [pool]}}]":                                           false,
		"[{name: a, permits: {nodeLabels: [pool]}, problem: of it}]":                       false,
		"[{name: a, permits: {taints: [pool]}}, {name: b, permits: {nodeLabels: [pool]}}]": true,
	} {
		in := deploymentWith("nodeSelector", map[string]any{"pool": "finance"})
		in.Permits = boundary.Permits{Taints: []string{"other"}}
		targets := stamp.TargetsOf(in.Logical.GetAnnotations())
		target := targets[in.Target]
		target.Overrides = overridesOf(t, text)
		targets[in.Target] = target
		stamp.Set(in.Logical, targets)
		actions := Plan(in)
		if got := hasVerb(actions, Apply); got != want {
			t.Errorf("%s: it goes down is %v, want %v: %v", text, got, want, describe(actions))
		}
	}
}

// The namespace below has the level of all that is in it, and so have the pods that controllers make there.
func TestANamespaceHasTheLevelThatAPolicyPermits(t *testing.T) {
	namespace := situation{kind: "Namespace", logical: "live"}.input()
	if got := PermitsIn(namespace.Logical, namespace.Target, boundary.Permits{}); got.PodSecurity != "" {
		t.Errorf("without a policy: %q", got.PodSecurity)
	}
	targets := stamp.TargetsOf(namespace.Logical.GetAnnotations())
	targets[namespace.Target] = placementv1alpha1.Target{Overrides: overridesOf(t, "[{name: a, permits: {podSecurity: privileged}}]")}
	stamp.Set(namespace.Logical, targets)
	down, _ := Transform(namespace.Logical, Placing{Ref: namespace.Ref, ControlPlane: "cp", Namespace: "shop-web", Target: targets[namespace.Target]})
	if got := down.GetLabels()[psa.EnforceLevelLabel]; got != "privileged" {
		t.Errorf("the level below is %q", got)
	}
	if got := PermitsIn(namespace.Logical, namespace.Target, boundary.Permits{}); got.PodSecurity != fleetv1alpha1.PodSecurityPrivileged {
		t.Errorf("pods that controllers make: %q", got.PodSecurity)
	}
	if got := PermitsIn(namespace.Logical, "another", boundary.Permits{}); got.PodSecurity != "" {
		t.Errorf("on another target: %q", got.PodSecurity)
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

// What waits comes first, whatever else is said, and nothing is applied anew for it.
func TestAClassThatIsNotThereIsTheReasonOnTheSyncedCopy(t *testing.T) {
	in := deploymentWith("priorityClassName", "high")
	setNested(in.Logical.Object, []any{map[string]any{"key": "pool"}}, "spec", "template", "spec", "tolerations")
	in.Permits = boundary.Permits{PriorityClasses: map[string]string{"high": "tenants"}}
	in.Physical = Plan(in)[0].Object
	in.Physical.SetUID("p")
	in.Applied, in.Settled = true, Fingerprint(in.Physical)
	for name, c := range map[string]struct {
		has          *fleetv1alpha1.ReportedNames
		reason, says string
	}{
		"not known": {nil, ReasonAdjusted, "spec.template.spec.priorityClassName: the class that"},
		"there":     {&fleetv1alpha1.ReportedNames{Names: []string{"tenants"}}, ReasonAdjusted, "spec.template.spec.priorityClassName: the class that"},
		"not there": {&fleetv1alpha1.ReportedNames{}, ReasonNoClass, "spec.template.spec.priorityClassName: the physical cluster has no priority class tenants; no pod starts until it has; spec.template.spec.tolerations"},
	} {
		in.Offered = boundary.Classes{Priority: c.has}
		actions := Plan(in)
		if len(actions) != 1 || actions[0].Verb != WriteCopy {
			t.Fatalf("%s: %v", name, describe(actions))
		}
		if status := actions[0].Copy.Status; status.State != placementv1alpha1.CopySynced || status.Reason != c.reason || !strings.HasPrefix(status.Message, c.says) {
			t.Errorf("%s: %+v", name, status)
		}
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
