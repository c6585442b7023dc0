package aggregation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
)

const (
	// sweepRequestTimeout is how long a server may take to answer one request of a sweep,
	// sweepTimeout how long all those to one version may take; what is left is for the
	// next sweep.
	sweepRequestTimeout = 10 * time.Second
	sweepTimeout        = 30 * time.Second
)

// sweeper is who empties namespaces: for the servers, the one who does so in any
// cluster, with the rights of whom they do not ask anybody about.
var sweeper = &user.DefaultInfo{
	Name:   serviceaccount.MakeUsername(metav1.NamespaceSystem, "namespace-controller"),
	Groups: append(serviceaccount.MakeGroupNames(metav1.NamespaceSystem), user.AllAuthenticated, user.SystemPrivilegedGroup),
}

// errMoved says that a namespace is not the one that was to be emptied, or is
// finalized.
var errMoved = errors.New("the namespace is not being emptied")

// errUnanswered is about the server, not about one resource of it.
var errUnanswered = errors.New("no answer")

// sweep has the servers of versions delete what they keep in a namespace, one after
// the other, and looks at what is left.
func (a *Aggregation) sweep(ctx context.Context, versions []version, namespace string, uid types.UID) (out swept) {
	for _, v := range versions {
		a.sweepVersion(ctx, v, namespace, uid, &out)
	}
	return out
}

func (a *Aggregation) sweepVersion(ctx context.Context, v version, namespace string, uid types.UID, out *swept) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	// Whoever asks may know one that is gone and made again.
	ns, err := a.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err == nil && (ns.UID != uid || ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0) {
		err = errMoved
	}
	visit := visit{host: pick(v.hosts)}
	if err == nil {
		visit.through, err = a.connect(v.service)
	}
	if err != nil {
		out.fail(v.targets[0].GroupVersionResource, err)
		return
	}
	for _, t := range v.targets {
		left, err := visit.empty(ctx, t, namespace)
		if err != nil {
			out.fail(t.GroupVersionResource, err)
		}
		if errors.Is(err, errUnanswered) {
			return
		}
		out.leave(t.GroupVersionResource, left)
	}
}

// visit is a way to a server.
type visit struct {
	host    string
	through http.RoundTripper
}

// empty deletes the objects of t in a namespace and returns what is left, as the
// first page of it has it.
func (v visit) empty(ctx context.Context, t target, namespace string) ([]metav1.PartialObjectMetadata, error) {
	path := t.path(namespace)
	each := !t.collection
	if t.collection {
		answered, err := v.delete(ctx, path, "")
		if err != nil {
			return nil, err
		}
		each = !answered && t.list
	}
	if each {
		if err := v.deleteEach(ctx, path); err != nil {
			return nil, err
		}
	}
	if !t.list {
		return nil, nil
	}
	left, _, err := v.list(ctx, path, "")
	return left.items, err
}

func (v visit) deleteEach(ctx context.Context, path string) error {
	for next := ""; ; {
		page, served, err := v.list(ctx, path, next)
		if err != nil || !served {
			return err
		}
		for _, item := range page.items {
			if item.DeletionTimestamp != nil || !segment(item.Name) {
				continue
			}
			if _, err := v.delete(ctx, path+"/"+url.PathEscape(item.Name), item.UID); err != nil {
				return err
			}
		}
		if next = page.next; next == "" {
			return nil
		}
	}
}

// delete deletes one object or, without an UID, a collection. It reports whether
// the server does such a thing.
func (v visit) delete(ctx context.Context, path string, uid types.UID) (served bool, err error) {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, PropagationPolicy: &background}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	body, err := json.Marshal(options)
	if err != nil {
		return false, fmt.Errorf("encoding the options of a deletion: %w", err)
	}
	err = v.ask(ctx, http.MethodDelete, path, nil, body, func(code int, answer io.Reader) error {
		served = code != http.StatusNotFound && code != http.StatusMethodNotAllowed
		said, _ := io.ReadAll(io.LimitReader(answer, maxToken)) // the objects that it may list are not wanted
		if !served || code == http.StatusConflict && uid != "" || code >= http.StatusOK && code < http.StatusMultipleChoices {
			return nil
		}
		return refusal(http.MethodDelete, code, said)
	})
	return served, err
}

// list reads a page of a list. It reports whether the server has such a list.
func (v visit) list(ctx context.Context, path, next string) (out page, served bool, err error) {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if next != "" {
		query.Set("continue", next)
	}
	err = v.ask(ctx, http.MethodGet, path, query, nil, func(code int, answer io.Reader) (err error) {
		if served = code != http.StatusNotFound && code != http.StatusMethodNotAllowed; !served {
			return nil
		}
		if code != http.StatusOK {
			said, _ := io.ReadAll(io.LimitReader(answer, maxToken))
			return refusal("LIST", code, said)
		}
		out, err = readPage(answer)
		return err
	})
	return out, served, err
}

// ask sends one request and has read look at the answer.
func (v visit) ask(ctx context.Context, method, path string, query url.Values, body []byte, read func(int, io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, sweepRequestTimeout)
	defer cancel()
	location := (&url.URL{Scheme: "https", Host: v.host, Path: "/", RawQuery: query.Encode()}).JoinPath(path)
	req, err := http.NewRequestWithContext(ctx, method, location.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	req.Host = egress.HostHeader(v.host)
	req.Header.Set("Accept", "application/json")
	if method == http.MethodGet {
		req.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	transport.SetAuthProxyHeaders(req, sweeper.Name, "", sweeper.Groups, nil)
	resp, err := v.through.RoundTrip(req) // a client would follow redirects
	if err != nil {
		return fmt.Errorf("%w to %s: %w", errUnanswered, method, steady(err))
	}
	defer resp.Body.Close()
	err = read(resp.StatusCode, resp.Body)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w to %s: %w", errUnanswered, method, ctx.Err())
	}
	return err
}

// version is a version of a group whose server can be asked to empty a namespace.
type version struct {
	service *apiregistrationv1.APIService
	hosts   []string
	targets []target
}
