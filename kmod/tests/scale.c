// SPDX-License-Identifier: GPL-2.0-only
/*
 * scale FOLDER LIVE GONE EVERY: makes many cgroups, for scale.sh.
 *
 * FOLDER is a cgroup; below it are ten parents, each with a tenth of LIVE
 * cgroups that stay, and of GONE that are removed while they hold a cached page:
 * this process enters each, reads a page of /mnt/d/clean that no other process reads,
 * leaves for the next, and removes it.  Of every EVERY one writes a page to a
 * file of its own instead, on a filesystem without cgroup writeback: elsewhere
 * the kernel writes it when the cgroup goes.
 *
 * scale - FILE VALUE: writes VALUE to FILE, prints how many nanoseconds it took.
 *
 * Shell commands would take a fork for each: 100 ms in an emulated guest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PARENTS 10
#define PAGE 4096

static char page[PAGE];

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "scale: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

static void make(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		fail("mkdir", path);
}

static void put(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0)
		fail("open", path);
	if (write(fd, value, strlen(value)) < 0)
		fail("write", path);
	close(fd);
}

static void enter(const char *group)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	put(path, "0");
}

static void clean_page(int fd, long number)
{
	if (pread(fd, page, PAGE, number * PAGE) != PAGE)
		fail("read", "/mnt/d/clean");
}

static void dirty_page(long number)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/mnt/v/%ld", number);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, page, PAGE) != PAGE)
		fail("write", path);
	close(fd);
}

static int clean_file(long pages)
{
	int fd = open("/mnt/d/clean", O_RDWR | O_CREAT, 0600);

	/* a hole: a page of it is cached without a disk, and stays clean */
	if (fd < 0 || ftruncate(fd, pages * PAGE))
		fail("make", "/mnt/d/clean");
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	return fd;
}

static void come_and_go(const char *folder, long gone, long every)
{
	char path[256], before[256] = "";
	int fd = clean_file(gone);
	long i;

	for (i = 0; i < gone; i++) {
		snprintf(path, sizeof(path), "%s/%ld/gone", folder, i % PARENTS);
		make(path);
		enter(path);
		/* the directory is empty again, but its cgroup is there */
		if (*before && rmdir(before))
			fail("rmdir", before);
		strcpy(before, path);
		if (every && i % every == 0)
			dirty_page(i);
		else
			clean_page(fd, i);
		if (i % 5000 == 4999) {
			printf("# %ld removed\n", i + 1);
			fflush(stdout);
		}
	}
	enter("/sys/fs/cgroup");
	if (*before && rmdir(before))
		fail("rmdir", before);
	close(fd);
}

static int timed(const char *path, const char *value)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	put(path, value);
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("%lld\n", (to.tv_sec - from.tv_sec) * 1000000000LL +
			 to.tv_nsec - from.tv_nsec);
	return 0;
}

int main(int argc, char **argv)
{
	char path[256];
	long i;

	if (argc == 4 && !strcmp(argv[1], "-"))
		return timed(argv[2], argv[3]);
	if (argc != 5) {
		fputs("scale FOLDER LIVE GONE EVERY, or scale - FILE VALUE\n", stderr);
		return 2;
	}
	for (i = 0; i < PARENTS; i++) {
		snprintf(path, sizeof(path), "%s/%ld", argv[1], i);
		make(path);
		snprintf(path, sizeof(path), "%s/%ld/cgroup.subtree_control",
			 argv[1], i);
		put(path, "+memory +io");
	}
	for (i = 0; i < atol(argv[2]); i++) {
		snprintf(path, sizeof(path), "%s/%ld/live-%ld", argv[1],
			 i % PARENTS, i);
		make(path);
	}
	come_and_go(argv[1], atol(argv[3]), atol(argv[4]));
	return 0;
}
