package reach

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzCall: a call that is understood asks for the pod that its header names, by the only path
// that leads there.
func FuzzCall(f *testing.F) {
	const pod = `{"physicalCluster":"east","controlPlane":"up","logicalCluster":"one","logicalNamespace":"web","namespace":"one-web-1","name":"a","uid":"p1"}`
	f.Add("GET", "/api/v1/namespaces/one-web-1/pods/a/log?follow=true", pod)
	f.Add("POST", "/api/v1/namespaces/../pods/a/exec", pod)
	f.Add("POST", "/api/v1/namespaces/one-web-1/pods/a%2f..%2fb/exec", `{"name":"a/../b"}`)
	f.Add("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/one-web-1/pods", `{"physicalCluster":"east","controlPlane":"up","logicalCluster":"one","logicalNamespace":"web","namespace":"one-web-1"}`)
	f.Add("GET", "/apis/metrics.k8s.io/v1beta1/nodes", `{"physicalCluster":"east","controlPlane":"up"}`)
	f.Add("GET", "/api/v1/namespaces/kube-system", `{"physicalCluster":"east","controlPlane":"up"}`)
	slashes := map[string]int{PodMetrics: 6, NodeMetrics: 4, Presence: 4}
	for _, s := range Subresources {
		slashes[s] = 7
	}
	f.Fuzz(func(t *testing.T, method, target, header string) {
		u, err := url.Parse(target)
		if err != nil {
			return
		}
		c, err := decode(&http.Request{Method: method, URL: u, Header: http.Header{podHeader: {header}}})
		if err != nil {
			return
		}
		if u.Path != c.Path() || strings.Count(u.Path, "/") != slashes[c.Subresource] || strings.Contains(u.Path, "/../") {
			t.Errorf("%q is taken for %+v", target, c.Pod)
		}
	})
}

// FuzzFailure: what a physical cluster answers becomes an error for the user without what is
// the physical cluster's own.
func FuzzFailure(f *testing.F) {
	f.Add(500, `{"message":"dial tcp 10.1.2.3:10250: one-web-1 has no pod p1-uid, see https://node:10250/x"}`)
	f.Add(404, `{"message":"gone","details":{"kind":"pods","name":"a"}}`)
	f.Add(-1, "\xff\x00")
	f.Fuzz(func(t *testing.T, code int, body string) {
		c := Call{Pod: Pod{Namespace: "one-web-1f2e3d4c", Name: "a", UID: "7d1f8a3c-uid", LogicalNamespace: "web"}}
		resp := &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(body)), Request: httptest.NewRequest(http.MethodGet, "/", nil)}
		err := c.Failure(resp)
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) {
			t.Fatalf("%v is no status", err)
		}
		for _, secret := range []string{c.Pod.Namespace, string(c.Pod.UID), "https://"} {
			if strings.Contains(status.Status().Message, secret+"/x") || secret != "https://" && strings.Contains(status.Status().Message, secret) {
				t.Errorf("%q names %q", status.Status().Message, secret)
			}
		}
	})
}
