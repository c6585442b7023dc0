package attack

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// tokens are of accounts that no template of a user mounts on the physical cluster: a pod
// that the syncer mirrors is no reason.
var tokens = Attack{
	Name: "a syncer gets no token of an account, or for an audience, that nothing placed with it mounts",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		boss, err := w.admin.kube.CoreV1().ServiceAccounts("web").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "boss"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		source := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "cloud", Path: "t"}}
		if _, err := w.mallory.kube.CoreV1().Pods("web").Create(withTarget(ctx), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "planted", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "1"}},
			Spec: corev1.PodSpec{ServiceAccountName: "boss", Containers: []corev1.Container{{Name: "c", Image: "nginx"}}, Volumes: []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}},
			}},
		}, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("mirroring a pod: %w", err)
		}
		own, err := w.admin.kube.CoreV1().ServiceAccounts("web").Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		elsewhere, err := w.admin.kube.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, try := range []struct {
			account   *corev1.ServiceAccount
			audiences []string
		}{
			{account: boss}, {account: boss, audiences: []string{"cloud"}}, {account: own, audiences: []string{"cloud"}}, {account: elsewhere},
			{account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "nobody"}}},
		} {
			if err := w.askForToken(ctx, try.account, try.audiences); !apierrors.IsForbidden(err) {
				return fmt.Errorf("a token of %s/%s for %v: %w", try.account.Namespace, try.account.Name, try.audiences, err)
			}
		}
		if err := w.askForToken(ctx, own, nil); err != nil {
			return fmt.Errorf("the token that its pods mount: %w", err)
		}
		if err := w.endsWithItsRecords(ctx); err != nil {
			return err
		}
		if err := w.askForToken(ctx, own, nil); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a token after what mounted it has gone: %w", err)
		}
		return nil
	},
	// Whom the fence is not for gets it: the admin of the logical cluster.
	Control: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		_, err = w.admin.kube.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"cloud"}},
		}, metav1.CreateOptions{})
		return err
	},
}

// askForToken asks as the hostile syncer.
func (w *World) askForToken(ctx context.Context, account *corev1.ServiceAccount, audiences []string) error {
	_, err := w.mallory.kube.CoreV1().ServiceAccounts(account.Namespace).CreateToken(withTarget(ctx), account.Name, &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{UID: account.UID},
		Spec:       authenticationv1.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: ptr.To[int64](600)},
	}, metav1.CreateOptions{})
	return err
}
