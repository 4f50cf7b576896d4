// SPDX-License-Identifier: GPL-2.0-only
/*
 * knob-fuzz CGROUP WRITES SEED: mutated values into the knob files of a cgroup.
 *
 * What a write must do is asked of the policy itself, which is linked in: taken,
 * or refused with which error.  After each write the file is read back, and
 * must show the last value that was taken.  No other program may write the files.
 * Example: "16M" is taken and reads 16777216; "16N" gives EINVAL and the file still
 * reads 16777216.  The seed makes a run repeatable.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tier.h"

/* cgroup files take a page at most */
#define LONGEST	4096

/* What a write must lead to: 0 and @shown, or the errno. */
typedef int verdict(const char *text, size_t len, char *shown);

struct knob {
	const char *name;
	verdict *verdict;
};

static int errno_of(enum weir_parsed parsed)
{
	return parsed == WEIR_PARSED ? 0 :
	       parsed == WEIR_PARSE_RANGE ? ERANGE : EINVAL;
}

static void show_bytes(weir_u64 bytes, char *shown)
{
	if (bytes == WEIR_UNLIMITED)
		strcpy(shown, "max\n");
	else
		sprintf(shown, "%llu\n", bytes);
}

static int floor_verdict(const char *text, size_t len, char *shown)
{
	weir_u64 bytes = 0;
	int err = errno_of(weir_parse_bytes(text, len, &bytes));

	if (!err)
		show_bytes(bytes, shown);
	return err;
}

static int ceiling_verdict(const char *text, size_t len, char *shown)
{
	weir_u64 bytes = 0;
	int err = errno_of(weir_parse_bytes(text, len, &bytes));

	if (!err)
		err = errno_of(weir_check_ceiling_bytes(bytes, sysconf(_SC_PAGESIZE)));
	if (!err)
		show_bytes(bytes, shown);
	return err;
}

static int bandwidth_verdict(const char *text, size_t len, char *shown)
{
	weir_u64 bytes = 0;
	int err = errno_of(weir_parse_bytes(text, len, &bytes));

	if (!err)
		err = errno_of(weir_check_bandwidth(bytes));
	if (!err)
		show_bytes(bytes, shown);
	return err;
}

static int ratio_verdict(const char *text, size_t len, char *shown)
{
	weir_u32 percent = 0;
	int err = errno_of(weir_parse_percent(text, len, &percent));

	if (!err)
		sprintf(shown, "%u\n", percent);
	return err;
}

static int weight_verdict(const char *text, size_t len, char *shown)
{
	weir_u32 weight = 0;
	int err = errno_of(weir_parse_weight(text, len, &weight));

	if (!err)
		sprintf(shown, "%u\n", weight);
	return err;
}

static int tier_ratio_verdict(const char *text, size_t len, char *shown)
{
	weir_u32 ratio = 0;
	int err = errno_of(weir_parse_ratio(text, len, &ratio));

	if (!err && ratio == WEIR_TIER_BY_CAPACITY)
		strcpy(shown, "default\n");
	else if (!err)
		sprintf(shown, "%u\n", ratio);
	return err;
}

static struct knob knobs[] = {
	{ "memory.dirty_min", floor_verdict },
	{ "memory.dirty_bytes", ceiling_verdict },
	{ "memory.dirty_ratio", ratio_verdict },
	{ "memory.dirty_bandwidth", bandwidth_verdict },
	{ "memory.dirty_weight", weight_verdict },
	{ "memory.toptier_ratio", tier_ratio_verdict },
};

#define KNOBS	(sizeof(knobs) / sizeof(knobs[0]))

/* The open file of each, and what it must show. */
static int fds[KNOBS];
static char shown[KNOBS][64];

static const char *const seeds[] = {
	"0", "max", "1", "4096", "8191", "8192", "16M", "1G\n", " 64k ", "50",
	"100", "101", "10000", "10001", "007", "max\n", "9223372036854775807",
	"9223372036854775808", "18446744073709551615", "8388607T", "-1", "+1",
	"default", "default\n", "0x10", "1e3", "16 M", "maxx", "M", " ", "1.5G", "12\0" "3",
};

static unsigned long long state;

static unsigned int pick(unsigned int below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 33) % below;
}

/* Half of what is put in looks like part of a value, so that many are taken. */
static char some_byte(void)
{
	static const char likely[] = "0123456789kKmMgGtTax \n-";

	return pick(2) ? likely[pick(sizeof(likely) - 1)] : (char)pick(256);
}

static size_t mutated(char *text)
{
	const char *seed = seeds[pick(sizeof(seeds) / sizeof(seeds[0]))];
	size_t len = strlen(seed);
	unsigned int times = pick(4);

	memcpy(text, seed, len);
	while (times--) {
		size_t at = pick(len + 1);

		switch (pick(4)) {
		case 0:
			if (at < len)
				text[at] = some_byte();
			break;
		case 1:
			memmove(text + at + 1, text + at, len++ - at);
			text[at] = some_byte();
			break;
		case 2:
			if (at < len)
				memmove(text + at, text + at + 1, --len - at);
			break;
		default:
			text[len++] = some_byte();
		}
	}
	if (!pick(1000)) {
		size_t more = pick(LONGEST + 16);

		memset(text + len, some_byte(), more);
		len += more;
	}
	if (!len)
		text[len++] = '\n';
	return len;
}

static void fail(const struct knob *knob, const char *text, size_t len,
		 const char *what, const char *got, const char *wanted)
{
	size_t i;

	printf("%s after writing \"", knob->name);
	for (i = 0; i < len && i < 80; i++)
		printf(text[i] >= ' ' && text[i] <= '~' ? "%c" : "\\x%02x",
		       (unsigned char)text[i]);
	printf("\" (%zu bytes): %s: got %s, wanted %s\n", len, what, got, wanted);
	exit(1);
}

static int one_write(unsigned int i)
{
	static char text[2 * LONGEST];
	char next[64], back[64] = "";
	size_t len = mutated(text);
	int wanted = len > LONGEST ? E2BIG : knobs[i].verdict(text, len, next);
	ssize_t wrote = pwrite(fds[i], text, len, 0);
	int got = wrote < 0 ? errno : 0;

	if (got != wanted || (!got && (size_t)wrote != len)) {
		char a[64], b[64];

		snprintf(a, sizeof(a), "%s", strerror(got));
		snprintf(b, sizeof(b), "%s", strerror(wanted));
		fail(&knobs[i], text, len, "the write", a, b);
	}
	if (!got)
		strcpy(shown[i], next);
	if (pread(fds[i], back, sizeof(back) - 1, 0) < 0)
		snprintf(back, sizeof(back), "error %d", errno);
	if (strcmp(back, shown[i]))
		fail(&knobs[i], text, len, "the file reads", back, shown[i]);
	return !got;
}

/* A knob file that this program does not know would go untested in silence. */
static void check_all_are_known(void)
{
	DIR *directory = opendir(".");
	struct dirent *entry;

	while (directory && (entry = readdir(directory))) {
		struct stat status;
		size_t i;

		if (strncmp(entry->d_name, "memory.dirty_", 13) ||
		    stat(entry->d_name, &status) || !(status.st_mode & 0222))
			continue;
		for (i = 0; i < KNOBS; i++)
			if (!strcmp(entry->d_name, knobs[i].name))
				break;
		if (i == KNOBS) {
			printf("%s: not a knob that knob-fuzz.c knows\n", entry->d_name);
			exit(1);
		}
	}
	if (!directory) {
		perror("the cgroup");
		exit(1);
	}
	closedir(directory);
}

int main(int argc, char **argv)
{
	unsigned long writes, taken = 0, i;

	if (argc != 4 || chdir(argv[1])) {
		fprintf(stderr, "usage: knob-fuzz CGROUP WRITES SEED\n");
		return 2;
	}
	writes = strtoul(argv[2], NULL, 10);
	state = strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15ULL + 1;
	check_all_are_known();
	for (i = 0; i < KNOBS; i++) {
		fds[i] = open(knobs[i].name, O_RDWR);
		if (pread(fds[i], shown[i], sizeof(shown[i]) - 1, 0) <= 0) {
			perror(knobs[i].name);
			return 1;
		}
	}
	for (i = 0; i < writes; i++)
		taken += one_write(pick(KNOBS));
	printf("%lu writes, %lu taken, %lu refused\n", writes, taken, writes - taken);
	return 0;
}
