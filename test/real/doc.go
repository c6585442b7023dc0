// Package real tests Atoll with real nodes: containers that run, addresses that answer,
// and requests that are counted where they fail, at who made them.
//
// The package lab makes two physical clusters and a server, in namespaces of the kernel
// that end with the tests; traffic is who sends requests; pod is the program that runs in
// the pods. Operators are programs of others: hack/operators.sh builds them from the module
// proxy, and a test whose operator is not built is skipped. The tests need root and a few
// packages (lab.Missing) and skip, with a line that says so, where they are not there:
// make test-real.
//
// Every test has a control, such as a move that stops before it starts: if no request
// fails then, the test could not have noticed, and is void.
//
// Tests run in the order of their files. Those of traffic are last: they empty physical
// clusters, under a token that is being renewed.
package real
