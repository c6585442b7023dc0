package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/test/framework/server"
)

// tokenSecret makes a Secret for the token of an account.
func tokenSecret(ctx context.Context, t *testing.T, s *server.Server, name, account string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}}, Type: corev1.SecretTypeServiceAccountToken}
	if _, err := s.Kube.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// robot makes an account with a token in a Secret, and returns that.
func robot(ctx context.Context, t *testing.T, s *server.Server) *corev1.Secret {
	t.Helper()
	if _, err := s.Kube.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tokenSecret(ctx, t, s, "robot-token", "robot")
	var secret *corev1.Secret
	eventually(t, "the Secret has a token", func() (err error) {
		if secret, err = s.Kube.CoreV1().Secrets("default").Get(ctx, "robot-token", metav1.GetOptions{}); err != nil {
			return err
		}
		if len(secret.Data) < 3 {
			return fmt.Errorf("it has %d entries", len(secret.Data))
		}
		return nil
	})
	return secret
}

func TestATokenInASecretIsOfItsLogicalClusterOnly(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "secret-a"), s.NewCluster(t, "secret-b")
	secret, other := robot(a, t, s), robot(b, t, s)
	if string(secret.Data["namespace"]) != "default" || string(secret.Data["ca.crt"]) != string(s.Config.CAData) || secret.Annotations[corev1.ServiceAccountUIDKey] == "" {
		t.Errorf("the Secret has %s, %s, %v", secret.Data["namespace"], secret.Data["ca.crt"], secret.Annotations)
	}
	token := string(secret.Data["token"])
	eventually(t, "the token is known", func() error {
		u, err := whoAmI(t, s, "secret-a", token)
		if err == nil && u.Username != "system:serviceaccount:default:robot" {
			err = fmt.Errorf("it is %+v", u)
		}
		return err
	})
	for _, name := range []string{"secret-b", "root"} {
		if u, err := whoAmI(t, s, name, token); !apierrors.IsUnauthorized(err) {
			t.Errorf("in %s: %+v, %v; want Unauthorized", name, u, err)
		}
	}
	bind(a, t, s, "view", "system:serviceaccount:default:robot")
	plain := kubernetes.NewForConfigOrDie(bearer(s, token))
	eventually(t, "reading without a path", func() error {
		_, err := plain.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return err
	})
	// One that is copied into the Secret of another logical cluster stays what it is.
	other.Data["token"] = []byte(token)
	if _, err := s.Kube.CoreV1().Secrets("default").Update(b, other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if u, err := whoAmI(t, s, "secret-b", token); !apierrors.IsUnauthorized(err) {
		t.Errorf("copied: %+v, %v; want Unauthorized", u, err)
	}
}

func TestATokenInASecretEndsWithTheSecretAndTheAccount(t *testing.T) {
	s := shared(t)
	for name, end := range map[string]func(ctx context.Context) error{
		"secret-gone": func(ctx context.Context) error {
			return s.Kube.CoreV1().Secrets("default").Delete(ctx, "robot-token", metav1.DeleteOptions{})
		},
		"account-gone": func(ctx context.Context) error {
			return s.Kube.CoreV1().ServiceAccounts("default").Delete(ctx, "robot", metav1.DeleteOptions{})
		},
		"token-replaced": func(ctx context.Context) error {
			secret, err := s.Kube.CoreV1().Secrets("default").Get(ctx, "robot-token", metav1.GetOptions{})
			if err == nil {
				delete(secret.Data, "token")
				secret.Annotations["why"] = "rotation"
				_, err = s.Kube.CoreV1().Secrets("default").Update(ctx, secret, metav1.UpdateOptions{})
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := s.NewCluster(t, name)
			token := string(robot(ctx, t, s).Data["token"])
			eventually(t, "the token is known", func() error {
				_, err := whoAmI(t, s, name, token)
				return err
			})
			if err := end(ctx); err != nil {
				t.Fatal(err)
			}
			if name != "token-replaced" {
				eventually(t, "the Secret goes", func() error {
					_, err := s.Kube.CoreV1().Secrets("default").Get(ctx, "robot-token", metav1.GetOptions{})
					if apierrors.IsNotFound(err) {
						return nil
					}
					return errors.Join(errors.New("it is there"), err)
				})
			}
			eventually(t, "the token ends", func() error {
				if _, err := whoAmI(t, s, name, token); !apierrors.IsUnauthorized(err) {
					return errors.Join(errors.New("it is still good"), err)
				}
				return nil
			})
		})
	}
}

func TestATokenSecretOfAnUnknownAccountIsRemoved(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "secret-unknown")
	tokenSecret(ctx, t, s, "of-nobody", "nobody")
	eventually(t, "the Secret goes", func() error {
		_, err := s.Kube.CoreV1().Secrets("default").Get(ctx, "of-nobody", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	if _, err := s.Kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Type: corev1.SecretTypeServiceAccountToken}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), corev1.ServiceAccountNameKey) {
		t.Errorf("one that names no account: %v, want Invalid", err)
	}
}
