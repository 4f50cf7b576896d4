// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where the private fields are, and the proof that they are there.
 *
 * struct dirty_throttle_control and the memcg statistics are private to their
 * source files and move between releases (6.12 gave the former `freerun`, 6.10
 * packed the latter behind an index table).  Offsets come from BTF; the index
 * of the two counters weir sums comes from asking the kernel: a made-up memcg,
 * whose statistics are words that each hold their own position, is handed to
 * memcg_page_state(), and the answer names the word it read.
 */
#include "weir.h"
#include <linux/psi_types.h>
#include <linux/slab.h>

struct weir_layout weir_layout;

/* The offset of a member that must exist with this size. */
static int offset_of(const struct weir_btf *btf, const char *type,
		     const char *name, u32 size_bytes, u32 *offset)
{
	struct weir_member member;

	if (weir_btf_member(btf, type, name, &member)) {
		pr_err("refusing to load: struct %s of this kernel has no member %s\n",
		       type, name);
		return -ENOENT;
	}
	if (member.size_bytes != size_bytes) {
		pr_err("refusing to load: member %s of struct %s is %u bytes in this kernel, weir knows it with %u\n",
		       name, type, member.size_bytes, size_bytes);
		return -EINVAL;
	}
	*offset = member.offset_bytes;
	return 0;
}

static int check_function(const struct weir_btf *btf, const char *function,
			  const char *const *params, u32 count)
{
	int err = weir_btf_function_takes(btf, function, params, count);

	if (err)
		pr_err("refusing to load: %s() %s in this kernel's BTF\n",
		       function, err == -ENOENT ? "is missing" :
		       "has other arguments than weir knows");
	return err;
}

static int check_functions(const struct weir_btf *btf)
{
	static const char *const pass[] = { "bdi_writeback", "8", "4" };
	static const char *const limits[] = { "dirty_throttle_control" };
	static const char *const start[] = { "bdi_writeback" };
	static const char *const state[] = { "mem_cgroup", "4" };
	static const char *const add[] = { "cgroup_subsys", "cftype" };
	static const char *const remove[] = { "cftype" };

	return check_function(btf, "balance_dirty_pages", pass, 3) ?:
	       check_function(btf, "domain_dirty_limits", limits, 1) ?:
	       check_function(btf, "wb_start_background_writeback", start, 1) ?:
	       check_function(btf, "memcg_page_state", state, 2) ?:
	       check_function(btf, "cgroup_add_dfl_cftypes", add, 2) ?:
	       check_function(btf, "cgroup_rm_cftypes", remove, 1);
}

/*
 * Since "writeback: Fix calculations in trace_balance_dirty_pages() for cgwb"
 * (6.15) the tracepoint passes the domain, and not numbers read from it.
 */
static int check_tracepoint(const struct weir_btf *btf)
{
	static const char callback[] = "btf_trace_balance_dirty_pages";
	static const char *const numbers[] = {
		"*", "bdi_writeback", "8", "8", "8", "8", "8", "8", "8", "8",
		"8", "8", "8",
	};
	static const char *const dtc[] = {
		"*", "bdi_writeback", "dirty_throttle_control", "8", "8", "8",
		"8", "8", "8",
	};
	int err = weir_btf_tracepoint_takes(btf, callback, dtc,
					    ARRAY_SIZE(dtc));

	weir_layout.pause_with_dtc = !err;
	if (err)
		err = weir_btf_tracepoint_takes(btf, callback, numbers,
						ARRAY_SIZE(numbers));
	if (err)
		pr_err("refusing to load: tracepoint balance_dirty_pages has other arguments in this kernel's BTF than weir knows\n");
	return err;
}

/*
 * sched_process_exit also says whether the whole process ends since "exit: move
 * and extend sched_process_exit() tracepoint" (6.16).  Nobody listens to any other.
 */
static void read_exit(const struct weir_btf *btf)
{
	static const char callback[] = "btf_trace_sched_process_exit";
	static const char *const params[] = { "*", "task_struct", "1" };

	weir_layout.exit_with_group =
		!weir_btf_tracepoint_takes(btf, callback, params, 3);
	weir_layout.exit_known = weir_layout.exit_with_group ||
		!weir_btf_tracepoint_takes(btf, callback, params, 2);
}

static int read_dtc(const struct weir_btf *btf)
{
	static const struct {
		const char *name;
		u32 *offset;
	} members[] = {
		{ "dom", &weir_layout.dtc_dom },
		{ "gdtc", &weir_layout.dtc_gdtc },
		{ "wb", &weir_layout.dtc_wb },
		{ "avail", &weir_layout.dtc_avail },
		{ "dirty", &weir_layout.dtc_dirty },
		{ "thresh", &weir_layout.dtc_thresh },
		{ "bg_thresh", &weir_layout.dtc_bg_thresh },
	};
	int i, err;

	for (i = 0; i < ARRAY_SIZE(members); i++) {
		err = offset_of(btf, "dirty_throttle_control", members[i].name,
				sizeof(long), members[i].offset);
		if (err)
			return err;
	}
	return 0;
}

/* Structs this module knows from headers must be what the kernel runs. */
static int check_public(const struct weir_btf *btf)
{
	static const struct {
		const char *name;
		int size;
	} structs[] = {
		{ "bdi_writeback", sizeof(struct bdi_writeback) },
		{ "backing_dev_info", sizeof(struct backing_dev_info) },
		{ "mem_cgroup", sizeof(struct mem_cgroup) },
		{ "wb_domain", sizeof(struct wb_domain) },
		{ "cftype", sizeof(struct cftype) },
		{ "task_struct", sizeof(struct task_struct) },
#ifdef CONFIG_PSI
		{ "psi_group", sizeof(struct psi_group) },
#endif
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(structs); i++) {
		int size = weir_btf_size(btf, structs[i].name);

		if (size == structs[i].size)
			continue;
		pr_err("refusing to load: struct %s is %d bytes in this kernel, %d in the headers this module was built with; rebuild it for the running kernel\n",
		       structs[i].name, size, structs[i].size);
		return -EINVAL;
	}
	return 0;
}

/* Which word of memcg_vmstats memcg_page_state() reads for @item. */
static long word_of(struct mem_cgroup *fake, int item)
{
	return weir_memcg_page_state(fake, item) - 1;
}

static int read_counter(struct mem_cgroup *fake, int item, const char *label,
			const struct weir_member *total,
			const struct weir_member *percpu, u32 *offset)
{
	u32 at = word_of(fake, item) * sizeof(long) - total->offset_bytes;

	if (at >= total->size_bytes || at >= percpu->size_bytes) {
		pr_err("refusing to load: memcg_page_state() does not read %s from memcg_vmstats.state\n",
		       label);
		return -EINVAL;
	}
	*offset = percpu->offset_bytes + at;
	return 0;
}

/*
 * Since "mm: vmscan: prepare for reparenting traditional LRU folios" (7.1) and
 * what follows it: counts.c.
 */
static int read_flushed(const struct weir_btf *btf,
			const struct weir_member *total,
			const struct weir_member *percpu)
{
	struct weir_member pending, own;

	weir_layout.reparents = weir_symbol("lru_reparent_memcg");
	if (!weir_layout.reparents)
		return 0;
	if (weir_btf_member(btf, "memcg_vmstats", "state_pending", &pending) ||
	    weir_btf_member(btf, "memcg_vmstats", "state_local", &own) ||
	    pending.size_bytes != total->size_bytes ||
	    own.size_bytes != total->size_bytes) {
		pr_err("refusing to load: memcg_vmstats.state_pending and memcg_vmstats.state_local are not the arrays weir knows\n");
		return -ENOENT;
	}
	weir_layout.flushed_all = total->offset_bytes;
	weir_layout.flushed_pending = pending.offset_bytes;
	weir_layout.flushed_own = own.offset_bytes;
	weir_layout.flushed_dirty =
		weir_layout.stat_dirty - percpu->offset_bytes;
	weir_layout.flushed_writeback =
		weir_layout.stat_writeback - percpu->offset_bytes;
	return 0;
}

static int read_counters(const struct weir_btf *btf)
{
	struct weir_member total, percpu;
	struct mem_cgroup *fake;
	int words = weir_btf_size(btf, "memcg_vmstats") / (int)sizeof(long);
	long *stats;
	int i, err = -ENOMEM;

	if (words <= 0 ||
	    weir_btf_member(btf, "memcg_vmstats", "state", &total) ||
	    weir_btf_member(btf, "memcg_vmstats_percpu", "state", &percpu) ||
	    total.size_bytes != percpu.size_bytes) {
		pr_err("refusing to load: memcg_vmstats.state and memcg_vmstats_percpu.state are not the arrays weir knows\n");
		return -ENOENT;
	}
	fake = kzalloc(sizeof(*fake), GFP_KERNEL);
	stats = kcalloc(words, sizeof(long), GFP_KERNEL);
	if (fake && stats) {
		for (i = 0; i < words; i++)
			stats[i] = i + 1;
		fake->vmstats = (void *)stats;
		err = read_counter(fake, NR_FILE_DIRTY, "dirty pages", &total,
				   &percpu, &weir_layout.stat_dirty) ?:
		      read_counter(fake, NR_WRITEBACK, "pages in writeback",
				   &total, &percpu, &weir_layout.stat_writeback) ?:
		      read_flushed(btf, &total, &percpu);
	}
	kfree(stats);
	kfree(fake);
	return err;
}

/*
 * Where a writer that sleeps in the throttle is noted for blk-wbt: in the wb, or
 * since "blk-wbt: Fix detection of dirty-throttled tasks" in the bdi.  Where
 * there is neither, nothing is noted.
 */
static void read_last_sleep(const struct weir_btf *btf)
{
	struct weir_member member;

	if (!weir_btf_member(btf, "backing_dev_info", "last_bdp_sleep", &member) &&
	    member.size_bytes == sizeof(long))
		weir_layout.bdi_last_sleep = member.offset_bytes;
	else if (!weir_btf_member(btf, "bdi_writeback", "dirty_sleep", &member) &&
		 member.size_bytes == sizeof(long))
		weir_layout.wb_last_sleep = member.offset_bytes;
}

/* Read everything from BTF and check it; a message names what did not fit. */
int weir_layout_read(void)
{
	struct weir_btf btf;
	int err = weir_btf_load(&btf);

	if (err)
		return err;
	err = check_public(&btf) ?: check_functions(&btf) ?:
	      check_tracepoint(&btf) ?: read_dtc(&btf) ?:
	      read_counters(&btf);
	read_last_sleep(&btf);
	read_exit(&btf);
	weir_btf_free(&btf);
	return err;
}
