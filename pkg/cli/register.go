package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"
	"sigs.k8s.io/yaml"

	"github.com/atoll-dev/atoll/config/samples"
	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/edit"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// requestTimeout bounds a request to a physical cluster.
const requestTimeout = 20 * time.Second

// register is the command that registers a physical cluster.
type register struct {
	*options
	kubeconfig, context string
	makeCredentials     bool
	pull, trusted       bool
	agent               bool
	image, agentServer  string
	tokenTTL            time.Duration
	labels              map[string]string
	taints              []string
	timeout             time.Duration
}

func newRegisterCommand(o *options) *cobra.Command {
	r := &register{options: o}
	cmd := &cobra.Command{
		Use:   "register NAME --physical-kubeconfig FILE | NAME --pull",
		Short: "Register a physical cluster",
		Long: templates.LongDesc(`Register a physical cluster.

			With --physical-kubeconfig the server reaches it (push): the kubeconfig is checked from here (who the cluster is, and
			what its credentials permit), kept in a Secret of root, and the command waits until the physical cluster is Ready, or
			says what is wrong. For one that is registered already the kubeconfig is renewed.

			With --agent an agent on the physical cluster connects to the server: the command prints a manifest that runs it, with a token that
			may ask for a certificate and nothing else, and kubectl atoll approve NAME approves it. With --pull the agent is started by hand: the command
			says how.`),
		Example: templates.Examples(`
			# The server reaches it
			kubectl atoll register east --physical-kubeconfig east.kubeconfig --labels topology.kubernetes.io/region=eu

			# With a ServiceAccount that is made for it, where the kubeconfig logs in with a program or may do too much
			kubectl atoll register west --physical-kubeconfig west.kubeconfig --make-credentials

			# It is for one tenant, or for tenants that trust each other
			kubectl atoll register lab --physical-kubeconfig lab.kubeconfig --trusted

			# An agent on it reaches the server
			kubectl atoll register edge --agent --image registry.example.com/atoll-syncer:v0.1.0 > edge.yaml

			# An agent beside it, with credentials that the server's host makes
			kubectl atoll register edge --pull`),
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&r.kubeconfig, "physical-kubeconfig", "", "The kubeconfig of the physical cluster (--kubeconfig is that of the Atoll server).")
	f.StringVar(&r.context, "physical-context", "", "The context of --physical-kubeconfig; its current one by default.")
	f.BoolVar(&r.makeCredentials, "make-credentials", false, "Make a ServiceAccount on the physical cluster that may do what a syncer does, and register with its token.")
	f.BoolVar(&r.pull, "pull", false, "An agent beside the physical cluster, atoll-syncer, connects to the server.")
	f.BoolVar(&r.agent, "agent", false, "An agent on the physical cluster connects to the server: print a manifest that runs it.")
	f.StringVar(&r.image, "image", "", "With --agent: an image with atoll-syncer.")
	f.StringVar(&r.agentServer, "agent-server", "", "With --agent: the URL by which the physical cluster reaches the Atoll server, https://HOST[:PORT]; that of the kubeconfig by default.")
	f.DurationVar(&r.tokenTTL, "token-ttl", time.Hour, "With --agent: how long the token in the manifest is good for a request; 10m to 24h.")
	f.BoolVar(&r.trusted, "trusted", false, "Let logical clusters do there what its own users may: for one tenant, or tenants that trust each other.")
	f.StringToStringVarP(&r.labels, "labels", "l", nil, "Labels, by which policies select physical clusters: key=value,...")
	f.StringSliceVar(&r.taints, "taints", nil, "Taints: key=value:Effect,...")
	f.DurationVar(&r.timeout, "timeout", time.Minute, "How long to wait until it is Ready.")
	cmdutil.CheckErr(cmd.MarkFlagFilename("physical-kubeconfig"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) }
	return cmd
}

func (r *register) run(cmd *cobra.Command, name string) error {
	ways := 0
	for _, way := range []bool{r.pull, r.agent, r.kubeconfig != ""} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return errors.New("say how it is reached: --physical-kubeconfig FILE (the server connects to it), --agent (an agent on it connects to the server) or --pull (an agent beside it)")
	}
	if r.agent && (r.tokenTTL < 10*time.Minute || r.tokenTTL > 24*time.Hour) {
		return fmt.Errorf("--token-ttl %s: give 10m to 24h", r.tokenTTL)
	}
	pc, err := r.wanted(name)
	if err != nil {
		return err
	}
	ctx, c, err := r.inRoot(cmd)
	if err != nil {
		return err
	}
	if err := c.allowed(ctx, edit.Question("create", fleetv1alpha1.GroupName, "physicalclusters"), edit.Question("create", "", "secrets")); err != nil {
		return err
	}
	switch {
	case r.pull:
		return r.runPull(ctx, c, pc)
	case r.agent:
		return r.runAgent(ctx, c, pc)
	}
	p, err := r.reach(ctx, c, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "%s answers (cluster %s), and the credentials permit what a syncer does\n", p.server, p.uid)
	if err := r.writeSecret(ctx, c, pc.Spec.Connection.KubeconfigSecretRef, p.kubeconfig); err != nil {
		return err
	}
	if pc, err = r.write(ctx, c, pc); err != nil {
		return err
	}
	return r.awaitReady(ctx, c, pc)
}

// reach checks the way to the physical cluster that the server will take.
func (r *register) reach(ctx context.Context, c *connection, name string) (*physical, error) {
	p, err := loadPhysical(r.kubeconfig, r.context)
	if err != nil {
		return nil, err
	}
	if !r.makeCredentials {
		if err := p.portable(); err != nil {
			return nil, err
		}
	}
	if err := p.identify(ctx); err != nil {
		return nil, err
	}
	if err := c.unknownUID(ctx, name, p); err != nil {
		return nil, err
	}
	if r.makeCredentials {
		if p, err = p.makeCredentials(ctx, r.kinds); err != nil {
			return nil, err
		}
		fmt.Fprintf(r.Out, "serviceaccount/%s, with a role and a token, made in namespace %s of the physical cluster\n", syncerAccount, fleetv1alpha1.LeaseNamespace)
		return p, p.awaitPermits(ctx, r.kinds)
	}
	return p, p.permits(ctx, r.kinds)
}

// wanted is the PhysicalCluster that the flags describe.
func (r *register) wanted(name string) (*fleetv1alpha1.PhysicalCluster, error) {
	if problem := scope.ValidateName(name); problem != "" {
		return nil, fmt.Errorf("name %q: %s", name, problem)
	}
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: r.labels}}
	pc.Spec.Connection.Type = fleetv1alpha1.ConnectionPull
	if r.kubeconfig != "" {
		pc.Spec.Connection = fleetv1alpha1.Connection{
			Type:                fleetv1alpha1.ConnectionPush,
			KubeconfigSecretRef: &fleetv1alpha1.SecretReference{Namespace: fleetv1alpha1.LeaseNamespace, Name: name + "-kubeconfig"},
		}
	}
	taints, err := edit.ParseTaints(r.taints)
	if err == nil && len(taints.Remove) > 0 {
		err = fmt.Errorf("--taints: %s- takes a taint off; use kubectl atoll taint", taints.Remove[0].ToString())
	}
	if err != nil {
		return nil, err
	}
	pc.Spec.Taints = taints.Add
	if r.trusted {
		var patch struct {
			Spec fleetv1alpha1.PhysicalClusterSpec
		}
		if err := yaml.Unmarshal(samples.TenancyTrusted, &patch); err != nil {
			return nil, fmt.Errorf("reading what --trusted permits: %w", err)
		}
		pc.Spec.Tenancy = patch.Spec.Tenancy
	}
	return pc, nil
}

// unknownUID refuses a cluster that is registered under another name, and another cluster
// under this name: the server would not use it.
func (c *connection) unknownUID(ctx context.Context, name string, p *physical) error {
	all, err := c.atoll.FleetV1alpha1().PhysicalClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		other := &all.Items[i]
		uid := other.Status.Identity.UID
		switch {
		case other.Name != name && uid == p.uid && other.Status.Identity.SameAs == "":
			return fmt.Errorf("the cluster at %s is registered already, as %s; to give it another name, first: kubectl atoll unregister %s", p.server, other.Name, other.Name)
		case other.Name == name && uid != "" && uid != p.uid && other.Spec.Identity != p.uid:
			return fmt.Errorf("%s is registered as the cluster %s, and %s is the cluster %s; register it under another name, or, if it has taken the place of the first, "+
				"confirm that in spec.identity of the PhysicalCluster %s", name, uid, p.server, p.uid, name)
		case other.Name == name && other.DeletionTimestamp != nil:
			return fmt.Errorf("%s is being unregistered; wait for that: kubectl wait --for=delete physicalcluster/%s", name, name)
		}
	}
	return nil
}

// awaitReady waits until the physical cluster is Ready, or says why it is not.
func (r *register) awaitReady(ctx context.Context, c *connection, pc *fleetv1alpha1.PhysicalCluster) error {
	fmt.Fprintf(r.Out, "waiting until %s is Ready ...\n", pc.Name)
	last := pc
	err := until(ctx, r.timeout, func(ctx context.Context) (bool, error) {
		found, err := c.atoll.FleetV1alpha1().PhysicalClusters().Get(ctx, pc.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = found
		ready := apimeta.FindStatusCondition(found.Status.Conditions, fleetv1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue {
			return false, nil
		}
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s was unregistered meanwhile", pc.Name)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s is registered, and not Ready after %s: %s\n%s", pc.Name, r.timeout,
			conditionText(last.Status.Conditions, fleetv1alpha1.ConditionReady), wayOut(last))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "%s is Ready\n", last.Name)
	if pc.Status.Identity.UID != "" {
		fmt.Fprintln(r.Out, "That may still be from before the change: if the server cannot use what is new, it is NotReady within a minute.")
	}
	return nil
}

// wayOut says what to do about a physical cluster that is not Ready.
func wayOut(pc *fleetv1alpha1.PhysicalCluster) string {
	again := "and register it again: kubectl atoll register " + pc.Name + " --physical-kubeconfig FILE"
	reason := ""
	if ready := apimeta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady); ready != nil {
		reason = ready.Reason
	}
	switch reason {
	case fleetv1alpha1.ReasonInvalidKubeconfig:
		return "Correct the kubeconfig, " + again
	case fleetv1alpha1.ReasonUnreachable:
		return "It answers here, and not where the server runs: see to it that the server reaches the address in the kubeconfig, or use --pull"
	case fleetv1alpha1.ReasonForbidden:
		return "Use credentials that permit it, " + again
	case fleetv1alpha1.ReasonSameCluster:
		return "It is another PhysicalCluster already: kubectl atoll unregister " + pc.Name
	case fleetv1alpha1.ReasonOtherCluster, fleetv1alpha1.ReasonEmptied:
		return "The message names the field of the PhysicalCluster that confirms it"
	case fleetv1alpha1.ReasonIncompatibleSyncer:
		return "The message says which of the two is to be upgraded: servers come first, then syncers"
	}
	return "Look at it with: kubectl atoll clusters " + pc.Name + " -o wide"
}
