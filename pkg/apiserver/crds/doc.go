// Package crds serves custom resources, each logical cluster its own.
//
// A CustomResourceDefinition is an object of its logical cluster like any other.
// What it costs to serve one (schemas, CEL programs, converters for server-side
// apply) is shared: there is one stock handler for each distinct definition,
// that is for each distinct pair of spec and accepted names, and logical clusters
// with equal definitions use the same. The logical cluster travels in the context
// of the request, through admission and authorization into the storage.
//
//	Definitions   what is defined where: an informer that keeps equal specs once
//	Registry      the REST storage of CustomResourceDefinitions; a write returns
//	              when this server serves what was written
//	Handler       routes a request to the stock handler of its definition
//	Lifecycle     names, conditions, establishing: a pure decision and its shell
//	Finalizer     removes the objects of a definition before the definition
//
// Discovery and OpenAPI of what is defined are in package discovery.
package crds
