package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	quietCluster, noisyCluster = logicalcluster.Name("quiet"), logicalcluster.Name("noisy")
	// noisyObjects are in each list that the noise asks for.
	noisyObjects = 500
	// noisyClients ask without end: many more than the server serves at a time.
	noisyClients = 200
	// quietRequests of each verb are timed, or fewer if they take longer than this.
	quietRequests = 200
	quietTimeout  = 30 * time.Second
)

// noisePart measures what a user of one logical cluster feels of clients that ask
// without end: in another logical cluster, and in his own. All are tenants, with
// tokens of service accounts.
func noisePart(ctx context.Context, l *lab, _ options) error {
	s, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	p := &population{}
	if p.kube, p.own, err = s.scoped(); err != nil {
		return err
	}
	configs := map[logicalcluster.Name]*rest.Config{}
	for _, c := range []logicalcluster.Name{quietCluster, noisyCluster} {
		if err := p.create(ctx, c); err != nil {
			return err
		}
		if configs[c], err = p.tenant(ctx, s, c); err != nil {
			return err
		}
	}
	if err := p.fill(ctx, quietCluster, noisyCluster); err != nil {
		return err
	}
	t := newTable("who asks without end", "clients", "their lists a second", "get ms p50", "ratio", "p99", "create ms p50", "ratio", "p99")
	var alone [2]time.Duration
	for _, n := range []struct {
		who     string
		clients int
		config  *rest.Config
	}{
		{"nobody", 0, nil},
		{"another logical cluster", noisyClients / 10, configs[noisyCluster]},
		{"another logical cluster", noisyClients, configs[noisyCluster]},
		{"the same logical cluster", noisyClients, configs[quietCluster]},
	} {
		lists, get, create, err := beside(ctx, n.clients, n.config, configs[quietCluster], fmt.Sprintf("%d-%d", len(t.rows), n.clients))
		if err != nil {
			return fmt.Errorf("beside %d clients: %w", n.clients, err)
		}
		if alone[0] == 0 {
			alone = [2]time.Duration{median(get), median(create)}
		}
		t.add(n.who, fmt.Sprint(n.clients), fmt.Sprintf("%.0f", lists),
			ms(median(get)), times(float64(median(get))/float64(alone[0])), ms(percentile(get, 99)),
			ms(median(create)), times(float64(median(create))/float64(alone[1])), ms(percentile(create, 99)))
	}
	t.print()
	return nil
}

// tenant is a user of one logical cluster who may do everything there.
func (p *population) tenant(ctx context.Context, s *server, c logicalcluster.Name) (*rest.Config, error) {
	inside := inCluster(ctx, c)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}},
	}
	if _, err := p.kube.RbacV1().ClusterRoleBindings().Create(inside, binding, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("making a tenant: %w", err)
	}
	token, err := p.kube.CoreV1().ServiceAccounts("default").CreateToken(inside, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a token: %w", err)
	}
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken = token.Status.Token
	return scope.PinnedConfig(config, scope.Scope{Cluster: c}), nil
}

func (p *population) fill(ctx context.Context, clusters ...logicalcluster.Name) error {
	for _, c := range clusters {
		for i := range noisyObjects {
			obj := newConfigMap(metav1.ObjectMeta{Name: fmt.Sprint("object-", i)})
			obj.Data = map[string]string{"text": strings.Repeat("x", 1000)}
			if _, err := p.kube.CoreV1().ConfigMaps("default").Create(inCluster(ctx, c), obj, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating an object: %w", err)
			}
		}
	}
	return nil
}

// beside times requests of one user while clients of noise ask without end.
func beside(ctx context.Context, clients int, noise, quiet *rest.Config, run string) (listsEach float64, get, create []time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	var lists atomic.Int64
	var loud sync.WaitGroup
	defer loud.Wait()
	defer stop()
	if clients > 0 {
		client, err := ownConnections(noise)
		if err != nil {
			return 0, nil, nil, err
		}
		defer client.CloseIdleConnections()
		for range clients {
			loud.Go(func() { shout(ctx, client, noise.Host, &lists) })
		}
		if err := pause(ctx, 3*time.Second); err != nil { // until all of them wait
			return 0, nil, nil, err
		}
	}
	client, err := kubernetes.NewForConfig(quiet)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("making a client: %w", err)
	}
	maps := client.CoreV1().ConfigMaps("default")
	before, began := lists.Load(), time.Now()
	for i := range quietRequests {
		if time.Since(began) > quietTimeout {
			break
		}
		start := time.Now()
		if _, err := maps.Get(ctx, fmt.Sprint("object-", i), metav1.GetOptions{}); err != nil {
			return 0, nil, nil, fmt.Errorf("getting an object: %w", err)
		}
		get = append(get, time.Since(start))
		start = time.Now()
		if _, err := maps.Create(ctx, newConfigMap(metav1.ObjectMeta{Name: fmt.Sprintf("made-%s-%d", run, i)}), metav1.CreateOptions{}); err != nil {
			return 0, nil, nil, fmt.Errorf("creating an object: %w", err)
		}
		create = append(create, time.Since(start))
	}
	return float64(lists.Load()-before) / time.Since(began).Seconds(), get, create, nil
}

// ownConnections makes a client whose requests have a connection each, which nobody
// else has: what is measured is the server, not a line within a client.
func ownConnections(config *rest.Config) (*http.Client, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	tlsConfig.NextProtos = []string{"http/1.1"}
	client := &http.Client{}
	client.Transport, err = rest.HTTPWrappersForConfig(config, &http.Transport{TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: noisyClients})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client, nil
}

// shout lists until ctx ends; what it is answered is thrown away unread.
func shout(ctx context.Context, client *http.Client, host string, lists *atomic.Int64) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/api/v1/namespaces/default/configmaps", nil)
		if err != nil {
			return
		}
		req.Header.Set("Accept", "application/json")
		answer, err := client.Do(req)
		if err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			lists.Add(1)
		}
	}
}
