// SPDX-License-Identifier: GPL-2.0-only
/*
 * The redirection alone, without weir: balance_dirty_pages() and
 * domain_dirty_limits() enter wrappers here by an ftrace_ops of their own, for
 * docs/experiments/0001-exclusive-redirection.md.  No use for anything else.
 *
 * Each wrapper counts and calls the original behind its ftrace site, so that
 * every other user of the site sees one entry per call.  With skip=1 every
 * second pass is left out: the original must then not run at all.
 *
 * inside counts the tasks that a wrapper has on its stack.  They sleep in the
 * original, and unloading waits for them.
 */
#include <linux/backing-dev.h>
#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/static_call.h>

/* until 6.2 (0ef86097f127) */
#ifdef ftrace_instruction_pointer_set
#define set_ip ftrace_instruction_pointer_set
#else
#define set_ip ftrace_regs_set_instruction_pointer
#endif

static bool skip;
module_param(skip, bool, 0644);
static bool permanent;
module_param(permanent, bool, 0444);
/* leave domain_dirty_limits() alone */
static bool only_pass;
module_param(only_pass, bool, 0444);
/* for comparison: redirect nothing, plant an empty kprobe and kretprobe instead */
static bool probes;
module_param(probes, bool, 0444);

static DEFINE_PER_CPU(long, inside);
static DEFINE_PER_CPU(unsigned long, entries);
static DEFINE_PER_CPU(unsigned long, skipped);
static DEFINE_PER_CPU(unsigned long, limits);
/* entries at another address than ftrace_location() gave */
static atomic_long_t strange;

static int sum_get(char *buffer, const struct kernel_param *kp)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += *per_cpu_ptr((unsigned long __percpu *)
				    (uintptr_t)kp->arg, cpu);
	return sysfs_emit(buffer, "%ld\n", sum);
}

static const struct kernel_param_ops sum_ops = { .get = sum_get };
module_param_cb(inside, &sum_ops, (void __force *)&inside, 0444);
module_param_cb(entries, &sum_ops, (void __force *)&entries, 0444);
module_param_cb(skipped, &sum_ops, (void __force *)&skipped, 0444);
module_param_cb(limits, &sum_ops, (void __force *)&limits, 0444);

static int strange_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%ld\n", atomic_long_read(&strange));
}

static const struct kernel_param_ops strange_ops = { .get = strange_get };
module_param_cb(strange, &strange_ops, NULL, 0444);

static unsigned long no_lookup(const char *name)
{
	return 0;
}

static unsigned long no_location(unsigned long address)
{
	return 0;
}

static int no_pass(struct bdi_writeback *wb, unsigned long pages,
		   unsigned int flags)
{
	return 0;
}

static void no_limits(void *dtc)
{
}

DEFINE_STATIC_CALL(redirect_lookup, no_lookup);
DEFINE_STATIC_CALL(redirect_location, no_location);
DEFINE_STATIC_CALL(redirect_pass, no_pass);
DEFINE_STATIC_CALL(redirect_limits, no_limits);

static unsigned long pass_site, limits_site;

static noinline int pass(struct bdi_writeback *wb, unsigned long pages,
			 unsigned int flags)
{
	unsigned long entry;
	int ret = 0;

	this_cpu_inc(inside);
	entry = this_cpu_inc_return(entries);
	if (READ_ONCE(skip) && entry % 2) {
		this_cpu_inc(skipped);
		current->nr_dirtied = 0;
		current->nr_dirtied_pause = 32;
	} else {
		ret = static_call(redirect_pass)(wb, pages, flags);
	}
	this_cpu_dec(inside);
	return ret;
}

static noinline void limit(void *dtc)
{
	this_cpu_inc(inside);
	this_cpu_inc(limits);
	static_call(redirect_limits)(dtc);
	this_cpu_dec(inside);
}

/*
 * Sets nothing but the address to return to, takes no lock and calls nothing
 * that is traced: it needs no protection from recursion.
 */
static void notrace redirect(unsigned long ip, unsigned long parent_ip,
			     struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	if (ip == pass_site)
		set_ip(fregs, (unsigned long)pass);
	else if (ip == limits_site)
		set_ip(fregs, (unsigned long)limit);
	else
		atomic_long_inc(&strange);
}

static struct ftrace_ops ops = {
	.func = redirect,
	.flags = FTRACE_OPS_FL_IPMODIFY
#ifndef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
		 | FTRACE_OPS_FL_SAVE_REGS
#endif
};

static int nothing(struct kprobe *kp, struct pt_regs *regs)
{
	return 0;
}

static int nothing_returned(struct kretprobe_instance *instance,
			    struct pt_regs *regs)
{
	return 0;
}

static struct kprobe entry_probe = {
	.symbol_name = "balance_dirty_pages",
	.pre_handler = nothing,
};

static struct kretprobe return_probe = {
	.kp.symbol_name = "balance_dirty_pages",
	.entry_handler = nothing_returned,
	.handler = nothing_returned,
	.data_size = 48,
	.maxactive = 4096,
};

static int plant(void)
{
	int err = register_kretprobe(&return_probe);

	if (err)
		return err;
	err = register_kprobe(&entry_probe);
	if (err)
		unregister_kretprobe(&return_probe);
	return err;
}

static unsigned long find_lookup(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	unsigned long address;

	if (register_kprobe(&probe))
		return 0;
	address = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	return address;
}

static unsigned long site(const char *name)
{
	unsigned long address = static_call(redirect_lookup)(name);
	unsigned long found = address ?
			      static_call(redirect_location)(address) : 0;

	pr_info("%s: ftrace site at +%ld\n", name,
		found ? (long)(found - address) : -1);
	return found;
}

static int __init redirect_init(void)
{
	unsigned long address;
	int err;

	if (probes)
		return plant();
	address = find_lookup();
	if (!address)
		return -ENOENT;
	static_call_update(redirect_lookup,
			   (unsigned long (*)(const char *))address);
	address = static_call(redirect_lookup)("ftrace_location");
	if (!address)
		return -ENOENT;
	static_call_update(redirect_location,
			   (unsigned long (*)(unsigned long))address);
	pass_site = site("balance_dirty_pages");
	limits_site = site("domain_dirty_limits");
	if (!pass_site || !limits_site)
		return -ENOENT;
	static_call_update(redirect_pass,
			   (int (*)(struct bdi_writeback *, unsigned long,
				    unsigned int))(pass_site + MCOUNT_INSN_SIZE));
	static_call_update(redirect_limits,
			   (void (*)(void *))(limits_site + MCOUNT_INSN_SIZE));
	if (permanent)
		ops.flags |= FTRACE_OPS_FL_PERMANENT;
	err = ftrace_set_filter_ip(&ops, pass_site, 0, 0);
	if (!err && !only_pass)
		err = ftrace_set_filter_ip(&ops, limits_site, 0, 0);
	if (!err)
		err = register_ftrace_function(&ops);
	if (err) {
		pr_info("not registered: %d\n", err);
		ftrace_free_filter(&ops);
	}
	return err;
}

static long sum_inside(void)
{
	long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(inside, cpu);
	return sum;
}

static void __exit redirect_exit(void)
{
	u64 start = ktime_get_ns();

	if (probes) {
		unregister_kprobe(&entry_probe);
		unregister_kretprobe(&return_probe);
		return;
	}
	unregister_ftrace_function(&ops);
	ftrace_free_filter(&ops);
	/* who was sent to a wrapper has counted itself when this returns */
	synchronize_rcu_tasks();
	pr_info("%ld inside after %lld us\n", sum_inside(),
		(ktime_get_ns() - start) / 1000);
	while (sum_inside())
		msleep(20);
	/* who counted itself out has left the wrapper when this returns */
	synchronize_rcu_tasks();
	pr_info("gone after %lld us\n", (ktime_get_ns() - start) / 1000);
}

module_init(redirect_init);
module_exit(redirect_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Redirects the throttle, for weir's tests");
