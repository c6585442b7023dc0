package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/atoll-dev/atoll/pkg/registration"
)

// approve is the command that approves the agent of a physical cluster.
type approve struct {
	*options
	fingerprint string
}

func newApproveCommand(o *options) *cobra.Command {
	a := &approve{options: o}
	cmd := &cobra.Command{
		Use:   "approve NAME",
		Short: "Approve the agent of a physical cluster",
		Long: templates.LongDesc(`Approve the agent of a physical cluster.

			The agent that kubectl atoll register NAME --agent prints asks for a certificate. This approves it: from then on it syncs, and
			renews the certificate by itself. It logs the fingerprint of its key: with --fingerprint nothing else is approved.`),
		Example: templates.Examples(`
			# Approve what asks
			kubectl atoll approve edge

			# Approve the agent with this key alone
			kubectl atoll approve edge --fingerprint SHA256:oM0...`),
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&a.fingerprint, "fingerprint", "", "The fingerprint of the key that the agent logs; nothing else is approved.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := a.inRoot(cmd)
		if err != nil {
			return err
		}
		return a.run(ctx, c, args[0])
	}
	return cmd
}

func (a *approve) run(ctx context.Context, c *connection, name string) error {
	requests := c.kube.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Get(ctx, registration.Name(name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("nobody asks for %s: make its agent with kubectl atoll register %s --agent, and look at the agent's log", name, name)
	}
	if err != nil {
		return err
	}
	_, _, request, err := registration.Check(csr)
	if err != nil {
		return fmt.Errorf("the request %s is never signed: %w", csr.Name, err)
	}
	fingerprint, err := registration.Fingerprint(request.PublicKey)
	if err != nil {
		return err
	}
	if a.fingerprint != "" && a.fingerprint != fingerprint {
		return fmt.Errorf("the key of the request %s is %s, not %s: if nobody knows whose that is, kubectl certificate deny %s and register again", csr.Name, fingerprint, a.fingerprint, csr.Name)
	}
	for _, condition := range csr.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved:
			fmt.Fprintf(a.Out, "%s is approved already, with the key %s\n", name, fingerprint)
			return nil
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return fmt.Errorf("the request %s is %s: %s; register it again: kubectl atoll register %s --agent", csr.Name, condition.Type, condition.Message, name)
		}
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Registered", Message: "approved with kubectl atoll approve",
	})
	if _, err := requests.UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s approved, with the key %s\n", name, fingerprint)
	return nil
}
