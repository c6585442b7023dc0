// Package process runs the real binaries of bin/ for tests: it starts them, waits
// for the line that says they are ready, and ends, kills, freezes and restarts
// them at will. Kubectl drives the real kubectl.
//
// Processes are not bound to one test: a test binary starts them once and shares
// them. Whoever starts one stops it.
package process
