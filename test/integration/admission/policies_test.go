package admission

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// rule matches writes of config maps.
func rule() *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		},
	}}}
}

func validate(t *testing.T, s *server.Server, ctx context.Context, policy admissionregistrationv1.ValidatingAdmissionPolicySpec, binding admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) {
	t.Helper()
	policy.MatchConstraints, binding.PolicyName = rule(), "policy"
	binding.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	if _, err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: policy}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "binding"}, Spec: binding}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// tryConfigMap says whether a config map would be accepted.
func tryConfigMap(s *server.Server, ctx context.Context, name string) error {
	_, err := s.Kube.CoreV1().ConfigMaps("web").Create(ctx, configMap(name), metav1.CreateOptions{DryRun: []string{"All"}})
	return err
}

func TestAValidatingPolicyRulesItsLogicalClusterOnlyAndUntilItGoes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "policy")
	validate(t, s, own, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		Validations: []admissionregistrationv1.Validation{{Expression: "!object.metadata.name.startsWith('bad')", Message: "no bad names"}},
	}, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{})
	var denied error
	eventually(t, "the policy rules", func() error {
		if denied = tryConfigMap(s, own, "bad"); denied == nil {
			return fmt.Errorf("a bad name was accepted")
		}
		return nil
	})
	if want := `ValidatingAdmissionPolicy 'policy' with binding 'binding' denied request: no bad names`; !contains(denied, want) {
		t.Errorf("got %v, want %q", denied, want)
	}
	if err := tryConfigMap(s, own, "good"); err != nil {
		t.Error(err)
	}
	if err := tryConfigMap(s, other, "bad"); err != nil {
		t.Errorf("in another logical cluster: %v", err)
	}
	if err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(own, "binding", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy rules no more", func() error { return tryConfigMap(s, own, "bad") })
}

func TestParametersOfAPolicyAreThoseOfItsLogicalCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "params")
	for ctx, name := range map[context.Context]string{own: "own", other: "other"} {
		params := configMap("params")
		params.Data = map[string]string{"name": name}
		if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, params, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		deny := admissionregistrationv1.DenyAction
		validate(t, s, ctx, admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind:   &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.name == params.data.name"}},
		}, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			ParamRef: &admissionregistrationv1.ParamRef{Name: "params", Namespace: "default", ParameterNotFoundAction: &deny},
		})
	}
	for ctx, name := range map[context.Context]string{own: "own", other: "other"} {
		eventually(t, "the policy rules "+name, func() error {
			if err := tryConfigMap(s, ctx, "neither"); err == nil {
				return fmt.Errorf("a wrong name was accepted")
			}
			return tryConfigMap(s, ctx, name)
		})
	}
}

func TestAMutatingPolicyChangesObjectsOfItsLogicalClusterOnlyAndNotOurMetadata(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := clusters(t, s, "mutating")
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: rule(), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{metadata: Object.metadata{
				labels: {"seen": "yes"}, annotations: {"kcp.io/cluster": "mutating-other", "` + placementv1alpha1.TargetsAnnotation + `": "{\"east\":{}}"}}}`},
		}},
	}}
	if _, err := s.Kube.AdmissionregistrationV1().MutatingAdmissionPolicies().Create(own, policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "binding"}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "policy"}}
	if _, err := s.Kube.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Create(own, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(ctx context.Context) (*corev1.ConfigMap, error) {
		return s.Kube.CoreV1().ConfigMaps("web").Create(ctx, configMap("c"), metav1.CreateOptions{DryRun: []string{"All"}})
	}
	eventually(t, "the policy changes objects", func() error {
		c, err := create(own)
		if err != nil {
			return err
		}
		if c.Labels["seen"] != "yes" {
			return fmt.Errorf("labels %v", c.Labels)
		}
		if c.Annotations["kcp.io/cluster"] != "mutating" || c.Annotations[placementv1alpha1.TargetsAnnotation] != "" {
			t.Errorf("the policy changed annotations of the system: %v", c.Annotations)
		}
		return nil
	})
	c, err := create(other)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Labels) != 0 {
		t.Errorf("the policy changed an object of another logical cluster: %v", c.Labels)
	}
}

func TestTypesInAPolicyAreCheckedAgainstItsLogicalCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, _ := clusters(t, s, "types")
	validate(t, s, own, admissionregistrationv1.ValidatingAdmissionPolicySpec{
		Validations: []admissionregistrationv1.Validation{{Expression: "object.data.size() < 3"}, {Expression: "object.replicas > 1"}},
	}, admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{})
	eventually(t, "the mistake is in the status", func() error {
		p, err := s.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(own, "policy", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("status %+v", p.Status)
		}
		warnings := p.Status.TypeChecking.ExpressionWarnings
		if len(warnings) != 1 || warnings[0].FieldRef != "spec.validations[1].expression" {
			t.Errorf("warnings %v, want one for the second expression", warnings)
		}
		return nil
	})
}
