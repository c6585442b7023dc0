package reach

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pod is a pod of a physical cluster, by all that tells it apart.
type Pod struct {
	// PhysicalCluster is the UID of the namespace kube-system there.
	PhysicalCluster types.UID `json:"physicalCluster"`
	// Namespace, Name and UID are those that the pod has there.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// ControlPlane, LogicalCluster and LogicalNamespace are what the mark of the
	// namespace says.
	ControlPlane     string              `json:"controlPlane"`
	LogicalCluster   logicalcluster.Name `json:"logicalCluster"`
	LogicalNamespace string              `json:"logicalNamespace"`
}

// Subresources are those of a pod that a Call may be about.
var Subresources = []string{"log", "exec", "attach", "portforward"}

// Subresources of Calls that are about no pod:
//
//	PodMetrics   what the pods of a namespace use: Pod has neither name nor UID
//	NodeMetrics  what the nodes use: Pod has no namespace either, nor a logical cluster
//	Presence     whether the physical cluster is there: Pod as for NodeMetrics
const (
	PodMetrics  = "podmetrics"
	NodeMetrics = "nodemetrics"
	Presence    = "presence"
)

// metricsPath is where API servers serve what is used now, see k8s.io/metrics.
const metricsPath = "/apis/metrics.k8s.io/v1beta1"

// systemPath is the Namespace that says which physical cluster it is.
const systemPath = "/api/v1/namespaces/" + metav1.NamespaceSystem

// Call is a request about a pod, about metrics, or about the physical cluster.
type Call struct {
	Pod Pod
	// Subresource is one of Subresources, or PodMetrics, NodeMetrics or Presence; Method GET or
	// POST, Query its options.
	Subresource, Method string
	Query               url.Values
	// Upgrade are the headers of the client that ask for another protocol; see
	// UpgradeHeaders.
	Upgrade http.Header
	// AuditID is the one of the request above.
	AuditID string
}

// Link carries calls to a physical cluster. The body of the answer holds the connection:
// it is an io.ReadWriteCloser if the status is 101. The error is a StatusError that is
// fit for a user.
type Link interface {
	Do(ctx context.Context, c Call) (*http.Response, error)
}

const (
	podHeader   = "Atoll-Pod"
	auditHeader = "Audit-Id"
	// maxPod bounds the header that names a pod.
	maxPod = 4 << 10
)

// upgradeHeaders are what SPDY and WebSocket clients say about the protocol.
var upgradeHeaders = []string{
	"Connection", "Upgrade", "X-Stream-Protocol-Version",
	"Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions", "Sec-Websocket-Accept",
}

// browserToken is how browsers send a bearer token: as a protocol.
const browserToken = "base64url.bearer.authorization.k8s.io."

// UpgradeHeaders are the headers of h that are about the protocol: no credentials,
// cookies, or names of users.
func UpgradeHeaders(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range upgradeHeaders {
		for _, value := range h.Values(name) {
			if name == "Sec-Websocket-Protocol" {
				value = withoutToken(value)
			}
			if value != "" {
				out.Add(name, value)
			}
		}
	}
	return out
}

func withoutToken(value string) string {
	var kept []string
	for protocol := range strings.SplitSeq(value, ",") {
		if protocol = strings.TrimSpace(protocol); protocol != "" && !strings.HasPrefix(protocol, browserToken) {
			kept = append(kept, protocol)
		}
	}
	return strings.Join(kept, ", ")
}

// Path is the path of the call at the API server of the physical cluster.
func (c Call) Path() string {
	switch c.Subresource {
	case NodeMetrics:
		return metricsPath + "/nodes"
	case PodMetrics:
		return metricsPath + "/namespaces/" + c.Pod.Namespace + "/pods"
	case Presence:
		return systemPath
	}
	return "/api/v1/namespaces/" + c.Pod.Namespace + "/pods/" + c.Pod.Name + "/" + c.Subresource
}

// subresourceOf is the subresource of the call whose path this is, if it is the path of one.
func subresourceOf(path string) string {
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case path == systemPath:
		return Presence
	case !strings.HasPrefix(path, metricsPath):
		return last
	case last == "nodes":
		return NodeMetrics
	}
	return PodMetrics
}

// inNamespace and ofPod say what a call is about besides the physical cluster.
func (c Call) inNamespace() bool { return c.Subresource != NodeMetrics && c.Subresource != Presence }
func (c Call) ofPod() bool       { return c.inNamespace() && c.Subresource != PodMetrics }

// Validate says what is wrong with a call: names become parts of paths.
//
//	Subresource   namespace, logical cluster  name, UID  Method           Query
//	Subresources  needed                      needed     GET, POST        any
//	log           needed                      needed     GET              any
//	PodMetrics    needed                      none       GET              none
//	NodeMetrics   none                        none       GET              none
//	Presence      none                        none       GET              none
func (c Call) Validate() error {
	p := c.Pod
	ofPod := c.ofPod()
	switch {
	case ofPod && !slices.Contains(Subresources, c.Subresource):
		return fmt.Errorf("subresource %q is none of %v, %s, %s and %s", c.Subresource, Subresources, PodMetrics, NodeMetrics, Presence)
	case c.Method != http.MethodGet && (c.Method != http.MethodPost || c.Subresource == "log" || !ofPod):
		return fmt.Errorf("method %q is not for %s", c.Method, c.Subresource)
	case p.PhysicalCluster == "" || p.ControlPlane == "",
		(p.UID == "") == ofPod, (p.Name == "") == ofPod,
		(p.Namespace == "") == c.inNamespace(), (p.LogicalCluster == "") == c.inNamespace(), (p.LogicalNamespace == "") == c.inNamespace():
		return fmt.Errorf("%s is not told apart by all that is needed, and nothing else", c.Subresource)
	case !ofPod && (len(c.Query) > 0 || len(c.Upgrade) > 0):
		return fmt.Errorf("%s has no options", c.Subresource)
	}
	for _, name := range []string{p.Namespace, p.Name} {
		if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
			return fmt.Errorf("%q is no name", name)
		}
	}
	return nil
}

// request is the call as a request to a server, whose URL is base.
func (c Call) request(ctx context.Context, base *url.URL) (*http.Request, error) {
	to := *base
	to.Path = strings.TrimSuffix(to.Path, "/") + c.Path()
	to.RawQuery = c.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, c.Method, to.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	req.Header = c.Upgrade.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", "atoll")
	if c.AuditID != "" {
		req.Header.Set(auditHeader, c.AuditID)
	}
	return req, nil
}

// encode adds to a request what its path does not say.
func (c Call) encode(req *http.Request) error {
	pod, err := json.Marshal(c.Pod)
	if err != nil {
		return fmt.Errorf("encoding the pod: %w", err)
	}
	req.Header.Set(podHeader, string(pod))
	return nil
}

// decode reads a call. The path is not read but compared: what is checked is what is
// asked for.
func decode(req *http.Request) (c Call, err error) {
	pod := req.Header.Get(podHeader)
	if len(pod) > maxPod {
		return c, fmt.Errorf("the header %s has %d bytes", podHeader, len(pod))
	}
	if err := json.Unmarshal([]byte(pod), &c.Pod); err != nil {
		return c, fmt.Errorf("reading the header %s: %w", podHeader, err)
	}
	c.Method, c.Query, c.AuditID, c.Upgrade = req.Method, req.URL.Query(), req.Header.Get(auditHeader), UpgradeHeaders(req.Header)
	c.Subresource = subresourceOf(req.URL.Path)
	if err := c.Validate(); err != nil {
		return c, err
	}
	if req.URL.Path != c.Path() {
		return c, fmt.Errorf("the path %q is not that of the call", req.URL.Path)
	}
	return c, nil
}
