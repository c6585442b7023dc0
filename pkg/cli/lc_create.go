package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func newLogicalClusterCreateCommand(o *options) *cobra.Command {
	var owners []string
	var labels map[string]string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a logical cluster",
		Example: templates.Examples(`
			# One that only admins may use
			kubectl atoll lc create shop

			# One with an owner, who is cluster-admin in it
			kubectl atoll lc create shop --owner User:alice --owner Group:shop-admins`),
		Args: cobra.ExactArgs(1),
	}
	change := newChangeFlags(cmd)
	cmd.Flags().StringSliceVar(&owners, "owner", nil, "Who is cluster-admin in it: User:NAME, Group:NAME, or ServiceAccount:NAMESPACE/NAME of the logical cluster; may be repeated.")
	cmd.Flags().StringToStringVarP(&labels, "labels", "l", nil, "Labels, by which policies select logical clusters: key=value,...")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := change.complete(cmd); err != nil {
			return err
		}
		lc := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: args[0], Labels: labels}}
		if problem := scope.ValidateName(lc.Name); problem != "" {
			return fmt.Errorf("name %q: %s", lc.Name, problem)
		}
		for _, owner := range owners {
			subject, err := parseOwner(owner)
			if err != nil {
				return err
			}
			lc.Spec.Owners = append(lc.Spec.Owners, subject)
		}
		ctx, c, err := o.inRoot(cmd)
		if err != nil {
			return err
		}
		if change.dryRun != cmdutil.DryRunClient {
			lc, err = c.atoll.TenancyV1alpha1().LogicalClusters().Create(ctx, lc, metav1.CreateOptions{FieldManager: fieldManager, DryRun: change.serverDryRun()})
			if err != nil {
				return err
			}
		}
		if err := change.done(o, lc, "created"); err != nil {
			return err
		}
		if *change.OutputFormat == "" && change.dryRun == cmdutil.DryRunNone {
			fmt.Fprintf(o.Out, "Use it with: kubectl atoll lc use %s\n", lc.Name)
		}
		return nil
	}
	return cmd
}

// parseOwner reads KIND:NAME, with NAMESPACE/NAME for a ServiceAccount.
func parseOwner(text string) (rbacv1.Subject, error) {
	kind, name, _ := strings.Cut(text, ":")
	s := rbacv1.Subject{Kind: kind, Name: name}
	switch kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
		s.APIGroup = rbacv1.GroupName
	case rbacv1.ServiceAccountKind:
		s.Namespace, s.Name, _ = strings.Cut(name, "/")
	default:
		s.Name = ""
	}
	if s.Name == "" {
		return s, fmt.Errorf("--owner %q: it is User:NAME, Group:NAME or ServiceAccount:NAMESPACE/NAME", text)
	}
	return s, nil
}
