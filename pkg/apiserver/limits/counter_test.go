package limits

import (
	"context"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
)

func counting() *Counter {
	lc := &tenancy.LogicalCluster{Spec: tenancy.LogicalClusterSpec{Limits: tenancy.LogicalClusterLimits{Objects: 2}}}
	return New(Config{Find: func(context.Context, logicalcluster.Name) (*tenancy.LogicalCluster, error) { return lc, nil }})
}

func by(u *user.DefaultInfo, info request.RequestInfo) context.Context {
	return request.WithRequestInfo(request.WithUser(context.Background(), u), &info)
}

var ann = &user.DefaultInfo{Name: "ann"}

func TestItsOwnWritesCountAtOnce(t *testing.T) {
	t.Parallel()
	c, ctx := counting(), by(ann, request.RequestInfo{Verb: "create"})
	if err := c.Admit(ctx, "/registry/configmaps/shop/default/a", make([]byte, 1<<30), false); err != nil {
		t.Errorf("before anything was counted: %v", err)
	}
	c.tally = newTally()
	for _, name := range []string{"a", "b", "c"} {
		key := "/registry/configmaps/shop/default/" + name
		err := c.Admit(ctx, key, []byte("x"), false)
		if (err != nil) != (name == "c") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			c.Written(key, []byte("x"))
		}
	}
	if err := c.Admit(ctx, "/registry/configmaps/shop/default/a", []byte("x"), true); err != nil {
		t.Errorf("an update: %v", err)
	}
	if err := c.Admit(ctx, "/registry/configmaps/root/default/a", []byte("x"), false); err != nil {
		t.Errorf("in root: %v", err)
	}
	c.Written("/registry/configmaps/shop/default/a", nil)
	if err := c.Admit(ctx, "/registry/configmaps/shop/default/c", []byte("x"), false); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
}

func TestWhoWritesIsReadFromTheRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ctx    context.Context
		want   author
		ending bool
	}{
		"a user":                  {by(ann, request.RequestInfo{Verb: "update"}), byUser, false},
		"a user who deletes":      {by(ann, request.RequestInfo{Verb: "delete"}), byUser, true},
		"a user who deletes many": {by(ann, request.RequestInfo{Verb: "deletecollection"}), byUser, true},
		"a user who evicts":       {by(ann, request.RequestInfo{Verb: "create", Subresource: "eviction"}), byUser, true},
		"a syncer":                {by(&user.DefaultInfo{Name: auth.SyncerUser("east"), Groups: []string{auth.SyncersGroup}}, request.RequestInfo{}), bySyncer, false},
		"an admin":                {by(&user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, request.RequestInfo{}), bySystem, false},
		"the server, directly":    {context.Background(), bySystem, false},
	} {
		if got := authorOf(c.ctx); got != c.want || endsSomething(c.ctx) != c.ending {
			t.Errorf("%s: %v, %v", name, got, endsSomething(c.ctx))
		}
	}
}

// What each write pays.
func BenchmarkAWrite(b *testing.B) {
	c, ctx, value := counting(), by(ann, request.RequestInfo{Verb: "update"}), make([]byte, 1000)
	c.tally = newTally()
	key := "/registry/configmaps/shop/default/a"
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Admit(ctx, key, value, true); err != nil {
			b.Fatal(err)
		}
		c.Written(key, value)
	}
}
