// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/kernel/weir/: what holds for the host, one value per file.
 *
 *   state                 idle: no knob is set
 *                         active: in effect
 *                         observe: counts what it would do, changes nothing
 *                         blind: knobs are set but hooks have no effect
 *                         off: weir.off was given, nothing is hooked or added
 *   hooked                1: the kernel's functions are hooked, from the first
 *                         knob until the module is unloaded
 *   groups                cgroups weir keeps a record of
 *   missed                passes whose limits weir did not see
 *   misfit                passes with unexpected arguments, left to the kernel
 *   beat_age_ms           since hooks were last seen working; 0 before the first
 *                         time
 *   limit_bytes           the global dirty limit at the last beat
 *   floors_wanted_bytes   sum of all floors after each cgroup's own cap
 *   floors_bytes          the same after the pool's cap
 *   unused_bytes          of those, held by no cgroup: taken out of the limit
 *   limit_in_force_bytes  what is left of the limit for passes
 *   drain_bytes_per_sec   written back while flushers were busy, of late
 *   drain_limit_bytes     the limit that drain_seconds puts in force instead of
 *                         the global one, 0 = none
 *   memory_scarce         1: seen within ten seconds, nothing is lifted
 */
#include "weir.h"
#include <linux/kobject.h>
#include <linux/sysfs.h>

static const char *state_name(void)
{
	if (weir_off)
		return "off";
	if (!weir_hooks_needed() && !weir_flushers_any())
		return "idle";
	if (!weir_in_effect())
		return "blind";
	return READ_ONCE(weir_observe) ? "observe" : "active";
}

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%s\n", state_name());
}

#define NUMBER(name, value)						\
static ssize_t name##_show(struct kobject *kobj,			\
			   struct kobj_attribute *attr, char *buf)	\
{									\
	return sysfs_emit(buf, "%llu\n", (u64)(value));			\
}									\
static struct kobj_attribute name##_attr = __ATTR_RO(name)

NUMBER(groups, READ_ONCE(weir_record_count));
NUMBER(hooked, weir_hooks_armed() || weir_writepages_hooked());
NUMBER(missed, weir_passes_unseen());
NUMBER(misfit, weir_hooks_misfit_count());
NUMBER(beat_age_ms, weir_beat_age_ms());
NUMBER(limit_bytes, READ_ONCE(weir_pool.host_thresh) << PAGE_SHIFT);
NUMBER(floors_wanted_bytes, READ_ONCE(weir_pool.floors_wanted) << PAGE_SHIFT);
NUMBER(floors_bytes, READ_ONCE(weir_pool.floors_total) << PAGE_SHIFT);
NUMBER(unused_bytes, weir_host_amendments().unused << PAGE_SHIFT);
NUMBER(limit_in_force_bytes, weir_host_limits().thresh << PAGE_SHIFT);
NUMBER(drain_bytes_per_sec, weir_drain_rate() << PAGE_SHIFT);
NUMBER(drain_limit_bytes, weir_drain_limit() << PAGE_SHIFT);
NUMBER(memory_scarce, weir_drain_is_memory_scarce());
static struct kobj_attribute state_attr = __ATTR_RO(state);

static struct attribute *attrs[] = {
	&state_attr.attr,
	&hooked_attr.attr,
	&groups_attr.attr,
	&missed_attr.attr,
	&misfit_attr.attr,
	&beat_age_ms_attr.attr,
	&limit_bytes_attr.attr,
	&floors_wanted_bytes_attr.attr,
	&floors_bytes_attr.attr,
	&unused_bytes_attr.attr,
	&limit_in_force_bytes_attr.attr,
	&drain_bytes_per_sec_attr.attr,
	&drain_limit_bytes_attr.attr,
	&memory_scarce_attr.attr,
	NULL
};

static const struct attribute_group attr_group = { .attrs = attrs };
static struct kobject *directory;

int weir_status_create(void)
{
	int err;

	directory = kobject_create_and_add("weir", kernel_kobj);
	if (!directory)
		return -ENOMEM;
	err = sysfs_create_group(directory, &attr_group);
	if (err)
		kobject_put(directory);
	return err;
}

void weir_status_remove(void)
{
	sysfs_remove_group(directory, &attr_group);
	kobject_put(directory);
}
