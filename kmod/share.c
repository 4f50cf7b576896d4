// SPDX-License-Identifier: GPL-2.0-only
/*
 * Divisions of the weight, and their rounds: who competes, and for which hweight.
 *
 * policy/share.c says what a division and a scope is.  A contest is one scope on
 * one device.  A cgroup's account on a device becomes a member of a contest
 * when one of its writers makes a pass, and leaves ten seconds after the last.
 * So a round visits cgroups that write, not those that exist.
 *
 * Contests stand in one line.  Every beat takes them from its head: those whose
 * last round was 200 ms ago get the next.  A round has two phases: all members
 * enter, which adds up what they got and the weights of those that compete, and
 * then each is given its hweight.
 *
 * Bounds.  A beat makes STEPS steps and then at most one more path's; a step is
 * one level of one member's path, of which there are 16 at most (weight.c).  Joining
 * takes half of them at most, so that rounds go on however fast members come and
 * go.  A round that does not end in a beat goes on with the next, members keep
 * their hweights meanwhile, and the contests behind it wait.  Amounts are per
 * elapsed time, so a late round only reacts later.  With 4,096 steps of about
 * 50 ns that is 0.2 ms of every 200; 400 members three levels deep have a round
 * every beat, 1,000 members 16 levels deep one in three seconds.
 *
 * Locks.  Lists and rounds are under weir_lock, but for the list of those that
 * are to join: a pass puts an account there, under joining_lock, and
 * group->lock around it keeps a group that is dropped from getting there again.
 *
 * A round checks for every member that its contest is still its scope's.  So
 * whoever makes or unmakes a division moves nobody.
 *
 * Example.  A (400) has children B (100) and C (300); D has 100.  B and D compete
 * for a disk: A has 4/5 on behalf of B, which gets all of it, D 1/5.  When C begins
 * to, B is left with a quarter of 4/5.  If A had 100 like D, the root would be no
 * division, A would, and D would not be paced.
 */
#include "weir.h"
#include <linux/rcupdate.h>
#include <linux/slab.h>

#define STEPS			4096
/* Of the hierarchy, as far as it is the host's to arrange and not a tenant's. */
#define LEVELS			8
/* Not written to for this time: not in use. */
#define FORGET_JIFFIES		msecs_to_jiffies(WEIR_FORGET_MS)
#define ROUND_NS		(WEIR_ROUND_MS * NSEC_PER_MSEC)

/* The root has no group. */
static struct weir_share root;
static struct weir_contest root_contests[WEIR_ROOT_CONTESTS];

static u32 weighted;		/* cgroups with a weight other than the default */
static LIST_HEAD(joining);
static DEFINE_RAW_SPINLOCK(joining_lock);
static LIST_HEAD(line);		/* of contests; the longest without a round first */
static int steps;		/* left in this beat */
static u64 beat_ns;		/* when it began */

/* Is there any division? */
bool weir_share_any(void)
{
	return READ_ONCE(weighted);
}

static struct weir_share *above(const struct weir_group *group)
{
	return group->parent ? &group->parent->share : &root;
}

/* The topmost division that @group is in, or NULL.  Under RCU or weir_lock. */
struct weir_share *weir_share_scope(struct weir_group *group)
{
	struct weir_share *scope = NULL;

	if (READ_ONCE(root.weighted))
		return &root;
	while ((group = group->parent)) {
		if (READ_ONCE(group->share.weighted))
			scope = &group->share;
	}
	return scope;
}

/* A cgroup's weight is another.  The caller holds weir_lock. */
void weir_weight_changed(struct weir_group *group, u32 old, u32 now)
{
	struct weir_share *division = above(group);
	int change = (now != WEIR_WEIGHT_DEFAULT) - (old != WEIR_WEIGHT_DEFAULT);

	WRITE_ONCE(division->weighted, division->weighted + change);
	WRITE_ONCE(weighted, weighted + change);
}

/* The group's largest hweight of what is divided where it competes, as it is shown. */
u32 weir_hweight_now(const struct weir_group *group)
{
	u32 hweight = 0;
	int i;

	for (i = 0; i < WEIR_ACCOUNTS; i++)
		hweight = max(hweight, READ_ONCE(group->share.accounts[i].hweight));
	return weir_weight_shown(hweight);
}

/* The group's account on a device, or NULL. */
struct weir_account *weir_share_account(struct weir_group *group, u64 bdi_id)
{
	int i;

	for (i = 0; bdi_id && i < WEIR_ACCOUNTS; i++) {
		if (READ_ONCE(group->share.accounts[i].bdi_id) == bdi_id)
			return &group->share.accounts[i];
	}
	return NULL;
}

/* Is this the last round of the root's on the device, or the one before?  Without a lock. */
static bool is_recent(u64 number, u64 bdi_id)
{
	int i;

	for (i = 0; i < WEIR_ROOT_CONTESTS; i++) {
		const struct weir_contest *contest = &root_contests[i];

		if (READ_ONCE(contest->bdi_id) == bdi_id)
			return number == READ_ONCE(contest->number) ||
			       number == READ_ONCE(contest->before);
	}
	return false;
}

/* A tenant with thousands of members makes a round last longer than a level. */
static bool is_stale(const struct weir_level *level)
{
	return time_after(jiffies, READ_ONCE(level->given) + FORGET_JIFFIES) &&
	       !is_recent(READ_ONCE(level->number), READ_ONCE(level->bdi_id));
}

/* The group's level on a device, or NULL if rounds have set none of late. */
struct weir_level *weir_share_level(struct weir_group *group, u64 bdi_id)
{
	u32 used = READ_ONCE(group->share.levels_used);
	u32 i;

	for (i = 0; bdi_id && i < used; i++) {
		struct weir_level *level = &group->share.levels[i];

		if (READ_ONCE(level->bdi_id) == bdi_id &&
		    READ_ONCE(level->hweight) && !is_stale(level))
			return level;
	}
	return NULL;
}

/*
 * The same; if there is none, one that joins with the next round.  NULL if all
 * are in use: such a cgroup is not held.  The caller holds group->lock.
 */
struct weir_account *weir_share_enlist(struct weir_group *group, u64 bdi_id)
{
	struct weir_account *account = weir_share_account(group, bdi_id);
	int i;

	if (account || !bdi_id || group->share.gone)
		return account;
	for (i = 0; i < WEIR_ACCOUNTS; i++) {
		account = &group->share.accounts[i];
		if (account->bdi_id)
			continue;
		account->group = group;
		account->bill.due_ns = group->share.made_ns;
		WRITE_ONCE(account->bdi_id, bdi_id);
		raw_spin_lock(&joining_lock);
		list_add_tail(&account->node, &joining);
		raw_spin_unlock(&joining_lock);
		return account;
	}
	return NULL;
}

/* Take an account out of its contest, or of those that are to join. */
static void share_leave(struct weir_account *account)
{
	struct weir_contest *contest = account->contest;
	unsigned long flags;

	if (contest) {
		if (contest->behind == account)
			contest->behind = NULL;
		if (contest->next_behind == account)
			contest->next_behind = NULL;
		account->contest = NULL;
		list_del(&account->node);
		return;
	}
	raw_spin_lock_irqsave(&joining_lock, flags);
	list_del(&account->node);
	raw_spin_unlock_irqrestore(&joining_lock, flags);
}

/* Take weight.c's mark back, and no other. */
void weir_weight_look_later(struct bdi_writeback *wb)
{
	if (READ_ONCE(wb->dirty_exceeded) == WEIR_OWING)
		WRITE_ONCE(wb->dirty_exceeded, 0);
}

/*
 * No pass may come to take weight.c's mark back: the kernel does not as long as
 * nobody sleeps in its throttle.
 */
static void unmark(struct weir_account *account)
{
	struct bdi_writeback *wb = weir_wb_of(account->bdi_id, account->group->css);

	/* two look-ups and a lock take as long */
	steps -= 8;
	if (!wb)
		return;
	weir_weight_look_later(wb);
	wb_put(wb);
}

/* Nobody waits for an account that is in no list; a pass may use it anew at once. */
static void release(struct weir_account *account)
{
	struct weir_group *group = account->group;
	unsigned long flags;

	unmark(account);
	raw_spin_lock_irqsave(&group->lock, flags);
	/* these are read without the lock */
	WRITE_ONCE(account->bdi_id, 0);
	WRITE_ONCE(account->hweight, 0);
	*account = (struct weir_account) {};
	raw_spin_unlock_irqrestore(&group->lock, flags);
}

/* A device that the root divides, or 0.  Without a lock, so one of late. */
u64 weir_share_contested(int i)
{
	return READ_ONCE(root_contests[i].bdi_id);
}

static struct weir_contest *find_contest(struct weir_share *scope, u64 bdi_id)
{
	bool is_root = scope == &root;
	struct weir_contest *contests = is_root ? root_contests : scope->contests;
	int count = is_root ? WEIR_ROOT_CONTESTS : WEIR_CONTESTS;
	struct weir_contest *unused = NULL;
	int i;

	for (i = 0; i < count; i++) {
		if (contests[i].bdi_id == bdi_id)
			return &contests[i];
		if (!unused && !contests[i].bdi_id)
			unused = &contests[i];
	}
	if (!unused)
		return NULL;
	*unused = (struct weir_contest) {
		.scope = scope,
		.since_ns = beat_ns,
	};
	INIT_LIST_HEAD(&unused->members);
	INIT_LIST_HEAD(&unused->visited);
	list_add_tail(&unused->node, &line);
	/* last: passes look for it without a lock */
	WRITE_ONCE(unused->bdi_id, bdi_id);
	return unused;
}

/* Let an account that is in no list join the contest of its scope, if there is one. */
static void join(struct weir_account *account)
{
	struct weir_share *scope = weir_share_scope(account->group);
	struct weir_contest *contest = NULL;

	steps -= account->group->css->cgroup->level;
	if (scope)
		contest = find_contest(scope, account->bdi_id);
	if (!contest) {
		release(account);
		return;
	}
	account->contest = contest;
	list_add_tail(&account->node, &contest->members);
}

static struct weir_account *next_to_join(void)
{
	struct weir_account *account;
	unsigned long flags;

	raw_spin_lock_irqsave(&joining_lock, flags);
	account = list_first_entry_or_null(&joining, struct weir_account, node);
	if (account)
		list_del(&account->node);
	raw_spin_unlock_irqrestore(&joining_lock, flags);
	return account;
}

static bool share_competes(const struct weir_account *account)
{
	unsigned long slept = READ_ONCE(account->slept);
	struct weir_contender contender = {
		.nested = account->contest->scope != &root,
		.slept_ago_ms = slept ? jiffies_to_msecs(jiffies - slept) :
					WEIR_UNLIMITED,
		.asleep_us = account->asleep_us,
	};

	return weir_share_competes(&contender);
}

/* Enter @weight among the children of a cgroup; true if it is the first of them. */
static bool add_child(struct weir_share *share, u64 number, u32 weight)
{
	bool first = share->round != number;

	if (first)
		share->children_weight = 0;
	share->round = number;
	share->children_weight += weight;
	return first;
}

/* Enter the weights on the path of a member that competes, up to the division. */
static void add_path(struct weir_group *group, const struct weir_contest *contest)
{
	/* its own tasks are like one more child */
	bool first = add_child(&group->share, contest->number, WEIR_WEIGHT_DEFAULT);

	for (; first; group = group->parent) {
		steps--;
		first = add_child(above(group), contest->number, group->weight);
		if (above(group) == contest->scope)
			break;
	}
}

/* Add up what the member did, and, if it competes, the weights on its path. */
static void enter(struct weir_account *account, struct weir_contest *contest)
{
	struct weir_group *group = account->group;
	bool nested = contest->scope != &root;
	u64 cleaned, dirtied, asleep_us, queued;
	unsigned long flags;

	raw_spin_lock_irqsave(&group->lock, flags);
	cleaned = account->bill.cleaned;
	dirtied = account->bill.dirtied;
	asleep_us = account->asleep_ns / NSEC_PER_USEC;
	queued = account->bill.queued;
	account->bill.cleaned = 0;
	account->bill.dirtied = 0;
	account->asleep_ns = 0;
	raw_spin_unlock_irqrestore(&group->lock, flags);
	asleep_us = min(asleep_us, contest->elapsed_ms * USEC_PER_MSEC);
	account->got = weir_share_smooth(account->got, dirtied * 256,
					 contest->elapsed_ms);
	account->asleep_us = weir_share_smooth(account->asleep_us, asleep_us,
					       contest->elapsed_ms);
	if (!nested)
		contest->cleaned += cleaned;
	if (!share_competes(account))
		return;
	account->number = contest->number;
	contest->runners++;
	contest->queued += queued;
	contest->got += account->got;
	add_path(group, contest);
}

/* Of the device, the part of what has @hweight of @group's. */
static u32 hweight_of(struct weir_group *group, u32 hweight,
		      const struct weir_contest *contest)
{
	for (;; group = group->parent) {
		steps--;
		hweight = weir_hweight(hweight, group->weight,
					      above(group)->children_weight);
		if (above(group) == contest->scope)
			return hweight;
	}
}

/* A group's own tasks are like one more child of it. */
static u32 own_hweight(struct weir_group *group, const struct weir_contest *contest)
{
	u32 own = weir_hweight(WEIR_HWEIGHT_ONE, WEIR_WEIGHT_DEFAULT,
				      group->share.children_weight);

	return hweight_of(group, own, contest);
}

static struct weir_standing standing(const struct weir_account *account)
{
	return (struct weir_standing) {
		.got = account->got,
		.hweight = account->hweight,
		.behind = account->behind,
	};
}

static bool is_behind(const struct weir_account *one,
		      const struct weir_account *other)
{
	struct weir_standing a = standing(one), b = standing(other);

	return weir_share_is_behind(&a, &b);
}

/* The group's level on this device, or one that is unused; NULL if all are in use. */
static struct weir_level *level_for(struct weir_group *group, u64 bdi_id)
{
	struct weir_level *levels = group->share.levels;
	struct weir_level *unused = NULL;
	int i;

	lockdep_assert_held(&group->lock);
	for (i = 0; i < WEIR_ACCOUNTS; i++) {
		if (levels[i].bdi_id == bdi_id)
			return &levels[i];
		if (!unused && (!levels[i].bdi_id || is_stale(&levels[i])))
			unused = &levels[i];
	}
	if (unused) {
		WRITE_ONCE(unused->bdi_id, 0);
		unused->due_ns = 0;
		WRITE_ONCE(unused->hweight, 0);
		WRITE_ONCE(unused->given, jiffies);
		WRITE_ONCE(unused->bdi_id, bdi_id);
		if (group->share.levels_used <= unused - levels)
			WRITE_ONCE(group->share.levels_used, unused - levels + 1);
	}
	return unused;
}

static void give_level(struct weir_group *group, u32 hweight,
		       const struct weir_contest *contest)
{
	struct weir_level *level;
	unsigned long flags;

	raw_spin_lock_irqsave(&group->lock, flags);
	level = level_for(group, contest->bdi_id);
	if (level) {
		WRITE_ONCE(level->hweight, hweight);
		level->wb_rate = contest->wb_rate;
		level->queue = contest->queued;
		WRITE_ONCE(level->given, jiffies);
		WRITE_ONCE(level->number, contest->number);
	}
	raw_spin_unlock_irqrestore(&group->lock, flags);
}

/* Children that are gone may still own files. */
static bool has_children(const struct weir_group *group)
{
	const struct cgroup *cgroup = group->css->cgroup;

	return READ_ONCE(cgroup->nr_descendants) ||
	       READ_ONCE(cgroup->nr_dying_descendants);
}

/*
 * Set the levels on a member's path, once a round: at each division, its child
 * is charged with what its subtree dirties (weight.c).  Not further down than LEVELS,
 * where neighbours can only be one tenant's.
 */
static void give_levels(struct weir_group *group, const struct weir_contest *contest)
{
	for (; group; group = group->parent) {
		steps--;
		if (group->share.levelled == contest->number)
			return;
		group->share.levelled = contest->number;
		if (group->css->cgroup->level > LEVELS ||
		    !above(group)->weighted || !has_children(group))
			continue;
		give_level(group, contest->runners < 2 ? 0 :
			   hweight_of(group, WEIR_HWEIGHT_ONE, contest), contest);
	}
}

/* Give a member its hweight.  Alone in a contest, nobody has to pay. */
static void give(struct weir_account *account, struct weir_contest *contest)
{
	struct weir_account *least = contest->next_behind;
	u32 hweight = 0;

	if (contest->runners > 1 && account->number == contest->number)
		hweight = own_hweight(account->group, contest);
	WRITE_ONCE(account->nested, contest->scope != &root);
	WRITE_ONCE(account->wb_rate, contest->wb_rate);
	WRITE_ONCE(account->queue, contest->queued);
	WRITE_ONCE(account->hweight, hweight);
	if (contest->scope == &root && account->number == contest->number)
		give_levels(account->group, contest);
	if (account->nested && hweight &&
	    (!least || is_behind(account, least)))
		contest->next_behind = account;
}

static void begin_round(struct weir_contest *contest)
{
	static u64 numbers;

	contest->phase = WEIR_ROUND_ENTERS;
	WRITE_ONCE(contest->before, contest->number);
	WRITE_ONCE(contest->number, ++numbers);
	contest->elapsed_ms = (beat_ns - contest->since_ns) / NSEC_PER_MSEC;
	contest->since_ns = beat_ns;
	contest->cleaned = 0;
	contest->queued = 0;
	contest->got = 0;
	contest->runners = 0;
}

/* Everybody has entered. */
static void turn_round(struct weir_contest *contest)
{
	contest->phase = WEIR_ROUND_GIVES;
	contest->next_behind = NULL;
	list_splice_tail_init(&contest->visited, &contest->members);
	if (contest->scope != &root)
		contest->wb_rate = contest->got / 256;
	else if (contest->runners)
		contest->wb_rate = weir_wb_rate(contest->wb_rate, contest->cleaned,
						 contest->elapsed_ms);
	else
		/* what it cleaned while nobody wanted more says nothing */
		contest->wb_rate = 0;
}

static void end_round(struct weir_contest *contest)
{
	contest->phase = WEIR_ROUND_NONE;
	list_splice_tail_init(&contest->visited, &contest->members);
	if (contest->behind)
		WRITE_ONCE(contest->behind->behind, 0);
	contest->behind = contest->next_behind;
	if (contest->behind)
		WRITE_ONCE(contest->behind->behind, 1);
	if (list_empty(&contest->members)) {
		list_del(&contest->node);
		WRITE_ONCE(contest->bdi_id, 0);
	} else {
		list_move_tail(&contest->node, &line);
	}
}

/* Is the account still in use, and where it belongs?  Otherwise it is elsewhere now. */
static bool stays(struct weir_account *account, struct weir_contest *contest)
{
	unsigned long seen = READ_ONCE(account->seen);

	steps -= account->group->css->cgroup->level;
	if (!seen || time_after(jiffies, seen + FORGET_JIFFIES)) {
		share_leave(account);
		release(account);
		return false;
	}
	if (weir_share_scope(account->group) == contest->scope)
		return true;
	share_leave(account);
	WRITE_ONCE(account->hweight, 0);
	WRITE_ONCE(account->behind, 0);
	join(account);
	return false;
}

/* Visit the members that the phase has not visited yet; false if steps ran out. */
static bool visit(struct weir_contest *contest)
{
	bool enters = contest->phase == WEIR_ROUND_ENTERS;
	struct weir_account *account;

	while ((account = list_first_entry_or_null(&contest->members,
						   struct weir_account, node))) {
		if (steps <= 0)
			return false;
		steps--;
		if (!enters)
			give(account, contest);
		else if (stays(account, contest))
			enter(account, contest);
		else
			continue;
		list_move_tail(&account->node, &contest->visited);
	}
	return true;
}

/* Go on with rounds, and begin those that are due.  The caller holds weir_lock. */
void weir_weights_round(void)
{
	struct weir_contest *contest;
	struct weir_account *account;

	lockdep_assert_held(&weir_lock);
	beat_ns = ktime_get_ns();
	steps = STEPS;
	while (steps > STEPS / 2 && (account = next_to_join()))
		join(account);
	while (steps > 0 && (contest = list_first_entry_or_null(&line,
								struct weir_contest, node))) {
		if (contest->phase == WEIR_ROUND_NONE) {
			if (beat_ns - contest->since_ns < ROUND_NS * 3 / 4)
				return;
			begin_round(contest);
		}
		if (contest->phase == WEIR_ROUND_ENTERS) {
			if (!visit(contest))
				return;
			turn_round(contest);
		}
		if (!visit(contest))
			return;
		end_round(contest);
	}
}

/* A group is made.  Its cgroup has saved nothing for what it dirties; false: no memory. */
bool weir_weight_made(struct weir_group *group, gfp_t gfp)
{
	static_assert(WEIR_ACCOUNTS * sizeof(struct weir_account) <= PAGE_SIZE);

	group->share.made_ns = ktime_get_ns();
	group->share.accounts = kcalloc(WEIR_ACCOUNTS,
					sizeof(struct weir_account), gfp);
	return group->share.accounts;
}

/* It goes, and nobody finds it any more. */
void weir_weight_free(struct weir_group *group)
{
	kfree(group->share.accounts);
}

/*
 * A group is about to go, after all below it and with no weight.  The caller holds
 * weir_lock.  A pass that has found the group before enlists nothing any more.
 */
void weir_weight_drop(struct weir_group *group)
{
	struct weir_share *share = &group->share;
	unsigned long flags;
	int i;

	lockdep_assert_held(&weir_lock);
	raw_spin_lock_irqsave(&group->lock, flags);
	share->gone = true;
	raw_spin_unlock_irqrestore(&group->lock, flags);
	for (i = 0; i < WEIR_ACCOUNTS; i++) {
		if (!share->accounts[i].bdi_id)
			continue;
		unmark(&share->accounts[i]);
		share_leave(&share->accounts[i]);
	}
	for (i = 0; i < WEIR_CONTESTS; i++) {
		if (share->contests[i].bdi_id)
			list_del(&share->contests[i].node);
	}
}
