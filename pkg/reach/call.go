package reach

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/validate/content"
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

// Call is a request about a pod.
type Call struct {
	Pod Pod
	// Subresource is one of Subresources, Method GET or POST, Query its options.
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
	return "/api/v1/namespaces/" + c.Pod.Namespace + "/pods/" + c.Pod.Name + "/" + c.Subresource
}

// Validate says what is wrong with a call: names become parts of paths.
func (c Call) Validate() error {
	switch {
	case !slices.Contains(Subresources, c.Subresource):
		return fmt.Errorf("subresource %q is none of %v", c.Subresource, Subresources)
	case c.Method != http.MethodGet && (c.Method != http.MethodPost || c.Subresource == "log"):
		return fmt.Errorf("method %q is not for %s", c.Method, c.Subresource)
	case c.Pod.UID == "" || c.Pod.PhysicalCluster == "" || c.Pod.ControlPlane == "" || c.Pod.LogicalCluster == "" || c.Pod.LogicalNamespace == "":
		return errors.New("the pod is not told apart by all that is needed")
	}
	for _, name := range []string{c.Pod.Namespace, c.Pod.Name} {
		if wrong := content.IsPathSegmentName(name); name == "" || len(wrong) > 0 {
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
	c.Subresource = req.URL.Path[strings.LastIndexByte(req.URL.Path, '/')+1:]
	if err := c.Validate(); err != nil {
		return c, err
	}
	if req.URL.Path != c.Path() {
		return c, fmt.Errorf("the path %q is not that of the pod", req.URL.Path)
	}
	return c, nil
}
