// SPDX-License-Identifier: GPL-2.0-only

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	core "k8s.io/api/core/v1"

	"weir.dev/nri/standin"
)

// account is the service account of the pods that `apply` starts, while an API server is served.
const account = "/var/lib/cripod-account"

// apiAddress is where its API server answers, which kubelet names to containers by the environment.
const apiAddress = "127.0.0.1:6443"

// serveAPI serves a node to weir-node, and keeps what it is marked with in the directory `to`: the node
// in node.json, events of it, a line each, in events.
func serveAPI(ctx context.Context, to string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	for _, directory := range []string{account, to} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return err
		}
	}
	c := &standin.Cluster{Nodes: map[string]*core.Node{name: standin.NamedNode(name, nil)}}
	c.Changed = func() {
		if err := writeNode(to, c.Nodes[name], c.Events); err != nil {
			fmt.Fprintln(os.Stderr, "cripod:", err)
		}
	}
	server, err := c.StartServer(apiAddress, account)
	if err != nil {
		return err
	}
	defer server.Close()
	<-ctx.Done()
	return os.RemoveAll(account)
}

func writeNode(to string, node *core.Node, events []core.Event) error {
	text, err := json.Marshal(node)
	if err != nil {
		return err
	}
	lines := ""
	for _, e := range events {
		lines += e.Type + " " + e.Message + "\n"
	}
	for name, text := range map[string]string{"node.json": string(text), "events": lines} {
		aside := filepath.Join(to, name+".new")
		if err := os.WriteFile(aside, []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Rename(aside, filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

// isAPIServed says whether there is an API server.
func isAPIServed() bool {
	_, err := os.Stat(account)
	return err == nil
}

// containerEnvironment returns the variables of a container: those of its description, with fields of its pod
// resolved, and the API server's address where one is served.
func containerEnvironment(c *core.Container) (map[string]string, error) {
	variables := map[string]string{}
	if isAPIServed() {
		host, port, _ := net.SplitHostPort(apiAddress)
		variables["KUBERNETES_SERVICE_HOST"], variables["KUBERNETES_SERVICE_PORT"] = host, port
	}
	for _, e := range c.Env {
		variables[e.Name] = e.Value
		if e.ValueFrom == nil {
			continue
		}
		if f := e.ValueFrom.FieldRef; f == nil || f.FieldPath != "spec.nodeName" {
			return nil, fmt.Errorf("container %s: %s: expected a value or the field spec.nodeName", c.Name, e.Name)
		}
		name, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		variables[e.Name] = name
	}
	return variables, nil
}
