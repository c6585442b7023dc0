package sharedkeys

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// Name of the ConfigMap, in atoll-system of root.
const Name = "control-plane-keys"

// Config is what Ensure needs.
type Config struct {
	Kube kubernetes.Interface
	// Directory is where the keys of this server are: for people.
	Directory string
	// Digests are those of its keys, by the name of the file.
	Digests map[string]string
	// Replace says that the keys of this server are those of the control plane from now on.
	Replace bool
}

// Ensure records the digests of this server's keys, or compares them with what another
// server has recorded. The error says which files differ, and what to do. The namespace
// must exist.
func Ensure(ctx context.Context, c Config) error {
	configs := c.Kube.CoreV1().ConfigMaps(fleetv1alpha1.LeaseNamespace)
	ctx = scope.With(ctx, scope.Scope{Cluster: scope.Root})
	recorded, err := configs.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Name}, Data: c.Digests}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return wrap(err, "recording the keys")
		}
		recorded, err = configs.Get(ctx, Name, metav1.GetOptions{})
	}
	if err != nil {
		return wrap(err, "reading which keys the control plane has")
	}
	data, differ := compare(recorded.Data, c.Digests)
	if len(differ) > 0 && !c.Replace {
		return c.refusal(differ)
	}
	if maps.Equal(data, recorded.Data) {
		return nil
	}
	recorded = recorded.DeepCopy()
	recorded.Data = data
	_, err = configs.Update(ctx, recorded, metav1.UpdateOptions{}) // a conflict: another server did, and this one has to look again
	return wrap(err, "recording the keys")
}

func wrap(err error, what string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
