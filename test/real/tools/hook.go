package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// hook is a mutating and validating webhook at port 8443, with the key in /tls: what it
// allows is labelled with the name of the pod, and what is called "bad" is refused.
func hook(ctx context.Context, _ []string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/mutate", func(w http.ResponseWriter, req *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch)}
		response.Patch = []byte(`[{"op":"add","path":"/metadata/labels","value":{"seen-by":"` + name + `"}}]`)
		if strings.HasPrefix(review.Request.Name, "bad") {
			response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "it is bad, says " + name}}
		}
		review.Response = response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
	server := &http.Server{Addr: ":8443", Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	err = server.ListenAndServeTLS("/tls/tls.crt", "/tls/tls.key")
	if ctx.Err() != nil {
		return nil
	}
	return err
}
