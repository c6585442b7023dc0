package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
)

const (
	// maxOperations is how many operations the patch of a webhook has: as many as upstream
	// permits a user in a patch. Of a list each one may move all items, and no deadline ends it.
	maxOperations = 10000
	// maxSent is how many bytes of an object, new and old, are sent to a webhook. Users send
	// less; but each webhook may make more of it for the next.
	maxSent = 16 << 20
)

var (
	errTooManyOperations = fmt.Errorf("its patch has more than %d operations", maxOperations)
	errGrown             = errors.New("the webhooks before it have made too much of the object")
)

// reviewDecoder reads answers as upstream does: they may be YAML, too.
var reviewDecoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionv1.AddToScheme(scheme))
	utilruntime.Must(admissionv1beta1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// AdmissionWebhooks is Webhooks for those that admit objects, and may change them.
func (g *Guard) AdmissionWebhooks(s Services) webhookutil.AuthenticationInfoResolverWrapper {
	return func(webhookutil.AuthenticationInfoResolver) webhookutil.AuthenticationInfoResolver {
		return anonymous{guard: g, services: s, around: func(next http.RoundTripper) http.RoundTripper { return reviews{next} }}
	}
}

// reviews bounds what webhooks do to an object.
type reviews struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r reviews) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.ContentLength > maxSent {
		return nil, fmt.Errorf("%w: %d bytes would be sent, more than %d", errGrown, req.ContentLength, maxSent)
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(resp.Body) // which has a bound
	if err == nil && operationsOf(data) > maxOperations {
		err = errTooManyOperations
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(data), resp.Body}
	return resp, nil
}

// operationsOf counts the operations of the patch in an answer; of what is none, upstream says
// so.
func operationsOf(answer []byte) int {
	obj, _, err := reviewDecoder.Decode(answer, nil, nil)
	if err != nil {
		return 0
	}
	var patch []byte
	switch review := obj.(type) {
	case *admissionv1.AdmissionReview:
		if review.Response != nil {
			patch = review.Response.Patch
		}
	case *admissionv1beta1.AdmissionReview:
		if review.Response != nil {
			patch = review.Response.Patch
		}
	}
	var operations []json.RawMessage
	_ = json.Unmarshal(patch, &operations)
	return len(operations)
}
