// SPDX-License-Identifier: GPL-2.0-only
/*
 * dontcache FILE MEGABYTES: writes a file by pwritev2(RWF_DONTCACHE), as tools of
 * Linux 6.14 and newer do that keep nothing in the page cache. Exits with 3 if the
 * kernel or filesystem does not take the flag.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>

#define DONTCACHE 0x80 /* RWF_DONTCACHE, which old headers lack */

static char piece[64 << 10];

int main(int argc, char **argv)
{
	struct iovec iov = { .iov_base = piece, .iov_len = sizeof(piece) };
	long pieces, i;
	int fd;

	if (argc != 3)
		return 2;
	pieces = atol(argv[2]) * 16;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	for (i = 0; i < pieces; i++)
		if (pwritev2(fd, &iov, 1, i * sizeof(piece), DONTCACHE) != sizeof(piece)) {
			perror("pwritev2");
			return errno == EOPNOTSUPP ? 3 : 1;
		}
	return 0;
}
