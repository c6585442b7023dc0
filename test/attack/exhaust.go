package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// MaxConnections is how many connections the server shall have at a time; idleConnections are more.
	MaxConnections  = 1000
	idleConnections = 1500
	// slowBodies come a byte each dripInterval, hangingCalls are requests that wait for a webhook.
	slowBodies   = 100
	dripInterval = 150 * time.Millisecond
	hangingCalls = 80
	// watchLimit is how many watches a tenant may have, watchTries how many it tries to.
	watchLimit = 10
	watchTries = 30
	// servedTimeout is within what time others are served meanwhile.
	servedTimeout = 10 * time.Second
)

// served fails if somebody is not served, by connections of its own, some times.
func (c clients) served(ctx context.Context) error {
	fresh := c.apart()
	for range 3 {
		brief, cancel := context.WithTimeout(ctx, servedTimeout)
		_, err := fresh.kube.CoreV1().ConfigMaps("default").Create(brief, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		cancel()
		if err != nil {
			return fmt.Errorf("others are not served meanwhile: %w", err)
		}
	}
	return nil
}

// apart are the same clients with connections of their own.
func (c clients) apart() clients {
	config := rest.CopyConfig(c.config)
	config.Dial = (&net.Dialer{}).DialContext // a transport of its own, which is shared with nobody
	return clientsOf(config)
}

// dial makes connections that say nothing, and returns how to close them.
func dial(ctx context.Context, address string, n int) (hangUp func(), err error) {
	var all []net.Conn
	hangUp = func() {
		for _, c := range all {
			_ = c.Close()
		}
	}
	for range n {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			hangUp()
			return nil, fmt.Errorf("connecting: %w", err)
		}
		all = append(all, c)
	}
	return hangUp, nil
}

var idle = Attack{
	Name: "who connects and says nothing keeps nobody out",
	Real: true, // of a process of its own
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(ctx)
		if err != nil {
			return err
		}
		hangUp, err := dial(ctx, strings.TrimPrefix(w.Config.Host, "https://"), idleConnections)
		if err != nil {
			return err
		}
		defer hangUp()
		return errors.Join(who.served(ctx), w.admin.served(scope.WithCluster(ctx, scope.Root)))
	},
	// Where who came first stays, he keeps all others out.
	Control: func(ctx context.Context, _ *World) error {
		const most = 20
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.Listener = netutil.LimitListener(s.Listener, most)
		s.Start()
		defer s.Close()
		hangUp, err := dial(ctx, s.Listener.Addr().String(), most)
		if err != nil {
			return err
		}
		defer hangUp()
		brief, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if _, err := ask(brief, &rest.Config{Host: s.URL}, http.MethodGet, "/", ""); err == nil {
			return errors.New("it is served all the same")
		}
		return nil
	},
}

// dripping is a body that comes a byte at a time, and counts those that have begun.
type dripping struct {
	left  *strings.Reader
	begun *atomic.Int32
}

func (d dripping) Read(p []byte) (int, error) {
	if d.left.Len() < int(d.left.Size()) {
		time.Sleep(dripInterval)
	} else {
		d.begun.Add(1)
	}
	return d.left.Read(p[:min(1, len(p))])
}

// drip sends a body slowly, and returns the answer.
func (c clients) drip(ctx context.Context, begun *atomic.Int32) (code int, err error) {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return 0, err
	}
	cluster, _ := scope.ClusterFrom(ctx)
	url := strings.TrimSuffix(c.config.Host, "/") + scope.Scope{Cluster: cluster}.Path() + "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	body := strings.NewReader(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, dripping{body, begun})
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return resp.StatusCode, resp.Body.Close()
}

var slow = Attack{
	Name: "bodies that come slowly, of an account without rights, lock nobody out of its logical cluster",
	Real: true, // half a minute
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(ctx)
		if err != nil {
			return err
		}
		nobody, err := w.account(ctx, "nobody")
		if err != nil {
			return err
		}
		slowly, cancel := context.WithCancel(ctx)
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		var begun, late atomic.Int32
		for range slowBodies {
			all.Go(func() {
				if code, err := nobody.drip(slowly, &begun); err == nil && (code == http.StatusRequestTimeout || code == http.StatusTooManyRequests) {
					late.Add(1)
				}
			})
		}
		if err := eventually(ctx, "bodies come", func() error { return atLeast(&begun, slowBodies) }); err != nil {
			return err
		}
		if err := who.served(ctx); err != nil {
			return err
		}
		return eventually(ctx, "slow ones give way", func() error { return atLeast(&late, 1) })
	},
	// One of an admin, who takes nobody's place, comes as slowly and is answered.
	Control: func(ctx context.Context, w *World) error {
		ctx, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		var begun atomic.Int32
		if code, err := w.admin.drip(ctx, &begun); err != nil || code != http.StatusCreated {
			return fmt.Errorf("it is answered %d (%w)", code, err)
		}
		return nil
	},
}

func atLeast(n *atomic.Int32, least int32) error {
	if is := n.Load(); is < least {
		return fmt.Errorf("%d of %d", is, least)
	}
	return nil
}

var hanging = Attack{
	Name: "a tenant's webhook that does not answer holds up nobody else",
	Real: true, // half a minute
	Fence: func(ctx context.Context, w *World) error {
		return w.hang(ctx, func(_ context.Context, _ clients) error {
			neighbour, err := w.cluster(ctx)
			if err != nil {
				return err
			}
			who, err := w.tenant(neighbour)
			if err != nil {
				return err
			}
			return who.served(neighbour)
		})
	},
	// Who asked for it waits.
	Control: func(ctx context.Context, w *World) error {
		return w.hang(ctx, func(ctx context.Context, who clients) error {
			if err := who.served(ctx); err == nil {
				return errors.New("the webhook holds up nobody")
			}
			return nil
		})
	},
}

// hang has a tenant's requests wait for its webhook, and meanwhile calls a function.
func (w *World) hang(ctx context.Context, meanwhile func(context.Context, clients) error) error {
	h := startHook("", make(chan struct{}))
	defer h.Close()
	ctx, err := w.hookedBy(ctx, h, 1)
	if err != nil {
		return err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return err
	}
	calling, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range hangingCalls {
		all.Go(func() {
			for calling.Err() == nil { // what came before the webhook was known
				_, _ = who.kube.CoreV1().ConfigMaps("default").Create(calling, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			}
		})
	}
	if err := eventually(ctx, "the webhook is asked", func() error { return atLeast(&h.asked, 8) }); err != nil {
		return err
	}
	return meanwhile(ctx, who)
}

var watches = Attack{
	Name: "a tenant that watches without reading has no more watches than its limit, which is named, and a neighbour watches on",
	Fence: func(ctx context.Context, w *World) error {
		open, err := w.watch(ctx, watchLimit)
		if err == nil && open > watchLimit {
			err = fmt.Errorf("%d watches are open", open)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error {
		open, err := w.watch(ctx, tenancyv1alpha1.Unlimited)
		if err == nil && open < watchTries {
			err = fmt.Errorf("%d watches are open", open)
		}
		return err
	},
}

// watch returns how many watches a tenant with a limit has open, and fails if one that was
// refused was not refused by the limit, or a neighbour has none.
func (w *World) watch(ctx context.Context, limit int64) (open int, err error) {
	neighbour, err := w.cluster(ctx)
	if err != nil {
		return 0, err
	}
	other, err := w.tenant(neighbour)
	if err != nil {
		return 0, err
	}
	ctx, err = w.cluster(ctx, func(c *tenancyv1alpha1.LogicalCluster) { c.Spec.Limits.Watches = limit })
	if err != nil {
		return 0, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return 0, err
	}
	var all []io.Closer
	defer func() {
		for _, watch := range all {
			_ = watch.Close()
		}
	}()
	for i := range watchTries {
		resp, err := who.watchOnce(ctx)
		if err != nil {
			return 0, fmt.Errorf("watch %d: %w", i, err)
		}
		all = append(all, resp.Body)
		if resp.StatusCode == http.StatusOK {
			open++
			continue
		}
		if why, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)); resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(why), "spec.limits.watches") {
			return 0, fmt.Errorf("watch %d is answered %d: %s", i, resp.StatusCode, why)
		}
	}
	resp, err := other.watchOnce(neighbour)
	if err != nil {
		return 0, fmt.Errorf("a neighbour's watch: %w", err)
	}
	all = append(all, resp.Body)
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("a neighbour's watch is answered %d", resp.StatusCode)
	}
	return open, nil
}

// watchOnce begins a watch that nobody reads; unlike a client's it is not tried again.
func (c clients) watchOnce(ctx context.Context) (*http.Response, error) {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return nil, err
	}
	return c.begin(ctx, client, "/api/v1/namespaces/default/configmaps?watch=true")
}

// begin asks, by a client, for something in the logical cluster of ctx, and leaves the answer to the caller, which is
// as long as what is in it.
func (c clients) begin(ctx context.Context, by *http.Client, path string) (*http.Response, error) {
	cluster, _ := scope.ClusterFrom(ctx)
	url := strings.TrimSuffix(c.config.Host, "/") + scope.Scope{Cluster: cluster}.Path() + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	return by.Do(req)
}
