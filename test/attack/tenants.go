package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// tenant is somebody with all rights in the logical cluster of ctx and in no other.
func (w *World) tenant(ctx context.Context) (clients, error) {
	who, err := w.account(ctx, "tenant")
	if err != nil {
		return clients{}, err
	}
	if _, err := w.admin.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "tenant"}},
	}, metav1.CreateOptions{}); err != nil {
		return clients{}, fmt.Errorf("binding a role: %w", err)
	}
	return who, eventually(ctx, "the tenant may read", func() error { // once the role is known
		_, err := who.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		return err
	})
}

// account is somebody with an account in the logical cluster of ctx, and no rights.
func (w *World) account(ctx context.Context, name string) (clients, error) {
	accounts := w.admin.kube.CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return clients{}, fmt.Errorf("creating an account: %w", err)
	}
	token, err := accounts.CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return clients{}, fmt.Errorf("issuing a token: %w", err)
	}
	config := rest.AnonymousClientConfig(w.Config)
	config.BearerToken = token.Status.Token
	return clientsOf(config), nil
}

var elsewhere = Attack{
	Name: "a tenant with all rights in its logical cluster reads no other, nor the server",
	Fence: func(ctx context.Context, w *World) error {
		other, err := w.placed(ctx)
		if err != nil {
			return err
		}
		own, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(own)
		if err != nil {
			return err
		}
		theirs, _ := scope.ClusterFrom(other)
		mine, _ := scope.ClusterFrom(own)
		for _, path := range []string{
			"/clusters/" + theirs.String() + "/api/v1/namespaces", "/clusters/" + theirs.String() + "/apis", "/clusters/" + theirs.String() + "/openapi/v2",
			"/clusters/*/api/v1/secrets", "/clusters/root/apis/fleet.atoll.dev/v1alpha1/physicalclusters", "/clusters/made-up/api/v1/namespaces",
			"/targets/" + Mallory + "/clusters/*/api/v1/secrets", "/targets/" + Mallory + "/clusters/" + mine.String() + "/api/v1/pods",
			"/clusters/" + mine.String() + "/metrics", "/clusters/" + mine.String() + "/debug/pprof/", "/metrics",
		} {
			got, err := ask(ctx, who.config, http.MethodGet, path, "")
			if err != nil {
				return err
			}
			if got.code != http.StatusForbidden && got.code != http.StatusUnauthorized {
				return fmt.Errorf("%s is answered %d", path, got.code)
			}
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(ctx)
		if err != nil {
			return err
		}
		shop, _ := scope.ClusterFrom(ctx)
		if got, err := ask(ctx, who.config, http.MethodGet, scope.Scope{Cluster: shop}.Path()+"/apis/apps/v1/namespaces/web/deployments/app", ""); err != nil || got.code != http.StatusOK {
			return fmt.Errorf("its own is answered %d (%w)", got.code, err)
		}
		return nil
	},
}

var longSelector = Attack{
	Name: "nobody has a selector parsed that is longer than any client's",
	Fence: func(ctx context.Context, w *World) error {
		code, err := w.selects(ctx, 900<<10)
		if err == nil && code != http.StatusRequestURITooLong && code != http.StatusRequestHeaderFieldsTooLarge {
			err = fmt.Errorf("it is answered %d", code)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error {
		code, err := w.selects(ctx, 20<<10)
		if err == nil && code != http.StatusUnauthorized && code != http.StatusForbidden {
			err = fmt.Errorf("a shorter one is answered %d", code)
		}
		return err
	},
}

// selects asks without credentials for what a selector of some length selects.
func (w *World) selects(ctx context.Context, length int) (int, error) {
	selector := strings.Repeat("a!=b,", length/5)
	got, err := ask(ctx, rest.AnonymousClientConfig(w.Config), http.MethodGet, "/clusters/root/api/v1/pods?labelSelector="+selector+"a", "")
	return got.code, err
}

var privileged = Attack{
	Name: "a tenant's pods get no more of a node than its physical cluster permits",
	Fence: func(ctx context.Context, w *World) error {
		tried, err := w.privileged(ctx)
		if err != nil {
			return err
		}
		for what, err := range tried {
			if !apierrors.IsForbidden(err) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) (err error) {
		root := scope.WithCluster(ctx, scope.Root)
		if err := w.permit(root, fleetv1alpha1.PodSecurityPrivileged); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.permit(root, "")) }()
		return eventually(ctx, "where it is permitted", func() error {
			tried, err := w.privileged(ctx)
			if err != nil {
				return err
			}
			return tried["the network of the node"]
		})
	},
}

// privileged tries, as a tenant, to create hostile pods, and returns the answers.
func (w *World) privileged(ctx context.Context) (map[string]error, error) {
	ctx, err := w.placed(ctx)
	if err != nil {
		return nil, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return nil, err
	}
	answers := map[string]error{}
	for what, change := range map[string]func(*corev1.PodSpec){
		"a privileged container": func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		},
		"the network of the node": func(s *corev1.PodSpec) { s.HostNetwork = true },
		"a folder of the node": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"a port of the node": func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 10250}}
		},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}}
		change(&pod.Spec)
		_, answers[what] = who.kube.CoreV1().Pods("web").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	return answers, nil
}

// permit sets the Pod Security level of the hostile physical cluster.
func (w *World) permit(root context.Context, level fleetv1alpha1.PodSecurityLevel) error {
	client := w.admin.atoll.FleetV1alpha1().PhysicalClusters()
	return eventually(root, "permitting", func() error {
		pc, err := client.Get(root, Mallory, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pc.Spec.Tenancy.PodSecurity = level
		_, err = client.Update(root, pc, metav1.UpdateOptions{})
		return err
	})
}
