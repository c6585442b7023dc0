// Command suites compares what the test suites of others say of a stock cluster and of
// logical clusters. hack/suites.sh runs the suites; this judges:
//
//	suites -differs test/suites/differs.txt NAME STOCK OURS
//
// STOCK and OURS are directories of results: *.txt with a line "PASS name" or "FAIL
// name" for each test, and *.json reports of ginkgo. What a test says of us counts only
// if it passes on a stock cluster:
//
//	stock   ours          on the list  judged
//	PASS    PASS          no           as stock
//	PASS    PASS          yes          an error: take it off the list
//	PASS    PASS          "sometimes"  as stock
//	PASS    FAIL, absent  yes          differs by design
//	PASS    FAIL, absent  no           an error
//	other   any           no           nothing: the suite is not made for such a cluster
//	other   any           yes          an error: the list names what stock does not pass
//
// results.go and judge.go are pure.
package main
