// SPDX-License-Identifier: GPL-2.0-only

// weir-node says in the cluster which nodes protect pods: the label weir.dev/ready of a node is
// "true" while they are and the plugin is connected, "false" otherwise. The label weir.dev/mode is
// "module", "stock" or "none", and the annotation weir.dev/reason says why it is not the module; an
// event tells of each change.
//
//	weir-node watch [FLAGS]    keep label and annotation, until SIGTERM, which takes the label away
//	weir-node mark [FLAGS]     say "false" once, if the module is not loaded; then end
//	weir-node clean [FLAGS]    take label and annotation from every node of the cluster; then end
//	weir-node hold             do nothing until SIGTERM
//
// It has no capability and reads world-readable files only. Of the API it uses two requests, a patch
// of its own node and an event; `clean`, which runs once the chart is gone, lists nodes, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	label     = "weir.dev/ready"
	modeLabel = "weir.dev/mode"
	reason    = "weir.dev/reason"
	// eventNamespace is where the API has events of nodes.
	eventNamespace = "default"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("weir-node: " + err.Error())
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	if len(os.Args) < 2 {
		return errors.New("expected watch, mark, clean or hold")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Args[1] == "hold" {
		<-ctx.Done()
		return nil
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	var n node
	name := flags.String("node", os.Getenv("NODE_NAME"), "`NAME` of this node")
	flags.StringVar(&n.sys, "sys", "/sys", "`DIRECTORY` where sysfs is")
	flags.StringVar(&n.why, "reason", "", "`FILE` in which the loading of the module says why it failed")
	flags.StringVar(&n.plugin, "plugin", "", "`URL` that answers 200 while the plugin is connected")
	flags.StringVar(&n.agent, "agent", "", "`URL` that answers 200 while the agent works")
	flags.BoolVar(&n.stock, "stock", false, "the node does without the module: the agent keeps what a stock kernel can")
	flags.BoolVar(&n.auto, "auto", false, "the same while the module is not loaded")
	account := flags.String("account", serviceAccount, "`DIRECTORY` with the service account's token, ca.crt and namespace")
	every := flags.Duration("every", 5*time.Second, "`TIME` between two looks at the node")
	again := flags.Duration("again", 5*time.Minute, "`TIME` after which an unchanged label is written again")
	after := flags.String("after", "", "`NAMESPACE/NAME` of a DaemonSet that is to be ready on all its nodes first, for clean")
	listen := flags.String("listen", "", "`ADDRESS` for /healthz and /metrics, as in 127.0.0.1:9761")
	_ = flags.Parse(os.Args[2:])
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument `%s`", flags.Arg(0))
	}
	if os.Args[1] != "clean" && *name == "" {
		return errors.New("no node is named: set NODE_NAME, or give --node")
	}
	a, err := newClusterAPI(*account)
	if err != nil {
		if os.Args[1] == "mark" {
			log.Error("the node stays unmarked", "error", err)
			return nil
		}
		return err
	}
	switch os.Args[1] {
	case "watch":
		w := watcher{node: n, api: a, name: *name, log: log, again: *again}
		if *listen != "" {
			if err := w.serveProbes(*listen); err != nil {
				return err
			}
		}
		return w.watchNode(ctx, *every)
	case "mark":
		if s, _ := n.moduleState(); !s.ready {
			// No part waits for a cluster that does not answer: the module comes first.
			if err := a.markNode(ctx, *name, s); err != nil {
				log.Error("the node stays unmarked", "error", err)
			}
		}
		return nil
	case "clean":
		return errors.Join(a.waitForDaemonSet(ctx, log, *after, *every), a.unmarkAll(ctx, log))
	}
	return fmt.Errorf("no such command: `%s`", os.Args[1])
}

// watcher keeps one node's label.
type watcher struct {
	node  node
	api   *api
	name  string
	log   *slog.Logger
	again time.Duration
	// told says that the cluster has what is so.
	told atomic.Bool
	// mode is the node's, for metrics.
	mode atomic.Value
}

func (w *watcher) watchNode(ctx context.Context, every time.Duration) error {
	var before state
	var at time.Time
	announced := ""
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		now := w.node.currentState(ctx)
		w.mode.Store(now.mode)
		if ctx.Err() == nil && (now != before || !w.told.Load() || time.Since(at) >= w.again) {
			err := w.api.markNode(ctx, w.name, now)
			w.told.Store(err == nil)
			if err != nil {
				w.log.Error("the node's label is not up to date", "error", err)
			} else if now != before {
				w.log.Info("marked", "node", w.name, "ready", now.ready, "mode", now.mode, "reason", now.why)
			}
			before, at = now, time.Now()
			if err == nil && now.mode != announced {
				// The label is what counts: an event that was not taken is not sent again.
				announced = now.mode
				if err := w.api.postEvent(ctx, w.name, now); err != nil {
					w.log.Warn("no event tells of the node's mode", "error", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			// New pods would go unprotected from here on. Knobs of those that run stay.
			last, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return w.api.unmarkNode(last, w.name)
		case <-ticker.C:
		}
	}
}

// metricsText is what Prometheus is told.
func (w *watcher) metricsText() string {
	text := "# HELP weir_node_mode 1 for what pods of this node are protected by.\n# TYPE weir_node_mode gauge\n"
	now, _ := w.mode.Load().(string)
	for _, mode := range []string{byModule, byStock, byNothing} {
		is := 0
		if mode == now {
			is = 1
		}
		text += fmt.Sprintf("weir_node_mode{mode=%q} %d\n", mode, is)
	}
	return text
}

// serveProbes answers kubelet's probes: 200 while the cluster knows what is so.
func (w *watcher) serveProbes(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(answer http.ResponseWriter, _ *http.Request) {
		if !w.told.Load() {
			http.Error(answer, "the API server did not take the label", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(answer, "ok")
	})
	mux.HandleFunc("GET /metrics", func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		fmt.Fprint(answer, w.metricsText())
	})
	server := http.Server{Handler: mux, ReadHeaderTimeout: patience, ReadTimeout: patience, WriteTimeout: patience}
	go func() { _ = server.Serve(listener) }()
	return nil
}
