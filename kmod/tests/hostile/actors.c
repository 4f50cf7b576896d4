// SPDX-License-Identifier: GPL-2.0-only
/* The actors: one kind of trouble each.  Each is called again and again. */
#define _GNU_SOURCE
#include "hostile.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
static void act_spawn(void)
{
	spawn(NULL);
}

static void act_make(void)
{
	if (!mkdir(any_slot(), 0755))
		count(COUNT_mkdir);
	nap(40);
}

static void act_move(void)
{
	const char *from = any_slot(), *to = any_slot();
	pid_t pids[64];
	int i, n = tasks_of(from, pids, 64);

	for (i = 0; i < n; i++) {
		int slept = throttled(pids[i]);

		if (enter(to, pids[i]))
			continue;
		count(COUNT_moved);
		if (slept)
			count(COUNT_moved_throttled);
	}
	nap(100);
}

/* All its tasks out, and the cgroup with them, while one sleeps. */
static void act_remove(void)
{
	pid_t slept = 0, pids[64];
	long since = -1;
	const char *from = slot_path(throttled_slot(&slept, &since));
	const char *to = any_slot();
	int i, j, n, asleep;

	if (!slept && below(8))
		return nap(50);
	/* those that come meanwhile too */
	for (i = 0; i < 20; i++) {
		n = tasks_of(from, pids, 64);
		for (j = 0; j < n; j++)
			enter(to, pids[j]);
		/* moving took a pause's time: in the next one counts too */
		asleep = slept && throttled(slept);
		if (!rmdir(from)) {
			count(COUNT_rmdir);
			if (asleep)
				count(COUNT_rmdir_throttled);
			return;
		}
	}
}

static void act_freeze(void)
{
	const char *file = path("%s/cgroup.freeze", any_slot());

	if (!put(file, "1"))
		count(COUNT_frozen);
	nap(200);
	put(file, "0");
}

static void act_kill(void)
{
	pid_t slept = 0;
	long since = -1;
	const char *cgroup = slot_path(throttled_slot(&slept, &since));

	if ((slept || !below(8)) && !put(path("%s/cgroup.kill", cgroup), "1")) {
		count(COUNT_killed);
		if (slept)
			count(COUNT_killed_throttled);
	}
	nap(400);
}

/* Controllers of all slots below a or b, while a writer of one sleeps. */
static void act_controllers(void)
{
	static const char *const values[] = { "-memory", "-io", "-memory -io" };
	pid_t slept = 0;
	long since = -1;
	unsigned int slot = throttled_slot(&slept, &since);
	const char *file = path("%s/%c/cgroup.subtree_control", top,
				slot % 2 ? 'b' : 'a');

	if (!still(slept, since))
		slept = 0;
	if ((slept || !below(4)) && !put(file, values[below(3)])) {
		count(COUNT_controllers);
		if (slept)
			count(COUNT_controllers_throttled);
	}
	nap(50);
	put(file, "+memory +io");
	nap(100);
}

static const char *const knobs[] = {
	"dirty_min", "dirty_bytes", "dirty_ratio", "dirty_weight",
	"toptier_ratio", "dirty_min", "dirty_bytes", "dirty_weight",
};

static const char *const shown[] = {
	"dirty_stat", "dirty_min", "dirty_bytes", "dirty_ratio", "dirty_weight",
	"toptier_min", "toptier_low", "toptier_high", "toptier_max",
	"toptier_ratio", "tier_stat", "dirty_stat",
};

static const char *const values[] = {
	"0", "1", "100", "101", "10000", "10001", "8192", "64K", "1M", "16M",
	"1G", "max", "default", "50", "99", "-1", "", "\n", "0\n", "4096",
	"18446744073709551615", "18446744073709551616", "9223372036854775807",
	"1e9", "0x10", " 1", "1 ", "1M 2M", "nonsense", "16m", "16MB", "1T",
};

/* A value of the list, or a mutated one. */
static const char *any_value(char *room, size_t size)
{
	size_t i, len;

	snprintf(room, size, "%s",
		 values[below(sizeof(values) / sizeof(values[0]))]);
	if (below(4))
		return room;
	len = strlen(room);
	for (i = 0; i < 1 + below(3); i++)
		room[below(len + 1)] = 1 + below(255);
	if (!below(16))
		memset(room, '0' + below(10), size - 1);
	room[size - 1] = 0;
	return room;
}

static void knob(const char *cgroup)
{
	const char *name = knobs[below(sizeof(knobs) / sizeof(knobs[0]))];
	const char *file = path("%s/memory.%s", cgroup, name);
	char room[64], text[32];
	int err;

	any_value(room, sizeof(room));
	err = put(file, room);
	if (!err)
		count(COUNT_knob_taken);
	else if (err != ENOENT && err != ENODEV)
		count(COUNT_knob_refused);
	/* no actor may raise a floor, so all of them read 0 */
	if (!err && !strcmp(name, "dirty_min") &&
	    strspn(get(file, text, sizeof(text)), "0\n") != strlen(text))
		violation(file, room);
}

static void act_knobs(void)
{
	knob(any_slot());
	if (!below(4))
		nap(50);
}

/* One knob on and off again, as fast as it goes. */
static void act_toggle(void)
{
	const char *cgroup = any_slot();
	const char *name = path("%s/memory.dirty_%s", cgroup,
				below(2) ? "weight" : "bytes");
	int i;

	for (i = 0; i < 50; i++) {
		if (!put(name, strstr(name, "weight") ? "101" : "1M"))
			count(COUNT_knob_taken);
		put(name, strstr(name, "weight") ? "100" : "max");
	}
	nap(100);
}

/* Read; at times what is still open after its cgroup is gone. */
static void act_read(void)
{
	const char *name = shown[below(sizeof(shown) / sizeof(shown[0]))];
	int fd = open(path("%s/memory.%s", any_slot(), name), O_RDONLY);
	char text[4096];
	int i;

	if (fd < 0)
		return nap(5);
	for (i = 0; i < 5; i++) {
		ssize_t got = pread(fd, text, 1 + below(sizeof(text)), 0);

		if (got > 0)
			count(COUNT_knob_read);
		else if (got < 0 && errno == ENODEV)
			count(COUNT_read_removed);
		if (below(3))
			break;
		nap(100);
	}
	close(fd);
}

/* What its owner does not own: the delegated cgroup itself, and siblings. */
static void act_trespass(void)
{
	const char *name = knobs[below(sizeof(knobs) / sizeof(knobs[0]))];
	const char *file = below(2) ? path("%s/memory.%s", top, name) :
			   path("%s/../neighbour/memory.%s", top, name);
	char room[64];
	int err = put(file, any_value(room, sizeof(room)));

	if (!err)
		violation(file, room);
	else if (err == EACCES || err == EPERM)
		count(COUNT_denied);
	put("/sys/kernel/weir/state", "idle");
	put("/sys/module/weir/parameters/observe", "1");
	nap(200);
}

static void act_memory(void)
{
	static const char *const limits[] = { "max", "4M", "8M", "16M", "64M" };
	const char *cgroup = any_slot();

	if (!put(path("%s/memory.%s", cgroup, below(2) ? "high" : "max"),
		 limits[below(5)]))
		count(COUNT_memory_limits);
	put(path("%s/memory.reclaim", cgroup), "4M");
	nap(300);
}

static void act_deep(void)
{
	int level, fd;

	if (chdir(top) || (mkdir("deep", 0755) && errno != EEXIST) ||
	    chdir("deep"))
		return;
	for (level = 1; level < LEVELS && !over(); level++) {
		put("cgroup.subtree_control", "+memory +io");
		if (mkdir("n", 0755) && errno != EEXIST)
			break;
		if (chdir("n"))
			break;
		knob(".");
		knob(".");
	}
	reached(COUNT_deepest, level);
	fd = open_file(0);
	if (!split()) {
		if (!enter(".", getpid()))
			write_some(fd, 4 << 20);
		_exit(0);
	}
	close(fd);
	nap(500);
	put("cgroup.kill", "1");
	wait(NULL);
	for (; level > 1; level--) {
		if (chdir("..") || rmdir("n"))
			break;
		knob(".");
	}
	if (chdir("/"))
		_exit(1);
	nap(5000);
}

static void act_wide(void)
{
	const char *wide = path("%s/wide", top);
	int child, most;

	mkdir(wide, 0755);
	put(path("%s/cgroup.subtree_control", wide), "+memory +io");
	for (child = 0; child < CHILDREN && !over(); child++) {
		const char *one = path("%s/wide/%d", top, child);

		if (mkdir(one, 0755) && errno != EEXIST)
			break;
		put(path("%s/memory.dirty_weight", one), "50");
		if (below(2))
			knob(one);
		/* where one takes seconds, so many are wide enough */
		if (child >= 64)
			reached(COUNT_widest, child);
	}
	most = child;
	nap(500);
	for (child = 0; child < most; child++)
		rmdir(path("%s/wide/%d", top, child));
	nap(5000);
}

static void *mover(void *unused)
{
	char number[16];
	int fd = open_file(0);
	int i;

	sprintf(number, "%ld", syscall(SYS_gettid));
	for (i = 0; i < 20 && !over(); i++) {
		write_some(fd, 128 << 10);
		if (!put(path("%s/thr/t%d/cgroup.threads", top, i % 2), number))
			count(COUNT_threads_moved);
	}
	close(fd);
	return unused;
}

/* A threaded subtree, its threads moved from one cgroup to the other. */
static void act_threads(void)
{
	const char *thr = path("%s/thr", top);
	pthread_t threads[3];
	int i;

	mkdir(thr, 0755);
	for (i = 0; i < 2; i++) {
		mkdir(path("%s/t%d", thr, i), 0755);
		put(path("%s/t%d/cgroup.type", thr, i), "threaded");
	}
	if (!split()) {
		if (enter(thr, getpid()))
			_exit(0);
		for (i = 0; i < 3; i++)
			pthread_create(&threads[i], NULL, mover, NULL);
		for (i = 0; i < 3; i++)
			pthread_join(threads[i], NULL);
		_exit(0);
	}
	if (below(2)) {
		nap(500);
		put(path("%s/cgroup.kill", thr), "1");
	}
	wait(NULL);
	for (i = 0; i < 2; i++)
		rmdir(path("%s/t%d", thr, i));
	rmdir(thr);
	nap(1000);
}

const struct actor actors[] = {
	{ act_spawn, 2 },
	{ act_make, 1 },
	{ act_move, 1 },
	{ act_remove, 2 },
	{ act_freeze, 1 },
	{ act_kill, 1 },
	{ act_controllers, 1 },
	{ act_knobs, 3 },
	{ act_toggle, 1 },
	{ act_read, 2 },
	{ act_trespass, 1 },
	{ act_memory, 1 },
	{ act_deep, 1 },
	{ act_wide, 1 },
	{ act_threads, 1 },
	{ NULL, 0 },
};
