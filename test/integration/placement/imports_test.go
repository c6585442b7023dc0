package placement

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// importsSay waits for what an import says: its importers, and its endpoints.
func importsSay(t *testing.T, ctx context.Context, service, want string) {
	t.Helper()
	server.Eventually(t, waitTimeout, "the import of "+service+" says "+want, func() error {
		i, err := shared.Atoll.PlacementV1alpha1().ServiceImports("shop").Get(ctx, service, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && want == "nothing" {
			return nil
		}
		if err != nil {
			return err
		}
		var parts []string
		for _, importer := range i.Spec.Importers {
			parts = append(parts, fmt.Sprintf("%s %v %v", importer.PhysicalCluster, importer.Beside, importer.Own))
		}
		for _, g := range i.Spec.Endpoints {
			for _, e := range g.Endpoints {
				parts = append(parts, g.PhysicalCluster+" "+e.Address)
			}
		}
		for _, g := range i.Spec.Written {
			for _, e := range g.Endpoints {
				parts = append(parts, strings.TrimSpace("written "+g.PhysicalCluster)+" "+e.Address)
			}
		}
		if i.Spec.ExternalName != "" {
			parts = append(parts, i.Spec.ExternalName)
		}
		return expect("the import", want, strings.Join(parts, ", "))
	})
}

// podsSay waits for what the PodImport of a namespace says: its importers, and its pods.
func podsSay(t *testing.T, ctx context.Context, namespace, want string) {
	t.Helper()
	server.Eventually(t, waitTimeout, "the pods of "+namespace+" are "+want, func() error {
		i, err := shared.Atoll.PlacementV1alpha1().PodImports(namespace).Get(ctx, placementv1alpha1.PodImportName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && want == "nothing" {
			return nil
		}
		if err != nil {
			return err
		}
		parts := []string{i.Spec.NamespaceLabels["team"]}
		for _, importer := range i.Spec.Importers {
			parts = append(parts, importer.PhysicalCluster)
		}
		for _, p := range i.Spec.Pods {
			parts = append(parts, fmt.Sprint(p.PhysicalCluster, " ", p.Network, " ", p.Labels, " ", p.Addresses))
		}
		return expect("the import", want, strings.Join(parts, ", "))
	})
}

// knowsOfOthers waits for what a physical cluster knows of the pods of others of its network.
func knowsOfOthers(t *testing.T, name, want string) {
	t.Helper()
	server.Eventually(t, waitTimeout, name+" knows "+want, func() error {
		pc, err := shared.Atoll.FleetV1alpha1().PhysicalClusters().Get(root(t), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := "nothing"
		if n := pc.Status.Network; n != nil {
			got = fmt.Sprint(n.PodCIDRs, " without ", n.Unknown)
		}
		return expect("what "+name+" knows", want, got)
	})
}

// A Service is imported where its logical cluster is in the network. It leads to what syncers
// run in their ranges; what tenants or other syncers write does not count.
func testImports(t *testing.T) {
	ctx := newCluster(t, "imports")
	network := func(name, network string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"spec":{"pods":{"network":%q}}}`, network)
		if _, err := shared.Atoll.FleetV1alpha1().PhysicalClusters().Patch(root(t), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for namespace, on := range map[string]string{"shop": "east", "consumer": "west"} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Annotations: map[string]string{placementv1alpha1.PhysicalClusterAnnotation: on}}}
		if _, err := shared.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		create(t, ctx, namespace, deployment("web"))
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := shared.Kube.CoreV1().Services("shop").Create(ctx, s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	selectsNothing(t, ctx)
	importsSay(t, ctx, "web", "nothing")
	network("east", "flat")
	network("west", "flat")
	importsSay(t, ctx, "web", "east true false, west false true")

	kube, atoll := syncerClients(t, "east")
	east := scope.WithTarget(ctx, "east")
	up := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "below"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
	pod, err := kube.CoreV1().Pods("shop").Create(east, up, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	says := func(at context.Context, address string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"status":{"phase":"Running","podIP":%[1]q,"podIPs":[{"ip":%[1]q}],"conditions":[{"type":"Ready","status":"True"}]}}`, address)
		if _, err := kube.CoreV1().Pods("shop").Patch(at, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}
	says(east, "10.77.0.1")
	importsSay(t, ctx, "web", "east true false, west false true, east 10.77.0.1")
	podsSay(t, ctx, "shop", "nothing") // nobody knows whether that is an address of a pod there
	knowsOfOthers(t, "west", "[] without [east]")
	report(t, "east", func(s *fleetv1alpha1.PhysicalClusterStatus) { s.PodCIDRs = []string{"10.78.0.0/16"} })
	importsSay(t, ctx, "web", "east true false, west false true") // no pod there has that address
	says(east, "10.78.0.1")
	importsSay(t, ctx, "web", "east true false, west false true, east 10.78.0.1")
	// A tenant who writes another address, such as that of a pod of somebody else, is not believed.
	forgedStatus := []byte(`{"status":{"podIP":"10.78.0.66","podIPs":[{"ip":"10.78.0.66"}],"hostIP":"10.0.0.66","conditions":[{"type":"Ready","status":"True"},{"type":"example.com/gate","status":"True"}]}}`)
	forgedPod, err := shared.Kube.CoreV1().Pods("shop").Patch(ctx, pod.Name, types.MergePatchType, forgedStatus, metav1.PatchOptions{}, "status")
	if err != nil || forgedPod.Status.PodIP != "10.78.0.1" || len(forgedPod.Status.PodIPs) != 1 || forgedPod.Status.PodIPs[0].IP != "10.78.0.1" || forgedPod.Status.HostIP != "" || len(forgedPod.Status.Conditions) != 2 {
		t.Errorf("a pod to which its user gave an address: %+v, %v", forgedPod.Status, err)
	}
	podsSay(t, ctx, "shop", ", east, west, east flat map[app:web] [10.78.0.1]")
	knowsOfOthers(t, "west", "[10.78.0.0/16] without []")
	knowsOfOthers(t, "east", "[] without [west]")
	if _, err := shared.Kube.CoreV1().Namespaces().Patch(ctx, "shop", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	podsSay(t, ctx, "shop", "a, east, west, east flat map[app:web] [10.78.0.1]")
	podImports := shared.Atoll.PlacementV1alpha1().PodImports("shop")
	_, err = shared.Atoll.PlacementV1alpha1().PodImports("consumer").Create(ctx, &placementv1alpha1.PodImport{ObjectMeta: metav1.ObjectMeta{Name: placementv1alpha1.PodImportName}}, metav1.CreateOptions{})
	forbidden(t, "pods by a user", err, "only the server writes which pods")
	_, err = podImports.Patch(ctx, placementv1alpha1.PodImportName, types.MergePatchType, []byte(`{"spec":{"pods":null}}`), metav1.PatchOptions{})
	forbidden(t, "a change of them by a user", err, "only the server writes which pods")
	_, err = atoll.PlacementV1alpha1().PodImports("shop").Patch(east, placementv1alpha1.PodImportName, types.MergePatchType, []byte(`{"spec":{"pods":null}}`), metav1.PatchOptions{})
	forbidden(t, "a change of them by a syncer", err, "a syncer may not patch podimports")

	imports := shared.Atoll.PlacementV1alpha1().ServiceImports("shop")
	forged := &placementv1alpha1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Name: "forged"}, Spec: placementv1alpha1.ServiceImportSpec{Importers: []placementv1alpha1.Importer{{PhysicalCluster: "west", Own: true}}}}
	_, err = imports.Create(ctx, forged, metav1.CreateOptions{})
	forbidden(t, "an import by a user", err, "only the server writes what is imported")
	_, err = imports.Patch(ctx, "web", types.MergePatchType, []byte(`{"spec":{"endpoints":null}}`), metav1.PatchOptions{})
	forbidden(t, "a change of one by a user", err, "only the server writes what is imported")
	forbidden(t, "a deletion by a user", imports.Delete(ctx, "web", metav1.DeleteOptions{}), "only the server writes what is imported")
	_, err = atoll.PlacementV1alpha1().ServiceImports("shop").Create(east, forged, metav1.CreateOptions{})
	forbidden(t, "an import by a syncer", err, "a syncer may not create serviceimports")

	_, west := syncerClients(t, "west")
	list, err := west.PlacementV1alpha1().ServiceImports("").List(scope.WithTarget(ctx, "west"), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "web" {
		t.Errorf("west sees %v %v", list, err)
	}
	if pods, err := west.PlacementV1alpha1().PodImports("").List(scope.WithTarget(ctx, "west"), metav1.ListOptions{}); err != nil || len(pods.Items) != 1 {
		t.Errorf("west sees pods %v %v", pods, err)
	}
	if err := shared.Kube.CoreV1().Services("shop").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	importsSay(t, ctx, "web", "nothing")
	// One that lies has not all of the world count as pods.
	report(t, "east", func(s *fleetv1alpha1.PhysicalClusterStatus) { s.PodCIDRs = []string{"0.0.0.0/0", "10.78.0.0/16"} })
	knowsOfOthers(t, "west", "[10.78.0.0/16] without [east]")
	report(t, "east", func(s *fleetv1alpha1.PhysicalClusterStatus) { s.PodCIDRs = nil })
	network("east", "")
	network("west", "")
	podsSay(t, ctx, "shop", "nothing")
	knowsOfOthers(t, "west", "nothing")
}

// selectsNothing: Services that select no pods are imported without a network; endpoints come and go.
func selectsNothing(t *testing.T, ctx context.Context) {
	t.Helper()
	services, slices := shared.Kube.CoreV1().Services("shop"), shared.Kube.DiscoveryV1().EndpointSlices("shop")
	for name, spec := range map[string]corev1.ServiceSpec{
		"db": {Ports: []corev1.ServicePort{{Port: 5432}}}, "mail": {Type: corev1.ServiceTypeExternalName, ExternalName: "mail.example.com"},
	} {
		if _, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	importsSay(t, ctx, "db", "east true false, west false true")
	importsSay(t, ctx, "mail", "east true false, west false true, mail.example.com")
	written := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "db-1", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](5432)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.7"}}},
	}
	if _, err := slices.Create(ctx, written, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	importsSay(t, ctx, "db", "east true false, west false true, written 192.0.2.7")
	if err := slices.Delete(ctx, "db-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	importsSay(t, ctx, "db", "east true false, west false true")
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // users write them
		Addresses: []corev1.EndpointAddress{{IP: "192.0.2.8"}}, Ports: []corev1.EndpointPort{{Port: 5432}},
	}}}
	if _, err := shared.Kube.CoreV1().Endpoints("shop").Create(ctx, endpoints, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	importsSay(t, ctx, "db", "east true false, west false true, written 192.0.2.8")
	for _, name := range []string{"db", "mail"} {
		if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		importsSay(t, ctx, name, "nothing")
	}
}

// Endpoints that a user writes are imported also where there is nowhere to import them to: a Service that
// selects no pods has no others. They may be there before the Service, and before it is placed.
func testWrittenEndpoints(t *testing.T) {
	ctx := newCluster(t, "written")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{placementv1alpha1.PhysicalClusterAnnotation: "east"}}}
	if _, err := shared.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	written := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "db-1", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](5432)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.7"}}},
	}
	if _, err := shared.Kube.DiscoveryV1().EndpointSlices("shop").Create(ctx, written, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "mail"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "mail.example.com"}},
	} {
		if _, err := shared.Kube.CoreV1().Services("shop").Create(ctx, s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	importsSay(t, ctx, "db", "east true false, written 192.0.2.7")
	importsSay(t, ctx, "mail", "nothing") // it was looked at with the other one

	// The address of a pod of the namespace is known to be that as long as the pod runs.
	written.Name, written.Endpoints = "db-2", []discoveryv1.Endpoint{{Addresses: []string{"10.79.0.1"}}}
	if _, err := shared.Kube.DiscoveryV1().EndpointSlices("shop").Create(ctx, written, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	importsSay(t, ctx, "db", "east true false, written 10.79.0.1, written 192.0.2.7")
	kube, _ := syncerClients(t, "east")
	east := scope.WithTarget(ctx, "east")
	leader := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "below"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
	if _, err := kube.CoreV1().Pods("shop").Create(east, leader, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ phase, want string }{{"Running", "written 192.0.2.7, written east 10.79.0.1"}, {"Failed", "written 10.79.0.1, written 192.0.2.7"}} {
		patch := fmt.Appendf(nil, `{"status":{"phase":%q,"podIP":"10.79.0.1","podIPs":[{"ip":"10.79.0.1"}]}}`, c.phase)
		if _, err := kube.CoreV1().Pods("shop").Patch(east, leader.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		importsSay(t, ctx, "db", "east true false, "+c.want)
		client, said := warningClient(t)
		annotate := fmt.Appendf(nil, `{"metadata":{"annotations":{"phase":%q}}}`, c.phase)
		if _, err := client.DiscoveryV1().EndpointSlices("shop").Patch(ctx, "db-2", types.MergePatchType, annotate, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(said.text(), "on physical cluster east the Service db does not lead to 10.79.0.1"); warned != (c.phase == "Failed") {
			t.Errorf("of the pod that is %s who writes its address reads %q", c.phase, said.text())
		}
	}
	selected := []byte(`{"spec":{"selector":{"app":"db"}}}`)
	if _, err := shared.Kube.CoreV1().Services("shop").Patch(ctx, "db", types.MergePatchType, selected, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	importsSay(t, ctx, "db", "nothing")
}
