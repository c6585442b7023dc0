package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
	"github.com/atoll-dev/atoll/pkg/controller"
)

const (
	// checkInterval is how often an aggregated server is asked.
	checkInterval = 30 * time.Second
	// minRetryDelay is when one that failed is asked again; it doubles up to checkInterval.
	minRetryDelay = time.Second
	// busyDelay is when a check is tried again that found too many under way.
	busyDelay = 500 * time.Millisecond
	// checkTimeout is how long a server may take to say what it serves.
	checkTimeout = 5 * time.Second
	// attempts is how many of its addresses are tried.
	attempts = 3
	// maxChecks is how many checks of a logical cluster are under way at a time.
	maxChecks = 4
	// maxDocument bounds what a server says of what it serves.
	maxDocument = 512 << 10
)

func sameSpec(x, y *apiregistrationv1.APIService) bool {
	return apiequality.Semantic.DeepEqual(x.Spec, y.Spec)
}

// reconcile starts a check in a goroutine of its own: a server that does not
// answer keeps nobody waiting but itself.
func (a *Aggregation) reconcile(ctx context.Context, r controller.Request) (controller.Result, error) {
	s, ok := a.informer.Get(r)
	if !ok {
		a.forget(r)
		return controller.Result{}, nil
	}
	if !a.enter(r) {
		return controller.Result{RequeueAfter: busyDelay}, nil
	}
	a.checks.Go(func() {
		next := a.check(ctx, s)
		a.leave(r)
		a.queue.EnqueueAfter(r, wait.Jitter(next, 0.2))
	})
	return controller.Result{}, nil
}

func (a *Aggregation) enter(r controller.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	running := a.checking[r.Cluster]
	if running.Has(r) || len(running) >= maxChecks {
		return false
	}
	if running == nil {
		running = sets.New[controller.Request]()
		a.checking[r.Cluster] = running
	}
	running.Insert(r)
	return true
}

func (a *Aggregation) leave(r controller.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.checking[r.Cluster].Delete(r); len(a.checking[r.Cluster]) == 0 {
		delete(a.checking, r.Cluster)
	}
}

// check looks at one APIService, writes what it found, and returns when to look
// again.
func (a *Aggregation) check(ctx context.Context, s *apiregistrationv1.APIService) time.Duration {
	logger := klog.FromContext(ctx)
	c := logicalcluster.From(s)
	failed := false
	if err := a.proxies.publish(ctx, c); err != nil && ctx.Err() == nil {
		if !apierrors.IsForbidden(err) { // the logical cluster or its namespace goes
			logger.Error(err, "Extension servers of the logical cluster cannot verify users")
		}
		failed = true
	}
	before := a.state(s)
	saw := a.look(ctx, s)
	if ctx.Err() != nil {
		return checkInterval
	}
	condition := saw.condition(s.Spec.Service, metav1.Now())
	fresh := condition.Status == apiregistrationv1.ConditionTrue
	// First: who reads that it is available is served.
	a.learn(s, func(known *state) {
		if known.fresh = fresh; !fresh {
			known.resources, known.digest, known.openAPI = nil, "", ""
		}
	})
	if err := a.write(ctx, s, condition); err != nil {
		if !apierrors.IsConflict(err) {
			logger.Error(err, "Writing whether an APIService is available failed")
		}
		failed = true
	}
	delay := checkInterval
	a.learn(s, func(known *state) {
		if failed || !fresh {
			delay = min(minRetryDelay<<min(known.failures, 5), checkInterval)
			known.failures++
		} else {
			known.failures = 0
		}
	})
	if now := a.state(s); now != nil && (before == nil || before.fresh != now.fresh || before.digest != now.digest) {
		a.notify(c, "")
	}
	return delay
}

// look finds the server and asks what it serves.
func (a *Aggregation) look(ctx context.Context, s *apiregistrationv1.APIService) (saw sight) {
	c := logicalcluster.From(s)
	saw.rank = slices.IndexFunc(a.list(c), func(o *apiregistrationv1.APIService) bool { return o.UID == s.UID })
	if saw.rank >= maxServices {
		return saw
	}
	ref := s.Spec.Service
	port := int32(443)
	if ref.Port != nil {
		port = *ref.Port
	}
	var hosts []string
	hosts, saw.located = a.services(c).Locate(ctx, ref.Namespace, ref.Name, port)
	if saw.located != nil {
		return saw
	}
	through, err := a.connect(s)
	if err != nil {
		saw.answer = err
		return saw
	}
	for _, host := range hosts[:min(len(hosts), attempts)] {
		said, err := a.ask(ctx, s, through, host)
		if err == nil {
			a.learn(s, func(known *state) {
				known.hosts = hosts
				known.resources, known.digest, known.openAPI = said.resources, said.digest, said.openAPI
			})
			saw.answer = nil
			return saw
		}
		if saw.answer == nil {
			saw.answer = err
		}
	}
	return saw
}

// said is what a server says of what it serves.
type said struct {
	document
	openAPI string
}

// ask asks the server at host, as upstream: as somebody who may see everything.
func (a *Aggregation) ask(ctx context.Context, s *apiregistrationv1.APIService, through http.RoundTripper, host string) (out said, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	path := "/apis/" + s.Spec.Group + "/" + s.Spec.Version
	location := url.URL{Scheme: "https", Host: host, Path: path}
	body, code, err := fetch(ctx, through, location)
	if err != nil {
		return out, fmt.Errorf("failing or missing response from https://%s%s: %w", egress.HostHeader(host), path, err)
	}
	if code < http.StatusOK || code >= http.StatusMultipleChoices {
		return out, fmt.Errorf("failing or missing response from https://%s%s: bad status %d", egress.HostHeader(host), path, code)
	}
	out.document = readDocument(s.Spec.Group, s.Spec.Version, body)
	location.Path = "/openapi/v3"
	if body, code, err := fetch(ctx, through, location); err == nil && code == http.StatusOK {
		out.openAPI = readOpenAPIHash(body, path)
	}
	return out, nil
}

func fetch(ctx context.Context, through http.RoundTripper, location url.URL) (body []byte, code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return nil, 0, err
	}
	req.Host = egress.HostHeader(location.Host)
	req.Header.Set("Accept", "application/json")
	transport.SetAuthProxyHeaders(req, "system:kube-aggregator", "", []string{user.SystemPrivilegedGroup}, nil)
	resp, err := through.RoundTrip(req) // a client would follow redirects
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(body) > maxDocument {
		err = errTooLarge
	}
	if err != nil {
		return nil, 0, fmt.Errorf("reading the answer: %w", steady(err))
	}
	return body, resp.StatusCode, nil
}

// write stores the condition if it changes anything.
func (a *Aggregation) write(ctx context.Context, s *apiregistrationv1.APIService, condition apiregistrationv1.APIServiceCondition) error {
	changed := s.DeepCopy()
	helper.SetAPIServiceCondition(changed, condition)
	if apiequality.Semantic.DeepEqual(s.Status, changed.Status) {
		return nil
	}
	_, err := a.client.ApiregistrationV1().APIServices().UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func decode[T any](data []byte) (out T, ok bool) {
	return out, json.Unmarshal(data, &out) == nil
}
