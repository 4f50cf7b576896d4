// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions the kernel does not export.
 *
 * kallsyms_lookup_name() is found by registering and removing one kprobe on it, which
 * is never armed, the others by asking it.  All are called through static calls, which are
 * direct calls in the machine code: on IBT hardware a call through a pointer
 * must land on an ENDBR, and the kernel seals the ENDBR of functions whose
 * address is never taken.  A direct call needs none.  For the same reason it does
 * not matter that a kprobe reports an address just past the ENDBR.
 */
#include "weir.h"
#include <linux/static_call.h>

static unsigned long no_lookup(const char *name)
{
	return 0;
}

static int no_add(struct cgroup_subsys *ss, struct cftype *files)
{
	return -ENOSYS;
}

static int no_remove(struct cftype *files)
{
	return -ENOSYS;
}

static void no_start(struct bdi_writeback *wb)
{
}

static unsigned long no_state(struct mem_cgroup *memcg, int item)
{
	return 0;
}

static void host_limits_unknown(unsigned long *background, unsigned long *limit)
{
	*background = *limit = 0;
}

static unsigned long no_location(unsigned long address)
{
	return 0;
}

static struct backing_dev_info *no_bdi(u64 id)
{
	return NULL;
}

static struct bdi_writeback *no_wb(struct backing_dev_info *bdi,
				   struct cgroup_subsys_state *css)
{
	return NULL;
}

static bool no_rescue(void)
{
	return false;
}

DEFINE_STATIC_CALL(weir_lookup, no_lookup);
DEFINE_STATIC_CALL(weir_add, no_add);
DEFINE_STATIC_CALL(weir_remove, no_remove);
DEFINE_STATIC_CALL(weir_start, no_start);
DEFINE_STATIC_CALL(weir_state, no_state);
DEFINE_STATIC_CALL(weir_host_limits_of, host_limits_unknown);
DEFINE_STATIC_CALL(weir_location, no_location);
DEFINE_STATIC_CALL(weir_bdi, no_bdi);
DEFINE_STATIC_CALL(weir_wb, no_wb);
DEFINE_STATIC_CALL(weir_rescues, no_rescue);

static unsigned long find_lookup(void)
{
	struct kprobe probe = {
		.symbol_name = weir_function_wanted(WEIR_FUNCTION_LOOKUP)->name,
		/* to be looked up; arming one waits for ftrace_lock, and patches code */
		.flags = KPROBE_FLAG_DISABLED,
	};
	unsigned long address;
	int err = register_kprobe(&probe);

	if (err) {
		pr_err("refusing to load: no kprobe on %s (error %d); is CONFIG_KPROBES on?\n",
		       probe.symbol_name, err);
		return 0;
	}
	address = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	return address;
}

/* Address of a kernel function by its plain name, 0 if it has none. */
unsigned long weir_symbol_address(const char *name)
{
	return weir_fault_hides(name) ? 0 : static_call(weir_lookup)(name);
}

/* Address of a function that weir needs; says so, and 0, if there is none. */
static unsigned long require_symbol(enum weir_function_id id)
{
	const char *name = weir_function_wanted(id)->name;
	unsigned long address = weir_symbol_address(name);

	if (!address)
		pr_err("refusing to load: this kernel has no function %s (inlined, renamed by the compiler, or changed upstream)\n",
		       name);
	return address;
}

/*
 * Find everything this module calls, and where it is: @at, by WEIR_FUNCTION_.  -ENOENT,
 * with a message, if one is missing.
 */
int weir_symbols_find(unsigned long *at)
{
	int id;

	at[WEIR_FUNCTION_LOOKUP] = find_lookup();
	if (!at[WEIR_FUNCTION_LOOKUP])
		return -ENOENT;
	static_call_update(weir_lookup,
			   (unsigned long (*)(const char *))at[WEIR_FUNCTION_LOOKUP]);
	for (id = WEIR_FUNCTION_LOOKUP + 1; id < WEIR_FUNCTION_COUNT; id++) {
		at[id] = require_symbol(id);
		if (!at[id])
			return -ENOENT;
	}
	static_call_update(weir_add,
			   (int (*)(struct cgroup_subsys *,
				    struct cftype *))at[WEIR_FUNCTION_ADD]);
	static_call_update(weir_remove,
			   (int (*)(struct cftype *))at[WEIR_FUNCTION_REMOVE]);
	static_call_update(weir_start,
			   (void (*)(struct bdi_writeback *))at[WEIR_FUNCTION_START]);
	static_call_update(weir_state,
			   (unsigned long (*)(struct mem_cgroup *,
					      int))at[WEIR_FUNCTION_STATE]);
	static_call_update(weir_host_limits_of,
			   (void (*)(unsigned long *,
				     unsigned long *))at[WEIR_FUNCTION_HOST_LIMITS]);
	static_call_update(weir_location,
			   (unsigned long (*)(unsigned long))at[WEIR_FUNCTION_LOCATION]);
	static_call_update(weir_bdi,
			   (struct backing_dev_info *(*)(u64))at[WEIR_FUNCTION_BDI]);
	static_call_update(weir_wb,
			   (struct bdi_writeback *(*)(struct backing_dev_info *,
						      struct cgroup_subsys_state *))at[WEIR_FUNCTION_WB]);
	static_call_update(weir_rescues, (bool (*)(void))at[WEIR_FUNCTION_RESCUER]);
	return 0;
}

/* The ftrace site of the function at @address, 0 if it has none. */
unsigned long weir_ftrace_location(unsigned long address)
{
	return static_call(weir_location)(address);
}

int weir_add_files(struct cftype *files)
{
	return static_call(weir_add)(&memory_cgrp_subsys, files);
}

int weir_remove_files(struct cftype *files)
{
	return static_call(weir_remove)(files);
}

void weir_start_background(struct bdi_writeback *wb)
{
	static_call(weir_start)(wb);
}

unsigned long weir_memcg_page_state(struct mem_cgroup *memcg, int item)
{
	return static_call(weir_state)(memcg, item);
}

/* Does the current task run works for a workqueue that gets no other worker? */
bool weir_current_rescues(void)
{
	return static_call(weir_rescues)();
}

/* A device, referenced, or NULL if it is gone.  Takes a spinlock of the whole host's. */
struct backing_dev_info *weir_bdi_of(u64 bdi_id)
{
	return static_call(weir_bdi)(bdi_id);
}

/*
 * The wb of @css's cgroup, which is not the root, on a device, referenced, or
 * NULL: it has dirtied nothing there, or the device is gone.  Takes spinlocks.
 */
struct bdi_writeback *weir_wb_of(u64 bdi_id, struct cgroup_subsys_state *css)
{
	/* the root's is the device's own, which holds no device */
	struct backing_dev_info *bdi = css->parent ? weir_bdi_of(bdi_id) : NULL;
	struct bdi_writeback *wb = bdi ? static_call(weir_wb)(bdi, css) : NULL;

	/* the wb holds its device */
	if (bdi)
		bdi_put(bdi);
	return wb;
}

void weir_global_limits(unsigned long *background, unsigned long *limit)
{
	static_call(weir_host_limits_of)(background, limit);
}
