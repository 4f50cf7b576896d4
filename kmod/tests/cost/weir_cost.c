// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the instructions that buffered writes take, for cost.sh.
 *
 * In a guest that counts instructions (weir exec --count-instructions) its clock
 * does: an instruction takes a nanosecond.  Loading this module writes 4 KiB at a time over a
 * file that is cached and clean, as the task that loads it, and notes the
 * counter before and after each write.  When a task looks in at the throttle is
 * up to its nr_dirtied_pause, so three rounds are made:
 *
 *   never   no write makes a pass: the median of what a write takes
 *   always  every write makes one: the same
 *   passes  as the kernel has it: the passes made
 *
 * Example: never 3,983, always 4,497, passes 8 of 2,048: a pass takes 514
 * instructions, and its share in a write is 2.  Medians, so that
 * the timer's interrupt does not show.
 *
 * "others" is what interrupts and other tasks execute in spin_ms while this one
 * spins: a turn of its loop takes some dozens of instructions, and one that took more
 * than TURN_MAX was interrupted.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sort.h>
#include <linux/vmalloc.h>
#ifdef CONFIG_X86
#include <asm/msr.h>
#include <asm/tsc.h>
#else
#include <asm/sysreg.h>
#endif

enum look { NEVER, ALWAYS, STOCK };

static char *file;
module_param(file, charp, 0);
static unsigned int writes = 2048;
module_param(writes, uint, 0444);
static unsigned int spin_ms;
module_param(spin_ms, uint, 0);

static unsigned long never;
module_param(never, ulong, 0444);
static unsigned long always;
module_param(always, ulong, 0444);
static unsigned long passes;
module_param(passes, ulong, 0444);
static unsigned long others;
module_param(others, ulong, 0444);

static char page[PAGE_SIZE];

/* Instructions since the guest began. */
static u64 instructions(void)
{
#ifdef CONFIG_X86
	return rdtsc_ordered();
#else
	isb();
	return read_sysreg(cntvct_el0) * (NSEC_PER_SEC / read_sysreg(cntfrq_el0));
#endif
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static int round(struct file *to, enum look look, u64 *took)
{
	int dirtied = current->nr_dirtied;
	unsigned int i;
	loff_t at = 0;
	int err = vfs_fsync(to, 0);

	passes = 0;
	for (i = 0; !err && i < writes; i++) {
		ssize_t wrote;
		u64 start;

		if (look != STOCK)
			current->nr_dirtied_pause = look == ALWAYS ? 1 : INT_MAX;
		start = instructions();
		wrote = kernel_write(to, page, PAGE_SIZE, &at);
		took[i] = instructions() - start;
		if (wrote != PAGE_SIZE)
			err = wrote < 0 ? wrote : -ENOSPC;
		/* each write dirties a page; a pass takes them off the task */
		passes += current->nr_dirtied <= dirtied;
		dirtied = current->nr_dirtied;
		cond_resched();
	}
	return err;
}

static unsigned long median(u64 *took)
{
	sort(took, writes, sizeof(*took), compare, NULL);
	return took[writes / 2];
}

/* An uninterrupted turn's length varies by a few instructions. */
#define TURN_MAX	500

static unsigned long spin(void)
{
	u64 wanted = (u64)spin_ms * NSEC_PER_MSEC;
	u64 start = instructions(), before = start, now = start, theirs = 0;

	while (now - start < wanted) {
		cond_resched();
		now = instructions();
		if (now - before > TURN_MAX)
			theirs += now - before;
		before = now;
	}
	return theirs;
}

static int measure(struct file *to, u64 *took)
{
	int pause = current->nr_dirtied_pause;
	int err = round(to, STOCK, took);	/* fills the cache */

	err = err ?: round(to, NEVER, took);
	never = median(took);
	err = err ?: round(to, ALWAYS, took);
	always = median(took);
	current->nr_dirtied_pause = pause;
	err = err ?: round(to, STOCK, took);
	err = err ?: vfs_fsync(to, 0);
	others = spin();
	return err;
}

static int __init cost_init(void)
{
	u64 *took = vmalloc(array_size(writes, sizeof(*took)));
	struct file *to;
	int err;

	if (!took || !file || !writes) {
		vfree(took);
		return -EINVAL;
	}
	to = filp_open(file, O_WRONLY | O_CREAT, 0600);
	err = PTR_ERR_OR_ZERO(to);
	if (!err) {
		err = measure(to, took);
		filp_close(to, NULL);
	}
	vfree(took);
	return err;
}

static void __exit cost_exit(void)
{
}

module_init(cost_init);
module_exit(cost_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Counts the instructions of buffered writes");
