package auth

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/test/framework/server"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver"]
- level: Metadata
`

func TestAuditEventsHaveTheLogicalClusterAndWhatWasAsked(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "audit.log")
	s := server.StartWith(t, func(o *app.Options) {
		o.Auth.TokenFile = write(t, dir, "tokens.csv", tokenFile)
		o.Audit.PolicyFile = write(t, dir, "policy.yaml", auditPolicy)
		o.Audit.LogOptions.Path = log
	})
	ctx := s.NewCluster(t, "audited")
	if _, err := s.Kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 7}); err != nil {
		t.Fatal(err)
	}
	if _, err := client(bearer(s, "mallory-token")).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{Limit: 8}); err == nil {
		t.Fatal("mallory may list")
	}
	if _, err := client(bearer(s, "no-token")).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{Limit: 9}); err == nil {
		t.Fatal("nobody may list")
	}
	plain := kubernetes.NewForConfigOrDie(bearer(s, tokenFor(ctx, t, s, authenticationv1.TokenRequestSpec{})))
	_, _ = plain.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{Limit: 10}) // forbidden, and written down
	for limit, want := range map[string]struct {
		uri  string
		code int32
		user string
	}{
		"limit=7":  {"/clusters/audited/api/v1/namespaces/default/configmaps?limit=7", 200, "admin"},
		"limit=8":  {"/clusters/audited/api/v1/namespaces/default/secrets?limit=8", 403, "mallory"},
		"limit=9":  {"/clusters/audited/api/v1/namespaces/default/secrets?limit=9", 401, ""},
		"limit=10": {"/api/v1/namespaces/default/secrets?limit=10", 403, "system:serviceaccount:default:default"},
	} {
		var e auditv1.Event
		eventually(t, "the event of "+limit, func() (err error) {
			e, err = eventOf(log, limit)
			return err
		})
		if e.RequestURI != want.uri || e.ResponseStatus.Code != want.code || e.User.Username != want.user ||
			e.Annotations["atoll.dev/cluster"] != "audited" || e.Annotations["atoll.dev/request-uri"] != "" {
			t.Errorf("%s: %s by %q: %d, annotations %v", limit, e.RequestURI, e.User.Username, e.ResponseStatus.Code, e.Annotations)
		}
	}
	metrics, err := kubernetes.NewForConfigOrDie(s.Config).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(metrics)) {
		// Package usage names a bounded number of logical clusters.
		if strings.Contains(line, "audited") && !strings.HasPrefix(line, "atoll_logical_cluster_request") {
			t.Errorf("a metric has the name of a logical cluster: %s", line)
		}
	}
}

func eventOf(path, part string) (e auditv1.Event, err error) {
	f, err := os.Open(path)
	if err != nil {
		return e, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &e); err == nil && strings.HasSuffix(e.RequestURI, part) {
			return e, nil
		}
		e = auditv1.Event{}
	}
	return e, errors.New("it is not in the log")
}

func TestRequestsOfTenantsAreSharedOutByLogicalCluster(t *testing.T) {
	s := shared(t)
	s.NewCluster(t, "shared-out")
	ctx := in(t, "root")
	schema, err := s.Kube.FlowcontrolV1().FlowSchemas().Get(ctx, "atoll-logical-clusters", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := bearer(s, "mallory-token")
	eventually(t, "requests of users are of the level of logical clusters", func() error {
		uid := headerOf(t, config, s.URL+"/clusters/shared-out/api/v1/secrets", "X-Kubernetes-Pf-Flowschema-Uid")
		if uid != string(schema.UID) {
			return errors.New("the flow schema is " + uid)
		}
		return nil
	})
}
