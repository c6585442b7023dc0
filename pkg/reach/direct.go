package reach

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	// checkTimeout bounds how long it takes to connect and to find out who is there.
	checkTimeout = 5 * time.Second
	// headerTimeout bounds how long the other side takes to begin an answer: it asks a
	// kubelet first.
	headerTimeout = 30 * time.Second
	// maxHeader bounds the header of an answer, maxMetadata that of an object.
	maxHeader   = 64 << 10
	maxMetadata = 1 << 20
)

// keepAlive gives a connection up half a minute after the network was cut, as a tunnel does:
// who follows logs reads only, and would not notice.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Direct carries calls to the API server of a physical cluster.
type Direct struct {
	config *rest.Config
	base   *url.URL
}

var _ Link = &Direct{}

// NewDirect makes a link with what config says. Connections are made for each call, so
// a Direct holds none.
func NewDirect(config *rest.Config) (*Direct, error) {
	config = rest.CopyConfig(config)
	config.NextProtos = []string{"http/1.1"} // HTTP/2 has no upgrades
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the physical cluster: %w", err)
	}
	d := &Direct{config: config, base: base}
	_, end, err := d.open()
	if err != nil {
		return nil, err
	}
	end()
	return d, nil
}

// Do implements Link.
func (d *Direct) Do(ctx context.Context, c Call) (*http.Response, error) {
	if err := c.Validate(); err != nil {
		return nil, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	through, end, err := d.open()
	if err != nil {
		return nil, Unavailable("its credential cannot be used")
	}
	if err := d.check(ctx, through, c); err != nil {
		end()
		return nil, err
	}
	req, err := c.request(ctx, d.base)
	if err != nil {
		end()
		return nil, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	return roundTrip(through, req, end)
}

// roundTrip sends a request whose connection ends with the answer.
func roundTrip(through http.RoundTripper, req *http.Request, end func()) (*http.Response, error) {
	resp, err := through.RoundTrip(req)
	if err != nil {
		end()
		return nil, unreached(err)
	}
	resp.Body = ending(resp.Body, end)
	return resp, nil
}

// open returns what sends requests over one connection, and what ends that. It sends what the
// configuration says, and verifies who answers as it says. Proxies are not used.
func (d *Direct) open() (http.RoundTripper, func(), error) {
	tls, err := rest.TLSConfigFor(d.config)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificates for the physical cluster: %w", err)
	}
	dial := d.config.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAliveConfig: keepAlive}).DialContext
	}
	s := &single{dial: dialURL(dial, d.base, tls)}
	through, err := rest.HTTPWrappersForConfig(d.config, s)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the credential for the physical cluster: %w", err)
	}
	return through, s.Close, nil
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// check finds out who is at the end of the connection:
//
//	kube-system  namespace          pod           then
//	another UID  any                any           503: another cluster answers there
//	the UID      gone, or not ours  any           409
//	the UID      marked as meant    gone          409
//	the UID      marked as meant    another UID   409
//	the UID      marked as meant    the UID       the call is sent
//
// Of what a call is not about, nothing is asked.
func (d *Direct) check(ctx context.Context, through http.RoundTripper, c Call) error {
	p := c.Pod
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	const namespaces = "/api/v1/namespaces/"
	system, err := d.metadata(ctx, through, namespaces+metav1.NamespaceSystem)
	switch {
	case err != nil:
		return err
	case system == nil || system.UID != p.PhysicalCluster:
		return Unavailable("another cluster answers there than the one that is meant")
	case !c.inNamespace():
		return nil
	}
	namespace, err := d.metadata(ctx, through, namespaces+p.Namespace)
	switch {
	case err != nil:
		return err
	case namespace == nil || !marked(namespace, p):
		return Absent("its namespace there is not the one that the control plane made")
	case !c.ofPod():
		return nil
	}
	pod, err := d.metadata(ctx, through, namespaces+p.Namespace+"/pods/"+p.Name)
	switch {
	case err != nil:
		return err
	case pod == nil:
		return Absent("it is not there any more")
	case pod.UID != p.UID:
		return Absent("another pod has its name there by now")
	}
	return nil
}

// marked says that a namespace is the copy of the one that p is in.
func marked(namespace *metav1.ObjectMeta, p Pod) bool {
	a := namespace.Annotations
	return namespace.Labels[placementv1alpha1.ManagedByLabel] == p.ControlPlane &&
		logicalcluster.Name(a[placementv1alpha1.LogicalClusterAnnotation]) == p.LogicalCluster &&
		a[placementv1alpha1.NamespaceAnnotation] == p.LogicalNamespace
}

// metadata reads what an object says about itself; nil if there is none.
func (d *Direct) metadata(ctx context.Context, through http.RoundTripper, path string) (*metav1.ObjectMeta, error) {
	to := d.base.JoinPath(path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, Unavailable("its address cannot be used")
	}
	req.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	req.Header.Set("User-Agent", "atoll")
	resp, err := through.RoundTrip(req)
	if err != nil {
		return nil, unreached(err)
	}
	defer resp.Body.Close()
	// To its end: else the connection is not used again.
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadata))
	switch {
	case err != nil:
		return nil, unreached(err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return nil, notPermitted()
	case resp.StatusCode != http.StatusOK:
		return nil, Unavailable(fmt.Sprintf("it answers with an error (%d)", resp.StatusCode))
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, Unavailable("it answers in no words of an API server")
	}
	return &object.ObjectMeta, nil
}

// ending ends the connection of an answer with its body.
func ending(body io.ReadCloser, end func()) io.ReadCloser {
	if both, ok := body.(io.ReadWriteCloser); ok {
		return writable{closer{body, end}, both}
	}
	return closer{body, end}
}

type closer struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (c closer) Close() error {
	defer c.end()
	return c.ReadCloser.Close()
}

type writable struct {
	closer
	io.Writer
}
