// SPDX-License-Identifier: GPL-2.0-only
/* Counts, random numbers, cgroup files, and who sleeps in the throttle. */
#define _GNU_SOURCE
#include "hostile.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define AS_TEXT(name) #name,
const char *const count_names[] = { COUNTS(AS_TEXT) };

long *counts;		/* shared by all processes */
const char *top;		/* CGROUP */
char *folders[4];
int nr_folders;
double deadline;
uint64_t generator;
char block[256 << 10];

void count(enum count what)
{
	__atomic_add_fetch(&counts[what], 1, __ATOMIC_RELAXED);
}

void reached(enum count what, long most)
{
	if (counts[what] < most)
		counts[what] = most;
}

void violation(const char *file, const char *value)
{
	count(COUNT_violations);
	printf("# must not work: '%s' to %s\n", value, file);
	fflush(stdout);
}

/* splitmix64 */
uint64_t next(void)
{
	uint64_t z = generator += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

unsigned int below(unsigned int limit)
{
	return next() % limit;
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* counts[COUNT_END] is set when all of it is to end. */
int over(void)
{
	return counts[COUNT_END] || now() >= deadline;
}

void nap(unsigned int most_ms)
{
	usleep(1000 * (1 + below(most_ms)));
}

/* A child with a generator of its own. */
pid_t split(void)
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
const char *path(const char *format, ...)
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
int put(const char *file, const char *value)
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
char *get(const char *file, char *text, size_t size)
{
	int fd = open(file, O_RDONLY);
	ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = 0;
	return text;
}

const char *slot_path(unsigned int slot)
{
	return path("%s/%c/s%u", top, slot % 2 ? 'b' : 'a', slot / 2);
}

const char *any_slot(void)
{
	return slot_path(below(SLOTS));
}

const char *any_file(void)
{
	/* most are in the first folder; the others may be gone at the moment */
	return path("%s/f%u", folders[below(4) ? 0 : below(nr_folders)],
		    below(FILES));
}

int enter(const char *cgroup, pid_t pid)
{
	char number[16];

	sprintf(number, "%d", pid);
	return put(path("%s/cgroup.procs", cgroup), number);
}

/* Is the task asleep in a dirty throttle, the kernel's or weir's? */
int throttled(pid_t pid)
{
	char text[128];

	get(path("/proc/%d/wchan", pid), text, sizeof(text));
	return strstr(text, "balance_dirty") || strstr(text, "weir_");
}

/* How often the task has gone to sleep; -1 if it is gone. */
long sleeps(pid_t pid)
{
	char text[4096], *at;

	get(path("/proc/%d/status", pid), text, sizeof(text));
	at = strstr(text, "\nvoluntary_ctxt_switches:");
	return at ? atol(at + 25) : -1;
}

/* The first @most tasks of the cgroup. */
int tasks_of(const char *cgroup, pid_t *pids, int most)
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
unsigned int throttled_slot(pid_t *pid, long *since)
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
int still(pid_t pid, long since)
{
	return pid && since >= 0 && sleeps(pid) == since && throttled(pid);
}
