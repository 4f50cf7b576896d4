// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk whose writes cost CPU time of the task that submits them.
 *
 * On an encrypted disk the flusher is what writers wait for: each page it submits takes its CPU time. A cipher is too
 * quick for that in a guest that counts instructions (an instruction of AES takes a nanosecond like any other), and a slow one takes hours
 * to emulate. This target of the device mapper takes the CPU time and computes nothing: the task stays on its CPU, which
 * halts until the time is over, and the emulator skips what is left. A task that is woken meanwhile
 * gets the CPU at once, as beside dm-crypt; time in which it runs is not the submitter's.
 *
 * Example: "0 SECTORS weir_submit /dev/weir0 10485760": 4 KiB take 390 us, so one flusher writes 10 MiB/s at most, and uses
 * all of a CPU for it. With the module's parameter free=Y, as while disks are prepared, writes cost nothing.
 */
#define pr_fmt(fmt) "weir_submit: " fmt

#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/sched.h>

static bool free;
module_param(free, bool, 0644);
MODULE_PARM_DESC(free, "writes cost nothing, for now");

struct submit {
	struct dm_dev *dev;
	u64 bandwidth; /* bytes a second, of one CPU */
};

struct hold {
	struct hrtimer timer;
	bool is_over;
};

static enum hrtimer_restart end_hold(struct hrtimer *timer)
{
	WRITE_ONCE(container_of(timer, struct hold, timer)->is_over, true);
	return HRTIMER_NORESTART;
}

/* hrtimer_setup_on_stack() since 6.13, the only way since 6.15. */
static void set_up(struct hold *hold)
{
	const enum hrtimer_mode mode = HRTIMER_MODE_REL_PINNED_HARD;

	hold->is_over = false;
#ifdef HAS_HRTIMER_SETUP
	hrtimer_setup_on_stack(&hold->timer, end_hold, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init_on_stack(&hold->timer, CLOCK_MONOTONIC, mode);
	hold->timer.function = end_hold;
#endif
}

/* Until the next interrupt. Interrupts are off before, and on afterwards. */
static void wait_for_interrupt(void)
{
#if defined(CONFIG_X86)
	asm volatile("sti; hlt" : : : "memory");
#else
	asm volatile("wfi" : : : "memory");
	raw_local_irq_enable();
#endif
}

/* Keeps the CPU for @ns or until another task wants it, and returns how long it was kept. */
static u64 keep_cpu(u64 ns)
{
	struct hold hold;
	u64 from;

	set_up(&hold);
	preempt_disable();
	from = ktime_get_ns();
	hrtimer_start(&hold.timer, ns_to_ktime(ns), HRTIMER_MODE_REL_PINNED_HARD);
	raw_local_irq_disable();
	while (!READ_ONCE(hold.is_over) && !need_resched()) {
		wait_for_interrupt();
		raw_local_irq_disable();
	}
	raw_local_irq_enable();
	ns = ktime_get_ns() - from;
	hrtimer_cancel(&hold.timer);
	preempt_enable();
	destroy_hrtimer_on_stack(&hold.timer);
	return ns;
}

static void compute(u64 ns)
{
	while (ns) {
		ns -= min(ns, keep_cpu(ns));
		cond_resched();
	}
}

static int submit_map(struct dm_target *target, struct bio *bio)
{
	struct submit *submit = target->private;

	if (bio_op(bio) == REQ_OP_WRITE && !READ_ONCE(free))
		compute(div64_u64((u64)bio->bi_iter.bi_size * NSEC_PER_SEC, submit->bandwidth));
	bio_set_dev(bio, submit->dev->bdev);
	bio->bi_iter.bi_sector = dm_target_offset(target, bio->bi_iter.bi_sector);
	return DM_MAPIO_REMAPPED;
}

static int submit_ctr(struct dm_target *target, unsigned int argc, char **argv)
{
	struct submit *submit;
	int error;

	if (argc != 2) {
		target->error = "expected a device and bytes per second";
		return -EINVAL;
	}
	submit = kzalloc(sizeof(*submit), GFP_KERNEL);
	if (!submit)
		return -ENOMEM;
	error = kstrtou64(argv[1], 10, &submit->bandwidth);
	if (error || !submit->bandwidth) {
		target->error = "bytes per second: expected a number above 0";
		error = error ?: -EINVAL;
		goto failed;
	}
	error = dm_get_device(target, argv[0], dm_table_get_mode(target->table), &submit->dev);
	if (error) {
		target->error = "no such device";
		goto failed;
	}
	target->num_flush_bios = 1;
	target->private = submit;
	return 0;

failed:
	kfree(submit);
	return error;
}

static void submit_dtr(struct dm_target *target)
{
	struct submit *submit = target->private;

	dm_put_device(target, submit->dev);
	kfree(submit);
}

static int submit_iterate_devices(struct dm_target *target, iterate_devices_callout_fn fn,
				  void *data)
{
	struct submit *submit = target->private;

	return fn(target, submit->dev, 0, target->len, data);
}

static struct target_type submit_target = {
	.name = "weir_submit",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = submit_ctr,
	.dtr = submit_dtr,
	.map = submit_map,
	.iterate_devices = submit_iterate_devices,
};

static int __init weir_submit_init(void)
{
	return dm_register_target(&submit_target);
}

static void __exit weir_submit_exit(void)
{
	dm_unregister_target(&submit_target);
}

module_init(weir_submit_init);
module_exit(weir_submit_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Writes that take CPU time of who submits them, for guests that count instructions");
