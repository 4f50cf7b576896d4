// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rounds of the weight: who competes for a device, and how much it cleans.
 *
 * While any cgroup has a weight, every beat ends a round on every device that
 * cgroups were seen to write to: it adds up what was cleaned and is queued, finds
 * those that compete, and hands the device down the hierarchy in portions.
 * weight.c makes writers pay by the result.
 *
 * Cgroups without a weight compete too, with the default.  A pass cannot make
 * their groups; it leaves their css in a small table, and the beat makes them.
 * The root cgroup is left out: its tasks are not held, nor is a portion theirs.
 *
 * Example.  A (400) has children B (100) and C (300); D has 100.  B and D compete
 * for a disk: A has 4/5 on behalf of B, which gets all of it, D 1/5.  When C begins
 * to, B is left with a quarter of 4/5.
 */
#include "weir.h"
#include <linux/rcupdate.h>

/* Devices on which cgroups compete at a time; on any more nobody is held. */
#define DISKS			16
/* Put to sleep within this time: wants more than it gets. */
#define COMPETES_JIFFIES	(2 * HZ)
/* Not written to for this time: not in use. */
#define FORGET_JIFFIES		(10 * HZ)

static struct disk {
	u64 bdi_id;		/* 0: unused */
	u64 number;		/* of the round, unlike any other device's */
	u64 top_weight;		/* of the cgroups below the root that compete */
	u64 cleaned;		/* in the round that ends */
	u64 queued;
	u64 pace;
	u32 runners;
	bool seen;
} disks[DISKS];

bool weir_weights_enabled;
static u64 round_ns;
static struct cgroup_subsys_state *strangers[16];

/* The group's largest portion of a device it competes for, of 10,000; 0: of none. */
u32 weir_weight_portion_now(const struct weir_group *group)
{
	u32 portion = 0;
	int i;

	for (i = 0; i < WEIR_DEVICES; i++)
		portion = max(portion, READ_ONCE(group->devices[i].portion));
	return (portion * 10000ULL + WEIR_PORTION_ONE / 2) / WEIR_PORTION_ONE;
}

/* Note that a cgroup without a group dirties pages.  Called by the entry probe. */
void weir_weight_stranger(struct cgroup_subsys_state *css)
{
	int i;

	if (!READ_ONCE(weir_weights_enabled) || !css->parent)
		return;
	for (i = 0; i < ARRAY_SIZE(strangers); i++) {
		if (READ_ONCE(strangers[i]) == css)
			return;
	}
	if (!css_tryget_online(css))
		return;
	for (i = 0; i < ARRAY_SIZE(strangers); i++) {
		if (!cmpxchg(&strangers[i], NULL, css))
			return;
	}
	css_put(css);
}

static void take_strangers(bool adopt)
{
	struct cgroup_subsys_state *css;
	int i;

	for (i = 0; i < ARRAY_SIZE(strangers); i++) {
		css = xchg(&strangers[i], NULL);
		if (!css)
			continue;
		/* what memory is short for comes again */
		if (adopt)
			weir_group_get(css, GFP_NOWAIT | __GFP_NOWARN);
		css_put(css);
	}
}

static struct disk *find_disk(u64 bdi_id)
{
	struct disk *disk;

	for (disk = disks; disk < disks + DISKS; disk++) {
		if (disk->bdi_id == bdi_id)
			return disk;
	}
	return NULL;
}

/* Every device that the group was seen on has its place among the disks. */
static void see_disks(struct weir_group *group, void *unused)
{
	struct disk *disk;
	int i;

	for (i = 0; i < WEIR_DEVICES; i++) {
		const struct weir_device *device = &group->devices[i];

		if (!device->seen || time_after(jiffies, device->seen + FORGET_JIFFIES))
			continue;
		disk = find_disk(device->bdi_id);
		if (!disk) {
			disk = find_disk(0);
			if (!disk)
				continue;
			*disk = (struct disk) { .bdi_id = device->bdi_id };
		}
		disk->seen = true;
	}
}

static bool competes(const struct weir_device *device)
{
	unsigned long slept = READ_ONCE(device->slept);

	return slept && time_before(jiffies, slept + COMPETES_JIFFIES);
}

/* Enter @weight among the children of @group; true if it is the first of them. */
static bool add_child(struct weir_group *group, u64 round, u32 weight)
{
	bool first = group->round != round;

	if (first)
		group->children_weight = 0;
	group->round = round;
	group->children_weight += weight;
	return first;
}

/* Add up what the group did, and, if it competes, the weights on its path. */
static void enter(struct weir_group *group, void *arg)
{
	struct disk *disk = arg;
	struct weir_device *device = weir_device_own(group, disk->bdi_id);
	unsigned long flags;
	bool first;

	if (!device)
		return;
	raw_spin_lock_irqsave(&group->lock, flags);
	disk->cleaned += device->cleaned;
	device->cleaned = 0;
	raw_spin_unlock_irqrestore(&group->lock, flags);
	if (!competes(device))
		return;
	disk->runners++;
	disk->queued += READ_ONCE(device->queued);
	/* its own tasks are like one more child */
	first = add_child(group, disk->number, WEIR_WEIGHT_DEFAULT);
	for (; first && group->parent; group = group->parent)
		first = add_child(group->parent, disk->number, group->weight);
	if (first)
		disk->top_weight += group->weight;
}

static u32 portion_of(struct weir_group *group, const struct disk *disk)
{
	u32 portion = weir_weight_portion(WEIR_PORTION_ONE, WEIR_WEIGHT_DEFAULT,
					  group->children_weight);

	for (; group->parent; group = group->parent)
		portion = weir_weight_portion(portion, group->weight,
					      group->parent->children_weight);
	return weir_weight_portion(portion, group->weight, disk->top_weight);
}

/* Let the next round begin.  Alone on a device, nobody has to pay. */
static void start(struct weir_group *group, void *arg)
{
	struct disk *disk = arg;
	struct weir_device *device = weir_device_own(group, disk->bdi_id);
	u32 portion = 0;

	if (!device)
		return;
	/* entered, if this is its number: who slept since comes next */
	if (disk->runners > 1 && group->round == disk->number && competes(device))
		portion = portion_of(group, disk);
	WRITE_ONCE(device->portion, portion);
	WRITE_ONCE(device->pace, disk->pace);
	WRITE_ONCE(device->queue, disk->queued);
}

static void run(struct disk *disk, u64 elapsed_ms)
{
	static u64 numbers;

	disk->number = ++numbers;
	disk->top_weight = 0;
	disk->cleaned = 0;
	disk->queued = 0;
	disk->runners = 0;
	weir_groups_each(enter, disk);
	/* what it cleaned while nobody wanted more says nothing */
	disk->pace = disk->runners ?
		     weir_weight_pace(disk->pace, disk->cleaned, elapsed_ms) : 0;
	weir_groups_each(start, disk);
	disk->seen = false;
}

/* End a round on every device and begin the next.  The caller holds weir_lock. */
void weir_weights_round(void)
{
	u64 now_ns = ktime_get_ns();
	u64 elapsed_ms = (now_ns - round_ns) / NSEC_PER_MSEC;
	struct disk *disk;

	/* a write to a knob evaluates everything, too */
	if (!weir_weights_enabled || elapsed_ms < WEIR_ROUND_MS * 3 / 4)
		return;
	take_strangers(true);
	weir_groups_each(see_disks, NULL);
	for (disk = disks; disk < disks + DISKS; disk++) {
		if (disk->seen)
			run(disk, elapsed_ms);
		else
			disk->bdi_id = 0;
	}
	round_ns = now_ns;
}

static void forget(struct weir_group *group, void *unused)
{
	struct weir_device *device;
	unsigned long flags;

	raw_spin_lock_irqsave(&group->lock, flags);
	for (device = group->devices; device < group->devices + WEIR_DEVICES; device++)
		*device = (struct weir_device) {
			.bdi_id = device->bdi_id,
			.css_serial = device->css_serial,
			.wb_dirtied = device->wb_dirtied,
		};
	raw_spin_unlock_irqrestore(&group->lock, flags);
}

/*
 * Some cgroup has a weight, or none any more.  The caller holds weir_lock and,
 * if probes are to go, has removed them: nobody leaves a css here afterwards.
 */
void weir_weights_enable(bool enable)
{
	if (weir_weights_enabled != enable) {
		WRITE_ONCE(weir_weights_enabled, enable);
		weir_groups_each(forget, NULL);
	}
	if (!enable)
		take_strangers(false);
}
