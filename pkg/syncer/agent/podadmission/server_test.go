package podadmission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/ports"
)

// freePort is an address that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// says is what a client that trusts ca gets at a path of host, which is at address.
func says(ca []byte, address, host, path string) (string, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	name := host
	if net.ParseIP(host) != nil {
		name = "" // as for addresses
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: name,
	}}}
	resp, err := client.Post("https://"+address+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return resp.Status[:3], nil
}

func answers(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestOneAddressAnswersManyEachAtItsPathAndHost(t *testing.T) {
	address := freePort(t)
	s := NewServer(address, "")
	ca, endEast, err := s.offer("/pods/east", "127.0.0.1", answers(201))
	if err != nil {
		t.Fatal(err)
	}
	again, endWest, err := s.offer("/pods/west", "west.example.org", answers(202))
	if err != nil || string(again) != string(ca) {
		t.Fatalf("another authority, or %v", err)
	}
	for _, c := range []struct{ host, path, want string }{
		{"127.0.0.1", "/pods/east", "201"}, {"west.example.org", "/pods/west", "202"}, {"127.0.0.1", "/pods/other", "404"}, {"127.0.0.1", "/pods/", "404"},
	} {
		if got, err := says(ca, address, c.host, c.path); got != c.want {
			t.Errorf("%s%s says %q, %v", c.host, c.path, got, err)
		}
	}
	if got, err := says(ca, address, "bank.example.org", "/pods/west"); err == nil {
		t.Errorf("a host that nobody named says %q", got)
	}
	endEast()
	endEast() // once is enough
	if got, err := says(ca, address, "west.example.org", "/pods/east"); got != "404" {
		t.Errorf("who is gone says %q, %v", got, err)
	}
	if got, err := says(ca, address, "west.example.org", "/pods/west"); got != "202" {
		t.Errorf("who is left says %q, %v", got, err)
	}
	endWest()
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("it listens for nobody")
	}
	if _, endWest, err = s.offer("/pods/west", "west.example.org", answers(203)); err != nil {
		t.Fatalf("it does not listen again: %v", err)
	}
	defer endWest()
	if got, err := says(ca, address, "west.example.org", "/pods/west"); got != "203" {
		t.Errorf("who is back says %q, %v", got, err)
	}
}

func TestAQuestionIsThatOfTheSyncerOfItsPhysicalClusterAndEndsWithIt(t *testing.T) {
	session, end := context.WithCancel(scope.WithTarget(t.Context(), "east"))
	asked, ended := make(chan string, 1), make(chan error, 1)
	answer := within(session, func(_ http.ResponseWriter, req *http.Request) {
		target, _ := scope.TargetFrom(req.Context())
		asked <- target
		<-req.Context().Done()
		ended <- req.Context().Err()
	})
	go answer(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil))
	if got := <-asked; got != "east" {
		t.Errorf("it is asked in the view of %q", got)
	}
	end()
	if err := <-ended; err == nil {
		t.Error("it does not end")
	}
	gone, goes := context.WithCancel(t.Context())
	go within(scope.WithTarget(t.Context(), "east"), func(_ http.ResponseWriter, req *http.Request) {
		<-req.Context().Done()
		ended <- req.Context().Err()
	})(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", nil).WithContext(gone))
	goes()
	if err := <-ended; err == nil {
		t.Error("it does not end with who asks")
	}
}

func TestOnePhysicalClusterDoesNotTakeAllConnections(t *testing.T) {
	l := &sharedListener{of: map[string]int{}}
	for range maxOfAddress {
		if !l.begin("10.0.0.1") {
			t.Fatal("one that may be is refused")
		}
	}
	if l.begin("10.0.0.1") {
		t.Error("one more is not refused")
	}
	if !l.begin("10.0.0.2") {
		t.Error("that of somebody else is refused")
	}
	l.end("10.0.0.1")
	if !l.begin("10.0.0.1") {
		t.Error("none is free when one has ended")
	}
}

func TestTheWayToTheServerIsThatOfThePhysicalClusterOrElseItsOwn(t *testing.T) {
	service := &fleetv1alpha1.PodAdmissionService{Namespace: "atoll", Name: "syncer"}
	for name, c := range map[string]struct {
		own    string
		wanted fleetv1alpha1.PodAdmission
		want   string
	}{
		"its own":           {"https://server:9443", fleetv1alpha1.PodAdmission{}, "https://server:9443"},
		"that which is set": {"https://server:9443", fleetv1alpha1.PodAdmission{URL: "https://other:1"}, "https://other:1"},
		"a Service":         {"https://server:9443", fleetv1alpha1.PodAdmission{Service: service}, ""},
		"none":              {"", fleetv1alpha1.PodAdmission{}, "--admission-url"},
	} {
		got, err := NewServer(":0", c.own).completed(c.wanted)
		if said := fmt.Sprint(got.URL, err); !strings.Contains(said, c.want) || (err != nil) != (name == "none") {
			t.Errorf("%s: %s, want %s", name, said, c.want)
		}
	}
}
