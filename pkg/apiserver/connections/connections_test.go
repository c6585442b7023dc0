package connections

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestWhoGivesWay(t *testing.T) {
	t.Parallel()
	host := func(name string) owner { return owner{name: name} }
	user := func(name string) owner { return owner{name: name, authenticated: true} }
	admin := owner{name: "admin", authenticated: true, exempt: true}
	for name, c := range map[string]struct {
		owners []owner
		want   int // its place among owners
		whose  string
	}{
		"nobody is there":                       {nil, -1, "New"},
		"a host holds many":                     {[]owner{host("a"), host("b"), host("b"), user("ann"), user("ann"), user("ann")}, 1, "Unauthenticated"},
		"hosts hold one each":                   {[]owner{user("ann"), user("ann"), host("b"), host("a")}, 3, "Unauthenticated"},
		"users only: who has the most":          {[]owner{user("bob"), user("ann"), user("ann")}, 1, "Authenticated"},
		"users only, one each":                  {[]owner{user("ann"), user("bob")}, -1, "New"},
		"admins give way to nobody":             {[]owner{admin, admin, admin}, -1, "New"},
		"admins have the most":                  {[]owner{admin, admin, admin, user("ann"), user("ann")}, 3, "Authenticated"},
		"a user who is named as a host is none": {[]owner{user("a"), user("a"), host("a")}, 2, "Unauthenticated"},
	} {
		all := table{}
		var conns []*conn
		for _, o := range c.owners {
			added := &conn{}
			all.add(added, o)
			conns = append(conns, added)
		}
		got, whose := all.victim()
		place := -1
		for i, added := range conns {
			if got == added {
				place = i
			}
		}
		if place != c.want || whose != c.whose {
			t.Errorf("%s: %d, %s; want %d, %s", name, place, whose, c.want, c.whose)
		}
		for _, added := range conns {
			all.remove(added)
		}
		if len(all) != 0 {
			t.Errorf("%s: %d owners are left", name, len(all))
		}
	}
}

// echo serves connections: what is read is answered, and, if it is a name, believed.
func echo(t *testing.T, most func() int) *Listener {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Bound(inner, most)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				said := make([]byte, 4)
				if _, err := io.ReadFull(c, said); err != nil {
					return
				}
				l.Authenticated(c.RemoteAddr().String(), string(said), string(said) == "root")
				_, _ = c.Write(said)
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return l
}

func dial(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func say(t *testing.T, c net.Conn, name string) {
	t.Helper()
	if _, err := c.Write([]byte(name)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
		t.Fatalf("%s is not served: %v", name, err)
	}
}

func TestIdleConnectionsOfNobodyKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const most = 20
	l := echo(t, func() int { return most })
	watch := dial(t, l)
	say(t, watch, "anna")
	for range 10 * most {
		dial(t, l) // and say nothing
	}
	for i := range most / 2 {
		say(t, dial(t, l), fmt.Sprintf("us%02d", i))
	}
	if n := l.count(); n > most {
		t.Errorf("%d connections are open, %d may be", n, most)
	}
	if _, err := watch.Write([]byte("more")); err != nil {
		t.Errorf("who was there first lost the connection: %v", err)
	}
}

func TestConnectionsThatEndMakeRoom(t *testing.T) {
	t.Parallel()
	l := echo(t, func() int { return 2 })
	for range 10 {
		c := dial(t, l)
		say(t, c, "root")
		_ = c.Close()
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return l.count() == 0, nil }); err != nil {
			t.Fatalf("%d connections are open after the end of the only one", l.count())
		}
	}
	say(t, dial(t, l), "root")
	say(t, dial(t, l), "root")
	refused := dial(t, l)
	if _, err := refused.Read(make([]byte, 1)); err == nil {
		t.Error("an admin gave way")
	}
}

func TestFewerMayBeOpenAllAtOnce(t *testing.T) {
	t.Parallel()
	var most atomic.Int64
	most.Store(20)
	l := echo(t, func() int { return int(most.Load()) })
	watch := dial(t, l)
	say(t, watch, "root")
	for range 18 {
		dial(t, l) // and say nothing
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return l.count() == 19, nil }); err != nil {
		t.Fatalf("%d connections are open", l.count())
	}
	most.Store(4) // and nobody comes who would have to find room
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) { return l.count() == 4, nil }); err != nil {
		t.Errorf("%d connections are open, 4 may be", l.count())
	}
	if _, err := watch.Write([]byte("more")); err != nil {
		t.Errorf("an admin lost the connection: %v", err)
	}
}

// exhausted is a socket at which nothing can be accepted for want of a file descriptor.
type exhausted struct {
	net.Listener
	none *atomic.Bool
}

func (e exhausted) Accept() (net.Conn, error) {
	if e.none.CompareAndSwap(true, false) {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.Listener.Accept()
}

func TestWithoutAFileDescriptorSomebodyGivesWay(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var none atomic.Bool
	l := Bound(exhausted{inner, &none}, func() int { return 1000 })
	t.Cleanup(func() { _ = l.Close() })
	for range 3 {
		dial(t, l)
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	none.Store(true)
	if _, err := l.Accept(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("the server is told %v: it would not wait before it tries again", err)
	}
	if n := l.count(); n != 2 {
		t.Errorf("%d connections are open, want one fewer than 3", n)
	}
}

func (l *Listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}
