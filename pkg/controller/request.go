package controller

import (
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request names one object.
type Request struct {
	Cluster         logicalcluster.Name
	Namespace, Name string
}

// RequestFor names obj; the logical cluster comes from its annotation and is
// empty for an object of a physical cluster.
func RequestFor(obj metav1.Object) Request {
	return Request{Cluster: logicalcluster.From(obj), Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// LogicalCluster makes the queue loop reconcile r in the scope of its logical
// cluster.
func (r Request) LogicalCluster() logicalcluster.Name { return r.Cluster }

// String is "cluster|namespace/name", or "cluster|name" for an object without a
// namespace.
func (r Request) String() string {
	var b strings.Builder
	b.Grow(len(r.Cluster) + len(r.Namespace) + len(r.Name) + 2)
	b.WriteString(r.Cluster.String())
	b.WriteByte('|')
	if r.Namespace != "" {
		b.WriteString(r.Namespace)
		b.WriteByte('/')
	}
	b.WriteString(r.Name)
	return b.String()
}
