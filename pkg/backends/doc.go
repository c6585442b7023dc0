// Package backends says which pods a Service with a selector leads to, over all physical
// clusters. Pods only count: endpoints are what anybody wrote.
//
// Pure. Read next: Candidates, Of.
package backends
