package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// api prints name and UID of the account that the API server takes the pod for, with the
// configuration that client-go finds in a pod. With a URL it asks there; the certificate is
// verified by the authority of the pod.
func api(ctx context.Context, args []string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if len(args) > 0 {
		config.Host = args[0]
	}
	config.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	me, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Println(me.Status.UserInfo.Username, me.Status.UserInfo.UID)
	return nil
}

// call prints the status of the answer of a URL, or why there is none, with no
// verification of whom it asks. The token is a file, or the token.
func call(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("call what?")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	if err != nil {
		return err
	}
	if len(args) > 1 {
		token := args[1]
		if strings.HasPrefix(token, "/") {
			content, err := os.ReadFile(token)
			if err != nil {
				return err
			}
			token = string(content)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	}
	client := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // who tries to break in asks anybody
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println("no answer:", err)
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	fmt.Println(resp.StatusCode, strings.TrimSpace(string(body)))
	return err
}

// cat prints files one after the other.
func cat(_ context.Context, files []string) error {
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		fmt.Printf("%s", content)
	}
	return nil
}
