// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// patience is how long one request may take.
const patience = 10 * time.Second

// api is the cluster's API server. A few requests do not need a client library of a hundred packages.
type api struct {
	base   string
	token  string // the file: kubelet renews it
	client *http.Client
}

// newClusterAPI is the API server as kubelet describes it to containers.
func newClusterAPI(account string) (*api, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: run it in a pod")
	}
	ca, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("no service account in this container: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s/ca.crt: no certificate in it", account)
	}
	return &api{
		base:  "https://" + net.JoinHostPort(host, port),
		token: filepath.Join(account, "token"),
		client: &http.Client{
			Timeout:   patience,
			Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		},
	}, nil
}

// markNode writes labels and annotation of a node.
func (a *api) markNode(ctx context.Context, name string, s state) error {
	var why any
	if s.why != "" {
		why = s.why
	}
	return a.patchNode(ctx, name, fmt.Sprint(s.ready), s.mode, why)
}

// unmarkNode takes all of them away.
func (a *api) unmarkNode(ctx context.Context, name string) error {
	return a.patchNode(ctx, name, nil, nil, nil)
}

// patchNode merges: null removes a key, and the node's other labels and annotations are not sent.
func (a *api) patchNode(ctx context.Context, name string, ready, mode, why any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels":      map[string]any{label: ready, modeLabel: mode},
		"annotations": map[string]any{reason: why},
	}})
	if err != nil {
		return err
	}
	return a.sendRequest(ctx, http.MethodPatch, "/api/v1/nodes/"+url.PathEscape(name), body, nil)
}

// eventMessage is as long as the API takes one.
const eventMessage = 1024

// postEvent tells of a node's mode where `kubectl describe node` shows it: the API takes events of what is
// in no namespace in `default`, and kubelet's name a node by its name for want of its UID.
func (a *api) postEvent(ctx context.Context, name string, s state) error {
	kind, message := "Normal", "pods are protected by: "+s.mode
	if s.mode == byNothing {
		kind, message = "Warning", "pods that start now are not protected"
	}
	if s.why != "" {
		message += ": " + s.why
	}
	if len(message) > eventMessage {
		message = strings.ToValidUTF8(message[:eventMessage-3], "") + "..."
	}
	now := time.Now().UTC().Format(time.RFC3339)
	body, err := json.Marshal(map[string]any{
		"metadata":       map[string]any{"generateName": "weir-", "namespace": eventNamespace},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Node", "name": name, "uid": name},
		"reason":         "WeirMode", "message": message, "type": kind, "count": 1,
		"firstTimestamp": now, "lastTimestamp": now,
		"source": map[string]any{"component": "weir-node", "host": name},
	})
	if err != nil {
		return err
	}
	return a.sendRequest(ctx, http.MethodPost, "/api/v1/namespaces/"+eventNamespace+"/events", body, nil)
}

// waitForDaemonSet waits until a DaemonSet is ready on every node that it is for, at most ten minutes.
func (a *api) waitForDaemonSet(ctx context.Context, log *slog.Logger, set string, every time.Duration) error {
	if set == "" {
		return nil
	}
	namespace, name, ok := strings.Cut(set, "/")
	if !ok {
		return fmt.Errorf("--after `%s`: expected NAMESPACE/NAME", set)
	}
	path := "/apis/apps/v1/namespaces/" + url.PathEscape(namespace) + "/daemonsets/" + url.PathEscape(name)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		var is struct {
			Metadata struct{ Generation int64 }
			Status   struct {
				ObservedGeneration                  int64
				DesiredNumberScheduled, NumberReady int
			}
		}
		if err := a.sendRequest(ctx, http.MethodGet, path, nil, &is); err != nil {
			return err
		}
		if is.Status.ObservedGeneration >= is.Metadata.Generation && is.Status.NumberReady >= is.Status.DesiredNumberScheduled {
			return nil
		}
		log.Info("waiting", "for", set, "ready", is.Status.NumberReady, "of", is.Status.DesiredNumberScheduled)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is ready on %d nodes of %d: see its pods on the others", set, is.Status.NumberReady, is.Status.DesiredNumberScheduled)
		case <-time.After(every):
		}
	}
}

// unmarkAll unmarks every node that is marked.
func (a *api) unmarkAll(ctx context.Context, log *slog.Logger) error {
	var nodes struct {
		Items []struct {
			Metadata struct{ Name string }
		}
	}
	if err := a.sendRequest(ctx, http.MethodGet, "/api/v1/nodes?labelSelector="+url.QueryEscape(label), nil, &nodes); err != nil {
		return err
	}
	var failed []error
	for _, n := range nodes.Items {
		if err := a.unmarkNode(ctx, n.Metadata.Name); err != nil {
			failed = append(failed, err)
			continue
		}
		log.Info("unmarked", "node", n.Metadata.Name)
	}
	return errors.Join(failed...)
}

// sendRequest sends one request, and reads the answer into `into`.
func (a *api) sendRequest(ctx context.Context, method, path string, body []byte, into any) error {
	token, err := os.ReadFile(a.token)
	if err != nil {
		return fmt.Errorf("no service account in this container: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Accept", "application/json")
	switch method {
	case http.MethodPatch:
		request.Header.Set("Content-Type", "application/merge-patch+json")
	case http.MethodPost:
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusCreated {
		var status struct{ Message string }
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		if json.Unmarshal(text, &status) != nil || status.Message == "" {
			status.Message = strings.TrimSpace(string(text))
		}
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, status.Message)
	}
	if into == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
