package join

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// SecretName is the Secret in the namespace fleetv1alpha1.LeaseNamespace of the physical cluster
// that keeps the identity of its syncer.
const SecretName = "atoll-syncer-identity"

// forKey says of which control plane and physical cluster the identity is: of another one it
// is not used.
const forKey = "for"

// kept is what the Secret has; there is no certificate yet if that is nil.
type kept struct {
	key, certificate []byte
	// secret is the UID of the Secret.
	secret types.UID
}

// of is the control plane, by its authority, and the name there.
func (j *Joiner) of() []byte {
	sum := sha256.Sum256(j.Server.CAData)
	return []byte(j.PhysicalCluster + " " + hex.EncodeToString(sum[:]))
}

// read reads the Secret, and makes it with a new key if there is none. Of several syncers that
// start at a time one makes it.
func (j *Joiner) read(ctx context.Context) (kept, error) {
	secrets := j.Physical.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace)
	for {
		secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
		if err == nil && string(secret.Data[forKey]) == string(j.of()) && len(secret.Data[corev1.TLSPrivateKeyKey]) > 0 {
			found := kept{key: secret.Data[corev1.TLSPrivateKeyKey], secret: secret.UID}
			if certificate := secret.Data[corev1.TLSCertKey]; len(certificate) > 0 {
				found.certificate = certificate
			}
			return found, nil
		}
		switch {
		case err == nil: // that of another control plane, or of another name
			err = secrets.Delete(ctx, SecretName, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(secret.UID))})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				err = nil
			}
		case apierrors.IsNotFound(err):
			if err = j.make(ctx); apierrors.IsAlreadyExists(err) {
				err = nil
			}
		}
		if err != nil {
			return kept{}, fmt.Errorf("keeping the key of the syncer in the Secret %s/%s of the physical cluster: %w", fleetv1alpha1.LeaseNamespace, SecretName, err)
		}
		if ctx.Err() != nil {
			return kept{}, ctx.Err()
		}
	}
}

// make makes the Secret with a new key.
func (j *Joiner) make(ctx context.Context) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	_, err = j.Physical.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{forKey: j.of(), corev1.TLSPrivateKeyKey: key}}, metav1.CreateOptions{})
	return err
}

// replace makes the Secret anew, with another key.
func (j *Joiner) replace(ctx context.Context, old kept) (kept, error) {
	err := j.Physical.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).Delete(ctx, SecretName, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(old.secret))})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return kept{}, fmt.Errorf("replacing the key of the syncer in the Secret %s/%s of the physical cluster: %w", fleetv1alpha1.LeaseNamespace, SecretName, err)
	}
	return j.read(ctx)
}

// keep writes a key with its certificate.
func (j *Joiner) keep(ctx context.Context, key, certificate []byte) error {
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{forKey: j.of(), corev1.TLSPrivateKeyKey: key, corev1.TLSCertKey: certificate}})
	if err != nil {
		return err
	}
	if _, err := j.Physical.CoreV1().Secrets(fleetv1alpha1.LeaseNamespace).Patch(ctx, SecretName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("keeping the certificate of the syncer in the Secret %s/%s of the physical cluster: %w", fleetv1alpha1.LeaseNamespace, SecretName, err)
	}
	return nil
}
