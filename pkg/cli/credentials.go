package cli

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/edit"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// syncerAccount is the ServiceAccount, with its role and the Secret with its token, that
// is made on a physical cluster.
const syncerAccount = edit.SyncerAccount

// makeCredentials makes a ServiceAccount on the physical cluster that may do what a syncer
// does, and returns the physical cluster as that ServiceAccount reaches it.
func (p *physical) makeCredentials(ctx context.Context, kinds workload.Catalog) (*physical, error) {
	const namespace = fleetv1alpha1.LeaseNamespace
	how := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	_, err := p.kube.CoreV1().Namespaces().Apply(ctx, corev1ac.Namespace(namespace), how)
	if err == nil {
		_, err = p.kube.CoreV1().ServiceAccounts(namespace).Apply(ctx, corev1ac.ServiceAccount(syncerAccount, namespace), how)
	}
	if err == nil {
		_, err = p.kube.RbacV1().ClusterRoles().Apply(ctx, role(kinds), how)
	}
	if err == nil {
		subject := rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(namespace).WithName(syncerAccount)
		ref := rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(syncerAccount)
		_, err = p.kube.RbacV1().ClusterRoleBindings().Apply(ctx, rbacv1ac.ClusterRoleBinding(syncerAccount).WithSubjects(subject).WithRoleRef(ref), how)
	}
	if err == nil {
		secret := corev1ac.Secret(syncerAccount, namespace).WithType(corev1.SecretTypeServiceAccountToken).
			WithAnnotations(map[string]string{corev1.ServiceAccountNameKey: syncerAccount})
		_, err = p.kube.CoreV1().Secrets(namespace).Apply(ctx, secret, how)
	}
	if err != nil {
		return nil, fmt.Errorf("--make-credentials: making the ServiceAccount %s/%s on the physical cluster at %s: %w", namespace, syncerAccount, p.server, err)
	}
	token, err := p.token(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return p.withToken(token)
}

func role(kinds workload.Catalog) *rbacv1ac.ClusterRoleApplyConfiguration {
	role := rbacv1ac.ClusterRole(syncerAccount)
	for _, rule := range edit.Needs(kinds) {
		role.WithRules(rbacv1ac.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).WithVerbs(rule.Verbs...))
	}
	return role
}

// token waits until the physical cluster has written the token of the ServiceAccount.
func (p *physical) token(ctx context.Context, namespace string) (string, error) {
	var token []byte
	err := until(ctx, requestTimeout, func(ctx context.Context) (bool, error) {
		secret, err := p.kube.CoreV1().Secrets(namespace).Get(ctx, syncerAccount, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		token = secret.Data[corev1.ServiceAccountTokenKey]
		return len(token) > 0, nil
	})
	if err != nil {
		return "", fmt.Errorf("--make-credentials: waiting until the physical cluster at %s writes the token of its Secret %s/%s: %w", p.server, namespace, syncerAccount, err)
	}
	return string(token), nil
}

// awaitPermits waits until the authorizer of the physical cluster knows a role that was
// just made.
func (p *physical) awaitPermits(ctx context.Context, kinds workload.Catalog) error {
	var last error
	err := until(ctx, requestTimeout, func(ctx context.Context) (bool, error) {
		if last = p.identify(ctx); last == nil {
			last = p.permits(ctx, kinds)
		}
		return last == nil, nil
	})
	if last != nil {
		return last
	}
	return err
}

// withToken is the same server with the credentials of a token.
func (p *physical) withToken(token string) (*physical, error) {
	config := p.config.DeepCopy()
	context := config.Contexts[config.CurrentContext]
	context.AuthInfo = syncerAccount
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{syncerAccount: {Token: token}}
	kubeconfig, err := clientcmd.Write(*config)
	if err != nil {
		return nil, err
	}
	return newPhysical(config, kubeconfig)
}
