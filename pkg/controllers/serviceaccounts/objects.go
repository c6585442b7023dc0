package serviceaccounts

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// accountName is the ServiceAccount of every namespace.
	accountName = "default"
	// rootCAName is the ConfigMap of every namespace, rootCAKey its one key; the
	// description is the one that kube-controller-manager gives.
	rootCAName            = "kube-root-ca.crt"
	rootCAKey             = "ca.crt"
	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

func account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: accountName}}
}

func rootCA(bundle []byte) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:        rootCAName,
			Annotations: map[string]string{descriptionAnnotation: description},
		},
		Data: map[string]string{rootCAKey: string(bundle)},
	}
}

// current says whether cm is what rootCA makes; the description may be any.
func current(cm *corev1.ConfigMap, bundle []byte) bool {
	return len(cm.BinaryData) == 0 && cm.Annotations[descriptionAnnotation] != "" &&
		maps.Equal(cm.Data, map[string]string{rootCAKey: string(bundle)})
}

// Fill makes both objects in a namespace that was just created, in the logical
// cluster of ctx. What exists stays as it is.
func Fill(ctx context.Context, client kubernetes.Interface, bundle []byte, namespace string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return createAccount(ctx, client, namespace) })
	g.Go(func() error { return createRootCA(ctx, client, bundle, namespace) })
	return g.Wait()
}

func createAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account(), metav1.CreateOptions{})
	if err != nil && !settled(err) {
		return fmt.Errorf("creating service account %s: %w", accountName, err)
	}
	return nil
}

func createRootCA(ctx context.Context, client kubernetes.Interface, bundle []byte, namespace string) error {
	_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, rootCA(bundle), metav1.CreateOptions{})
	if err != nil && !settled(err) {
		return fmt.Errorf("creating config map %s: %w", rootCAName, err)
	}
	return nil
}

// settled says that a failed creation needs no other: the object exists, or its
// namespace is going or gone.
func settled(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
