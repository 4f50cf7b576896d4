// SPDX-License-Identifier: GPL-2.0-only
/*
 * memory.dirty_weight: who competes for a device, and for which part of it.
 *
 * A cgroup of which a child has a weight other than the default is a division: it divides
 * what its subtree gets of a device.  Where divisions lie in each other the topmost
 * counts, and weights below are handed down: a cgroup's hweight is its part of its
 * parent's, by the weights of those siblings that have a flusher at work.  A cgroup's own
 * tasks are like one more child of the default weight.  So a tenant that divides its
 * own part changes nothing outside, and one that makes a hundred cgroups has no more.
 *
 * policy/division.c says in which order flushers of a division submit.  A flusher competes
 * from its first call of do_writepages() until it has made none for COMPETES_JIFFIES: it
 * writes an inode and waits for a journal in between.  One that is inside a filesystem for
 * STUCK_JIFFIES does not.  One alone is not held.
 *
 * hweights are set anew when one begins or ceases to compete, and every RENEW_JIFFIES, as
 * weights may have changed: a walk over the flushers of the division, and up each one's
 * path until another has been there.
 *
 * Example.  A (400) has children B (100) and C (300); D has 100.  B and D write to a disk:
 * A has 4/5 on behalf of B, which gets all of it, D 1/5.  When C begins to, B is left with a
 * quarter of 4/5.  If A had 100 like D, the root would be no division, A would, and
 * D would not be held.
 */
#include "weir.h"
#include "flusher.h"
#include <linux/slab.h>

#define COMPETES_JIFFIES	msecs_to_jiffies(20)
#define STUCK_JIFFIES		(10 * HZ)
/* 1 MiB: what one that is alone submits at a time. */
#define ALONE_PART		((1ULL << 20) >> PAGE_SHIFT)
/* No room for so long is slow, and so long it stays. */
#define NO_ROOM_JIFFIES		msecs_to_jiffies(300)
#define SLOW_JIFFIES		(10 * HZ)
#define NOTE_JIFFIES		msecs_to_jiffies(250)
#define RENEW_JIFFIES		msecs_to_jiffies(20)

/*
 * A child of the division's cgroup.  All below it have one virtual time: else who makes a new
 * cgroup for each file would have a new one, too.
 */
struct weir_contender {
	const struct weir_group *group;	/* to be compared alone: it may be gone */
	u32 users;			/* flushers */
	u32 competing;			/* of these, when renewed */
	u64 in_flight;			/* pages of these, at the last look */
	unsigned long had_room;		/* jiffies: in its part of the budget */
	unsigned long slow;		/* jiffies: when it last had none for long; 0: never */
	u64 least;			/* vtime of these, when renewed */
	u64 vtime;
	u32 hweight;
	struct list_head node;
};

/* A device that a division divides.  Under weir_flushers_lock. */
struct weir_division {
	const struct backing_dev_info *bdi;
	const struct weir_siblings *scope;	/* to be compared alone: it may be gone */
	struct list_head contenders;
	u32 users;			/* flushers */
	bool stale;			/* one has begun to compete, or ceased */
	unsigned long renewed;		/* jiffies */
	u32 competing;
	u64 least;			/* vtime of contenders that compete, when renewed */
	u64 written;			/* pages, by all */
	struct weir_budget budget;
	unsigned long noted;		/* jiffies: the budget */
};

static u64 round;			/* of setting hweights */

/*
 * One that is stuck in its filesystem for long does not: others would wait for it.  A part
 * stands in a slow disk's queue for seconds.
 */
static bool competes(const struct weir_flusher *flusher)
{
	return time_before(jiffies, flusher->asked + (flusher->inside ? STUCK_JIFFIES :
							      COMPETES_JIFFIES));
}

/* Of a flusher in a division: it leaves that. */
static void put_division(struct weir_flusher *flusher)
{
	struct weir_division *division = flusher->division;
	struct weir_contender *contender = flusher->contender;

	flusher->division = NULL;
	flusher->contender = NULL;
	flusher->vtime = 0;
	division->stale = true;
	if (!--contender->users) {
		list_del(&contender->node);
		kfree(contender);
	}
	if (!--division->users)
		kfree(division);
}

/* The device's division by @scope that a flusher there is in, or a new one; NULL: no memory. */
static struct weir_division *get_division(const struct backing_dev_info *bdi,
					  const struct weir_siblings *scope)
{
	struct weir_division *division;
	struct weir_flusher *other;

	hlist_for_each_entry(other, weir_flushers_on(bdi), node) {
		division = other->division;
		if (division && division->bdi == bdi && division->scope == scope)
			return division;
	}
	division = kzalloc(sizeof(*division), GFP_NOWAIT | __GFP_NOWARN);
	if (division) {
		division->bdi = bdi;
		division->scope = scope;
		INIT_LIST_HEAD(&division->contenders);
	}
	return division;
}

static struct weir_contender *get_contender(struct weir_division *division,
					    const struct weir_group *group)
{
	struct weir_contender *contender;

	list_for_each_entry(contender, &division->contenders, node) {
		if (contender->group == group)
			return contender;
	}
	contender = kzalloc(sizeof(*contender), GFP_NOWAIT | __GFP_NOWARN);
	if (contender) {
		contender->group = group;
		contender->hweight = WEIR_HWEIGHT_ONE;
		list_add(&contender->node, &division->contenders);
	}
	return contender;
}

/* The child of the division's cgroup on the path of @group. */
static struct weir_group *child_of(struct weir_group *group, const struct weir_siblings *scope)
{
	while (weir_siblings_of(group) != scope && group->parent)
		group = group->parent;
	return group;
}

/* Have a flusher in the division by @scope.  Under RCU; false without memory. */
static bool put_into(struct weir_flusher *flusher, struct weir_group *group,
		     const struct weir_siblings *scope)
{
	struct weir_division *division = get_division(flusher->wb->bdi, scope);
	struct weir_contender *contender;

	if (!division)
		return false;
	contender = get_contender(division, child_of(group, scope));
	if (!contender) {
		if (!division->users)
			kfree(division);
		return false;
	}
	contender->users++;
	division->users++;
	flusher->contender = contender;
	flusher->division = division;
	flusher->hweight = WEIR_HWEIGHT_ONE;
	flusher->vtime = 0;
	return true;
}

#define for_each_member(member, of)						\
	hlist_for_each_entry(member, weir_flushers_on((of)->bdi), node)		\
		if ((member)->division == (of))

/*
 * The least virtual time of others below the same child of the division that compete; its own
 * of one that is alone.  Not of all: who is behind by one of the two measures could wait for
 * one who is by the other.
 */
static u64 least_vtime(const struct weir_flusher *own)
{
	u64 least = WEIR_UNLIMITED;
	struct weir_flusher *member;

	for_each_member(member, own->division) {
		if (member != own && member->contender == own->contender &&
		    competes(member))
			least = min(least, member->vtime);
	}
	return least == WEIR_UNLIMITED ? own->vtime : least;
}

/*
 * What it has in flight is not written, as io.max holds it or its device does: others do not
 * wait for it to submit more.
 */
static bool is_slow(const struct weir_contender *contender)
{
	return contender->slow && time_before(jiffies, contender->slow + SLOW_JIFFIES);
}

/* Does a contender have room in its part of the budget?  Notes since when it has not. */
static u64 excess_of(const struct weir_division *division, struct weir_contender *contender)
{
	u64 excess = weir_budget_excess(&division->budget, contender->hweight,
					contender->in_flight);

	if (!excess || !contender->had_room)
		contender->had_room = jiffies ?: 1;
	else if (time_after(jiffies, contender->had_room + NO_ROOM_JIFFIES))
		contender->slow = jiffies ?: 1;
	return excess;
}

/* The same of the division's children. */
static u64 least_beside(const struct weir_division *division, const struct weir_contender *own)
{
	u64 least = WEIR_UNLIMITED;
	struct weir_contender *contender;

	list_for_each_entry(contender, &division->contenders, node) {
		if (contender != own && contender->competing && !is_slow(contender))
			least = min(least, contender->vtime);
	}
	return least == WEIR_UNLIMITED ? own->vtime : least;
}

static u64 least_contender(const struct weir_flusher *own)
{
	return least_beside(own->division, own->contender);
}

/* Enter @weight among the children of a cgroup; true if it is the first of them. */
static bool add_child(struct weir_siblings *siblings, u32 weight)
{
	bool first = siblings->round != round;

	if (first)
		siblings->weight = 0;
	siblings->round = round;
	siblings->weight += weight;
	return first;
}

/* Enter the weights on the path of a flusher, up to the division. */
static void add_path(struct weir_group *group, const struct weir_siblings *scope)
{
	bool first = add_child(&group->below, WEIR_WEIGHT_DEFAULT);

	for (; first; group = group->parent) {
		first = add_child(weir_siblings_of(group), group->weight);
		if (weir_siblings_of(group) == scope || !group->parent)
			break;
	}
}

/* What a flusher has of its division, by the sums that add_path() made. */
static u32 hweight_of(struct weir_group *group, const struct weir_siblings *scope)
{
	u32 hweight = weir_hweight(WEIR_HWEIGHT_ONE, WEIR_WEIGHT_DEFAULT, group->below.weight);

	for (; group; group = group->parent) {
		hweight = weir_hweight(hweight, group->weight, weir_siblings_of(group)->weight);
		if (weir_siblings_of(group) == scope)
			break;
	}
	return hweight;
}

/* Charge what was submitted for the wb since, by its flusher or by an fsync. */
static void charge_submitted(struct weir_flusher *flusher)
{
	u64 submitted = flusher->written + flusher->in_flight;
	u64 pages = submitted - flusher->charged;

	flusher->division->written += flusher->written - flusher->counted;
	flusher->counted = flusher->written;
	/* the two counters are not read at once */
	if ((s64)pages <= 0)
		return;
	flusher->charged = submitted;
	flusher->vtime = weir_division_charge(flusher->vtime, pages, flusher->hweight);
	flusher->contender->vtime = weir_division_charge(flusher->contender->vtime, pages,
							 flusher->contender->hweight);
}

/* Set hweights anew.  Under RCU. */
static void renew(struct weir_division *division)
{
	struct weir_contender *contender;
	struct weir_flusher *member;
	struct weir_group *group, *child;

	division->stale = false;
	division->renewed = jiffies;
	division->competing = 0;
	division->least = WEIR_UNLIMITED;
	round++;
	list_for_each_entry(contender, &division->contenders, node) {
		contender->competing = 0;
		contender->least = WEIR_UNLIMITED;
	}
	for_each_member(member, division) {
		group = weir_flusher_group(member);
		if (!group || !competes(member))
			continue;
		division->competing++;
		contender = member->contender;
		contender->competing++;
		contender->least = min(contender->least, member->vtime);
		division->least = min(division->least, contender->vtime);
		add_path(group, division->scope);
	}
	for_each_member(member, division) {
		group = weir_flusher_group(member);
		if (!group || !competes(member))
			continue;
		member->hweight = hweight_of(group, division->scope);
		WRITE_ONCE(group->hweight, member->hweight);
		WRITE_ONCE(group->hweight_set, jiffies);
		/* not the division's scope: its cgroup's record may be gone */
		child = child_of(group, division->scope);
		member->contender->hweight = weir_hweight(WEIR_HWEIGHT_ONE, child->weight,
							  weir_siblings_of(child)->weight);
	}
}

/* It competes from now on, and has not of late: it is not far behind. */
static void begin_to_compete(struct weir_flusher *flusher)
{
	/* as much as it may be ahead, at the least */
	u64 budget = 2 * weir_budget_ahead(&flusher->division->budget);

	/* else another that looks first would not count it */
	flusher->asked = jiffies;
	weir_flusher_look(flusher);
	flusher->charged = flusher->written + flusher->in_flight;
	flusher->counted = flusher->written;
	flusher->vtime = weir_division_join(flusher->vtime, least_vtime(flusher), budget);
	if (!flusher->contender->competing)
		flusher->contender->vtime = weir_division_join(flusher->contender->vtime,
							       least_contender(flusher),
							       budget);
	flusher->division->stale = true;
}

/* A flusher begins a call: is there a division that it is in? */
bool weir_division_enter(struct weir_flusher *flusher)
{
	const struct weir_siblings *scope;
	struct weir_group *group;
	bool competed;

	rcu_read_lock();
	group = weir_flusher_group(flusher);
	scope = group ? weir_division_scope(group) : NULL;
	if (flusher->division &&
	    (flusher->division->scope != scope ||
	     flusher->contender->group != child_of(group, scope)))
		put_division(flusher);
	competed = flusher->division && competes(flusher);
	if (scope && (flusher->division || put_into(flusher, group, scope)) && !competed)
		begin_to_compete(flusher);
	rcu_read_unlock();
	return flusher->division;
}

/*
 * Is what is kept of a flusher with nothing in flight of use still?  It may be ahead.  Each
 * flusher in the list is asked about in turn, so this walks over none: what was least when
 * hweights were renewed is no more than it is now.  None competes where none has looked.
 */
bool weir_division_needs(const struct weir_flusher *flusher)
{
	const struct weir_division *division = flusher->division;

	if (!division)
		return false;
	if (competes(flusher))
		return true;
	return time_before(jiffies, division->renewed + STUCK_JIFFIES) &&
	       (flusher->vtime > flusher->contender->least ||
		flusher->contender->vtime > division->least);
}

/* A flusher is forgotten. */
void weir_division_leave(struct weir_flusher *flusher)
{
	if (flusher->division)
		put_division(flusher);
}

/* What all of the device has written counts, by all cgroups.  Under RCU. */
static void note_budget(struct weir_division *division)
{
	struct bdi_writeback *wb;
	u64 written = 0;

	/* a walk, so not each time */
	if (division->budget.since_ns && time_before(jiffies, division->noted + NOTE_JIFFIES))
		return;
	list_for_each_entry_rcu(wb, &division->bdi->wb_list, bdi_node)
		written += wb_stat(wb, WB_WRITTEN);
	weir_budget_note(&division->budget, division->written, written, ktime_get_ns());
	division->noted = jiffies;
}

/* How long until @flusher, which has just looked, may submit?  False if it is in no division. */
bool weir_division_look(struct weir_flusher *flusher, struct weir_turn_wait *turn)
{
	struct weir_division *division = flusher->division;
	struct weir_contender *contender;
	struct weir_flusher *member;
	u64 ahead;

	if (!division)
		return false;
	for_each_member(member, division) {
		if (member != flusher && member->looked != jiffies)
			weir_flusher_look(member);
		charge_submitted(member);
	}
	/* after that: what was submitted before another began is charged by what it had then */
	if (division->stale || time_after_eq(jiffies, division->renewed + RENEW_JIFFIES))
		renew(division);
	list_for_each_entry(contender, &division->contenders, node)
		contender->in_flight = 0;
	for_each_member(member, division)
		member->contender->in_flight += member->in_flight;
	note_budget(division);
	turn->written = division->written;
	if (division->competing < 2) {
		/* not held, but it looks again soon whether another has come */
		turn->excess = 0;
		turn->part = ALONE_PART;
		return true;
	}
	ahead = weir_budget_ahead(&division->budget);
	turn->part = weir_window_part(2 * ahead);
	list_for_each_entry(contender, &division->contenders, node) {
		if (!contender->competing)
			continue;
		excess_of(division, contender);
		/* others owe it nothing for what they submit meanwhile */
		if (is_slow(contender))
			contender->vtime =
				weir_division_join(contender->vtime ?: 1,
						   least_beside(division, contender),
						   2 * ahead);
	}
	turn->excess = max3(excess_of(division, flusher->contender),
			    weir_division_lead(flusher->vtime, least_vtime(flusher), ahead),
			    weir_division_lead(flusher->contender->vtime,
					       least_contender(flusher), ahead));
	return true;
}

/* The group's part of what is divided where it competes, as it is shown; 0: it does not. */
u32 weir_weight_portion(const struct weir_group *group)
{
	if (time_after(jiffies, READ_ONCE(group->hweight_set) + 2 * HZ))
		return 0;
	return weir_weight_shown(READ_ONCE(group->hweight));
}
