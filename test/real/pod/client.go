package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// pause is between two requests, timeout for one.
	pause   = 40 * time.Millisecond
	timeout = 5 * time.Second
)

// send sends requests to http://$TARGET/, each over a connection of its own, and writes
// a line about each to $COLLECTOR: "ok" or why it failed. $TARGET may name variables: the
// kubelet puts the addresses of Services into them. The first answer is waited for, as
// by any program that starts at the same time as what it needs. It ends when it is asked
// to stop, at once.
func send(stop <-chan os.Signal) {
	target := os.ExpandEnv(os.Getenv("TARGET"))
	collector, err := net.Dial("tcp", os.Getenv("COLLECTOR"))
	if err != nil {
		fail(err)
	}
	defer collector.Close()
	name, _ := os.Hostname()
	fmt.Fprintln(collector, name)
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	answers := make(chan string)
	for answered := false; ; {
		go func() { answers <- answer(client, "http://"+target+"/") }()
		select {
		case <-stop:
			fmt.Fprintln(collector, "stopped")
			return
		case said := <-answers:
			if answered = answered || said == "ok"; answered {
				fmt.Fprintln(collector, said)
			}
		}
		<-ticker.C
	}
}

func answer(client *http.Client, url string) string {
	r, err := client.Get(url)
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return "reading the answer: " + err.Error()
	}
	if r.StatusCode != http.StatusOK {
		return r.Status
	}
	return "ok"
}
