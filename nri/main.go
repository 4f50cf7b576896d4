// SPDX-License-Identifier: GPL-2.0-only

// weir-nri gives pods weir's knobs: a plugin of containerd's and CRI-O's Node Resource Interface.
//
// It runs beside the runtime, on the node. When a container is created it reads the pod's
// annotations and the node's configuration, and adds files such as memory.dirty_min to the
// `unified` map of the container's specification; the OCI runtime writes them before the first
// process runs. Nothing is in the path of a running container: ending the plugin changes no knob,
// and pods that start without it start without knobs.
//
// With -stock it hands what pods are to have to the agent instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/want"
)

// How long after a lost connection the next one is tried: containerd needs seconds to restart.
const reconnect = time.Second

// How often is looked whether the module was loaded.
const look = 2 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "weir-nri:", err)
		os.Exit(2)
	}
}

func run() error {
	file := flag.String("config", "", "`FILE` with defaults and with what pods may ask for; without one, they may have ceilings")
	check := flag.Bool("check", false, "read the configuration, say what is wrong with it, and end")
	socket := flag.String("socket", api.DefaultSocketPath, "`SOCKET` of the runtime")
	index := flag.String("index", "50", "two digits: `PLACE` among the plugins of this runtime")
	root := flag.String("cgroups", "/sys/fs/cgroup", "`DIRECTORY` where the host's cgroups are")
	stock := flag.String("stock", "", "`FILE` for rules that the agent keeps, on a node that allows no module")
	listen := flag.String("listen", "", "`ADDRESS` for /metrics and /healthz, as in 127.0.0.1:9760")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument `%s`", flag.Arg(0))
	}

	config := &want.Config{}
	if *file != "" {
		var err error
		if config, err = want.Load(*file); err != nil {
			return err
		}
	}
	if *check {
		return nil
	}
	p := newPlugin(config, cgroup.Root(*root), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	p.stock = *stock

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *listen != "" {
		listener, err := net.Listen("tcp", *listen)
		if err != nil {
			return err
		}
		server := http.Server{Handler: p.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
		go func() { _ = server.Serve(listener) }()
	}
	for {
		err := p.connect(ctx, *socket, *index)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("%w: the runtime does not run, or has NRI switched off: in containerd's config.toml, "+
				"below [plugins.\"io.containerd.nri.v1.nri\"], write `disable = false`, and restart it", err)
		}
		p.log.Warn("not connected, trying again", "socket", *socket, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnect):
		}
	}
}

// connect serves one connection to the runtime until it ends.
func (p *plugin) connect(ctx context.Context, socket, index string) error {
	ended := make(chan error, 1)
	end := func(why error) {
		select {
		case ended <- why:
		default: // the first reason counts
		}
	}
	p.mu.Lock()
	p.end = end
	p.mu.Unlock()
	s, err := stub.New(p, stub.WithPluginName("weir"), stub.WithPluginIdx(index), stub.WithSocketPath(socket),
		stub.WithOnClose(func() { end(errors.New("the runtime closed the connection")) }))
	if err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer s.Stop()
	defer p.disconnected()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case <-ticker.C:
			p.moduleLooked()
		}
	}
}
