package syncer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// shopNames are the names of a logical cluster with two namespaces, of which one is
// called like a word.
func shopNames(node string) Names {
	return Names{
		Namespace: func(physical string) (string, bool) {
			logical, ok := map[string]string{"shop-web-1": "web", "shop-db-2": "db"}[physical]
			return logical, ok
		},
		Owner: func(uid types.UID) (Owner, bool) {
			return Owner{Name: "web", UID: "l2"}, uid == "p2"
		},
		Node: node,
	}
}

func TestAnEventSpeaksOfTheLogicalObject(t *testing.T) {
	event := parse(t, `
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: shop-web-1, uid: e1, resourceVersion: "5"}
involvedObject: {apiVersion: v1, kind: Pod, name: web-1, namespace: shop-web-1, uid: p1, resourceVersion: "4", fieldPath: "spec.containers{web}"}
related: {kind: Node, name: n1}
reason: Started
message: Started container of shop-web-1/web-1
count: 2
`)
	if namespace, uid := Involved(event); namespace != "shop-web-1" || uid != "p1" {
		t.Errorf("about %s in %s", uid, namespace)
	}
	want := parse(t, `
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: web, annotations: {atoll.dev/uid: e1}}
involvedObject: {apiVersion: v1, kind: Pod, name: web-1.east, namespace: web, uid: l1, fieldPath: "spec.containers{web}"}
reason: Started
message: Started container of web/web-1.east
count: 2
`)
	if diff := cmp.Diff(want.Object, EventUp(event, "web", Owner{Name: "web-1.east", UID: "l1"}, shopNames("")).Object); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAMessageNamesWhatTheUserKnows(t *testing.T) {
	for _, c := range []struct{ name, message, want string }{
		{"a pod with its namespace", "Successfully assigned shop-web-1/web-1 to node-4", "Successfully assigned web/web-1 to node-4"},
		{"a name of DNS", "lookup api.shop-db-2.svc.cluster.local: no such host", "lookup api.db.svc.cluster.local: no such host"},
		{"a service account", `pods "x" is forbidden: User "system:serviceaccount:shop-web-1:default" cannot get`, `pods "x" is forbidden: User "system:serviceaccount:web:default" cannot get`},
		{"several", "shop-web-1, shop-db-2", "web, db"},
		{"in quotes", `namespace "shop-web-1" not found`, `namespace "web" not found`},
		{"a longer word", "shop-web-10 xshop-web-1 shop-web-1-a a-shop-web-1 shop-web-1_b", "shop-web-10 xshop-web-1 shop-web-1-a a-shop-web-1 shop-web-1_b"},
		{"beside letters of others", "éshop-web-1 shop-web-1é — shop-web-1", "éshop-web-1 shop-web-1é — web"},
		{"that of another logical cluster", "other-web-3/x", "other-web-3/x"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shopNames("").message(c.message); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAnEventOfAPodThatAUserMadeNamesItsNode(t *testing.T) {
	event := parse(t, `
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: shop-web-1, uid: e1}
involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: shop-web-1, uid: p1}
related: {apiVersion: v1, kind: Pod, namespace: shop-db-2, name: web, uid: p2, resourceVersion: "7"}
reason: Scheduled
message: Successfully assigned shop-web-1/web to east-node-4
reportingInstance: east-node-4
source: {component: scheduler, host: east-node-4}
`)
	want := parse(t, `
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: web, annotations: {atoll.dev/uid: e1}}
involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: web, uid: l1}
related: {apiVersion: v1, kind: Pod, namespace: db, name: web, uid: l2}
reason: Scheduled
message: Successfully assigned web/web to east
reportingInstance: east
source: {component: scheduler, host: east}
`)
	if diff := cmp.Diff(want.Object, EventUp(event, "web", Owner{Name: "web", UID: "l1"}, shopNames("east")).Object); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
