package tokens

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// accountOf is the name of the account that a Secret is for.
func accountOf(secret *corev1.Secret) string {
	return secret.Annotations[corev1.ServiceAccountNameKey]
}

// isFor says whether a Secret is for this account, and not for one of the same
// name that was here before.
func isFor(secret *corev1.Secret, account metav1.Object) bool {
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	return accountOf(secret) == account.GetName() && (uid == "" || uid == string(account.GetUID()))
}

// complete says that nothing is missing.
func complete(secret *corev1.Secret, rootCA []byte) bool {
	return len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 && len(secret.Data[corev1.ServiceAccountNamespaceKey]) > 0 &&
		bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], rootCA)
}

// fill returns a Secret with what is missing; token is used if it has none.
func fill(secret *corev1.Secret, account metav1.Object, rootCA []byte, token func() (string, error)) (*corev1.Secret, error) {
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.ServiceAccountRootCAKey] = rootCA
	if len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 {
		signed, err := token()
		if err != nil {
			return nil, err
		}
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(signed)
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountNameKey, account.GetName())
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.GetUID()))
	return secret, nil
}
