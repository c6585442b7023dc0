// Command retry runs go test, and what failed once more, alone: tests of real
// processes are late now and then on a machine that does other things, too.
//
//	retry -known test/flaky.txt -- GO-TEST-FLAGS... -- PACKAGES...
//
// A second run is there to tell a broken test from a flaky one, not to hide it:
//
//	first run     second run  on the list  the run
//	passed        -           -            passes
//	test failed   failed      any          fails
//	test failed   passed      yes          passes, and says so
//	test failed   passed      no           fails: mend it, or list it
//	not complete  -           any          fails: what did not run proves nothing
//
// A package is not complete if it did not compile, panicked or ran out of time. The
// list names each test with an issue and a date until which it may stay; a line whose
// date has passed fails every run.
//
// Invariant: a run passes only if every test passed at last, and only tests that are
// on the list needed a second run.
//
// list.go, results.go and judge.go are pure; main.go runs go.
package main
