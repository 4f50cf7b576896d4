// SPDX-License-Identifier: GPL-2.0-only
/*
 * For siblings.sh: writers below one bound, each with files of its own, FILE.0 and so on.  All
 * run for SECONDS and then print KiB/s, counted from a third of that time on: before the first
 * look of the throttle, each task writes for free.
 *
 * siblings steady FILE SECONDS: 4 KiB every 4 ms; also the longest time between two, in ms.
 * siblings honest FILE SECONDS TASKS: each writes blocks of 64 KiB.
 * siblings killed FILE SECONDS TASKS BYTES MS: each writes BYTES twice, and is killed after MS;
 *	others follow.
 * siblings short FILE SECONDS TASKS BYTES: each makes processes, one after the other, that write
 *	BYTES and exit.
 * siblings timed FILE SECONDS TASKS: as honest, with a timer signal every ms.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE		4096
#define BLOCK		(64 << 10)
#define BLOCK_MOST	(1 << 20)
#define FILE_SIZE	(32 << 20)	/* of which a writer begins anew */
#define STEADY_GAP_US	4000

static char block[BLOCK_MOST];
static const char *file;
static long *written;		/* bytes, of all tasks */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void nap(double seconds)
{
	double end = now() + seconds;

	while (now() < end)
		usleep(1000000 * (end - now()) + 1);
}

static int open_file(int id)
{
	char name[512];
	int fd;

	snprintf(name, sizeof(name), "%s.%d", file, id);
	fd = open(name, O_CREAT | O_WRONLY, 0644);
	if (fd < 0) {
		perror(name);
		exit(1);
	}
	return fd;
}

static void write_block(int fd, size_t size)
{
	ssize_t done = write(fd, block, size);

	if (done > 0)
		__atomic_add_fetch(written, done, __ATOMIC_RELAXED);
	/* truncated pages are clean, and dirtied anew */
	if (lseek(fd, 0, SEEK_CUR) >= FILE_SIZE && (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET)))
		exit(1);
}

/* A child that ends with its parent. */
static pid_t split(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void do_nothing(int signal)
{
	(void)signal;
}

static void write_for_ever(int id, int timed)
{
	struct itimerval every_ms = { { 0, 1000 }, { 0, 1000 } };
	int fd = open_file(id);

	if (timed) {
		signal(SIGALRM, do_nothing);
		setitimer(ITIMER_REAL, &every_ms, NULL);
	}
	for (;;)
		write_block(fd, BLOCK);
}

static void replace_for_ever(int tasks, size_t size, int ms)
{
	pid_t pids[tasks];

	for (;;) {
		for (int i = 0; i < tasks; i++) {
			pids[i] = split();
			if (pids[i])
				continue;
			int fd = open_file(i);

			/* the last one's pages are dirty still */
			if (ftruncate(fd, 0))
				exit(1);
			write_block(fd, size);
			write_block(fd, size);
			pause();
		}
		usleep(1000 * ms);
		for (int i = 0; i < tasks; i++)
			kill(pids[i], SIGKILL);
		for (int i = 0; i < tasks; i++)
			waitpid(pids[i], NULL, 0);
	}
}

static void end_for_ever(int id, size_t size)
{
	for (;;) {
		if (!split()) {
			int fd = open_file(id);

			/* the last one's pages are dirty still */
			if (ftruncate(fd, 0))
				exit(1);
			write_block(fd, size);
			exit(0);
		}
		wait(NULL);
	}
}

/* The longest gap goes to @longest_ms. */
static void write_steadily(double *longest_ms)
{
	int fd = open_file(0);
	double before, gap;

	for (;;) {
		before = now();
		write_block(fd, PAGE);
		usleep(STEADY_GAP_US);
		gap = 1000 * (now() - before);
		if (*longest_ms < gap)
			*longest_ms = gap;
	}
}

int main(int argc, char **argv)
{
	int tasks = argc > 4 ? atoi(argv[4]) : 1;
	double seconds, began, *longest_ms;
	long before;

	if (argc < 4)
		return 2;
	file = argv[2];
	seconds = atof(argv[3]);
	written = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (written == MAP_FAILED)
		return 1;
	longest_ms = (double *)(written + 1);
	if (!strcmp(argv[1], "killed") && argc == 7) {
		if (!split())
			replace_for_ever(tasks, atol(argv[5]), atoi(argv[6]));
	} else if (!strcmp(argv[1], "short") && argc == 6) {
		for (int i = 0; i < tasks; i++) {
			if (!split())
				end_for_ever(i, atol(argv[5]));
		}
	} else if (!strcmp(argv[1], "steady")) {
		if (!split())
			write_steadily(longest_ms);
	} else {
		for (int i = 0; i < tasks; i++) {
			if (!split())
				write_for_ever(i, !strcmp(argv[1], "timed"));
		}
	}
	nap(seconds / 3);
	before = *written;
	*longest_ms = 0;
	began = now();
	nap(seconds * 2 / 3);
	printf("%.0f %.0f\n", (*written - before) / 1024 / (now() - began), *longest_ms);
	return 0;
}
