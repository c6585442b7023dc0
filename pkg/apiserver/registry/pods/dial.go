package pods

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// userTimeout bounds connecting to a pod for a request of a user.
const userTimeout = 10 * time.Second

// Dial connects to a port of a pod of the logical cluster of ctx, for the server itself: who
// asked it to has been authorized elsewhere. The pod has to have uid there. closeIdle is
// called when there are too many connections.
//
// The connection outlives ctx; it ends with what ends the streams of users.
func (c Config) Dial(ctx context.Context, namespace, name string, uid types.UID, port int32, closeIdle func()) (net.Conn, error) {
	return c.dial(ctx, namespace, name, uid, port, func(cluster logicalcluster.Name, target string) (context.Context, func(), error) {
		return c.Streams.connect(ctx, context.WithoutCancel(ctx), cluster, target, closeIdle)
	})
}

// dialForUser is Dial for the request of a user, which counts as his streams do.
func (c Config) dialForUser(ctx context.Context, namespace, name string, uid types.UID, port int32, _ func()) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, userTimeout)
	defer cancel()
	return c.dial(ctx, namespace, name, uid, port, func(cluster logicalcluster.Name, target string) (context.Context, func(), error) {
		return c.Streams.begin(context.WithoutCancel(ctx), cluster, target)
	})
}

func (c Config) dial(ctx context.Context, namespace, name string, uid types.UID, port int32, count func(logicalcluster.Name, string) (context.Context, func(), error)) (net.Conn, error) {
	ctx = request.WithNamespace(ctx, namespace)
	pod, err := c.get(ctx, c.Pods, name)
	if err != nil {
		return nil, err
	}
	if pod.GetUID() != uid {
		return nil, reach.Absent("another pod has its name by now")
	}
	call, target, place, err := c.callOf(ctx, pod)
	if err != nil {
		return nil, err
	}
	cluster, _ := scope.ClusterFrom(ctx)
	during, end, err := count(cluster, place.Target)
	if err != nil {
		return nil, err
	}
	attempt, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(during, cancel)() // its target may go while it is connected to
	conn, err := reach.Forward(attempt, target, call, port)
	if err != nil {
		end()
		return nil, err
	}
	context.AfterFunc(during, func() { conn.Close() })
	return counted{conn, sync.OnceFunc(end)}, nil
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c counted) Close() error {
	defer c.end()
	return c.Conn.Close()
}
