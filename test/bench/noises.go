package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// noiseConfig says which noise to make, and as whom.
type noiseConfig struct {
	Noise, Host, Token, CAFile string
	CA                         []byte
}

// noise is one tenant who makes it.
type noise struct {
	config *rest.Config
	kube   kubernetes.Interface
	client *http.Client
	// done and refused count answers.
	done, refused atomic.Int64
	// open are the connections that nobody reads from.
	open []net.Conn
}

func newNoise(config *rest.Config) (n *noise, err error) {
	n = &noise{config: config}
	if n.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	n.client, err = ownConnections(config)
	return n, err
}

const largeBytes = 900_000

// noises start, and go on until ctx ends.
var noises = map[string]func(context.Context, *noise) error{
	"getters": func(ctx context.Context, n *noise) error {
		if err := n.put(ctx, "small", 100); err != nil {
			return err
		}
		n.repeat(ctx, 200, func(ctx context.Context, _ int) error { return n.ask(ctx, http.MethodGet, mapsPath+"/small", nil) })
		return nil
	},
	"lists of 54 MB": func(ctx context.Context, n *noise) error {
		for i := range 60 {
			if err := n.put(ctx, fmt.Sprint("large-", i), largeBytes); err != nil {
				return err
			}
		}
		n.repeat(ctx, 16, func(ctx context.Context, _ int) error { return n.ask(ctx, http.MethodGet, mapsPath, nil) })
		return nil
	},
	"rewrites of 900 kB": func(ctx context.Context, n *noise) error {
		var count atomic.Int64
		for i := range 16 {
			if err := n.put(ctx, fmt.Sprint("large-", i), 100); err != nil {
				return err
			}
		}
		n.repeat(ctx, 16, func(ctx context.Context, i int) error {
			body := fmt.Sprintf(`{"data":{"text":"%d%s"}}`, count.Add(1), strings.Repeat("x", largeBytes))
			return n.ask(ctx, http.MethodPatch, fmt.Sprint(mapsPath, "/large-", i), []byte(body))
		})
		return nil
	},
	"watches that nobody reads": func(ctx context.Context, n *noise) error {
		for i := range 4 {
			if err := n.put(ctx, fmt.Sprint("watched-", i), 100); err != nil {
				return err
			}
		}
		for range 300 {
			if err := n.watchUnread(ctx); err != nil {
				return err
			}
		}
		var count atomic.Int64
		n.repeat(ctx, 4, func(ctx context.Context, i int) error {
			body := fmt.Sprintf(`{"data":{"text":"%d%s"}}`, count.Add(1), strings.Repeat("x", 20_000))
			return n.ask(ctx, http.MethodPatch, fmt.Sprint(mapsPath, "/watched-", i), []byte(body))
		})
		return nil
	},
	"CEL": func(ctx context.Context, n *noise) error {
		if err := n.policies(ctx, 10); err != nil {
			return err
		}
		n.creates(ctx, 16, 4000)
		return nil
	},
	"rules of schemas": func(ctx context.Context, n *noise) error {
		if err := n.ruled(ctx); err != nil {
			return err
		}
		var count atomic.Int64
		n.repeat(ctx, 16, func(ctx context.Context, _ int) error {
			body := fmt.Sprintf(`{"apiVersion":"noise.example.com/v1","kind":"Widget","metadata":{"name":"made-%d"},"text":"a"}`, count.Add(1))
			return n.ask(ctx, http.MethodPost, "/apis/noise.example.com/v1/namespaces/default/widgets?dryRun=All", []byte(body))
		})
		return nil
	},
	"patterns of schemas": func(ctx context.Context, n *noise) error {
		text := apiextensionsv1.JSONSchemaProps{Type: "string"}
		for i := range 200 {
			text.AnyOf = append(text.AnyOf, apiextensionsv1.JSONSchemaProps{Pattern: fmt.Sprintf("(a?){100}b%d$", i)})
		}
		if err := n.defineWidgets(ctx, text); err != nil {
			return err
		}
		var count atomic.Int64
		n.repeat(ctx, 16, func(ctx context.Context, i int) error {
			length := 10_000 * (1 + 5*(i%2)) // the longer one takes too long
			body := fmt.Sprintf(`{"apiVersion":"noise.example.com/v1","kind":"Widget","metadata":{"name":"made-%d"},"text":"%s"}`, count.Add(1), strings.Repeat("a", length))
			return n.ask(ctx, http.MethodPost, "/apis/noise.example.com/v1/namespaces/default/widgets?dryRun=All", []byte(body))
		})
		return nil
	},
	"hanging webhooks": func(ctx context.Context, n *noise) error {
		return n.webhook(ctx, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	},
	"endless webhooks": func(ctx context.Context, n *noise) error {
		return n.webhook(ctx, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"`))
			part := bytes.Repeat([]byte("x"), 64<<10)
			for {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		})
	},
	"slow bodies": func(ctx context.Context, n *noise) error {
		n.repeat(ctx, 200, func(ctx context.Context, i int) error {
			return n.slowly(ctx, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"slow-%d"}}`, i))
		})
		return nil
	},
	"idle connections": func(ctx context.Context, n *noise) error {
		n.repeat(ctx, 1500, func(ctx context.Context, _ int) error {
			c, err := n.dial(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			_, err = io.Copy(io.Discard, c)
			return err
		})
		return nil
	},
	"huge selectors": func(ctx context.Context, n *noise) error {
		n.repeat(ctx, 64, func(ctx context.Context, i int) error {
			length := 30 << 10 // which is parsed, and one that is not
			if i%2 == 0 {
				length = 900 << 10
			}
			return n.ask(ctx, http.MethodGet, mapsPath+"?labelSelector="+strings.Repeat("a!=b,", length/5)+"a", nil)
		})
		return nil
	},
	"selective watches": func(ctx context.Context, n *noise) error {
		if err := n.put(ctx, "watched", 100); err != nil {
			return err
		}
		for range 300 { // as many as it gets
			c, err := n.request(ctx, http.MethodGet, mapsPath+"?watch=true&labelSelector="+strings.Repeat("!a,", 10_000)+"!b", "Accept: application/json\r\n")
			if err != nil {
				return err
			}
			n.open = append(n.open, c)
		}
		var count atomic.Int64
		n.repeat(ctx, 1, func(ctx context.Context, _ int) error {
			if err := n.ask(ctx, http.MethodPatch, mapsPath+"/watched", fmt.Appendf(nil, `{"data":{"text":"%d"}}`, count.Add(1))); err != nil {
				return err
			}
			return pause(ctx, 50*time.Millisecond)
		})
		return nil
	},
	"cancelled requests": func(ctx context.Context, n *noise) error {
		for i := range 40 {
			if err := n.put(ctx, fmt.Sprint("large-", i), largeBytes/4); err != nil {
				return err
			}
		}
		n.repeat(ctx, 100, func(ctx context.Context, i int) error {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(1+i%20)*time.Millisecond)
			defer cancel()
			return n.ask(ctx, http.MethodGet, mapsPath, nil)
		})
		return nil
	},
	"OpenAPI": func(ctx context.Context, n *noise) error {
		if err := n.define(ctx, 40); err != nil {
			return err
		}
		n.repeat(ctx, 32, func(ctx context.Context, _ int) error { return n.ask(ctx, http.MethodGet, "/openapi/v2", nil) })
		return nil
	},
}

const mapsPath = "/api/v1/namespaces/default/configmaps"

// noiseNames are the noises in the order of the table.
func noiseNames() []string { return slices.Sorted(maps.Keys(noises)) }

// runNoise is the process that makes one noise until it is ended.
func runNoise(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the noise: %w", err)
	}
	var c noiseConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("reading the noise: %w", err)
	}
	n, err := newNoise(&rest.Config{Host: c.Host, BearerToken: c.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.CA, CAFile: c.CAFile}})
	if err != nil {
		return err
	}
	if err := noises[c.Noise](ctx, n); err != nil {
		return err
	}
	fmt.Println("ready")
	began, done, refused := time.Now(), n.done.Load(), n.refused.Load()
	<-ctx.Done()
	seconds := time.Since(began).Seconds()
	fmt.Printf("%.0f done, %.0f refused or cut off\n", float64(n.done.Load()-done)/seconds, float64(n.refused.Load()-refused)/seconds)
	return nil // the process ends, and whatever goes on in it
}

// repeat does something at so many places at a time, without end.
func (n *noise) repeat(ctx context.Context, places int, do func(ctx context.Context, place int) error) {
	for i := range places {
		go func() {
			for ctx.Err() == nil {
				if do(ctx, i) == nil {
					n.done.Add(1)
					continue
				}
				n.refused.Add(1)
				_ = pause(ctx, 10*time.Millisecond) // one who is refused is no loop without network
			}
		}()
	}
}

// ask sends a request and throws the answer away.
func (n *noise) ask(ctx context.Context, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, n.config.Host+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("asking: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return nil
}

func (n *noise) put(ctx context.Context, name string, size int) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": strings.Repeat("x", size)}}
	if _, err := n.kube.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating an object: %w", err)
	}
	return nil
}

// creates makes objects of some entries, which are refused or not.
func (n *noise) creates(ctx context.Context, places, entries int) {
	var count atomic.Int64
	data := map[string]string{}
	for i := range entries {
		data[fmt.Sprint("key-", i)] = "aaaaaaaaaaaaaaaaaaaaaaaa"
	}
	n.repeat(ctx, places, func(ctx context.Context, _ int) error {
		body, err := json.Marshal(&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("made-", count.Add(1))}, Data: data,
		})
		if err != nil {
			return fmt.Errorf("encoding an object: %w", err)
		}
		return n.ask(ctx, http.MethodPost, mapsPath+"?dryRun=All", body)
	})
}

// policies make every creation of a ConfigMap expensive, each as much as it may.
func (n *noise) policies(ctx context.Context, count int) error {
	expression := `object.data.all(k, object.data[k].matches('^(a+)+$')) && object.data.all(k, object.data[k].matches('^(a*)*b?$'))`
	api := n.kube.AdmissionregistrationV1()
	for i := range count {
		name := fmt.Sprint("expensive-", i)
		p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    new(admissionregistrationv1.Ignore),
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: configMaps}}},
			Validations:      []admissionregistrationv1.Validation{{Expression: expression}},
		}}
		if _, err := api.ValidatingAdmissionPolicies().Create(ctx, p, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a policy: %w", err)
		}
		b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}}
		if _, err := api.ValidatingAdmissionPolicyBindings().Create(ctx, b, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("binding a policy: %w", err)
		}
	}
	return nil
}

var configMaps = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
	Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
}

// webhook has every creation of a ConfigMap ask a server that answers like this.
func (n *noise) webhook(ctx context.Context, answer http.HandlerFunc) error {
	s := httptest.NewUnstartedServer(answer)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: "hostile.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds: new(int32(30)), FailurePolicy: new(admissionregistrationv1.Fail), Rules: []admissionregistrationv1.RuleWithOperations{configMaps},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: new(s.URL + "/"), CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		},
	}
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}}
	if _, err := n.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, c, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a webhook: %w", err)
	}
	n.creates(ctx, 600, 1)
	return nil
}

// dial connects as another source than the neighbour.
func (n *noise) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	address, _, _ := strings.Cut(strings.TrimPrefix(n.config.Host, "https://"), "/")
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return c, nil
}

// request sends the head of a request on a connection of its own.
func (n *noise) request(ctx context.Context, method, path, head string) (net.Conn, error) {
	raw, err := n.dial(ctx)
	if err != nil {
		return nil, err
	}
	config, err := rest.TLSConfigFor(n.config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	host, prefix, _ := strings.Cut(strings.TrimPrefix(n.config.Host, "https://"), "/")
	config.ServerName, _, _ = net.SplitHostPort(host)
	config.NextProtos = []string{"http/1.1"}
	c := tls.Client(raw, config)
	_, err = fmt.Fprintf(c, "%s /%s%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\n", method, prefix, path, host, n.config.BearerToken, head)
	if err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("asking: %w", err)
	}
	return c, nil
}

// watchUnread opens a watch, of which only the beginning is read.
func (n *noise) watchUnread(ctx context.Context) error {
	c, err := n.request(ctx, http.MethodGet, mapsPath+"?watch=true&resourceVersion=0", "Accept: application/json\r\n")
	if err != nil {
		return err
	}
	n.open = append(n.open, c)
	_, err = bufio.NewReaderSize(c, 16).ReadByte()
	return err
}

// slowly sends a body of which nearly all is missing, byte by byte.
func (n *noise) slowly(ctx context.Context, body string) error {
	c, err := n.request(ctx, http.MethodPost, mapsPath, fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body)*1000))
	if err != nil {
		return err
	}
	defer c.Close()
	for i := 0; ; i++ {
		if _, err := c.Write([]byte{body[i%len(body)]}); err != nil {
			return fmt.Errorf("cut off: %w", err)
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

// ruled makes a definition of Widgets, with as many rules as cost nearly what upstream permits.
func (n *noise) ruled(ctx context.Context) error {
	ten := "[0,1,2,3,4,5,6,7,8,9]"
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	for i := range 9 {
		text.XValidations = append(text.XValidations, apiextensionsv1.ValidationRule{
			Rule: fmt.Sprintf("%[1]s.all(a, %[1]s.all(b, %[1]s.all(c, %[1]s.all(d, [0,1,2,3].all(e, a+b+c+d+e >= -%[2]d)))))", ten, i),
		})
	}
	return n.defineWidgets(ctx, text)
}

// defineWidgets makes a definition of Widgets with such a text.
func (n *noise) defineWidgets(ctx context.Context, text apiextensionsv1.JSONSchemaProps) error {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ListKind: "WidgetList"}
	version := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
		OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"text": text}},
	}}
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.noise.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "noise.example.com", Names: names, Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version}},
	}
	body, err := json.Marshal(crd)
	if err != nil {
		return fmt.Errorf("encoding a definition: %w", err)
	}
	return n.ask(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
}

// define makes definitions that nobody else has.
func (n *noise) define(ctx context.Context, count int) error {
	d, err := newDefiner(&server{name: "the noisy tenant"}, n.config)
	if err != nil {
		return err
	}
	for i := range count {
		if _, err := d.define(ctx, i); err != nil {
			return err
		}
	}
	return nil
}
