package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/kcp-dev/logicalcluster/v3"
)

// requests counts requests by verb and resource.
type requests map[string]float64

var (
	requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{([^}]*)\} (\S+)$`)
	label        = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// requests of all clients, the server itself among them, until now; c is empty for a
// stock server.
func (s *server) requests(ctx context.Context, c logicalcluster.Name) (requests, error) {
	root, err := s.in(c)
	if err != nil {
		return nil, err
	}
	body, err := root.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of %s: %w", s.name, err)
	}
	counted := requests{}
	for _, found := range requestTotal.FindAllSubmatch(body, -1) {
		labels := map[string]string{}
		for _, l := range label.FindAllSubmatch(found[1], -1) {
			labels[string(l[1])] = string(l[2])
		}
		if labels["resource"] == "" || labels["resource"] == "leases" || labels["verb"] == "WATCH" {
			continue
		}
		name := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		if code := labels["code"]; code >= "400" {
			name += " " + code
		}
		n, err := strconv.ParseFloat(string(found[2]), 64)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of %s: %w", s.name, err)
		}
		counted[name] += n
	}
	return counted, nil
}

// add adds what another server counted.
func (r requests) add(other requests) {
	for name, n := range other {
		r[name] += n
	}
}

// sum is how many there are in all.
func (r requests) sum() (n float64) {
	for _, count := range r {
		n += count
	}
	return n
}

// since is what came after before, for each of n objects.
func (r requests) since(before requests, n int) requests {
	each := requests{}
	for name, count := range r {
		if more := count - before[name]; more > 0 {
			each[name] = more / float64(n)
		}
	}
	return each
}

// print prints all that happens for one object in ten or more.
func (r requests) print(what string) {
	if len(r) == 0 {
		return
	}
	t := newTable("requests to "+what, "")
	var names []string
	for name := range r {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(-cmp.Compare(r[a], r[b]), cmp.Compare(a, b)) })
	for _, name := range names {
		if r[name] >= 0.05 {
			t.add(name, strconv.FormatFloat(r[name], 'f', 1, 64))
		}
	}
	t.print()
}
