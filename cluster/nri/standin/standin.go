// SPDX-License-Identifier: GPL-2.0-only

// Package standin answers as an API server does to the requests of weir-node, for tests: nodes are the
// API's own type, patches are merged by the API's own code, and what a role does not allow is refused.
package standin

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// token is the one that a service account has.
const token = "secret"

// Cluster is what the API server knows. Mu guards its fields while it serves.
type Cluster struct {
	Mu      sync.Mutex
	Nodes   map[string]*core.Node
	Sets    map[string]*apps.DaemonSet
	Events  []core.Event
	Patches int
	// Refuse has every request refused, as for want of a role.
	Refuse bool
	// Changed is called, with Mu held, after each patch and event; may be nil.
	Changed func()
}

// NamedNode returns a node as kubelet registers it.
func NamedNode(name string, labels map[string]string) *core.Node {
	return &core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}}
}

// StartServer listens at an address, which is a loopback one, and writes the service account of a container
// into a directory.
func (c *Cluster) StartServer(address, account string) (*httptest.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := httptest.NewUnstartedServer(c)
	server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, text := range map[string]string{"token": token + "\n", "ca.crt": string(ca)} {
		if err := os.WriteFile(filepath.Join(account, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return server, nil
}

// ServeHTTP answers one request.
func (c *Cluster) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	fail := func(code int, message string) {
		answer.WriteHeader(code)
		_ = json.NewEncoder(answer).Encode(meta.Status{Status: meta.StatusFailure, Message: message, Code: int32(code)})
	}
	if request.Header.Get("Authorization") != "Bearer "+token {
		fail(http.StatusUnauthorized, "Unauthorized")
		return
	}
	if c.Refuse {
		fail(http.StatusForbidden, `nodes "a" is forbidden: User "weir" cannot patch resource "nodes"`)
		return
	}
	name, isOne := strings.CutPrefix(request.URL.Path, "/api/v1/nodes/")
	switch {
	case request.Method == http.MethodGet && request.URL.Path == "/api/v1/nodes":
		selected := core.NodeList{}
		for _, n := range c.Nodes {
			if _, ok := n.Labels[request.URL.Query().Get("labelSelector")]; ok {
				selected.Items = append(selected.Items, *n)
			}
		}
		_ = json.NewEncoder(answer).Encode(selected)
	case request.Method == http.MethodGet && c.Sets[request.URL.Path] != nil:
		set := c.Sets[request.URL.Path]
		_ = json.NewEncoder(answer).Encode(set)
		set.Status.NumberReady++
	case request.Method == http.MethodPost && request.URL.Path == "/api/v1/namespaces/default/events":
		decoder := json.NewDecoder(request.Body)
		decoder.DisallowUnknownFields()
		var e core.Event
		if err := decoder.Decode(&e); err != nil || e.InvolvedObject.Kind != "Node" || e.GenerateName == "" {
			fail(http.StatusBadRequest, "no event")
			return
		}
		c.Events = append(c.Events, e)
		c.tellChanged()
		answer.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(answer).Encode(e)
	case request.Method == http.MethodPatch && isOne && request.Header.Get("Content-Type") == "application/merge-patch+json":
		before, ok := c.Nodes[name]
		if !ok {
			fail(http.StatusNotFound, `nodes "`+name+`" not found`)
			return
		}
		patch, _ := io.ReadAll(request.Body)
		text, _ := json.Marshal(before)
		text, err := strategicpatch.StrategicMergePatch(text, patch, core.Node{})
		after := &core.Node{}
		if err == nil {
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.DisallowUnknownFields()
			err = decoder.Decode(after)
		}
		if err != nil {
			fail(http.StatusBadRequest, err.Error())
			return
		}
		c.Nodes[name] = after
		c.Patches++
		c.tellChanged()
		_ = json.NewEncoder(answer).Encode(after)
	default:
		fail(http.StatusMethodNotAllowed, request.Method+" "+request.URL.Path)
	}
}

func (c *Cluster) tellChanged() {
	if c.Changed != nil {
		c.Changed()
	}
}
