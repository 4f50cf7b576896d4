/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of the hostile tenant share (main.c says what it is). */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
enum count { COUNTS(AS_ENUM) COUNT_END };

extern const char *const count_names[];
extern long *counts;		/* shared by all processes */
extern const char *top;		/* CGROUP */
extern char *folders[4];
extern int nr_folders;
extern double deadline;
extern uint64_t generator;
extern char block[256 << 10];

/* util.c */
void count(enum count what);
void reached(enum count what, long most);
void violation(const char *file, const char *value);
uint64_t next(void);
unsigned int below(unsigned int limit);
double now(void);
int over(void);
void nap(unsigned int most_ms);
pid_t split(void);
__attribute__((format(printf, 1, 2)))
const char *path(const char *format, ...);
int put(const char *file, const char *value);
char *get(const char *file, char *text, size_t size);
const char *slot_path(unsigned int slot);
const char *any_slot(void);
const char *any_file(void);
int enter(const char *cgroup, pid_t pid);
int throttled(pid_t pid);
long sleeps(pid_t pid);
int tasks_of(const char *cgroup, pid_t *pids, int most);
unsigned int throttled_slot(pid_t *pid, long *since);
int still(pid_t pid, long since);

/* actors.c: what to do again and again, in so many processes; ends with a NULL */
extern const struct actor {
	void (*act)(void);
	int copies;
} actors[];

/* ways.c */
int open_file(int flags);
void write_some(int fd, size_t bytes);
void writer(const char *cgroup);
void spawn(const char *cgroup);

#endif
