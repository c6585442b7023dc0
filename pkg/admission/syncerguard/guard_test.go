package syncerguard

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func aCopyIn(namespace string) metav1.Object {
	c := &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}
	c.Status.PhysicalNamespace = namespace
	return c
}

// carries is the Copy of a Manifest, which is this below.
func carries(change func(*placementv1alpha1.CarriedObject)) *placementv1alpha1.Copy {
	c := &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"}}
	c.Status.Carried = placementv1alpha1.CarriedObject{Group: "example.com", Version: "v1", Kind: "Widget", Resource: "widgets", Namespace: "a", Name: "a"}
	if change != nil {
		change(&c.Status.Carried)
	}
	return c
}

func TestWhatAManifestIsBelowIsRecordedOnce(t *testing.T) {
	type carried = placementv1alpha1.CarriedObject
	for name, c := range map[string]struct {
		was, is *placementv1alpha1.Copy
		ok      bool
	}{
		"recorded":                {carries(func(c *carried) { *c = carried{} }), carries(nil), true},
		"the same":                {carries(nil), carries(nil), true},
		"another version":         {carries(nil), carries(func(c *carried) { c.Version = "v2" }), true},
		"another group":           {carries(nil), carries(func(c *carried) { c.Group = "" }), false},
		"another kind":            {carries(nil), carries(func(c *carried) { c.Kind = "Secret" }), false},
		"another resource":        {carries(nil), carries(func(c *carried) { c.Resource = "secrets" }), false},
		"another namespace":       {carries(nil), carries(func(c *carried) { c.Namespace = "kube-system" }), false},
		"another name":            {carries(nil), carries(func(c *carried) { c.Name = "b" }), false},
		"nothing any more":        {carries(nil), carries(func(c *carried) { *c = carried{} }), false},
		"nothing but its version": {carries(nil), carries(func(c *carried) { *c = carried{Version: "v1"} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := Write{Target: "east", Kinds: workload.Builtin(), Cluster: "root", Verb: Update, Resource: copies, Object: c.is, Old: c.was}
			if err := Check(w); (err == nil) != c.ok {
				t.Errorf("Check = %v", err)
			}
			c.is.ResourceVersion, c.was.ResourceVersion = "1", "2"
			if err := Check(w); err != nil {
				t.Errorf("from an older version, which is a conflict: %v", err)
			}
		})
	}
}

func aCopy(cluster string) metav1.Object {
	return &placementv1alpha1.Copy{Spec: placementv1alpha1.CopySpec{PhysicalCluster: cluster}}
}

func orphan(cluster string, order fleetv1alpha1.OrphanOrder, exists metav1.ConditionStatus) *fleetv1alpha1.Orphan {
	o := &fleetv1alpha1.Orphan{Spec: fleetv1alpha1.OrphanSpec{PhysicalCluster: cluster, Order: order}}
	o.Spec.Object.UID = "p1"
	o.Name = syncer.OrphanName(cluster, "p1")
	if exists != "" {
		o.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionObjectExists, Status: exists}}
	}
	return o
}

func versioned(version string, o *fleetv1alpha1.Orphan) *fleetv1alpha1.Orphan {
	o.ResourceVersion = version
	return o
}

func renamed(o *fleetv1alpha1.Orphan) *fleetv1alpha1.Orphan {
	o.Name = "east-1"
	return o
}

func annotated(key, value string) metav1.Object {
	return &metav1.ObjectMeta{Annotations: map[string]string{key: value}}
}

func TestASyncerWritesWhatConcernsItsOwnPhysicalClusterOnly(t *testing.T) {
	var (
		pods      = schema.GroupResource{Resource: "pods"}
		secrets   = schema.GroupResource{Resource: "secrets"}
		withUID   = annotated("atoll.dev/uid", "1")
		bare      = &metav1.ObjectMeta{}
		ownPod    = annotated("placement.atoll.dev/targets", `{"east":{"state":"Observed","uid":"1"}}`)
		otherPod  = annotated("placement.atoll.dev/targets", `{"west":{"state":"Observed","uid":"1"}}`)
		placedPod = annotated("placement.atoll.dev/targets", `{"east":{}}`)
		brokenPod = annotated("placement.atoll.dev/targets", `{"east":`)
	)
	for _, c := range []struct {
		name  string
		write Write
		ok    bool
	}{
		{"its own Copy", Write{Verb: Create, Resource: copies, Object: aCopy("east")}, true},
		{"a Copy of another", Write{Verb: Create, Resource: copies, Object: aCopy("west")}, false},
		{"its Copy, updated", Write{Verb: Update, Resource: copies, Object: aCopy("east"), Old: aCopy("east")}, true},
		{"a Copy taken from another", Write{Verb: Update, Resource: copies, Object: aCopy("east"), Old: aCopy("west")}, false},
		{"a Copy given to another", Write{Verb: Update, Resource: copies, Object: aCopy("west"), Old: aCopy("east")}, false},
		{"its Copy, with its place", Write{Verb: Update, Resource: copies, Object: aCopyIn("n"), Old: aCopyIn("")}, true},
		{"its Copy, in the same place", Write{Verb: Update, Resource: copies, Object: aCopyIn("n"), Old: aCopyIn("n")}, true},
		{"its Copy, in another place", Write{Verb: Update, Resource: copies, Object: aCopyIn("m"), Old: aCopyIn("n")}, false},
		{"its Copy, in no place any more", Write{Verb: Update, Resource: copies, Object: aCopyIn(""), Old: aCopyIn("n")}, false},
		{"its Copy, deleted", Write{Verb: Delete, Resource: copies, Old: aCopy("east")}, true},
		{"a deleted Copy of another", Write{Verb: Delete, Resource: copies, Old: aCopy("west")}, false},
		{"something else as a Copy", Write{Verb: Create, Resource: copies, Object: bare}, false},

		{"a pod that it mirrors", Write{Verb: Create, Resource: pods, Object: withUID}, true},
		{"a pod without the UID below", Write{Verb: Create, Resource: pods, Object: bare}, false},
		{"a pod that is stamped", Write{Verb: Create, Resource: pods, Object: ownPod}, true},
		{"a pod that is stamped for another", Write{Verb: Create, Resource: pods, Object: otherPod}, false},
		{"a pod that is stamped without a UID", Write{Verb: Create, Resource: pods, Object: annotated("placement.atoll.dev/targets", `{"east":{"state":"Observed"}}`)}, false},
		{"a binding of a pod", Write{Verb: Create, Resource: pods, Subresource: "binding", Object: withUID}, false},
		{"an event", Write{Verb: Create, Resource: events, Object: withUID}, true},
		{"an event of events.k8s.io", Write{Verb: Create, Resource: eventsV1, Object: withUID}, true},
		{"an EndpointSlice", Write{Verb: Create, Resource: schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}, Object: withUID}, true},
		{"a ControllerRevision", Write{Verb: Create, Resource: schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, Object: withUID}, true},
		{"a status that it mirrors", Write{Verb: Update, Resource: pods, Subresource: "status", Object: ownPod, Old: ownPod}, true},
		{"a pod that another mirrored", Write{Verb: Update, Resource: pods, Object: ownPod, Old: otherPod}, false},
		{"a pod that is placed", Write{Verb: Update, Resource: pods, Object: placedPod, Old: placedPod}, false},
		{"a pod with a broken annotation", Write{Verb: Update, Resource: pods, Object: ownPod, Old: brokenPod}, false},
		{"a pod of a user", Write{Verb: Update, Resource: pods, Object: ownPod, Old: bare}, false},
		{"its pod, deleted", Write{Verb: Delete, Resource: pods, Old: ownPod}, true},
		{"a deletion before the pod is known", Write{Verb: Delete, Resource: pods}, true},
		{"the pod of another, deleted", Write{Verb: Delete, Resource: pods, Old: otherPod}, false},

		{"a Secret", Write{Verb: Create, Resource: secrets, Object: withUID}, false},
		{"a pod in root", Write{Cluster: "root", Verb: Create, Resource: pods, Object: withUID}, false},
		{"a ControllerRevision in root", Write{Cluster: "root", Verb: Create, Resource: schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, Object: withUID}, false},
		{"a Manifest", Write{Cluster: "root", Verb: Create, Resource: fleetv1alpha1.Resource("manifests"), Object: withUID}, false},
		{"a Manifest that is placed on it", Write{Cluster: "root", Verb: Update, Resource: fleetv1alpha1.Resource("manifests"), Object: ownPod, Old: ownPod}, false},
		{"the status of a Manifest", Write{Cluster: "root", Verb: Update, Resource: fleetv1alpha1.Resource("manifests"), Subresource: "status", Object: placedPod, Old: placedPod}, false},
		{"a Manifest, deleted", Write{Cluster: "root", Verb: Delete, Resource: fleetv1alpha1.Resource("manifests"), Old: placedPod}, false},
		{"a Manifest in a logical cluster", Write{Verb: Create, Resource: fleetv1alpha1.Resource("manifests"), Object: withUID}, false},
		{"a Namespace of root", Write{Cluster: "root", Verb: Update, Resource: schema.GroupResource{Resource: "namespaces"}, Object: placedPod, Old: placedPod}, false},
		{"a Secret in root", Write{Cluster: "root", Verb: Create, Resource: secrets, Object: withUID}, false},
		{"a token in root", Write{Cluster: "root", Verb: Create, Resource: accounts, Subresource: "token", Name: "a"}, false},
		{"a question about a pod in root", Write{Cluster: "root", Verb: Create, Resource: podReviews, Object: bare}, false},
		{"a PlacedKind", Write{Cluster: "root", Verb: Create, Resource: fleetv1alpha1.Resource("placedkinds"), Object: bare}, false},
		{"a Placement in root", Write{Cluster: "root", Verb: Update, Resource: placementv1alpha1.Resource("placements"), Object: bare, Old: bare}, false},
		{"its Copy in root", Write{Cluster: "root", Verb: Create, Resource: copies, Object: aCopy("east")}, true},
		{"its Copy in root, updated", Write{Cluster: "root", Verb: Update, Resource: copies, Object: aCopy("east"), Old: aCopy("east")}, true},
		{"its Copy in root, deleted", Write{Cluster: "root", Verb: Delete, Resource: copies, Old: aCopy("east")}, true},
		{"a Copy of another in root", Write{Cluster: "root", Verb: Create, Resource: copies, Object: aCopy("west")}, false},
		{"a Copy of another in root, updated", Write{Cluster: "root", Verb: Update, Resource: copies, Object: aCopy("west"), Old: aCopy("west")}, false},
		{"a Copy of another in root, deleted", Write{Cluster: "root", Verb: Delete, Resource: copies, Old: aCopy("west")}, false},
		{"a Copy in root, after it was given up", Write{Forgotten: true, Cluster: "root", Verb: Create, Resource: copies, Object: aCopy("east")}, false},
		{"an event in root", Write{Cluster: "root", Verb: Create, Resource: events, Object: withUID}, true},
		{"an event in root without the UID below", Write{Cluster: "root", Verb: Create, Resource: events, Object: bare}, false},
		{"an event in root that is stamped for another", Write{Cluster: "root", Verb: Create, Resource: events, Object: otherPod}, false},
		{"an event of another in root, updated", Write{Cluster: "root", Verb: Update, Resource: events, Object: ownPod, Old: otherPod}, false},
		{"an event of the server in root, updated", Write{Cluster: "root", Verb: Update, Resource: events, Object: ownPod, Old: bare}, false},
		{"an event of events.k8s.io in root", Write{Cluster: "root", Verb: Create, Resource: eventsV1, Object: withUID}, false},
		{"an event in root, after it was given up", Write{Forgotten: true, Cluster: "root", Verb: Create, Resource: events, Object: withUID}, false},
		{"the status of its PhysicalCluster", Write{Cluster: "root", Verb: Update, Resource: physicalClusters, Subresource: "status", Name: "east"}, true},
		{"the spec of its PhysicalCluster", Write{Cluster: "root", Verb: Update, Resource: physicalClusters, Name: "east"}, false},
		{"the status of another", Write{Cluster: "root", Verb: Update, Resource: physicalClusters, Subresource: "status", Name: "west"}, false},
		{"its Lease", Write{Cluster: "root", Verb: Create, Resource: leases, Namespace: "atoll-system", Name: "east"}, true},
		{"its Lease, renewed", Write{Cluster: "root", Verb: Update, Resource: leases, Namespace: "atoll-system", Name: "east"}, true},
		{"the Lease of another", Write{Cluster: "root", Verb: Update, Resource: leases, Namespace: "atoll-system", Name: "west"}, false},
		{"a Lease elsewhere", Write{Cluster: "root", Verb: Update, Resource: leases, Namespace: "default", Name: "east"}, false},
		{"a request for a certificate", Write{Cluster: "root", Verb: Create, Resource: signingRequests, Object: bare}, true},
		{"a request for a certificate, approved", Write{Cluster: "root", Verb: Update, Resource: signingRequests, Subresource: "approval", Object: bare, Old: bare}, false},
		{"a request for a certificate, deleted", Write{Cluster: "root", Verb: Delete, Resource: signingRequests, Old: bare}, false},
		{"a request for a certificate in a logical cluster", Write{Cluster: "shop", Verb: Create, Resource: signingRequests, Object: bare}, false},
		{"a request for a certificate, after it was given up", Write{Forgotten: true, Cluster: "root", Verb: Create, Resource: signingRequests, Object: bare}, false},
		{"a Copy, after it was given up", Write{Forgotten: true, Verb: Create, Resource: copies, Object: aCopy("east")}, false},
		{"a pod, after it was given up", Write{Forgotten: true, Verb: Update, Resource: pods, Object: ownPod, Old: ownPod}, false},
		{"the status of its PhysicalCluster, after it was given up", Write{Forgotten: true, Cluster: "root", Verb: Update, Resource: physicalClusters, Subresource: "status", Name: "east"}, true},
		{"an Orphan that it found", Write{Cluster: "root", Verb: Create, Resource: orphans, Object: orphan("east", "", "")}, true},
		{"an Orphan of another", Write{Cluster: "root", Verb: Create, Resource: orphans, Object: orphan("west", "", "")}, false},
		{"an Orphan under another name", Write{Cluster: "root", Verb: Create, Resource: orphans, Object: renamed(orphan("east", "", ""))}, false},
		{"an Orphan with an order", Write{Cluster: "root", Verb: Create, Resource: orphans, Object: orphan("east", "Remove", "")}, false},
		{"an order", Write{Cluster: "root", Verb: Update, Resource: orphans, Object: orphan("east", "Remove", ""), Old: orphan("east", "", "")}, false},
		{"what became of an order", Write{Cluster: "root", Verb: Update, Subresource: "status", Resource: orphans, Object: orphan("east", "Remove", ""), Old: orphan("east", "Remove", "")}, true},
		{"what became of an order for another", Write{Cluster: "root", Verb: Update, Subresource: "status", Resource: orphans, Object: orphan("west", "", ""), Old: orphan("west", "", "")}, false},
		{"the answer of the server", Write{Cluster: "root", Verb: Update, Subresource: "status", Resource: orphans, Object: orphan("east", "Remove", "False"), Old: orphan("east", "Remove", "")}, false},
		{"the answer of the server, made from an older version, which is a conflict", Write{Cluster: "root", Verb: Update, Subresource: "status", Resource: orphans, Object: versioned("1", orphan("east", "", "")), Old: versioned("2", orphan("east", "", "False"))}, true},
		{"the answer of the server, made from the last version", Write{Cluster: "root", Verb: Update, Subresource: "status", Resource: orphans, Object: versioned("2", orphan("east", "", "")), Old: versioned("2", orphan("east", "", "False"))}, false},
		{"an Orphan of another, made from an older version", Write{Cluster: "root", Verb: Update, Subresource: "status", Resource: orphans, Object: versioned("1", orphan("west", "", "")), Old: versioned("2", orphan("west", "", ""))}, false},
		{"an Orphan that is gone", Write{Cluster: "root", Verb: Delete, Resource: orphans, Old: orphan("east", "", "")}, true},
		{"an Orphan of another that is gone", Write{Cluster: "root", Verb: Delete, Resource: orphans, Old: orphan("west", "", "")}, false},
		{"an Orphan in a logical cluster", Write{Verb: Create, Resource: orphans, Object: orphan("east", "", "")}, false},
		{"an Orphan, after it was given up", Write{Forgotten: true, Cluster: "root", Verb: Create, Resource: orphans, Object: orphan("east", "", "")}, false},
		{"a Lease in a logical cluster", Write{Verb: Update, Resource: leases, Namespace: "atoll-system", Name: "east"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.write.Target = "east"
			if c.write.Cluster == "" {
				c.write.Cluster = "shop"
			}
			c.write.Kinds = workload.Builtin()
			if err := Check(c.write); (err == nil) != c.ok {
				t.Errorf("Check = %v", err)
			}
		})
	}
}
