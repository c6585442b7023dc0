package egress

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// answering calls a webhook that answers so.
func answering(t *testing.T, sent int, answer string) (string, error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	t.Cleanup(s.Close)
	config, err := newGuard(t, Options{Allow: []string{"127.0.0.0/8"}}).AdmissionWebhooks(Services{})(nil).ClientConfigFor("")
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Post(s.URL, "application/json", strings.NewReader(strings.Repeat("x", sent)))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestAPatchOfAWebhookHasABoundedNumberOfOperations(t *testing.T) {
	t.Parallel()
	patch := func(operations int) string {
		all := "[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/a/0","value":1},`, operations), ",") + "]"
		return base64.StdEncoding.EncodeToString([]byte(all))
	}
	inJSON := func(version, patch string) string {
		return `{"apiVersion":"admission.k8s.io/` + version + `","kind":"AdmissionReview","response":{"uid":"a","allowed":true,"patch":"` + patch + `"}}`
	}
	for name, c := range map[string]struct {
		answer string
		fine   bool
	}{
		"none":                     {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"a","allowed":true}}`, true},
		"no review":                {"{}", true},
		"as many as there may be":  {inJSON("v1", patch(maxOperations)), true},
		"one more":                 {inJSON("v1", patch(maxOperations+1)), false},
		"one more, of before":      {inJSON("v1beta1", patch(maxOperations+1)), false},
		"one more, and another":    {strings.Replace(inJSON("v1", patch(maxOperations+1)), `"}}`, `","Patch":"W10="}}`, 1), false},
		"one more, in YAML":        {"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nresponse: {uid: a, allowed: true, patch: " + patch(maxOperations+1) + "}", false},
		"more than is ever a call": {inJSON("v1", patch(4*maxOperations)), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answering(t, 1, c.answer)
			if c.fine && (err != nil || got != c.answer) || !c.fine && !errors.Is(err, errTooManyOperations) {
				t.Errorf("%.100s, %v", got, err)
			}
		})
	}
}

func TestAnObjectThatWebhooksHaveGrownIsSentToNoneMore(t *testing.T) {
	t.Parallel()
	if _, err := answering(t, maxSent, "{}"); err != nil {
		t.Error(err)
	}
	if _, err := answering(t, maxSent+1, "{}"); !errors.Is(err, errGrown) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestAWebhookWithALongHeaderIsNotRead(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Much", strings.Repeat("x", 512<<10))
	}))
	t.Cleanup(s.Close)
	guard := newGuard(t, Options{Allow: []string{"127.0.0.0/8"}})
	for name, webhooks := range map[string]webhookutil.AuthenticationInfoResolverWrapper{
		"admission": guard.AdmissionWebhooks(Services{}), "conversion": guard.Webhooks(Services{}),
	} {
		config, err := webhooks(nil).ClientConfigFor("")
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Post(s.URL, "application/json", strings.NewReader("{}"))
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "header") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
