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
 *   CGROUP/base          this program's actors; nobody kills or freezes them
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
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OWNER		1000
#define SLOTS		16	/* half below a, half below b */
#define FILES		64
#define FILE_BYTES	(4 << 20)
#define WRITERS		12	/* of each of two spawners, at a time */
#define LEVELS		64
#define CHILDREN	300

#define COUNTS(X)							\
	X(writers) X(mkdir) X(rmdir) X(rmdir_throttled) X(moved)	\
	X(moved_throttled) X(frozen) X(killed) X(killed_throttled)	\
	X(controllers) X(controllers_throttled) X(knob_taken)		\
	X(knob_refused) X(knob_read) X(read_removed) X(deepest)		\
	X(widest) X(threads_moved) X(by_write) X(by_mmap)		\
	X(by_io_uring) X(by_threads) X(by_exec) X(by_storm)		\
	X(by_direct) X(by_truncate) X(by_fsync) X(by_sendfile)		\
	X(idle_class) X(nice_19) X(memory_limits) X(denied) X(violations)

#define AS_ENUM(name) COUNT_##name,
#define AS_TEXT(name) #name,
enum count { COUNTS(AS_ENUM) COUNT_END };
static const char *const count_names[] = { COUNTS(AS_TEXT) };

static long *counts;		/* shared by all processes */
static const char *top;		/* CGROUP */
static char *folders[4];
static int nr_folders;
static double deadline;
static uint64_t generator;
static char block[256 << 10];

static void count(enum count what)
{
	__atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED);
}

static void reached(enum count what, long most)
{
	if (counts[what] < most)
		counts[what] = most;
}

static void violation(const char *file, const char *value)
{
	count(COUNT_violations);
	printf("# must not work: '%s' to %s\n", value, file);
	fflush(stdout);
}

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t z = generator += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static unsigned int below(unsigned int limit)
{
	return next() % limit;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* counts[COUNT_END] is set when all of it is to end. */
static int over(void)
{
	return counts[COUNT_END] || now() >= deadline;
}

static void nap(unsigned int most_ms)
{
	usleep(1000 * (1 + below(most_ms)));
}

/* A child with a generator of its own. */
static pid_t split(void)
{
	uint64_t seed = next();
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		generator = seed;
	return pid;
}

__attribute__((format(printf, 1, 2)))
static const char *path(const char *format, ...)
{
	/* several are in use at a time; deep ones are reached by chdir() */
	static __thread char text[8][512];
	static __thread int turn;
	char *to = text[turn++ % 8];
	va_list args;

	va_start(args, format);
	vsnprintf(to, sizeof(text[0]), format, args);
	va_end(args);
	return to;
}

/* 0, or the errno. */
static int put(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY);
	int err;

	if (fd < 0)
		return errno;
	err = write(fd, value, strlen(value)) < 0 ? errno : 0;
	close(fd);
	return err;
}

/* The file's text, empty if it cannot be read. */
static char *get(const char *file, char *text, size_t size)
{
	int fd = open(file, O_RDONLY);
	ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = 0;
	return text;
}

static const char *slot_path(unsigned int slot)
{
	return path("%s/%c/s%u", top, slot % 2 ? 'b' : 'a', slot / 2);
}

static const char *any_slot(void)
{
	return slot_path(below(SLOTS));
}

static const char *any_file(void)
{
	/* most are in the first folder; the others may be gone at the moment */
	return path("%s/f%u", folders[below(4) ? 0 : below(nr_folders)],
		    below(FILES));
}

static int enter(const char *cgroup, pid_t pid)
{
	char number[16];

	sprintf(number, "%d", pid);
	return put(path("%s/cgroup.procs", cgroup), number);
}

/* Is the task asleep in a dirty throttle, the kernel's or weir's? */
static int throttled(pid_t pid)
{
	char text[128];

	get(path("/proc/%d/wchan", pid), text, sizeof(text));
	return strstr(text, "balance_dirty") || strstr(text, "weir_");
}

/* How often the task has gone to sleep; -1 if it is gone. */
static long sleeps(pid_t pid)
{
	char text[4096], *at;

	get(path("/proc/%d/status", pid), text, sizeof(text));
	at = strstr(text, "\nvoluntary_ctxt_switches:");
	return at ? atol(at + 25) : -1;
}

/* The first @most tasks of the cgroup. */
static int tasks_of(const char *cgroup, pid_t *pids, int most)
{
	char text[4096], *at = text;
	int found = 0;

	get(path("%s/cgroup.procs", cgroup), text, sizeof(text));
	for (; *at && found < most; at += strcspn(at, "\n"), at += *at == '\n')
		pids[found++] = atoi(at);
	return found;
}

/* One that sleeps in the throttle, and how often it had gone to sleep; or 0. */
static pid_t throttled_in(const char *cgroup, long *since)
{
	pid_t pids[64];
	int i, n = tasks_of(cgroup, pids, 64);

	for (i = 0; i < n; i++) {
		*since = sleeps(pids[i]);
		if (throttled(pids[i]))
			return pids[i];
	}
	return 0;
}

/* A slot with such a task, whose pid may stay 0 if none has. */
static unsigned int throttled_slot(pid_t *pid, long *since)
{
	unsigned int first = below(SLOTS), i;

	/* four at a time: each task looked at costs a walk of its stack */
	nap(100);
	for (i = 0; i < 4; i++) {
		*pid = throttled_in(slot_path((first + i) % SLOTS), since);
		if (*pid)
			return (first + i) % SLOTS;
	}
	return first;
}

/* In the very sleep still? */
static int still(pid_t pid, long since)
{
	return pid && since >= 0 && sleeps(pid) == since && throttled(pid);
}

/* ---- ways to write ---- */

static int open_file(int flags)
{
	return open(any_file(), O_RDWR | O_CREAT | flags, 0666);
}

static void write_some(int fd, size_t bytes)
{
	size_t size = 4096u << below(7);
	off_t at = below(FILE_BYTES - sizeof(block)) & ~4095;
	ssize_t left = bytes, put;

	for (; left > 0 && !over(); left -= put) {
		put = pwrite(fd, block, size, at);
		if (put <= 0)
			return;
		at = (at + put) % (FILE_BYTES - sizeof(block));
	}
}

static void by_write(int fd)
{
	write_some(fd, 8 << 20);
}

static void by_mmap(int fd)
{
	unsigned int i;
	char *map;

	if (ftruncate(fd, FILE_BYTES))
		return;
	map = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return;
	/* another one may truncate the file: SIGBUS ends this writer then */
	for (i = 0; i < FILE_BYTES && !over(); i += 4096) {
		map[i] = i;
		if (!below(256))
			msync(map, FILE_BYTES, below(2) ? MS_ASYNC : MS_SYNC);
	}
	munmap(map, FILE_BYTES);
}

/* One request at a time in each of many entries, by the rings themselves. */
static void by_io_uring(int fd)
{
	struct io_uring_params p = {};
	struct io_uring_cqe *cqes;
	struct io_uring_sqe *sqes;
	unsigned int i, tail, *tail_at, *array, *head_at, mask;
	int ring = syscall(__NR_io_uring_setup, 16, &p);
	char *sq, *cq;

	if (ring < 0)
		return;
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * sizeof(*array),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*cqes),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, p.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE,
		    MAP_SHARED, ring, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
		return;
	tail_at = (unsigned int *)(sq + p.sq_off.tail);
	array = (unsigned int *)(sq + p.sq_off.array);
	mask = *(unsigned int *)(sq + p.sq_off.ring_mask);
	head_at = (unsigned int *)(cq + p.cq_off.head);
	for (i = 0; i < 24 && !over(); i++) {
		unsigned int n, batch = 1 + below(16);

		tail = *tail_at;
		for (n = 0; n < batch; n++, tail++) {
			sqes[tail & mask] = (struct io_uring_sqe) {
				.opcode = IORING_OP_WRITE,
				.flags = below(2) ? IOSQE_ASYNC : 0,
				.fd = fd,
				.off = below(FILE_BYTES),
				.addr = (uintptr_t)block,
				.len = 4096u << below(6),
			};
			array[tail & mask] = tail & mask;
		}
		__atomic_store_n(tail_at, tail, __ATOMIC_RELEASE);
		/* some leave with requests under way */
		if (i == 23 && below(2))
			batch = 0;
		if (syscall(__NR_io_uring_enter, ring, n, batch,
			    IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			break;
		__atomic_store_n(head_at,
				 *(unsigned int *)(cq + p.cq_off.tail),
				 __ATOMIC_RELEASE);
	}
}

static void *thread(void *fd)
{
	int i;

	for (i = 0; i < 256 && !over(); i++) {
		if (pwrite((int)(intptr_t)fd, block, 16384, i * 16384) < 0)
			break;
	}
	return NULL;
}

static void by_threads(int fd)
{
	pthread_t threads[4];
	int i, n = 0;

	for (i = 0; i < 4; i++)
		n += !pthread_create(&threads[n], NULL, thread,
				     (void *)(intptr_t)fd);
	/* exit_group() while the others sleep, at times */
	for (i = 0; below(3) && i < n; i++)
		pthread_join(threads[i], NULL);
}

/* The program itself again: main() knows "write". */
static void by_exec(int fd)
{
	write_some(fd, 1 << 20);
	execl("/proc/self/exe", "hostile", "write", any_file(), (char *)NULL);
}

static void by_storm(int fd)
{
	int i;

	for (i = 0; i < 30 && !over(); i++) {
		if (!split()) {
			write_some(fd, 65536);
			_exit(0);
		}
	}
	if (below(2))
		while (wait(NULL) > 0)
			;
}

static void by_direct(int fd)
{
	static char aligned[65536] __attribute__((aligned(4096)));
	int direct = open_file(O_DIRECT);
	int i;

	for (i = 0; i < 32 && !over(); i++) {
		off_t at = (off_t)below(64) * sizeof(aligned);

		write_some(fd, 65536);
		if (pwrite(direct, aligned, sizeof(aligned), at) < 0)
			break;
	}
	close(direct);
}

static void by_truncate(int fd)
{
	int i;

	for (i = 0; i < 16 && !over(); i++) {
		write_some(fd, 512 << 10);
		if (below(2) ? ftruncate(fd, below(FILE_BYTES)) :
		    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      below(FILE_BYTES) & ~4095, 1 << 20))
			break;
		if (!below(8))
			unlink(any_file());
	}
}

static void by_fsync(int fd)
{
	int i;

	for (i = 0; i < 16 && !over(); i++) {
		write_some(fd, 256 << 10);
		switch (below(4)) {
		case 0: fsync(fd); break;
		case 1: fdatasync(fd); break;
		case 2: sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); break;
		case 3: below(16) ? fsync(fd) : syncfs(fd);
		}
	}
}

static void by_sendfile(int fd)
{
	int from = open_file(0);
	int i;

	for (i = 0; i < 16 && !over(); i++) {
		lseek(from, 0, SEEK_SET);
		if (sendfile(fd, from, NULL, 512 << 10) <= 0)
			write_some(from, 512 << 10);
	}
	close(from);
}

static const struct {
	void (*write)(int fd);
	enum count counted;
} ways[] = {
	{ by_write, COUNT_by_write },
	{ by_mmap, COUNT_by_mmap },
	{ by_io_uring, COUNT_by_io_uring },
	{ by_threads, COUNT_by_threads },
	{ by_exec, COUNT_by_exec },
	{ by_storm, COUNT_by_storm },
	{ by_direct, COUNT_by_direct },
	{ by_truncate, COUNT_by_truncate },
	{ by_fsync, COUNT_by_fsync },
	{ by_sendfile, COUNT_by_sendfile },
};

/* Lower the own priority, some more than others. */
static void yield_cpu(void)
{
	struct sched_param none = {};

	switch (below(4)) {
	case 0:
		if (!sched_setscheduler(0, SCHED_IDLE, &none))
			count(COUNT_idle_class);
		break;
	case 1:
		if (!setpriority(PRIO_PROCESS, 0, 19))
			count(COUNT_nice_19);
	}
}

static void writer(const char *cgroup)
{
	unsigned int way = below(sizeof(ways) / sizeof(ways[0]));
	int fd;

	if (enter(cgroup, getpid()))
		_exit(0);
	yield_cpu();
	fd = open_file(0);
	if (fd < 0)
		_exit(1);
	count(COUNT_writers);
	count(ways[way].counted);
	ways[way].write(fd);
	_exit(0);
}

/* Keep so many writers under way, in @cgroup or, if NULL, anywhere. */
static void spawn(const char *cgroup)
{
	int alive = 0;

	while (!over()) {
		if (!split())
			writer(cgroup ? cgroup : any_slot());
		alive++;
		/* one at least has to end first if there are enough */
		while (alive && waitpid(-1, NULL,
					alive < WRITERS ? WNOHANG : 0) > 0)
			alive--;
		nap(20);
	}
}

/* ---- the actors; each is called again and again ---- */

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
	/* nobody here may raise a floor, so all of them read 0 */
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
	}
	reached(COUNT_widest, child);
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

static const struct {
	void (*act)(void);
	int copies;
} actors[] = {
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
};

/* ---- the whole ---- */

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

	for (i = 0; i < (int)(sizeof(actors) / sizeof(actors[0])); i++) {
		for (copy = 0; copy < actors[i].copies; copy++, n++) {
			of[n] = i;
			pids[n] = start(i);
		}
	}
	/* nobody means to, but the kernel may kill one for want of memory */
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
