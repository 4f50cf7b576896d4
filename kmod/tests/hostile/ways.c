// SPDX-License-Identifier: GPL-2.0-only
/* Ways to write to a file, and writers that take one of them at random. */
#define _GNU_SOURCE
#include "hostile.h"
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>
int open_file(int flags)
{
	return open(any_file(), O_RDWR | O_CREAT | flags, 0666);
}

void write_some(int fd, size_t bytes)
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

void writer(const char *cgroup)
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
void spawn(const char *cgroup)
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
