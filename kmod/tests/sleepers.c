// SPDX-License-Identifier: GPL-2.0-only
/*
 * sleepers FILE THREADS: so many threads, each dirtying pages of its own of one
 * mapping until it is put to sleep, for sleepers.sh.  A write() would keep the
 * file's lock while it sleeps, and the others out of the throttle.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	4096
#define EACH	64	/* pages of a thread */

static char *map;
/* To make a thread takes the lock of the address space, which a sleeper may hold. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *dirty(void *at)
{
	volatile char *mine = at;

	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	for (;;) {
		for (int i = 0; i < EACH; i++)
			mine[(size_t)i * PAGE]++;
		usleep(100000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	size_t threads = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	size_t size = threads * EACH * PAGE;
	pthread_attr_t small;
	int file;

	if (!threads)
		return 2;
	file = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, size)) {
		perror(argv[1]);
		return 1;
	}
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	pthread_mutex_lock(&gate);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 4 * PAGE);
	for (size_t i = 0; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &small, dirty,
				   map + i * EACH * PAGE)) {
			fprintf(stderr, "%zu threads only\n", i);
			return 1;
		}
	}
	pthread_mutex_unlock(&gate);
	pause();
	return 0;
}
