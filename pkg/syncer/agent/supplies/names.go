package supplies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/names"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
)

// maxPortsTried bounds the search for a free port.
const maxPortsTried = 200

// unusedAge is how old a Service is at least that is removed: it is made before pods are.
const unusedAge = 10 * time.Minute

// nameservers are the Services by which logical clusters reach atoll-dns, as they were seen
// last. What is not in it is looked for on the physical cluster.
type nameservers struct {
	finding sync.Mutex // held by who lists and makes them

	mu        sync.Mutex
	namespace string // where they are
	known     map[logicalcluster.Name]nameserver
}

type nameserver struct {
	port    int
	address string
	server  names.Server
}

func (n *nameservers) get(namespace string, cluster logicalcluster.Name) (nameserver, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namespace != namespace {
		return nameserver{}, false
	}
	found, ok := n.known[cluster]
	return found, ok
}

func (n *nameservers) put(cluster logicalcluster.Name, s nameserver) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[cluster] = s
}

// Nameserver is who answers pods with names of a logical cluster, as far as that is known.
func (k *Keeper) Nameserver(cluster logicalcluster.Name) syncer.Nameserver {
	namespace := k.Names()
	found, _ := k.names.get(namespace, cluster)
	if found.address == "" {
		return syncer.Nameserver{Offered: namespace != ""}
	}
	return syncer.Nameserver{Offered: true, Address: found.address, Port: found.port, Namespace: namespace, Label: names.AppLabel, App: names.AppName}
}

// FindNames has it known who answers a logical cluster: the Service for it is found, or made
// if atoll-dns is ready.
func (k *Keeper) FindNames(ctx context.Context, cluster logicalcluster.Name) error {
	k.names.finding.Lock()
	defer k.names.finding.Unlock()
	namespace := k.Names()
	if _, ok := k.names.get(namespace, cluster); ok || namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	k.names.mu.Lock()
	listed := k.names.namespace == namespace
	k.names.mu.Unlock()
	if !listed {
		found, err := k.listNames(ctx, namespace)
		if err != nil {
			return err
		}
		k.names.mu.Lock()
		k.names.namespace, k.names.known = namespace, found
		k.names.mu.Unlock()
		if _, ok := found[cluster]; ok {
			return nil
		}
	}
	made, err := k.makeNames(ctx, namespace, cluster)
	if err != nil {
		return err
	}
	k.names.put(cluster, made)
	return nil
}

func (k *Keeper) tenant(cluster logicalcluster.Name) names.Tenant {
	return names.Tenant{ControlPlane: k.View.ControlPlane, Cluster: cluster.String()}
}

// namesServer is what kubernetes.default leads to now.
func (k *Keeper) namesServer() names.Server {
	server := k.Server()
	if !server.Reached() {
		return names.Server{}
	}
	parsed, _ := names.ParseServer(server.Host + " " + server.Port)
	return parsed
}

// listNames are the Services that there are, by logical cluster; the lowest port of one
// counts, so that all syncers say the same.
func (k *Keeper) listNames(ctx context.Context, namespace string) (map[logicalcluster.Name]nameserver, error) {
	services, err := k.servicesOfNames(ctx, namespace)
	if err != nil {
		return nil, err
	}
	found := map[logicalcluster.Name]nameserver{}
	for i := range services {
		port, tenant, server, err := names.PortOf(&services[i])
		cluster := logicalcluster.Name(tenant.Cluster)
		if before, ok := found[cluster]; err != nil || tenant.ControlPlane != k.View.ControlPlane || ok && before.port < port {
			continue
		}
		found[cluster] = nameserver{port: port, address: services[i].Spec.ClusterIP, server: server}
	}
	return found, nil
}

func (k *Keeper) servicesOfNames(ctx context.Context, namespace string) ([]corev1.Service, error) {
	list, err := k.Down.Kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{LabelSelector: names.Label + "=" + k.View.ControlPlane})
	if err != nil {
		return nil, fmt.Errorf("listing the ports of atoll-dns: %w", err)
	}
	return list.Items, nil
}

// makeNames takes the first free port of a logical cluster. The API server lets one Service
// of a name exist, and the port is the name.
func (k *Keeper) makeNames(ctx context.Context, namespace string, cluster logicalcluster.Name) (nameserver, error) {
	slices, err := k.Down.Kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + names.AppName})
	if err != nil {
		return nameserver{}, fmt.Errorf("looking whether atoll-dns is ready: %w", err)
	}
	if !names.Ready(slices.Items) {
		return nameserver{}, syncer.ErrNamesNotReady
	}
	tenant := k.tenant(cluster)
	for _, port := range tenant.Candidates(maxPortsTried) {
		made, err := k.takePort(ctx, namespace, port, cluster, "")
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		return made, err
	}
	return nameserver{}, syncer.ErrNoPort
}

// takePort makes the Service of a port, and before it the policy that keeps others from the
// port. The error is that it exists, if it is somebody else's.
func (k *Keeper) takePort(ctx context.Context, namespace string, port int, cluster logicalcluster.Name, address string) (nameserver, error) {
	tenant, server := k.tenant(cluster), k.namesServer()
	client := k.Down.Kube.CoreV1().Services(namespace)
	service := names.PortService(namespace, port, tenant, server)
	service.Spec.ClusterIP = address
	made, err := client.Create(ctx, service, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		present, getErr := client.Get(ctx, service.Name, metav1.GetOptions{})
		if getErr != nil {
			return nameserver{}, fmt.Errorf("reading the port %d of atoll-dns: %w", port, getErr)
		}
		if _, whose, _, parseErr := names.PortOf(present); parseErr != nil || whose != tenant {
			return nameserver{}, err
		}
		made, err = present, nil
	}
	if err != nil {
		return nameserver{}, fmt.Errorf("making the port %d of atoll-dns: %w", port, err)
	}
	if err := k.putPolicy(ctx, namespace, port, cluster); err != nil {
		return nameserver{}, err
	}
	return nameserver{port: port, address: made.Spec.ClusterIP, server: server}, nil
}

func (k *Keeper) putPolicy(ctx context.Context, namespace string, port int, cluster logicalcluster.Name) error {
	labels := map[string]string{boundary.TenantLabel: boundary.Tenant(k.View.ControlPlane, cluster.String())}
	policy := names.PortPolicy(namespace, port, k.tenant(cluster), labels)
	_, err := k.Down.Kube.NetworkingV1().NetworkPolicies(namespace).Create(ctx, policy, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the policy for the port %d of atoll-dns: %w", port, err)
	}
	return nil
}

// SweepNames compares what is known of the Services with what there is.
//
//	the Service             the logical cluster       then
//	is there                has namespaces below      that it says where the server is now
//	is there                has none, by a list now   removed by its UID, with its policy, if it is older than
//	                                                  ten minutes
//	is gone, but was known  has namespaces below      made again, with its port and its address; if
//	                                                  that is taken, with another: pods start anew
//	is gone, but was known  has none                  forgotten
func (k *Keeper) SweepNames(ctx context.Context, now time.Time) error {
	namespace := k.Names()
	k.names.finding.Lock()
	defer k.names.finding.Unlock()
	if namespace == "" { // what becomes of them meanwhile is not seen
		k.names.mu.Lock()
		k.names.namespace, k.names.known = "", nil
		k.names.mu.Unlock()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sweepInterval)
	defer cancel()
	services, err := k.servicesOfNames(ctx, namespace)
	if err != nil {
		return err
	}
	used, ok := k.View.ClustersBelow()
	if !ok {
		return nil
	}
	there := map[logicalcluster.Name]bool{}
	var errs []error
	for i := range services {
		port, tenant, server, err := names.PortOf(&services[i])
		if err != nil {
			continue
		}
		cluster := logicalcluster.Name(tenant.Cluster)
		there[cluster] = true
		if !used[cluster] {
			if now.Sub(services[i].CreationTimestamp.Time) > unusedAge {
				errs = append(errs, k.dropNames(ctx, &services[i]))
			}
			continue
		}
		errs = append(errs, k.putPolicy(ctx, namespace, port, cluster))
		if wanted := k.namesServer(); server != wanted {
			errs = append(errs, k.patchServer(ctx, &services[i], port, tenant, wanted))
		}
	}
	errs = append(errs, k.restoreNames(ctx, namespace, used, there))
	return errors.Join(errs...)
}

// patchServer writes where the control plane is into a Service, if that is the same still.
func (k *Keeper) patchServer(ctx context.Context, s *corev1.Service, port int, t names.Tenant, server names.Server) error {
	metadata := map[string]any{
		"uid": s.UID, "resourceVersion": s.ResourceVersion,
		"annotations": names.PortService(s.Namespace, port, t, server).Annotations,
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = k.Down.Kube.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: syncer.FieldManager})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the next sweep
	}
	return err
}

// restoreNames makes what somebody deleted.
func (k *Keeper) restoreNames(ctx context.Context, namespace string, used, there map[logicalcluster.Name]bool) error {
	k.names.mu.Lock()
	lost := map[logicalcluster.Name]nameserver{}
	for cluster, known := range k.names.known {
		if k.names.namespace == namespace && !there[cluster] {
			lost[cluster] = known
		}
	}
	k.names.mu.Unlock()
	for cluster, before := range lost {
		if used[cluster] {
			made, err := k.takePort(ctx, namespace, before.port, cluster, before.address)
			if err == nil && made.address == before.address {
				klog.FromContext(ctx).Info("A port of atoll-dns was deleted and is made again", "cluster", cluster.String(), "port", before.port)
				continue
			}
			if syncer.IsSilence(err) {
				return err
			}
			klog.FromContext(ctx).Info("A port of atoll-dns was deleted and its address is taken: pods get another one", "cluster", cluster.String(), "err", err)
		}
		k.names.mu.Lock()
		delete(k.names.known, cluster)
		k.names.mu.Unlock()
		if used[cluster] {
			k.NamesChanged()
		}
	}
	return nil
}

// dropNames removes a port of which nobody is left that could ask there.
func (k *Keeper) dropNames(ctx context.Context, s *corev1.Service) error {
	cluster := s.Annotations[placementv1alpha1.LogicalClusterAnnotation]
	// A watch that lacks something is no reason to remove.
	left, err := k.Down.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
		LabelSelector: boundary.TenantLabel + "=" + boundary.Tenant(k.View.ControlPlane, cluster), Limit: 1,
	})
	if err != nil || len(left.Items) > 0 {
		return err
	}
	err = k.Down.Kube.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))})
	if apierrors.IsConflict(err) {
		return nil // it is another one by now
	}
	if err == nil || apierrors.IsNotFound(err) {
		k.names.mu.Lock()
		delete(k.names.known, logicalcluster.Name(cluster))
		k.names.mu.Unlock()
		err = k.Down.Kube.NetworkingV1().NetworkPolicies(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
