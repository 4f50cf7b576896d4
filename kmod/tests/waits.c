// SPDX-License-Identifier: GPL-2.0-only
/*
 * For waits.sh: a tenant that holds a lock in system calls that dirty pages, and a
 * neighbour whose acts need that lock.
 *
 * waits prepare AT MIB: makes the files of both in the filesystem mounted at AT.
 * waits tenant LOCK COUNT MIB [apart] AT: COUNT tasks of uid 1000 hold LOCK over and over, in
 *	calls of MIB each, or KiB with a K behind.  A task that is killed is replaced.  "apart": each in a cgroup of
 *	its own, by its number, beside that of the first.
 * waits neighbour LOCK SECONDS LIMIT AT: root acts every 20 ms and says how long the longest
 *	act took, in ms.  An act that takes LIMIT seconds ends this; it is left behind.
 * waits torment GROUP [KNOB VALUE OTHER]: uid 1000 kills, moves and freezes the tasks in GROUP/a
 *	and GROUP/b, and writes OTHER and VALUE to GROUP/KNOB now and then.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/suspend_ioctls.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TENANT		1000		/* uid */
#define PAGE		4096
/* Between two calls of a task of the tenant's: an idle guest is a fast one. */
#define GAP_US_PER_MIB	25000
#define GAP_US_MOST	400000
#define ACT_GAP_US	20000		/* between two acts of the neighbour */
#define CROWD_GAPS	10		/* the tenant's gaps are so much longer with many tasks */
#define NAMES		2000		/* entries of the shared directory: 560 KiB in getdents() */
#define NAMES_SIZE	(1 << 20)
#define KNOB_TURNS	64		/* of the torment, 20 ms each: another value is for one of them */

static size_t size;			/* bytes of a call */
static const char *at;
static unsigned int gaps = 1;		/* factor of the tenant's gaps */
static unsigned int call_gap_us;

static void die(const char *what)
{
	fprintf(stderr, "waits: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Paths of one task; the text stays valid for eight more calls. */
__attribute__((format(printf, 1, 2)))
static const char *path(const char *format, ...)
{
	static __thread char text[8][512];
	static __thread unsigned int turn;
	char *to = text[turn++ % 8];
	va_list args;

	va_start(args, format);
	vsnprintf(to, sizeof(text[0]), format, args);
	va_end(args);
	return to;
}

static int open_or_die(const char *name, int flags, mode_t mode)
{
	int fd = open(name, flags, mode);

	if (fd < 0)
		die(name);
	return fd;
}

static void *map_or_die(size_t length, int flags, int fd, off_t offset)
{
	void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, fd, offset);

	if (map == MAP_FAILED)
		die("mmap");
	return map;
}

static void put(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY);

	/* a task that is moved may be dead, a knob's owner may be too late */
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		errno = 0;
	close(fd);
}

/* A child that ends with its parent. */
static pid_t split(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Read only, so that it takes no memory. */
static void *anonymous(void)
{
	return map_or_die(size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Pages that were truncated are clean: each call dirties all of them anew. */
static void empty(int fd, size_t length)
{
	usleep(gaps * call_gap_us);
	if (ftruncate(fd, 0) || ftruncate(fd, length))
		die("ftruncate");
}

static void write_for_ever(int fd, off_t offset)
{
	void *data = anonymous();

	for (;;) {
		empty(fd, 0);
		if (pwrite(fd, data, size, offset) < 0)
			die("pwrite");
	}
}

/* The tenant, by lock; @id tells its tasks apart. */

static void hold_file(int id)
{
	write_for_ever(open_or_die(path("own/a/%d", id), O_CREAT | O_RDWR, 0644), 0);
}

/* Renaming a file that is written to waits for it, with the filesystem's rename mutex. */
static void hold_rename(int id)
{
	const char *a = path("own/a/%d", id), *b = path("own/b/%d", id);

	unlink(b);
	int fd = open_or_die(a, O_CREAT | O_RDWR, 0644);

	if (split())
		write_for_ever(fd, 0);
	for (;;) {
		usleep(gaps * ACT_GAP_US);
		/* the helper of a task that was killed may still move it, too */
		if ((rename(a, b) || rename(b, a)) && errno != ENOENT)
			die("rename");
	}
}

/* Removing a file that is written to waits for it, with the directory's lock. */
static void hold_unlink(int id)
{
	const char *file = path("shared/%d", id);
	void *data = anonymous();

	if (!split()) {
		for (;;) {
			usleep(gaps * ACT_GAP_US);
			unlink(file);
		}
	}
	for (;;) {
		int fd = open_or_die(file, O_CREAT | O_RDWR, 0644);

		/* at once: a file that is gone by then is locked by this task alone */
		if (write(fd, data, size) < 0)
			die("write");
		close(fd);
		usleep(gaps * call_gap_us);
	}
}

/* A file of @length to receive into, whose pages its reader dirties in faults. */
static char *receive(int id, size_t length, int *fd)
{
	*fd = open_or_die(path("own/a/%d", id), O_CREAT | O_RDWR, 0644);
	empty(*fd, length);
	return map_or_die(length, MAP_SHARED, *fd, 0);
}

static void hold_directory(int id)
{
	int fd, names = open_or_die("shared", O_RDONLY | O_DIRECTORY, 0);
	char *map = receive(id, NAMES_SIZE, &fd);

	for (;;) {
		empty(fd, NAMES_SIZE);
		lseek(names, 0, SEEK_SET);
		if (syscall(SYS_getdents64, names, map, NAMES_SIZE) < 0)
			die("getdents64");
	}
}

static void hold_log(int id)
{
	int fd, log = open_or_die("root/log", O_RDONLY, 0);
	char *map = receive(id, size, &fd);

	for (;;) {
		empty(fd, size);
		if (pread(log, map, size, 0) < 0)
			die("pread");
	}
}

/* A file that the neighbour appends to. */
static void hold_append(int id)
{
	write_for_ever(open_or_die("root/public", O_RDWR, 0), (off_t)id * size);
}

/* The same by a worker of a ring, which never returns to user mode. */
static void hold_uring(int id)
{
	int fd = open_or_die("root/public", O_RDWR, 0);
	struct io_uring_params p = {};
	int ring = syscall(SYS_io_uring_setup, 1, &p);
	struct io_uring_sqe *sqe;
	unsigned int *tail, *head;
	char *rings;

	if (ring < 0 || !(p.features & IORING_FEAT_SINGLE_MMAP))
		die("io_uring_setup");
	rings = map_or_die(PAGE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	sqe = map_or_die(sizeof(*sqe), MAP_SHARED, ring, IORING_OFF_SQES);
	tail = (void *)(rings + p.sq_off.tail);
	head = (void *)(rings + p.cq_off.head);
	*sqe = (struct io_uring_sqe) {
		.opcode = IORING_OP_WRITE, .flags = IOSQE_ASYNC, .fd = fd,
		.addr = (uintptr_t)anonymous(), .len = size, .off = (off_t)id * size,
	};
	for (;;) {
		empty(fd, 0);
		__atomic_add_fetch(tail, 1, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			die("io_uring_enter");
		__atomic_add_fetch(head, 1, __ATOMIC_RELEASE);
	}
}

static void *fault_for_ever(void *map)
{
	int fd;

	map = receive((intptr_t)map, size, &fd);
	for (;;) {
		empty(fd, size);
		for (size_t i = 0; i < size; i += PAGE)
			((volatile char *)map)[i] = 1;
	}
	return NULL;
}

/* Such a fault cannot give the address space up while it waits. */
static void *poke_for_ever(void *id)
{
	int fd, memory = open_or_die("/proc/self/mem", O_RDWR, 0);
	char *map = receive(-1 - (intptr_t)id, size, &fd), *data = anonymous();

	for (;;) {
		empty(fd, size);
		if (pwrite(memory, data, size, (off_t)(uintptr_t)map) < 0)
			die("/proc/self/mem");
	}
	return NULL;
}

/* Mapping waits for the faults of the same process, and readers of /proc/PID wait for that. */
static void hold_memory(int id)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, fault_for_ever, (void *)(intptr_t)id) ||
	    pthread_create(&thread, NULL, poke_for_ever, (void *)(intptr_t)id))
		die("pthread_create");
	for (;;) {
		usleep(gaps * ACT_GAP_US / 4);
		munmap(map_or_die(PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), PAGE);
	}
}

/* Each of these; the names of their files do not meet. */
static void hold_each(int id)
{
	static void (*const holds[])(int id) = {
		hold_file, hold_rename, hold_unlink, hold_directory, hold_log, hold_append,
		hold_uring, hold_memory,
	};
	const int count = sizeof(holds) / sizeof(holds[0]);

	for (int i = 0; i < count; i++) {
		if (!split())
			holds[i](count * id + i);
	}
	pause();
}

/* The neighbour, by lock. */

static void act_rename(void)
{
	if (rename("root/x/file", "root/y/file") || rename("root/y/file", "root/x/file"))
		die("rename");
}

static void act_touch(void)
{
	close(open_or_die("shared/neighbour", O_CREAT | O_RDWR, 0644));
	unlink("shared/neighbour");
}

static void append(const char *file)
{
	int fd = open_or_die(file, O_WRONLY | O_APPEND, 0);

	if (write(fd, "line\n", 5) != 5)
		die(file);
	close(fd);
}

static void act_log(void)
{
	append("root/log");
}

static void act_append(void)
{
	append("root/public");
}

/* What ps(1) and pmap(1) read of the tenant's processes. */
static void act_ps(void)
{
	static const char *const files[] = { "cmdline", "maps" };
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	struct stat owner;
	char text[PAGE];

	while ((entry = readdir(proc))) {
		if (!atoi(entry->d_name) || stat(path("/proc/%s", entry->d_name), &owner) ||
		    owner.st_uid != TENANT)
			continue;
		for (int i = 0; i < 2; i++) {
			int fd = open(path("/proc/%s/%s", entry->d_name, files[i]), O_RDONLY);

			while (fd >= 0 && read(fd, text, sizeof(text)) > 0)
				;
			close(fd);
		}
	}
	closedir(proc);
}

static void act_freeze(void)
{
	int fd = open_or_die(at, O_RDONLY, 0);

	if (ioctl(fd, FIFREEZE, 0) || ioctl(fd, FITHAW, 0))
		die("FIFREEZE");
	close(fd);
}

static void act_sync(void)
{
	int fd = open_or_die(at, O_RDONLY, 0);

	syncfs(fd);
	close(fd);
}

/* What suspend and hibernation do first: sync, and freeze the user space, or fail with EBUSY. */
static void act_suspend(void)
{
	int fd = open_or_die("/dev/snapshot", O_RDONLY, 0);

	if (ioctl(fd, SNAPSHOT_FREEZE) || ioctl(fd, SNAPSHOT_UNFREEZE))
		die("SNAPSHOT_FREEZE");
	close(fd);
}

static const struct lock {
	const char *name;
	void (*hold)(int id);
	void (*act)(void);
	unsigned int gap_us;		/* between two acts, if not ACT_GAP_US */
} locks[] = {
	{ .name = "rename", .hold = hold_rename, .act = act_rename },
	{ .name = "unlink", .hold = hold_unlink, .act = act_touch },
	{ .name = "getdents", .hold = hold_directory, .act = act_touch },
	{ .name = "readlog", .hold = hold_log, .act = act_log },
	{ .name = "append", .hold = hold_append, .act = act_append },
	{ .name = "uring", .hold = hold_uring, .act = act_append },
	{ .name = "mmap", .hold = hold_memory, .act = act_ps },
	{ .name = "freeze", .hold = hold_file, .act = act_freeze },
	{ .name = "sync", .hold = hold_file, .act = act_sync },
	{ .name = "suspend", .hold = hold_each, .act = act_suspend, .gap_us = 1000000 },
};

static const struct lock *find_lock(const char *name)
{
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
		if (!strcmp(locks[i].name, name))
			return &locks[i];
	}
	fprintf(stderr, "waits: no lock '%s'\n", name);
	exit(2);
}

static void become_tenant(void)
{
	/* its /proc/PID is its own again, as after execve() */
	if (setgid(TENANT) || setuid(TENANT) || prctl(PR_SET_DUMPABLE, 1))
		die("setuid");
}

/* MiB, or KiB with a K behind. */
static size_t bytes_of(const char *text)
{
	return (size_t)atol(text) << (strchr(text, 'K') ? 10 : 20);
}

static void move_to(const char *group)
{
	int fd = open_or_die(path("/sys/fs/cgroup/u/t/%s/cgroup.procs", group), O_WRONLY, 0);

	if (write(fd, "0", 1) != 1)
		die(group);
	close(fd);
}

/* COUNT tasks, replaced as they are killed. */
static void run_tenant(const struct lock *lock, int count, bool apart)
{
	pid_t tasks[count], dead = 0;
	int status;

	memset(tasks, 0, sizeof(tasks));
	gaps = count == 1 ? 1 : CROWD_GAPS;
	call_gap_us = size / 1024 * GAP_US_PER_MIB / 1024;
	if (call_gap_us > GAP_US_MOST)
		call_gap_us = GAP_US_MOST;
	become_tenant();
	do {
		for (int i = 0; i < count; i++) {
			if (tasks[i] != dead)
				continue;
			tasks[i] = split();
			if (!tasks[i]) {
				setpgid(0, 0);
				if (apart)
					move_to(path("%d", i));
				/* not all at once */
				usleep(gaps * call_gap_us / count * i);
				lock->hold(i);
			}
		}
		dead = wait(&status);
		/* one that fails ends all, with its complaint */
	} while (dead > 0 && WIFSIGNALED(status));
}

/*
 * The acts are a child's: one that is stuck is waited for no longer than @limit, and left to
 * end on its own, as a filesystem that it has frozen is to be thawed.
 */
static void run_neighbour(const struct lock *lock, double seconds, double limit)
{
	struct {
		double began, longest;
		bool over;
	} volatile *shared = map_or_die(PAGE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double end = now() + seconds, began, took = 0;

	if (!fork()) {
		while (!shared->over) {
			shared->began = now();
			lock->act();
			took = now() - shared->began;
			if (shared->longest < took)
				shared->longest = took;
			shared->began = 0;
			usleep(lock->gap_us ?: ACT_GAP_US);
		}
		exit(0);
	}
	do {
		usleep(ACT_GAP_US);
		shared->over = now() >= end;
		began = shared->began;
		took = began ? now() - began : 0;
	} while (took < limit && (!shared->over || began));
	shared->over = true;
	printf("%.0f\n", 1000 * (took > shared->longest ? took : shared->longest));
}

/* One of the tasks in GROUP/NAME, 0 if it has none. */
static int task_in(const char *group, const char *name)
{
	FILE *file = fopen(path("%s/%s/cgroup.procs", group, name), "r");
	int pid, chosen = 0;

	for (int n = 1; file && fscanf(file, "%d", &pid) == 1; n++) {
		if (rand() % n == 0)
			chosen = pid;
	}
	if (file)
		fclose(file);
	return chosen;
}

static void run_torment(const char *group, const char *knob, char **values)
{
	static const char *const names[] = { "a", "b" };

	become_tenant();
	for (unsigned int turn = 0;; turn++) {
		const char *from = names[rand() % 2], *to = names[rand() % 2];
		const char *freeze = path("%s/%s/cgroup.freeze", group, from);
		int pid = task_in(group, from);

		/* the first of all, which replaces the others, leads no group of processes */
		if (turn % 4 == 0 && pid && getpgid(pid) == pid)
			kill(pid, SIGKILL);
		else if (turn % 4 == 1 && pid)
			put(path("%s/%s/cgroup.procs", group, to), path("%d", pid));
		else if (turn % 4 == 2)
			put(freeze, "1");
		else if (turn % KNOB_TURNS == 3 && knob)
			put(path("%s/%s", group, knob), values[1]);
		usleep(ACT_GAP_US);
		if (turn % 4 == 2)
			put(freeze, "0");
		else if (turn % KNOB_TURNS == 3 && knob)
			put(path("%s/%s", group, knob), values[0]);
	}
}

static void make_folder(const char *name, mode_t mode, uid_t owner)
{
	if ((mkdir(name, mode) && errno != EEXIST) || chmod(name, mode) ||
	    chown(name, owner, owner))
		die(name);
}

/* Reading a hole takes what reading data does. */
static void make_file(const char *name, mode_t mode, size_t length)
{
	int fd = open_or_die(name, O_CREAT | O_RDWR | O_TRUNC, mode);

	if (fchmod(fd, mode) || ftruncate(fd, length))
		die(name);
	close(fd);
}

static void run_prepare(void)
{
	make_folder("root", 0755, 0);
	make_folder("root/x", 0755, 0);
	make_folder("root/y", 0755, 0);
	make_file("root/x/file", 0644, 0);
	make_file("root/log", 0644, size);
	make_file("root/public", 0666, 0);
	make_folder("own", 0755, TENANT);
	make_folder("own/a", 0755, TENANT);
	make_folder("own/b", 0755, TENANT);
	make_folder("shared", 01777, 0);
	for (int i = 0; i < NAMES; i++)
		make_file(path("shared/%0250d", i), 0644, 0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "torment") && (argc == 3 || argc == 6)) {
		run_torment(argv[2], argv[3], argv + 4);
	} else if (argc >= 4) {
		at = argv[argc - 1];
		if (!strcmp(mode, "prepare"))
			at = argv[2];
		if (chdir(at))
			die(at);
		if (!strcmp(mode, "prepare")) {
			size = bytes_of(argv[3]);
			run_prepare();
		} else if (!strcmp(mode, "tenant") && argc >= 6) {
			size = bytes_of(argv[4]);
			run_tenant(find_lock(argv[2]), atoi(argv[3]), argc == 7);
		} else if (!strcmp(mode, "neighbour") && argc == 6) {
			run_neighbour(find_lock(argv[2]), atof(argv[3]), atof(argv[4]));
		} else {
			return 2;
		}
	} else {
		return 2;
	}
	return 0;
}
