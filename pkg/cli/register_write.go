package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// writeSecret makes or renews the Secret with the kubeconfig.
func (r *register) writeSecret(ctx context.Context, c *connection, ref *fleetv1alpha1.SecretReference, kubeconfig []byte) error {
	client := c.kube.CoreV1().Secrets(ref.Namespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{fleetv1alpha1.KubeconfigKey: kubeconfig},
	}
	word := "created"
	_, err := client.Create(ctx, secret, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		word = "configured"
		patch, marshalErr := json.Marshal(map[string]any{"data": secret.Data})
		if marshalErr != nil {
			return marshalErr
		}
		_, err = client.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("keeping the kubeconfig in the Secret %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	fmt.Fprintf(r.Out, "secret/%s %s in namespace %s\n", ref.Name, word, ref.Namespace)
	return nil
}

// write makes the PhysicalCluster, or gives one that is there what the flags say; what
// they do not say stays.
func (r *register) write(ctx context.Context, c *connection, pc *fleetv1alpha1.PhysicalCluster) (*fleetv1alpha1.PhysicalCluster, error) {
	client := c.atoll.FleetV1alpha1().PhysicalClusters()
	created, err := client.Create(ctx, pc, metav1.CreateOptions{FieldManager: fieldManager})
	if err == nil {
		fmt.Fprintf(r.Out, "physicalcluster.fleet.atoll.dev/%s created\n", pc.Name)
		return created, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	old, err := client.Get(ctx, pc.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	changed := old.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	maps.Copy(changed.Labels, pc.Labels)
	changed.Spec.Connection = pc.Spec.Connection
	if len(pc.Spec.Taints) > 0 {
		changed.Spec.Taints = pc.Spec.Taints
	}
	if r.trusted {
		changed.Spec.Tenancy = pc.Spec.Tenancy
	}
	if changed, err = client.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return nil, err
	}
	fmt.Fprintf(r.Out, "physicalcluster.fleet.atoll.dev/%s configured\n", pc.Name)
	return changed, nil
}

// runPull makes the PhysicalCluster and says how its agent is started.
func (r *register) runPull(ctx context.Context, c *connection, pc *fleetv1alpha1.PhysicalCluster) error {
	pc, err := r.write(ctx, c, pc)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, `
It becomes Ready when its agent runs. Where the server's data directory is, make the agent's credentials:

  atoll kubeconfig --syncer %[1]s --data-dir DIR > %[1]s-syncer.kubeconfig

Beside the physical cluster, start the agent with them (in a pod, without --physical-kubeconfig, it is the pod's service account):

  atoll-syncer --physical-cluster %[1]s --kubeconfig %[1]s-syncer.kubeconfig --physical-kubeconfig FILE

Then wait for it:

  kubectl wait --for=condition=Ready physicalcluster/%[1]s
`, pc.Name)
	return nil
}
