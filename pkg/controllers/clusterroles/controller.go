package clusterroles

import (
	"context"
	"fmt"
	"maps"

	"github.com/kcp-dev/logicalcluster/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rbacapply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/roles"
)

// manager owns the rules that are written, as in upstream.
const manager = "clusterrole-aggregation-controller"

// Config is what the controller needs.
type Config struct {
	// Kube acts in the logical cluster of the context.
	Kube kubernetes.Interface
	// Roles are the stored cluster roles of all logical clusters; somebody else
	// runs the informer.
	Roles *controller.Informer[*rbacv1.ClusterRole]
	// Defaults are the cluster roles that every logical cluster has, by name.
	Defaults map[string]*rbacv1.ClusterRole
}

// Controller keeps the rules of aggregated cluster roles.
type Controller struct {
	Config
	queue *controller.Controller[controller.Request]
}

// New makes the controller.
func New(c Config) *Controller {
	r := &Controller{Config: c}
	r.queue = controller.New("clusterroles", 2, r.reconcile)
	c.Roles.Handle(func(old, new *rbacv1.ClusterRole) {
		if new == nil {
			new = old
		}
		r.enqueue(logicalcluster.From(new))
	})
	return r
}

// enqueue asks for all aggregated roles of a logical cluster: any role may be a
// part of any.
func (r *Controller) enqueue(c logicalcluster.Name) {
	for _, role := range r.all(c) {
		if roles.IsAggregated(role) {
			r.queue.Enqueue(controller.Request{Cluster: c, Name: role.Name})
		}
	}
}

// all are the cluster roles of a logical cluster as users see them.
func (r *Controller) all(c logicalcluster.Name) map[string]*rbacv1.ClusterRole {
	all := maps.Clone(r.Defaults)
	for _, role := range r.Roles.ListCluster(c) {
		all[role.Name] = role
	}
	return all
}

// Run works until ctx is done.
func (r *Controller) Run(ctx context.Context) {
	if r.Roles.WaitForSync(ctx) != nil {
		return
	}
	r.queue.Run(ctx)
}

func (r *Controller) reconcile(ctx context.Context, key controller.Request) (controller.Result, error) {
	all := r.all(key.Cluster)
	role := all[key.Name]
	if role == nil || !roles.IsAggregated(role) || role.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	list := make([]*rbacv1.ClusterRole, 0, len(all))
	for _, part := range all {
		list = append(list, part)
	}
	rules, err := roles.Aggregate(role, list)
	if err != nil {
		return controller.Result{}, controller.TerminalError(err)
	}
	defaultRole := r.Defaults[key.Name]
	switch {
	case defaultRole != nil && role != defaultRole && onlyRules(role, defaultRole) && apiequality.Semantic.DeepEqual(rules, defaultRole.Rules):
		err := r.Kube.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &role.UID, ResourceVersion: &role.ResourceVersion}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return controller.Result{}, fmt.Errorf("returning to the default: %w", err)
		}
	case !apiequality.Semantic.DeepEqual(rules, role.Rules):
		if _, err := r.Kube.RbacV1().ClusterRoles().Apply(ctx, applyRules(role.Name, rules), metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return controller.Result{}, fmt.Errorf("writing aggregated rules: %w", err)
		}
	}
	return controller.Result{}, nil
}

// onlyRules says whether a stored role differs from the default at most by what
// this controller writes.
func onlyRules(stored, defaultRole *rbacv1.ClusterRole) bool {
	annotations := maps.Clone(stored.Annotations)
	delete(annotations, logicalcluster.AnnotationKey)
	return maps.Equal(annotations, defaultRole.Annotations) && maps.Equal(stored.Labels, defaultRole.Labels) &&
		len(stored.Finalizers) == 0 && len(stored.OwnerReferences) == 0 &&
		apiequality.Semantic.DeepEqual(stored.AggregationRule, defaultRole.AggregationRule)
}

func applyRules(name string, rules []rbacv1.PolicyRule) *rbacapply.ClusterRoleApplyConfiguration {
	role := rbacapply.ClusterRole(name)
	for i := range rules {
		role.WithRules(&rbacapply.PolicyRuleApplyConfiguration{
			Verbs: rules[i].Verbs, APIGroups: rules[i].APIGroups, Resources: rules[i].Resources,
			ResourceNames: rules[i].ResourceNames, NonResourceURLs: rules[i].NonResourceURLs,
		})
	}
	return role
}
