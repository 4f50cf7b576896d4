// SPDX-License-Identifier: GPL-2.0-only
/*
 * The record of a cgroup, and the lock that records are changed under: record.c makes
 * and drops them.
 */
#include "weir.h"
#include <linux/hashtable.h>
#include <linux/sched/signal.h>

/* One tenant may have many cgroups, and the passes of all tenants look here. */
static DEFINE_HASHTABLE(lookup_table, 14);

DEFINE_SPINLOCK(weir_lock);

/* The record of @css or NULL.  Under RCU or weir_lock. */
struct weir_record *weir_record_find(struct cgroup_subsys_state *css)
{
	struct weir_record *record;

	hash_for_each_possible_rcu(lookup_table, record, node, (unsigned long)css,
				   lockdep_is_held(&weir_lock)) {
		if (record->css == css)
			return record;
	}
	return NULL;
}

/* The record of a css, or, if it has none yet, its nearest ancestor's.  Under RCU. */
struct weir_record *weir_record_nearest(struct cgroup_subsys_state *css)
{
	struct weir_record *record = weir_record_find(css);

	for (; css->parent && !record; css = css->parent)
		record = weir_record_find(css->parent);
	return record;
}

/* From here on the record is found.  Under weir_lock; hash_del_rcu() takes it back. */
void weir_lookup_add(struct weir_record *record)
{
	hash_add_rcu(lookup_table, &record->node, (unsigned long)record->css);
}

/*
 * Take weir_lock for a task that uses a file; -EINTR if it is killed meanwhile.  Any
 * number of a tenant's tasks may, and each may hold the lock for as long as
 * the path of a cgroup thousands deep takes.  So they sleep for a tick instead of
 * spinning behind each other: only the beat and the recount spin, behind one of
 * them at most.  There is no order among those who wait; each tick all have the
 * same chance.  Who had none for a second gets in line, where nothing kills it: rmdir
 * waits for it.
 */
int weir_lock_killable(void)
{
	int ticks;

	for (ticks = 0; ticks < HZ; ticks++) {
		if (spin_trylock(&weir_lock))
			return 0;
		schedule_timeout_killable(1);
		if (fatal_signal_pending(current))
			return -EINTR;
	}
	spin_lock(&weir_lock);
	return 0;
}
