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
 * policy/division.c says in which order flushers of a division submit: first by its children,
 * the contenders, then by flushers below one.  A flusher competes from its first call of
 * do_writepages() until it has made none for COMPETES_JIFFIES: it writes an inode and
 * waits for a journal in between.  One that is inside a filesystem for STUCK_JIFFIES does
 * not.  One alone is not held.
 *
 * Each branch has the sum of weights that compete right below it, changed as one begins to
 * compete or ceases.  That one has ceased is seen by the others' looks, a few at a time.
 *
 * Example.  A (400) has children B (100) and C (300); D has 100.  B and D write to a disk:
 * A has 4/5 on behalf of B, which gets all of it, D 1/5.  When C begins to, B is left with a
 * quarter of 4/5.  If A had 100 like D, the root would be no division, A would, and
 * D would not be held.
 */
#include "weir.h"
#include "flusher.h"

#define COMPETES_JIFFIES	msecs_to_jiffies(WEIR_COMPETES_MS)
#define STUCK_JIFFIES		(10 * HZ)
/* That have ceased, seen by one look: more than the one that it may begin to compete for. */
#define EXPIRE_MOST		8
/* 1 MiB: what one that is alone submits at a time. */
#define ALONE_PART		((1ULL << 20) >> PAGE_SHIFT)
/* A child that has had no room for too long is slow for so long. */
#define SLOW_JIFFIES		(10 * HZ)
/* More than the 250 ms below which weir_budget_note() notes nothing. */
#define NOTE_JIFFIES		(msecs_to_jiffies(250) + 1)

/*
 * One that is stuck in its filesystem for long does not: others would wait for it.  A part
 * stands in a slow disk's queue for seconds.
 */
static bool is_competing(const struct weir_flusher *flusher)
{
	if (flusher->inside)
		return time_before(jiffies, flusher->asked + STUCK_JIFFIES);
	return time_before(jiffies, flusher->asked + COMPETES_JIFFIES) &&
	       (flusher->in_flight || !flusher->uses_little);
}

static bool is_counted(const struct weir_flusher *flusher)
{
	return !list_empty(&flusher->asking);
}

static struct weir_flusher *flusher_of_node(struct rb_node *node)
{
	return rb_entry_safe(node, struct weir_flusher, by_vtime);
}

static struct weir_branch *contender_of_node(struct rb_node *node)
{
	return rb_entry_safe(node, struct weir_branch, node);
}

static bool flusher_less(struct rb_node *node, const struct rb_node *than)
{
	return rb_entry(node, struct weir_flusher, by_vtime)->vtime <
	       rb_entry(than, struct weir_flusher, by_vtime)->vtime;
}

static bool contender_less(struct rb_node *node, const struct rb_node *than)
{
	return rb_entry(node, struct weir_branch, node)->vtime <
	       rb_entry(than, struct weir_branch, node)->vtime;
}

static void unqueue_contender(struct weir_branch *contender)
{
	if (RB_EMPTY_NODE(&contender->node))
		return;
	rb_erase_cached(&contender->node, &contender->parent->contenders);
	RB_CLEAR_NODE(&contender->node);
}

static void set_contender_vtime(struct weir_branch *contender, u64 vtime)
{
	bool queued = !RB_EMPTY_NODE(&contender->node);

	unqueue_contender(contender);
	contender->vtime = vtime;
	if (queued)
		rb_add_cached(&contender->node, &contender->parent->contenders,
			      contender_less);
}

static void unqueue_flusher(struct weir_flusher *flusher)
{
	rb_erase_cached(&flusher->by_vtime, &flusher->contender->by_vtime);
	RB_CLEAR_NODE(&flusher->by_vtime);
}

static void set_flusher_vtime(struct weir_flusher *flusher, u64 vtime)
{
	bool queued = !RB_EMPTY_NODE(&flusher->by_vtime);

	if (queued)
		unqueue_flusher(flusher);
	flusher->vtime = vtime;
	if (queued)
		rb_add_cached(&flusher->by_vtime, &flusher->contender->by_vtime, flusher_less);
}

static u32 weight_at(const struct weir_level *at)
{
	const struct weir_record *record = weir_level_record(at);

	return record ? READ_ONCE(record->weight) : WEIR_WEIGHT_DEFAULT;
}

/* It counts among those that compete, on all of its path.  Under RCU. */
static void start_counting(struct weir_flusher *flusher)
{
	struct weir_level at = weir_flusher_level(flusher);
	struct weir_branch *contender = flusher->contender;

	if (!at.branch->own_competing++)
		at.branch->weights += WEIR_WEIGHT_DEFAULT;
	for (; at.branch->parent; weir_level_up(&at)) {
		if (at.branch->competing++)
			continue;
		at.branch->weight = weight_at(&at);
		at.branch->parent->weights += at.branch->weight;
	}
	at.branch->competing++;
	rb_add_cached(&flusher->by_vtime, &contender->by_vtime, flusher_less);
	if (!contender->queued++)
		rb_add_cached(&contender->node, &contender->parent->contenders,
			      contender_less);
}

static void stop_counting(struct weir_flusher *flusher)
{
	struct weir_branch *branch = flusher->branch;

	if (!is_counted(flusher))
		return;
	list_del_init(&flusher->asking);
	if (!--branch->own_competing)
		branch->weights -= WEIR_WEIGHT_DEFAULT;
	for (; branch->parent; branch = branch->parent) {
		if (!--branch->competing)
			branch->parent->weights -= branch->weight;
	}
	branch->competing--;
	unqueue_flusher(flusher);
	if (!--flusher->contender->queued)
		unqueue_contender(flusher->contender);
}

/* Flushers that have ceased to compete cease to count. */
void weir_division_expire(struct weir_disk *disk)
{
	struct list_head *lists[] = { &disk->inside, &disk->outside };
	struct weir_flusher *flusher, *next;
	int i, n;

	for (i = 0; i < ARRAY_SIZE(lists); i++) {
		n = 0;
		/* the longest ago first, but those that use little are among the others */
		list_for_each_entry_safe(flusher, next, lists[i], asking) {
			if (!is_competing(flusher))
				stop_counting(flusher);
			if (++n == EXPIRE_MOST)
				break;
		}
	}
}

/* The child of the topmost division on a flusher's path, or NULL.  Under RCU. */
static struct weir_branch *find_contender(const struct weir_flusher *flusher)
{
	struct weir_level at = weir_flusher_level(flusher);
	struct weir_branch *found = NULL, *child;

	while (at.branch->parent) {
		child = at.branch;
		weir_level_up(&at);
		if (child->css->cgroup->level <= WEIR_FLUSHER_LEVELS &&
		    weir_level_divides(&at))
			found = child;
	}
	return found;
}

/* A flusher is in no division any more. */
void weir_division_leave(struct weir_flusher *flusher)
{
	struct weir_branch *contender = flusher->contender;

	if (!contender)
		return;
	stop_counting(flusher);
	flusher->contender = NULL;
	flusher->vtime = 0;
	flusher->held = 0;
	if (--contender->members)
		return;
	contender->vtime = 0;
	contender->hweight = 0;
	contender->reached = 0;
	contender->held = 0;
	contender->room_due = 0;
	contender->slow = 0;
}

/* One with @vtime is alone below @branch: so far all who come back have come. */
static u64 note_reached(struct weir_branch *branch, u64 vtime)
{
	branch->reached = max(branch->reached, vtime);
	return branch->reached;
}

/*
 * The least virtual time of others below the same child of the division that compete; its own
 * of one that is alone.  Not of all: who is behind by one of the two measures could wait for
 * one who is by the other.
 */
static u64 least_vtime(struct weir_flusher *own)
{
	struct rb_root_cached *queue = &own->contender->by_vtime;
	struct weir_flusher *first;

	for (;;) {
		first = flusher_of_node(rb_first_cached(queue));
		if (first == own)
			first = flusher_of_node(rb_next(&own->by_vtime));
		if (!first)
			return note_reached(own->contender, own->vtime);
		if (is_competing(first))
			return first->vtime;
		stop_counting(first);
	}
}

/*
 * Pages that it has in flight are not written, as io.max holds them or its device does: others
 * do not wait for it to submit more.
 */
static bool is_slow(const struct weir_branch *contender)
{
	return contender->slow && time_before(jiffies, contender->slow + SLOW_JIFFIES);
}

/* Does a contender have room in its part of the budget?  Notes by when it should. */
static u64 update_excess(struct weir_branch *contender)
{
	const struct weir_branch *scope = contender->parent;
	u64 excess = weir_budget_excess(&scope->budget, contender->hweight,
					contender->in_flight);
	u64 patience_ms;

	if (!excess) {
		contender->room_due = 0;
	} else if (!contender->room_due) {
		patience_ms = weir_budget_patience_ms(&scope->budget, scope->in_flight);
		contender->room_due = (jiffies + msecs_to_jiffies(patience_ms)) ?: 1;
	} else if (time_after(jiffies, contender->room_due)) {
		contender->slow = jiffies ?: 1;
	}
	return excess;
}

/* The same as least_vtime(), of the division's children. */
static u64 least_vtime_beside(struct weir_branch *own)
{
	struct rb_root_cached *queue = &own->parent->contenders;
	struct weir_branch *first;

	for (;;) {
		first = contender_of_node(rb_first_cached(queue));
		if (first == own)
			first = contender_of_node(rb_next(&own->node));
		if (!first)
			return note_reached(own->parent, own->vtime);
		update_excess(first);
		if (!is_slow(first))
			return first->vtime;
		/* until it looks itself */
		unqueue_contender(first);
	}
}

/* Others owe a slow one nothing for what they submit meanwhile; it is waited for again later. */
static void queue_contender(struct weir_branch *contender, u64 budget)
{
	bool slow = is_slow(contender);

	if (!slow && !RB_EMPTY_NODE(&contender->node))
		return;
	set_contender_vtime(contender, weir_division_join(contender->vtime ?: 1,
							  least_vtime_beside(contender), budget));
	if (slow)
		unqueue_contender(contender);
	else
		rb_add_cached(&contender->node, &contender->parent->contenders,
			      contender_less);
}

/* Set hweights on the path anew: weights may have changed, and who competes.  Under RCU. */
static void renew_hweights(struct weir_flusher *flusher)
{
	struct weir_level at = weir_flusher_level(flusher);
	struct weir_branch *branch, *scope = flusher->contender->parent;
	struct weir_record *record = weir_level_record(&at);
	u32 hweight = weir_hweight(WEIR_HWEIGHT_ONE, WEIR_WEIGHT_DEFAULT, at.branch->weights);

	for (; at.branch != scope; weir_level_up(&at)) {
		branch = at.branch;
		branch->parent->weights -= branch->weight;
		branch->weight = weight_at(&at);
		branch->parent->weights += branch->weight;
		hweight = weir_hweight(hweight, branch->weight, branch->parent->weights);
	}
	flusher->hweight = hweight;
	branch = flusher->contender;
	branch->hweight = weir_hweight(WEIR_HWEIGHT_ONE, branch->weight, scope->weights);
	if (!record)
		return;
	WRITE_ONCE(record->hweight, hweight);
	WRITE_ONCE(record->hweight_set, jiffies);
}

/* It competes from now on, and has not of late: it is not far behind.  Under RCU. */
static void begin_to_compete(struct weir_disk *disk, struct weir_flusher *flusher)
{
	struct weir_branch *contender = flusher->contender;
	/* as much as it may be ahead, at the least */
	u64 budget = 2 * weir_budget_ahead(&contender->parent->budget);

	weir_flusher_update(disk, flusher);
	flusher->charged = flusher->written + flusher->in_flight - flusher->reserved;
	flusher->vtime = weir_division_join(flusher->vtime, least_vtime(flusher), budget);
	if (!contender->queued) {
		contender->vtime = weir_division_join(contender->vtime,
						      least_vtime_beside(contender), budget);
		/* that it had no room when it last competed says nothing */
		contender->room_due = 0;
	}
	start_counting(flusher);
	list_add_tail(&flusher->asking, &disk->inside);
	renew_hweights(flusher);
}

/* A flusher begins a call: is there a division that it is in? */
void weir_division_enter(struct weir_disk *disk, struct weir_flusher *flusher)
{
	struct weir_branch *contender;

	rcu_read_lock();
	contender = find_contender(flusher);
	if (flusher->contender != contender) {
		weir_division_leave(flusher);
		flusher->contender = contender;
		if (contender)
			contender->members++;
	}
	if (contender && is_counted(flusher) && !is_competing(flusher))
		stop_counting(flusher);
	flusher->asked = jiffies;
	if (contender && !is_counted(flusher))
		begin_to_compete(disk, flusher);
	else if (contender)
		list_move_tail(&flusher->asking, &disk->inside);
	rcu_read_unlock();
}

/*
 * Note whether it uses little.  One whose writers are throttled at the host's limit submits a few
 * pages at a time: if others waited for more of it, a cgroup that fills that limit would
 * never get its pages written, and the device would be idle.
 */
static void note_use(struct weir_flusher *flusher, bool held)
{
	u64 submitted = flusher->written + flusher->in_flight - flusher->reserved;
	const struct weir_budget *budget = &flusher->contender->parent->budget;
	unsigned long elapsed = jiffies - flusher->used_since;
	bool is_new = !flusher->used_since;

	if (!is_new && !held && elapsed < COMPETES_JIFFIES)
		return;
	/* of one that was made in this call nothing is known */
	flusher->uses_little = !is_new && !held &&
			       weir_division_uses_little(budget, flusher->hweight,
							 submitted - flusher->used,
							 jiffies_to_msecs(elapsed));
	flusher->used = submitted;
	flusher->used_since = jiffies ?: 1;
}

/* It ends a call, in which it was @held or not. */
void weir_division_exit(struct weir_disk *disk, struct weir_flusher *flusher, bool held)
{
	flusher->asked = jiffies;
	if (!is_counted(flusher))
		return;
	note_use(flusher, held);
	list_move_tail(&flusher->asking, &disk->outside);
}

/*
 * Is what is kept of a flusher with nothing in flight of use still?  It may be ahead of
 * another that competes.
 */
bool weir_division_must_keep(const struct weir_flusher *flusher)
{
	struct weir_branch *contender = flusher->contender, *beside;
	struct weir_flusher *first;

	if (!contender)
		return false;
	if (is_competing(flusher))
		return true;
	first = flusher_of_node(rb_first_cached(&contender->by_vtime));
	beside = contender_of_node(rb_first_cached(&contender->parent->contenders));
	return (first && first->vtime < flusher->vtime) ||
	       (beside && beside->vtime < contender->vtime);
}

/* Has it waited for its turn, since @held jiffies, for so long that no sync's pages count? */
static bool is_owed_turn(unsigned long held)
{
	return held && time_after(jiffies, held + msecs_to_jiffies(WEIR_DIVISION_TURN_MS));
}

/* Charge what was submitted for the wb since, by its flusher or by an fsync. */
void weir_division_charge_flusher(struct weir_flusher *flusher)
{
	struct weir_branch *contender = flusher->contender;
	u64 submitted = flusher->written + flusher->in_flight - flusher->reserved;
	u64 pages = submitted - flusher->charged;

	/* the two counters are not read at once */
	if (!contender || (s64)pages <= 0)
		return;
	flusher->charged = submitted;
	if (!is_owed_turn(flusher->held))
		set_flusher_vtime(flusher,
				  weir_division_charge(flusher->vtime, pages, flusher->hweight));
	if (!is_owed_turn(contender->held))
		set_contender_vtime(contender, weir_division_charge(contender->vtime, pages,
								    contender->hweight));
	if (contender->parent->competing)
		return;
	/* by a sync, with no competitor: the next to compete is not owed that */
	note_reached(contender, flusher->vtime);
	note_reached(contender->parent, contender->vtime);
}

/*
 * Sum up what the device has written for all cgroups, some four times a second.  A walk of as
 * many wbs as a tenant makes, so not under the disk's lock, for which others spin; the
 * flusher, which is inside a call, holds the disk and the device.
 */
void weir_division_sample_device(struct weir_disk *disk, const struct weir_flusher *flusher)
{
	unsigned long counted = READ_ONCE(disk->counted);
	struct bdi_writeback *wb;
	u64 written = 0;

	if (!flusher->contender ||
	    (counted && time_before(jiffies, counted + NOTE_JIFFIES)) ||
	    cmpxchg(&disk->counted, counted, jiffies ?: 1) != counted)
		return;
	rcu_read_lock();
	list_for_each_entry_rcu(wb, &flusher->wb->bdi->wb_list, bdi_node)
		written += wb_stat(wb, WB_WRITTEN);
	rcu_read_unlock();
	spin_lock(&disk->lock);
	disk->written = written;
	disk->written_ns = ktime_get_ns();
	spin_unlock(&disk->lock);
}

/* Once for each count of the device's. */
static void update_budget(const struct weir_disk *disk, struct weir_branch *scope)
{
	if (scope->budget.since_ns == disk->written_ns)
		return;
	weir_budget_note(&scope->budget, scope->written, disk->written, disk->written_ns);
}

/* Pages that others below the same contender are to submit before. */
static u64 update_lead(struct weir_flusher *flusher, u64 ahead, u64 part)
{
	u64 least = least_vtime(flusher), lead;

	if (is_owed_turn(flusher->held))
		set_flusher_vtime(flusher, weir_division_cap(flusher->vtime, least, ahead, part,
							     flusher->hweight));
	lead = weir_division_lead(flusher->vtime, least, ahead);
	if (!lead)
		flusher->held = 0;
	else if (!flusher->held)
		flusher->held = jiffies ?: 1;
	return lead;
}

/* The same, of the division's children. */
static u64 update_lead_beside(struct weir_branch *contender, u64 ahead, u64 part)
{
	u64 least = least_vtime_beside(contender), lead;

	if (is_owed_turn(contender->held))
		set_contender_vtime(contender, weir_division_cap(contender->vtime, least, ahead,
								 part, contender->hweight));
	lead = weir_division_lead(contender->vtime, least, ahead);
	if (!lead)
		contender->held = 0;
	else if (!contender->held)
		contender->held = jiffies ?: 1;
	return lead;
}

/* The wait until @flusher, which has just looked, may submit.  False if it is in no division. */
bool weir_division_ask_turn(struct weir_disk *disk, struct weir_flusher *flusher,
			    struct weir_turn_wait *turn)
{
	struct weir_branch *contender = flusher->contender, *scope;
	u64 ahead;

	if (!contender)
		return false;
	scope = contender->parent;
	flusher->asked = jiffies;
	if (is_counted(flusher)) {
		weir_division_charge_flusher(flusher);
		list_move_tail(&flusher->asking, &disk->inside);
		renew_hweights(flusher);
	} else {
		/* it was in its filesystem for long */
		begin_to_compete(disk, flusher);
	}
	update_budget(disk, scope);
	turn->written = scope->written;
	if (scope->competing < 2) {
		/* not held, but it looks again soon whether another has come */
		turn->excess = 0;
		flusher->held = 0;
		contender->held = 0;
		turn->part = ALONE_PART;
		return true;
	}
	ahead = weir_budget_ahead(&scope->budget);
	turn->part = weir_budget_part(&scope->budget, contender->hweight);
	turn->excess = update_excess(contender);
	queue_contender(contender, 2 * ahead);
	turn->excess = max3(turn->excess, update_lead(flusher, ahead, turn->part),
			    update_lead_beside(contender, ahead, turn->part));
	return true;
}

/* The record's part of what is divided where it competes, as it is shown; 0: it does not. */
u32 weir_weight_portion(const struct weir_record *record)
{
	if (time_after(jiffies, READ_ONCE(record->hweight_set) + 2 * HZ))
		return 0;
	return weir_weight_shown(READ_ONCE(record->hweight));
}
