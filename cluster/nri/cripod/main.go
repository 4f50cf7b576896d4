// SPDX-License-Identifier: GPL-2.0-only

// cripod does with a runtime what kubelet does, through the same interface (CRI): for tests on a
// machine without a cluster. It makes the pod's cgroup as kubelet does, too.
//
//	cripod run [FLAGS] NAME CONTAINER[=LIMIT]...   start a pod, print its sandbox's id
//	cripod add [FLAGS] SANDBOX CONTAINER[=LIMIT]   one more container in it
//	cripod apply FILE                              start the pod of a DaemonSet
//	cripod update SANDBOX CONTAINER LIMIT          change a container's memory limit
//	cripod exec SANDBOX CONTAINER COMMAND...       run a command in it, print its output
//	cripod pid SANDBOX CONTAINER                   print its first process
//	cripod status SANDBOX CONTAINER                print its id, state and times
//	cripod stop SANDBOX CONTAINER                  stop a container, and remove it
//	cripod halt SANDBOX                            stop a sandbox with its containers
//	cripod again [FLAGS] SANDBOX CONTAINER[=LIMIT] start another sandbox of its pod, print its id
//	cripod remove SANDBOX...                       stop and remove pods; "all" for every one
//	cripod serve DIRECTORY                         be the API server of a cluster of this node, whose
//	                                               marks are in DIRECTORY, until SIGTERM
//	cripod bench [FLAGS] NUMBER                    start and remove pods, print what each step took
//
// A pod that cannot be started is removed, as kubelet does at last, and the exit status is 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// patience is how long one call may take on an emulated machine: longer than containerd, when it
// starts, waits for a shim that does not answer, which packaging/kubernetes/kube.sh sets to 5 minutes.
const patience = 10 * time.Minute

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cripod:", err)
		os.Exit(1)
	}
}

// pairs are flags of the form KEY=VALUE.
type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("`%s`: expected KEY=VALUE", text)
	}
	p[key] = value
	return nil
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("expected run, add, apply, update, exec, pid, status, stop, halt, again, remove, serve or bench")
	}
	k := kubelet{annotations: pairs{}}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	socket := flags.String("socket", "/run/containerd/containerd.sock", "`SOCKET` of the runtime")
	flags.StringVar(&k.namespace, "namespace", "default", "the pod's `NAMESPACE`")
	flags.StringVar(&k.qos, "qos", "burstable", "guaranteed, burstable or besteffort")
	flags.StringVar(&k.image, "image", "localhost/busy:1", "`IMAGE` of its containers")
	flags.StringVar(&k.data, "data", "/var/tmp", "the node's `DIRECTORY` that its containers have as /data")
	flags.StringVar(&k.handler, "runtime", "", "runtime `HANDLER`, the runtime's own default without")
	flags.StringVar(&k.podLimit, "pod-limit", "max", "memory.max of the pod's cgroup, in `BYTES`")
	flags.BoolVar(&k.systemd, "systemd", false, "the runtime manages cgroups through systemd")
	flags.Var(k.annotations, "annotation", "`KEY=VALUE` of the pod")
	_ = flags.Parse(os.Args[2:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := k.connectRuntime(*socket); err != nil {
		return err
	}
	rest := flags.Args()
	needs := func(least int) error {
		if len(rest) < least {
			return fmt.Errorf("%s: expected %d arguments at least", os.Args[1], least)
		}
		return nil
	}
	switch os.Args[1] {
	case "run":
		if err := needs(2); err != nil {
			return err
		}
		sandbox, err := k.runPod(ctx, rest[0], rest[1:])
		if err == nil {
			fmt.Println(sandbox)
		}
		return err
	case "add":
		if err := needs(2); err != nil {
			return err
		}
		return k.addContainer(ctx, rest[0], rest[1])
	case "apply":
		if err := needs(1); err != nil {
			return err
		}
		sandbox, err := k.applyDaemonSet(ctx, rest[0])
		if err != nil && sandbox != "" {
			return errors.Join(err, k.removePods(context.Background(), []string{sandbox}))
		}
		fmt.Print(sandbox, "\n")
		return err
	case "update":
		if err := needs(3); err != nil {
			return err
		}
		return k.updateLimit(ctx, rest[0], rest[1], rest[2])
	case "exec":
		if err := needs(3); err != nil {
			return err
		}
		return k.execCommand(ctx, rest[0], rest[1], rest[2:])
	case "pid":
		if err := needs(2); err != nil {
			return err
		}
		return k.printPID(ctx, rest[0], rest[1])
	case "status":
		if err := needs(2); err != nil {
			return err
		}
		return k.printStatus(ctx, rest[0], rest[1])
	case "stop":
		if err := needs(2); err != nil {
			return err
		}
		return k.stopContainer(ctx, rest[0], rest[1])
	case "halt":
		if err := needs(1); err != nil {
			return err
		}
		return k.stopSandbox(ctx, rest[0])
	case "again":
		if err := needs(2); err != nil {
			return err
		}
		sandbox, err := k.restartSandbox(ctx, rest[0], rest[1])
		fmt.Println(sandbox)
		return err
	case "remove":
		return k.removePods(ctx, rest)
	case "serve":
		if err := needs(1); err != nil {
			return err
		}
		return serveAPI(ctx, rest[0])
	case "bench":
		if err := needs(1); err != nil {
			return err
		}
		return k.benchStarts(ctx, rest[0])
	}
	return fmt.Errorf("no such command: `%s`", os.Args[1])
}
