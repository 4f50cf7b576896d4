// SPDX-License-Identifier: GPL-2.0-only
/*
 * blocked FILE: receives into a shared mapping of FILE, from itself, and waits for ever
 * for the rest, for at-return.sh.  The pages that it received into it dirtied, in faults in
 * the middle of a call that does not return.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAGE	4096
#define PAGES	256
#define SENT	128	/* pages; four looks of the throttle */

int main(int argc, char **argv)
{
	static char page[PAGE];
	int ends[2], file;
	char *map;

	if (argc != 2)
		return 2;
	file = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, PAGES * PAGE) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
		perror(argv[1]);
		return 1;
	}
	map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	if (!fork()) {
		close(ends[1]);
		recv(ends[0], map, PAGES * PAGE, MSG_WAITALL);
		return 0;
	}
	memset(page, 'x', PAGE);
	for (int i = 0; i < SENT; i++) {
		if (write(ends[1], page, PAGE) != PAGE)
			return 1;
	}
	puts("sent");
	fflush(stdout);
	/* neither end is closed */
	pause();
	return 0;
}
