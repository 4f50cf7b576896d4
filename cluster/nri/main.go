// SPDX-License-Identifier: GPL-2.0-only

// weir-nri gives pods weir's knobs: a plugin of containerd's and CRI-O's Node Resource Interface.
//
// It runs beside the runtime, on the node. When a container is created it reads the pod's
// annotations and the node's configuration, and adds files such as memory.dirty_min to the
// `unified` map of the container's specification; the OCI runtime writes them before the first
// process runs. Nothing is in the path of a running container: ending the plugin changes no knob,
// and pods that start without it start without knobs.
//
// With -stock it hands what pods are to have to the agent instead; with -auto, of those pods that begin
// while no module is loaded; with -times, what of it is in time, as
// in "10ms", which the agent follows as disks write faster or slower.
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
	"github.com/containerd/ttrpc"

	"weir.dev/nri/cgroup"
	"weir.dev/nri/want"
)

// reconnect is the time from a lost connection to the next attempt: containerd needs seconds to restart.
const reconnect = time.Second

// patience is the time that a runtime may take until it is asked by another connection.
const patience = time.Minute

// look is the time between two looks whether the module was loaded.
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
	auto := flag.String("auto", "", "`FILE` for rules that the agent keeps of pods that begin without the module, on a node that may get it")
	times := flag.String("times", "", "`FILE` for values in time, as in 10ms, which the agent follows (weir agent --pods)")
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
	p.stock, p.times, p.auto = *stock, *times, *auto != ""
	if p.auto {
		p.stock = *auto
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *listen != "" {
		listener, err := net.Listen("tcp", *listen)
		if err != nil {
			return err
		}
		server := http.Server{Handler: p.httpHandler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
		go func() { _ = server.Serve(listener) }()
	}
	pause := reconnect
	var node *os.File
	var said error
	for {
		var err error
		if node == nil {
			node, err = lockNode(*socket)
		}
		if err == nil {
			err = p.serveConnection(ctx, *socket, *index)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errLate) {
			pause = min(2*pause, patience) // The runtime answers no other plugin meanwhile.
		} else {
			pause = reconnect
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			err = fmt.Errorf("%w: the runtime does not run, or has NRI switched off: in containerd's config.toml, "+
				"below [plugins.\"io.containerd.nri.v1.nri\"], write `disable = false`, and restart it", err)
		}
		if !errors.Is(err, errSecond) || !errors.Is(said, errSecond) { // That one waits is said once.
			p.log.Warn("not connected, trying again", "socket", *socket, "error", err)
		}
		said = err
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// connection is what the answers to a runtime tell the loop that serves it.
type connection struct {
	ended chan error
	known chan struct{}
}

func newConnection() connection {
	return connection{make(chan error, 1), make(chan struct{}, 1)}
}

// endWith ends it. The first reason counts.
func (c *connection) endWith(why error) {
	select {
	case c.ended <- why:
	default:
	}
}

// markLearnt says that the runtime has told what is alive.
func (c *connection) markLearnt() {
	select {
	case c.known <- struct{}{}:
	default:
	}
}

var errClosed = errors.New("the runtime closed the connection")

var errUnheard = fmt.Errorf("the runtime did not say within %s what is alive: a pod that takes long to end keeps it waiting, "+
	"or what all pods say is more than the 4 MiB of a message (NRI before 0.8, in containerd 1.7.24)", patience)

// errUntold is also late: NRI 0.8 and later closes the connection when its own time is over.
var errUntold = fmt.Errorf("the runtime closed the connection before all live pods were counted: what it says of some four containers, "+
	"mostly their environments, is more than the 4 MiB of a message, or %w", errLate)

// serveConnection serves one connection to the runtime until it ends.
func (p *plugin) serveConnection(ctx context.Context, socket, index string) error {
	link := newConnection()
	p.mu.Lock()
	p.connection = link
	p.mu.Unlock()
	s, err := stub.New(p, stub.WithPluginName("weir"), stub.WithPluginIdx(index), stub.WithSocketPath(socket),
		stub.WithOnClose(func() { link.endWith(errClosed) }),
		stub.WithTTRPCOptions(nil, []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(readNeededFields)}))
	if err != nil {
		return err
	}
	// It waits for ever if the runtime dies in the middle of it, and then Stop does, too.
	started := make(chan error, 1)
	go func() { started <- s.Start(ctx) }()
	select {
	case err := <-started:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return nil
	case <-time.After(patience):
		go func() { // Should it start after all: there must not be two of this plugin.
			if <-started == nil {
				s.Stop()
				p.markDisconnected(link)
			}
		}()
		return errUnheard
	}
	defer p.markDisconnected(link)
	defer s.Stop()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	unheard := time.After(patience) // nil when it was heard
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-link.ended:
			p.mu.Lock()
			counted := p.partial
			p.mu.Unlock()
			if counted {
				p.reapplyAll() // Those that live are known all the same.
			}
			if errors.Is(err, errClosed) && unheard != nil && len(link.known) == 0 {
				err = errUntold
			}
			return err
		case <-link.known:
			unheard = nil
			p.reapplyAll()
		case <-unheard:
			return errUnheard
		case <-ticker.C:
			p.pollModule()
		}
	}
}
