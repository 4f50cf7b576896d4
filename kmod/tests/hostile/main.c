// SPDX-License-Identifier: GPL-2.0-only
/*
 * hostile CGROUP FOLDER SECONDS SEED [once|steady|polite]: the owner of a
 * delegated cgroup, without any privilege, who wants to do harm.
 *
 * Started by root; becomes uid 1000 without capabilities.  CGROUP is delegated
 * as by systemd: its directory, cgroup.procs, cgroup.threads and
 * cgroup.subtree_control belong to uid 1000, nothing else does.  FOLDER is
 * where it may write files, or several of those with ":" between them.
 *
 * The tree:
 *   CGROUP/base          this program's actors; they are never killed or frozen
 *   CGROUP/a, CGROUP/b   slots s0..s7 below each, that come and go; writers
 *   CGROUP/deep          64 levels, CGROUP/wide: hundreds of children,
 *   CGROUP/thr           a threaded subtree
 *
 * An actor is a process that repeats one kind of trouble until the time is up.
 * Most of what it tries fails, since the other actors take it from under it;
 * each success is counted in memory that all of them share, and printed at the
 * end, so that a caller sees what really happened.  Each process draws from a
 * generator of its own, seeded from SEED and its ancestry: what is tried is the
 * same in each run of a seed, its timing is not.
 *
 * It goes on for SECONDS, and then, up to ten times as long, until everything
 * has been done that must_happen[] lists; with "once", hundreds of cgroups made
 * are enough; with "steady" it ends on time.
 *
 * Exit status 1 if not all of that happened, or if something worked that must
 * not without privilege: a floor raised, a knob of CGROUP itself or of a
 * sibling written.
 *
 * "polite" writes with as many tasks, files and CPU priorities as the hostile
 * one keeps and in the same ways, from CGROUP/a/s0 alone, and does nothing else.
 */
#define _GNU_SOURCE
#include "hostile.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
static void drop_privileges(void)
{
	if (setgroups(0, NULL) || setgid(OWNER) || setuid(OWNER) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		perror("hostile: uid 1000");
		exit(2);
	}
	/* so that it may read /proc of its own tasks */
	prctl(PR_SET_DUMPABLE, 1);
}

static void set_up(void)
{
	unsigned int slot;

	if (put(path("%s/cgroup.subtree_control", top), "+memory +io")) {
		perror("hostile: controllers");
		exit(2);
	}
	mkdir(path("%s/a", top), 0755);
	mkdir(path("%s/b", top), 0755);
	put(path("%s/a/cgroup.subtree_control", top), "+memory +io");
	put(path("%s/b/cgroup.subtree_control", top), "+memory +io");
	for (slot = 0; slot < SLOTS; slot++)
		mkdir(slot_path(slot), 0755);
}

/* Kill what is in it, remove it and all below; 0 if it is gone. */
static int clear(const char *cgroup)
{
	struct dirent *entry;
	DIR *dir = opendir(cgroup);
	char own[4096];

	if (!dir)
		return errno == ENOENT ? 0 : -1;
	snprintf(own, sizeof(own), "%s", cgroup);
	while ((entry = readdir(dir))) {
		char child[4096 + 256];

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		snprintf(child, sizeof(child), "%s/%s", own, entry->d_name);
		clear(child);
	}
	closedir(dir);
	put(path("%s/cgroup.freeze", own), "0");
	put(path("%s/cgroup.kill", own), "1");
	return rmdir(own);
}

static pid_t start(int actor)
{
	pid_t pid = split();

	if (pid)
		return pid;
	while (!over())
		actors[actor].act();
	_exit(0);
}

/* What a run that has not seen it does not show. */
static const enum count must_happen[] = {
	COUNT_rmdir_throttled, COUNT_moved_throttled, COUNT_killed_throttled,
	COUNT_controllers_throttled, COUNT_frozen, COUNT_knob_taken,
	COUNT_knob_refused, COUNT_knob_read, COUNT_deepest, COUNT_widest,
	COUNT_threads_moved, COUNT_by_write, COUNT_by_mmap, COUNT_by_io_uring,
	COUNT_by_threads, COUNT_by_exec, COUNT_by_storm, COUNT_by_direct,
	COUNT_by_truncate, COUNT_by_fsync, COUNT_by_sendfile, COUNT_idle_class,
	COUNT_nice_19, COUNT_memory_limits, COUNT_denied,
};

/* The first that has not happened; COUNT_END if all has. */
static enum count missing(int once)
{
	size_t i;

	/* what the kernel keeps of so many cgroups is then known */
	if (once)
		return counts[COUNT_widest] ? COUNT_END : COUNT_widest;

	for (i = 0; i < sizeof(must_happen) / sizeof(must_happen[0]); i++) {
		enum count what = must_happen[i];

		if (!counts[what])
			return what;
	}
	return COUNT_END;
}

static void play(double enough, int once)
{
	pid_t pids[64];
	int of[64];
	int i, copy, n = 0;

	for (i = 0; actors[i].act; i++) {
		for (copy = 0; copy < actors[i].copies; copy++, n++) {
			of[n] = i;
			pids[n] = start(i);
		}
	}
	/* no actor does, but the kernel may kill one for want of memory */
	while (!over()) {
		pid_t ended = waitpid(-1, NULL, WNOHANG);

		for (i = 0; i < n && ended > 0; i++) {
			if (pids[i] == ended)
				pids[i] = start(of[i]);
		}
		usleep(100000);
		if (now() >= enough && missing(once) == COUNT_END)
			break;
	}
	counts[COUNT_END] = 1;
	/* an actor may wait for a child that sleeps, or is frozen */
	for (i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
}

int main(int argc, char **argv)
{
	static const char *const places[] = { "a", "b", "deep", "wide", "thr" };
	int polite = argc > 5 && !strcmp(argv[5], "polite");
	int on_time = polite || (argc > 5 && !strcmp(argv[5], "steady"));
	int once = argc > 5 && !strcmp(argv[5], "once");
	double begun = now(), enough;
	int i, left = 1;
	char *one;

	if (argc == 3 && !strcmp(argv[1], "write")) {
		static long never[COUNT_END + 1];

		counts = never;
		i = open(argv[2], O_RDWR | O_CREAT, 0666);
		deadline = now() + 60;
		write_some(i, 4 << 20);
		return 0;
	}
	if (argc < 5)
		return 2;
	top = argv[1];
	for (one = strtok(argv[2], ":"); one && nr_folders < 4;
	     one = strtok(NULL, ":"))
		folders[nr_folders++] = one;
	generator = strtoull(argv[4], NULL, 10);
	printf("# seed %s\n", argv[4]);
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mkdir(path("%s/base", top), 0755);
	if (counts == MAP_FAILED || enter(path("%s/base", top), getpid())) {
		perror("hostile");
		return 2;
	}
	drop_privileges();
	set_up();
	enough = begun + atof(argv[3]);
	deadline = on_time ? enough : begun + 10 * atof(argv[3]);
	if (polite) {
		split();
		spawn(strdup(path("%s/a/s0", top)));
	} else {
		play(enough, once);
	}
	counts[COUNT_END] = 0;
	/* a writer asleep in the throttle takes its time to die */
	deadline = now() + 120;
	while (left && !over()) {
		left = 0;
		for (i = 0; i < 5; i++)
			left |= clear(path("%s/%s", top, places[i]));
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		usleep(100000);
	}
	if (left)
		printf("# not done, or not removed within two minutes\n");
	for (i = 0; i < COUNT_END; i++)
		printf("%s %ld\n", count_names[i], counts[i]);
	if (!on_time && missing(once) != COUNT_END) {
		printf("# did not happen: %s\n", count_names[missing(once)]);
		left = 1;
	}
	return left || counts[COUNT_violations];
}
