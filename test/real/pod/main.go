// Command pod is what runs in the pods of the tests, chosen by its first argument:
//
//	web     a server that ends as servers should: see serve.go
//	client  sends requests to a Service and says how each went: see client.go
//	pause   holds the namespaces of a pod
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) != 2 {
		fail("usage: pod web|client|pause")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	switch os.Args[1] {
	case "web":
		serve(stop)
	case "client":
		send(stop)
	case "pause":
		<-stop
	default:
		fail("there is no " + os.Args[1])
	}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}
