package cluster

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"
	kwokversioned "sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	kwokclient "sigs.k8s.io/kwok/pkg/utils/client"
)

// nodeResources is what each simulated node declares: of everything enough.
var nodeResources = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("32"),
	corev1.ResourceMemory:           resource.MustParse("256Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	corev1.ResourcePods:             resource.MustParse("110"),
}

// startNodes makes the nodes and runs the simulation of nodes and pods.
func (c *Cluster) startNodes(ctx context.Context, client kubernetes.Interface, o Options) error {
	if o.Nodes < 0 || o.Nodes == 0 && o.RealNode == "" {
		return fmt.Errorf("--nodes %d: a cluster needs at least one node, simulated or real (--real-node)", o.Nodes)
	}
	if o.Nodes == 0 {
		return nil
	}
	pods, err := podsOf(o)
	if err != nil {
		return err
	}
	simulation, err := newSimulation(c.Kubeconfig, o.Name, pods)
	if err != nil {
		return fmt.Errorf("preparing the simulation of nodes: %w", err)
	}
	c.add("simulation of nodes", func(ctx context.Context) error {
		if err := simulation.Start(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	for i := range o.Nodes {
		name := fmt.Sprintf("%s-node-%d", o.Name, i+1)
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Labels:      map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
			},
			Spec: corev1.NodeSpec{PodCIDR: podCIDR(pods, i), PodCIDRs: []string{podCIDR(pods, i)}},
			Status: corev1.NodeStatus{
				Capacity:    nodeResources,
				Allocatable: nodeResources,
				NodeInfo:    corev1.NodeSystemInfo{KubeletVersion: version.Get().GitVersion},
			},
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making the node %s: %w", name, err)
		}
	}
	return nil
}

// DefaultPods are the addresses of pods if nobody says others.
const DefaultPods = "10.244.0.0/16"

// podsOf are the addresses of all pods. More than 256 nodes go on behind them.
func podsOf(o Options) (netip.Prefix, error) {
	r, err := netip.ParsePrefix(cmp.Or(o.Pods, DefaultPods))
	if err != nil || r.Bits() > bitsOfNode(r) {
		return r, fmt.Errorf("--pods %s: nodes need a range of addresses, at least a /24, such as %s, or a /64 of IPv6", o.Pods, DefaultPods)
	}
	return r.Masked(), nil
}

// bitsOfNode is how long the prefix of the pods of a node is.
func bitsOfNode(pods netip.Prefix) int {
	if pods.Addr().Is4() {
		return 24
	}
	return 64
}

// loopbackOf is the loopback address of the family of some addresses.
func loopbackOf(of netip.Prefix) string {
	if of.Addr().Is4() {
		return loopback
	}
	return netip.IPv6Loopback().String()
}

// podCIDR is the range of the pods of a node.
func podCIDR(pods netip.Prefix, node int) string {
	first := pods.Addr().AsSlice()
	if pods.Addr().Is4() {
		binary.BigEndian.PutUint32(first, binary.BigEndian.Uint32(first)+uint32(node)<<8)
	} else {
		binary.BigEndian.PutUint64(first, binary.BigEndian.Uint64(first)+uint64(node))
	}
	addr, _ := netip.AddrFromSlice(first)
	return netip.PrefixFrom(addr, bitsOfNode(pods)).String()
}

// usable says what keeps pods from being scheduled.
func usable(ctx context.Context, client kubernetes.Interface, nodes int) error {
	if _, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{}); err != nil {
		return err
	}
	if nodes == 0 { // the real one comes later
		return nil
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) < nodes {
		return errors.New("nodes are missing")
	}
	for _, node := range list.Items {
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s is tainted %s", node.Name, node.Spec.Taints[0].Key)
		}
	}
	return nil
}

// newSimulation acts as the holder of the nodes' Leases that is called name: always
// the same, so that after a kill it need not wait for the Leases of the one before.
func newSimulation(kubeconfig, name string, pods netip.Prefix) (*controllers.Controller, error) {
	stages, err := loadStages()
	if err != nil {
		return nil, err
	}
	clients, err := kwokclient.NewClientset("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clients.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	mapper, err := clients.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	dynamicClient, err := clients.ToDynamicClient()
	if err != nil {
		return nil, err
	}
	restClient, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	typedKwok, err := kwokversioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return controllers.NewController(controllers.Config{
		Clock:                      clock.RealClock{},
		ID:                         "localcluster-" + name,
		RESTClient:                 restClient,
		RESTMapper:                 mapper,
		DynamicClient:              dynamicClient,
		ImpersonatingDynamicClient: clients.ToImpersonatingDynamicClient(),
		TypedClient:                typed,
		ImpersonatingTypedClient:   clients.ToImpersonatingTypedClient(),
		TypedKwokClient:            typedKwok,
		ManageAllNodes:             true,
		LocalStages:                stages,
		CIDR:                       pods.String(),
		NodeIP:                     loopbackOf(pods),
		NodeLeaseDurationSeconds:   40,
		NodeLeaseParallelism:       4,
		NodePlayStageParallelism:   4,
		PodPlayStageParallelism:    4,
		PodsOnNodeSyncParallelism:  4,
	})
}
