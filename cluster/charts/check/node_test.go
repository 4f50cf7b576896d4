// SPDX-License-Identifier: GPL-2.0-only

package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// scripts are what the chart's containers run on a node.
const scripts = "../../../packaging/node/"

// machine is a node as the scripts see it: no headers, and a weir that is refused.
type machine struct {
	t   *testing.T
	dir string
}

func newMachine(t *testing.T) machine {
	m := machine{t, t.TempDir()}
	m.put("bin/weir", "#!/bin/sh\necho tried >>$WEIR_DIRECTORY/log\necho 'weir: the kernel refused weir.ko: it is not signed' >&2\nexit 1\n")
	for _, directory := range []string{"host/lib/modules", "run"} {
		if err := os.MkdirAll(filepath.Join(m.dir, directory), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m machine) put(name, text string) {
	m.t.Helper()
	file := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) text(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.dir, name))
	return string(text)
}

func (m machine) command(environment []string, script string, arguments ...string) *exec.Cmd {
	c := exec.Command("sh", append([]string{scripts + script}, arguments...)...)
	c.Env = append([]string{"PATH=" + filepath.Join(m.dir, "bin") + ":" + os.Getenv("PATH"), "WEIR_HOST=" + filepath.Join(m.dir, "host"),
		"WEIR_RELEASE=6.99-x", "WEIR_DIRECTORY=" + filepath.Join(m.dir, "run"), "WEIR_MODULES=" + filepath.Join(m.dir, "run/modules"),
		"WEIR_MODULE=" + filepath.Join(m.dir, "loaded")}, environment...)
	return c
}

// run runs a script, and says whether it succeeded.
func (m machine) run(environment []string, script string, arguments ...string) bool {
	return m.command(environment, script, arguments...).Run() == nil
}

// A node without headers, and one whose kernel refuses, say so in a sentence; a module that comes later is tried.
func TestReasonsOnTheNode(t *testing.T) {
	if _, err := os.Stat("/sys/module/weir"); err == nil {
		t.Skip("this machine has the module loaded, which is what load looks for first")
	}
	m := newMachine(t)
	run := filepath.Join(m.dir, "run")
	auto, again := []string{"WEIR_REQUIRED=false"}, []string{"WEIR_REQUIRED=false", "WEIR_AGAIN=1"}
	if m.run(nil, "build", run, "node", "headers") || m.run(nil, "load") {
		t.Error("a node that requires the module starts without")
	}
	if !m.run(auto, "build", run, "node", "headers") || !m.run(auto, "load") {
		t.Error("a node in mode auto does not start")
	}
	const lacking = "there is no module for Linux 6.99-x, and the node has no headers of it to build one from.\n"
	if got := m.text("run/reason"); !strings.HasPrefix(got, lacking) || m.text("run/log") != "" {
		t.Errorf("the reason is %q", got)
	}

	m.put("host/lib/modules/6.99-x/updates/weir.ko", "one")
	tries := func() int { return strings.Count(m.text("run/log"), "tried") }
	for range 3 {
		if !m.run(again, "build", run, "node", "headers") || !m.run(again, "load") {
			t.Error("it ends")
		}
	}
	if got := m.text("run/reason"); !strings.HasPrefix(got, "weir: the kernel refused weir.ko: it is not signed") || tries() != 1 {
		t.Errorf("the reason is %q after %d tries", got, tries())
	}
	m.put("host/lib/modules/6.99-x/updates/weir.ko", "signed")
	if !m.run(again, "build", run, "node", "headers") || !m.run(again, "load") || tries() != 2 {
		t.Errorf("another module was tried %d times", tries()-1)
	}
	m.put("bin/weir", "#!/bin/sh\necho weir is loaded\n")
	for range 10 {
		m.run(again, "load")
	}
	if got := m.text("run/reason"); got != "" {
		t.Errorf("loaded, and %q", got)
	}
}

// What is tried again ends with the pod, and is left alone once the module is loaded.
func TestTriedAgain(t *testing.T) {
	m := newMachine(t)
	m.put("bin/try", "#!/bin/sh\necho tried >>"+filepath.Join(m.dir, "tries")+"\n[ $(wc -l <"+filepath.Join(m.dir, "tries")+") -lt 3 ] || : >"+filepath.Join(m.dir, "loaded")+"\n")
	c := m.command([]string{"WEIR_AGAIN=0.05"}, "again", "try")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		if strings.Count(m.text("tries"), "tried") >= 3 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if got := strings.Count(m.text("tries"), "tried"); got != 3 {
		t.Errorf("%d tries, though it was loaded after three", got)
	}
}
