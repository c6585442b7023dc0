package cluster

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/util/compatibility"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// The components are configured by their flags, like everywhere, but not run by
// their commands: those install signal handlers, of which a process has one.

func (c *Cluster) startAPIServer(ctx context.Context, keys pki, listener net.Listener, etcdURL string, options Options) error {
	o := apiserveroptions.NewServerRunOptions()
	o.SecureServing.Listener = listener
	if err := parse(o.Flags(), append(append(realNodeFlags(keys, options), frontProxyFlags(keys)...),
		"--etcd-servers="+etcdURL,
		"--bind-address="+options.Bind,
		"--tls-cert-file="+keys.path("apiserver.crt"),
		"--tls-private-key-file="+keys.path("apiserver.key"),
		"--client-ca-file="+keys.path("ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keys.path("sa.key"),
		"--service-account-signing-key-file="+keys.path("sa.key"),
		"--service-cluster-ip-range="+options.Services,
		"--allow-privileged=true",
		"--shutdown-watch-termination-grace-period=2s", // else the watches of others hold up the stop
		"--profiling=false",
	)...); err != nil {
		return fmt.Errorf("configuring kube-apiserver: %w", err)
	}
	if err := compatibility.DefaultComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting feature gates: %w", err)
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return fmt.Errorf("configuring kube-apiserver: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("configuring kube-apiserver: %w", utilerrors.NewAggregate(errs))
	}
	c.add("kube-apiserver", func(ctx context.Context) error { return apiserver.Run(ctx, completed) })
	return nil
}

func (c *Cluster) startControllerManager(ctx context.Context, keys pki) error {
	o, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("configuring kube-controller-manager: %w", err)
	}
	known, disabled, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(), controllermanager.ControllerAliases()
	if err := parse(o.Flags(known, disabled, aliases),
		"--kubeconfig="+keys.path("controller-manager.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--root-ca-file="+keys.path("ca.crt"),
		"--service-account-private-key-file="+keys.path("sa.key"),
		"--cluster-signing-cert-file="+keys.path("ca.crt"),
		"--cluster-signing-key-file="+keys.path("ca.key"),
		"--use-service-account-credentials=true",
		"--kube-api-qps=500", // the default of 20 delays the start by 5 s
		"--kube-api-burst=1000",
	); err != nil {
		return fmt.Errorf("configuring kube-controller-manager: %w", err)
	}
	config, err := o.Config(ctx, known, disabled, aliases)
	if err != nil {
		return fmt.Errorf("configuring kube-controller-manager: %w", err)
	}
	c.add("kube-controller-manager", func(ctx context.Context) error { return controllermanager.Run(ctx, config.Complete()) })
	return nil
}

func (c *Cluster) startScheduler(keys pki) error {
	o := scheduleroptions.NewOptions()
	if err := parse(*o.Flags,
		"--kubeconfig="+keys.path("scheduler.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
	); err != nil {
		return fmt.Errorf("configuring kube-scheduler: %w", err)
	}
	c.add("kube-scheduler", func(ctx context.Context) error {
		config, sched, err := scheduler.Setup(ctx, o)
		if err != nil {
			return err
		}
		return scheduler.Run(ctx, config, sched)
	})
	return nil
}

func parse(flags cliflag.NamedFlagSets, args ...string) error {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, fs := range flags.FlagSets {
		all.AddFlagSet(fs)
	}
	return all.Parse(args)
}
