// Package slowdisk runs a process whose disk is slow, or does not answer: each fsync and
// fdatasync of it waits for as long as a test says. The kernel stops the calls (seccomp, by
// user notification), so that nothing of the process knows, and it takes neither root nor a
// device.
//
// The process is started by way of the binary of the test, which has the kernel do so and
// then becomes the process: see init.
package slowdisk
