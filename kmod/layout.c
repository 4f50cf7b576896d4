// SPDX-License-Identifier: GPL-2.0-only
/*
 * The places of private fields, and the proof that they are there.
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

/* Say what does not fit. */
static int log_refused_need(const struct weir_need *need)
{
	bool missing = need->fit == WEIR_MISSING;

	switch (need->kind) {
	case WEIR_NEED_FUNCTION:
		pr_err("refusing to load: %s() %s in this kernel's BTF\n",
		       need->name, missing ? "is missing" :
		       "has other arguments than weir knows");
		break;
	case WEIR_NEED_TRACEPOINT:
		pr_err("refusing to load: tracepoint %s %s in this kernel's BTF\n",
		       need->name, missing ? "is missing" :
		       "has other arguments than weir knows");
		break;
	case WEIR_NEED_STRUCT:
		pr_err("refusing to load: this kernel has no struct %s\n",
		       need->name);
		break;
	case WEIR_NEED_MEMBER:
		if (missing)
			pr_err("refusing to load: struct %s of this kernel has no member %s\n",
			       need->of, need->name);
		else
			pr_err("refusing to load: member %s of struct %s is %u bytes in this kernel, weir knows it with %u\n",
			       need->name, need->of, need->size_bytes,
			       need->wanted_bytes);
		break;
	}
	return missing ? -ENOENT : -EINVAL;
}

/* Everything that policy/needs.c lists. */
static int check_needs(const struct weir_btf *btf)
{
	struct weir_need need;
	u32 i;

	for (i = 0; weir_need_at(btf, weir_layout.reparents, i, &need); i++) {
		if (need.fit != WEIR_FITS)
			return log_refused_need(&need);
	}
	return 0;
}

static void read_tracepoints(const struct weir_btf *btf)
{
	int with_dtc, with_record;

	weir_pause_form(btf, &with_dtc);
	weir_layout.pause_with_dtc = with_dtc;
	weir_layout.exit_known = weir_exit_form(btf, &with_record) == WEIR_FITS;
	weir_layout.exit_with_record = with_record;
	weir_layout.fork_known = weir_fork_form(btf) == WEIR_FITS;
}

static u32 offset_of(const struct weir_btf *btf, const char *type,
		     const char *name)
{
	struct weir_member member = { 0 };

	weir_btf_member(btf, type, name, &member);
	return member.offset_bytes;
}

static void read_dtc(const struct weir_btf *btf)
{
#define OFFSET(member)							\
	weir_layout.dtc_##member =					\
		offset_of(btf, "dirty_throttle_control", #member);
	WEIR_DTC_MEMBERS(OFFSET)
#undef OFFSET
}

/* Structs this module knows from headers must be what the kernel runs. */
static int check_struct_sizes(const struct weir_btf *btf)
{
	static const struct {
		const char *name;
		size_t size;
	} structs[] = {
#define SIZE(name) { #name, sizeof(struct name) },
		WEIR_STRUCTS(SIZE)
#ifdef CONFIG_PSI
		SIZE(psi_group)
#endif
#undef SIZE
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(structs); i++) {
		long long size = weir_btf_size(btf, structs[i].name);

		if (size == structs[i].size)
			continue;
		pr_err("refusing to load: struct %s is %lld bytes in this kernel, %zu in the headers this module was built with; rebuild it for the running kernel\n",
		       structs[i].name, size, structs[i].size);
		return -EINVAL;
	}
	return 0;
}

/* The word of memcg_vmstats that memcg_page_state() reads for @item. */
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

static void read_flushed(const struct weir_btf *btf,
			 const struct weir_member *total,
			 const struct weir_member *percpu)
{
	weir_layout.flushed_all = total->offset_bytes;
	weir_layout.flushed_pending =
		offset_of(btf, "memcg_vmstats", "state_pending");
	weir_layout.flushed_own = offset_of(btf, "memcg_vmstats", "state_local");
	weir_layout.flushed_dirty =
		weir_layout.stat_dirty - percpu->offset_bytes;
	weir_layout.flushed_writeback =
		weir_layout.stat_writeback - percpu->offset_bytes;
}

static int read_counters(const struct weir_btf *btf)
{
	struct weir_member total = { 0 }, percpu = { 0 };
	struct mem_cgroup *fake;
	int words = weir_btf_size(btf, "memcg_vmstats") / (int)sizeof(long);
	long *stats;
	int i, err = -ENOMEM;

	weir_btf_member(btf, "memcg_vmstats", "state", &total);
	weir_btf_member(btf, "memcg_vmstats_percpu", "state", &percpu);
	fake = kzalloc(sizeof(*fake), GFP_KERNEL);
	stats = kcalloc(words, sizeof(long), GFP_KERNEL);
	if (fake && stats) {
		for (i = 0; i < words; i++)
			stats[i] = i + 1;
		fake->vmstats = (void *)stats;
		err = read_counter(fake, NR_FILE_DIRTY, "dirty pages", &total,
				   &percpu, &weir_layout.stat_dirty) ?:
		      read_counter(fake, NR_WRITEBACK, "pages in writeback",
				   &total, &percpu, &weir_layout.stat_writeback);
		read_flushed(btf, &total, &percpu);
	}
	kfree(stats);
	kfree(fake);
	return err;
}

/*
 * Finds the field in which blk-wbt sees that a writer sleeps in the throttle:
 * in the wb, or since "blk-wbt: Fix detection of dirty-throttled tasks" in the
 * bdi.  A kernel may have neither, and then nothing is noted.
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

/*
 * Functions by which a task is made to wait when it returns to user mode.  Where they
 * are other ones, it waits in its passes alone.
 */
static void read_task_work(const struct weir_btf *btf)
{
	static const char *const add[] = { "task_struct", "callback_head", "e", NULL };
	static const char *const cancel[] = { "task_struct", "*", "*", NULL };

	weir_layout.has_task_work =
		weir_btf_function(btf, "task_work_add", add) == WEIR_FITS &&
		weir_btf_function(btf, "task_work_cancel_match", cancel) == WEIR_FITS;
}

/* Read everything from BTF and check it; a message names what did not fit. */
int weir_layout_read(void)
{
	struct weir_btf_blob blob;
	int err = weir_btf_load(&blob);

	if (err)
		return err;
	weir_layout.reparents = weir_symbol_address(weir_reparenting_function());
	err = check_needs(&blob.btf) ?: check_struct_sizes(&blob.btf);
	if (!err) {
		read_dtc(&blob.btf);
		read_tracepoints(&blob.btf);
		read_last_sleep(&blob.btf);
		read_task_work(&blob.btf);
		err = read_counters(&blob.btf);
	}
	weir_btf_free(&blob);
	return err;
}
