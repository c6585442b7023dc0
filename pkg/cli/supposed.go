package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// policyVersion is one version of a policy of any level.
type policyVersion struct {
	clusters, namespaces labels.Selector
	rules                placementv1alpha1.PolicyRules
	// unit is the one that a PlacementPolicy is for.
	unit string
}

// supposedPolicy is a policy that the server has found valid, beside the one that is there.
type supposedPolicy struct {
	kind string
	name placementv1alpha1.PolicyName
	// namespace is that of a PlacementPolicy.
	namespace string
	new, old  *policyVersion
}

func (p *supposedPolicy) String() string {
	if p.namespace != "" {
		return fmt.Sprintf("%s %s of namespace %s", p.kind, p.name.Name, p.namespace)
	}
	return p.kind + " " + p.name.Name
}

// verb is what applying it would do.
func (p *supposedPolicy) verb() string {
	if p.old == nil {
		return "created"
	}
	return "changed"
}

// selects says that a version is for a namespace.
func (p *supposedPolicy) selects(v *policyVersion, lc *tenancyv1alpha1.LogicalCluster, ns *corev1.Namespace) bool {
	switch {
	case v == nil:
		return false
	case p.namespace != "":
		return ns.Name == p.namespace
	}
	return v.namespaces.Matches(labels.Set(ns.Labels)) && (p.name.Level != placementv1alpha1.PolicyGlobal || v.clusters.Matches(labels.Set(lc.Labels)))
}

// suppose is what to ask about a unit: the new version in place of the old one, or that the
// old one is not for it any more; nil if neither is. A PlacementPolicy is for one unit of its
// namespace.
func (p *supposedPolicy) suppose(at place) *placementv1alpha1.PlacementReviewSpec {
	switch {
	case p.namespace != "" && at.unit != p.new.unit:
		return nil
	case p.selects(p.new, at.cluster, at.namespace):
		return &placementv1alpha1.PlacementReviewSpec{Replaces: &p.name, Policy: &p.new.rules}
	case p.selects(p.old, at.cluster, at.namespace):
		return &placementv1alpha1.PlacementReviewSpec{Replaces: &p.name}
	}
	return nil
}

// unit is the one that a PlacementPolicy is for.
func (p *supposedPolicy) unit() unit { return unit{p.namespace, p.new.unit} }

// unitOf is the unit that a PlacementPolicy is for.
func unitOf(p *placementv1alpha1.PlacementPolicy) string {
	if p.Spec.Objects == nil {
		return placementv1alpha1.NamespaceUnit
	}
	return p.Name
}

// readPolicies has the server check the policies of files, without storing them.
func (o *options) readPolicies(ctx context.Context, c *connection, files *resource.FilenameOptions) ([]*supposedPolicy, error) {
	namespace, enforce, err := o.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	var out []*supposedPolicy
	var errs []error
	err = o.factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().FilenameParam(enforce, files).
		ContinueOnError().Flatten().Do().Visit(func(info *resource.Info, err error) error {
		if err == nil {
			var p *supposedPolicy
			if p, err = c.readPolicy(ctx, info); err == nil {
				out = append(out, p)
			}
		}
		errs = append(errs, err)
		return nil
	})
	if err := joined(append(errs, err)); err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, errors.New("there is no policy in what -f names")
	}
	return out, nil
}

var (
	clusterPolicyKind   = schema.GroupKind{Group: placementv1alpha1.GroupName, Kind: "ClusterPlacementPolicy"}
	namespacePolicyKind = schema.GroupKind{Group: placementv1alpha1.GroupName, Kind: "PlacementPolicy"}
)

// readPolicy has the server check one.
func (c *connection) readPolicy(ctx context.Context, info *resource.Info) (*supposedPolicy, error) {
	kind := info.Mapping.GroupVersionKind.GroupKind()
	p := &supposedPolicy{kind: kind.Kind, namespace: info.Namespace, name: placementv1alpha1.PolicyName{Level: placementv1alpha1.PolicyNamespace, Name: info.Name}}
	switch {
	case kind == clusterPolicyKind && c.cluster == scope.Root:
		p.name.Level = placementv1alpha1.PolicyGlobal
	case kind == clusterPolicyKind:
		p.name.Level = placementv1alpha1.PolicyLogicalCluster
	case kind != namespacePolicyKind:
		return nil, fmt.Errorf("%s: %s is no policy: those are ClusterPlacementPolicy and PlacementPolicy of %s", info.Source, kind, placementv1alpha1.GroupName)
	case c.cluster == scope.Root:
		return nil, fmt.Errorf("%s: a PlacementPolicy is for a namespace of a logical cluster; in %q there are ClusterPlacementPolicies only", info.Source, scope.Root)
	}
	helper := resource.NewHelper(info.Client, info.Mapping).DryRun(true).WithFieldManager(fieldManager).WithFieldValidation(metav1.FieldValidationStrict)
	old, err := helper.Get(info.Namespace, info.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err := confirm(info.Object); err != nil {
		return nil, err
	}
	var checked runtime.Object
	if err == nil {
		if p.old, err = versionOf(kind, old); err != nil {
			return nil, err
		}
		checked, err = helper.Replace(info.Namespace, info.Name, true, info.Object)
	} else {
		checked, err = helper.Create(info.Namespace, true, info.Object)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Source, err)
	}
	p.new, err = versionOf(kind, checked)
	return p, err
}

// confirm has a dry run pass that moves more than may be moved without a confirmation: what
// moves is what is asked.
func confirm(obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	annotations := maps.Clone(m.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[placementv1alpha1.ConfirmMovesAnnotation] = strconv.Itoa(math.MaxInt32)
	m.SetAnnotations(annotations)
	return nil
}

// versionOf reads what the server returned.
func versionOf(kind schema.GroupKind, obj runtime.Object) (*policyVersion, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	v := &policyVersion{clusters: labels.Everything(), namespaces: labels.Everything()}
	if kind == namespacePolicyKind {
		var own placementv1alpha1.PlacementPolicy
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &own)
		v.rules, v.unit = own.Spec.PolicyRules, unitOf(&own)
		return v, err
	}
	var policy placementv1alpha1.ClusterPlacementPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &policy); err != nil {
		return nil, err
	}
	v.rules = policy.Spec.PolicyRules
	for _, s := range []struct {
		from *metav1.LabelSelector
		to   *labels.Selector
	}{{policy.Spec.LogicalClusterSelector, &v.clusters}, {policy.Spec.NamespaceSelector, &v.namespaces}} {
		if s.from == nil {
			continue // absent selects all
		}
		if *s.to, err = metav1.LabelSelectorAsSelector(s.from); err != nil {
			return nil, err
		}
	}
	return v, nil
}
