// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tiers of memory, as the operator names them: which nodes, and what ratio.
 *
 *   tiers        "" (off), or lists of nodes, fastest first: "0-1;2" are two tiers,
 *                the first of nodes 0 and 1.  A node may be one without memory that
 *                is plugged later.
 *   tier_ratio   percent of each limit that may be in the first tier; 0, by capacity
 *
 * Which node is how fast is known to user space (`weir tier on`), not compared here.
 * While tiers is not empty every cgroup but the root has the files of tier_files.c;
 * they come and go with it.  No probe is involved: the files answer from what the
 * kernel counts, and who moves pages is the agent.
 *
 * Locking: switch_lock serialises the two parameters and the coming and going of the
 * files, which waits for their readers; so it is taken outside of weir_lock, under
 * which readers look at the tiers.
 */
#include "weir.h"
#include <linux/moduleparam.h>
#include <linux/nodemask.h>
#include <linux/slab.h>

static DEFINE_MUTEX(switch_lock);
static enum { LOADING, LOADED, UNLOADING } phase;	/* switch_lock */

static int refuse_tiers(const char *why, const char *what)
{
	pr_err("tiers: %s: %s; as before\n", why, what);
	return -EINVAL;
}

/* One list of nodes; @before has those of the tiers above. */
static int parse_tier(const char *list, nodemask_t *tier, nodemask_t *before)
{
	int err = nodelist_parse(list, *tier);

	if (err && err != -ERANGE)
		return refuse_tiers("not a list of nodes, such as 0-1,3", list);
	if (err || !nodes_subset(*tier, node_possible_map))
		return refuse_tiers("this host has no such node", list);
	if (nodes_empty(*tier))
		return refuse_tiers("a tier has no nodes", *list ? list : "(empty)");
	if (nodes_intersects(*tier, *before))
		return refuse_tiers("a node is in two tiers", list);
	nodes_or(*before, *before, *tier);
	return 0;
}

/* "0-1;2": a last list may end in a semicolon too. */
static int parse_tiers(const char *text, struct weir_tier_nodes *parsed)
{
	nodemask_t *before = kzalloc(sizeof(*before), GFP_KERNEL);
	char *copy = kstrdup(text, GFP_KERNEL);
	char *rest, *list;
	int err = 0;

	if (!before || !copy) {
		err = -ENOMEM;
		goto out;
	}
	rest = strim(copy);
	if (strpbrk(rest, "\n")) {
		err = refuse_tiers("more than one line", "one is wanted");
		goto out;
	}
	if (strscpy(parsed->text, rest, WEIR_TIERS_TEXT_MAX) < 0) {
		err = refuse_tiers("too long", "less than 256 characters are wanted");
		goto out;
	}
	while (!err && rest && *rest) {
		list = strsep(&rest, ";");
		if (parsed->count == WEIR_TIERS_MAX)
			err = refuse_tiers("more than 8 tiers", parsed->text);
		else
			err = parse_tier(list, &parsed->tier[parsed->count++],
					 before);
	}
out:
	kfree(before);
	kfree(copy);
	return err;
}

static void store_tiers(const struct weir_tier_nodes *next)
{
	spin_lock(&weir_lock);
	if (next)
		weir_tier_lists = *next;
	else
		memset(&weir_tier_lists, 0, sizeof(weir_tier_lists));
	spin_unlock(&weir_lock);
}

/* The files are there only while tiers are. */
static int switch_tiers(const struct weir_tier_nodes *next)
{
	bool was = weir_tier_lists.count, is = next->count;
	int err = 0;

	if (phase == LOADED && was && !is)
		weir_tier_files_remove();
	store_tiers(next);
	if (phase == LOADED && is && !was)
		err = weir_tier_files_create();
	if (err)
		store_tiers(NULL);
	return err;
}

static int set_tiers(const char *text, const struct kernel_param *param)
{
	struct weir_tier_nodes *next = kzalloc(sizeof(*next), GFP_KERNEL);
	int err = next ? parse_tiers(text, next) : -ENOMEM;

	mutex_lock(&switch_lock);
	if (!err)
		err = phase == UNLOADING ? -ENODEV : switch_tiers(next);
	mutex_unlock(&switch_lock);
	kfree(next);
	return err;
}

static int get_tiers(char *buffer, const struct kernel_param *param)
{
	int len;

	spin_lock(&weir_lock);
	len = sysfs_emit(buffer, "%s\n", weir_tier_lists.text);
	spin_unlock(&weir_lock);
	return len;
}

static const struct kernel_param_ops tiers_ops = {
	.set = set_tiers,
	.get = get_tiers,
};

module_param_cb(tiers, &tiers_ops, NULL, 0644);
MODULE_PARM_DESC(tiers, "nodes of each tier of memory, fastest first, as 0-1;2; empty = off");

static int set_ratio(const char *text, const struct kernel_param *param)
{
	unsigned int value;
	int err = kstrtouint(text, 10, &value);

	if (err)
		return err;
	if (value > 100)
		return -ERANGE;
	spin_lock(&weir_lock);
	weir_tier_ratio = value;
	spin_unlock(&weir_lock);
	return 0;
}

static const struct kernel_param_ops ratio_ops = {
	.set = set_ratio,
	.get = param_get_uint,
};

module_param_cb(tier_ratio, &ratio_ops, &weir_tier_ratio, 0644);
MODULE_PARM_DESC(tier_ratio, "percent of a memory limit that may be in the first tier, 0 = by capacity");

/* From here on the files follow the parameter; what was given at load does now. */
int weir_tier_create(void)
{
	int err = 0;

	mutex_lock(&switch_lock);
	if (weir_tier_lists.count)
		err = weir_tier_files_create();
	if (!err)
		phase = LOADED;
	mutex_unlock(&switch_lock);
	if (err)
		pr_err("refusing to load: tiers are given, but their files could not be added (error %d)\n",
		       err);
	return err;
}

void weir_tier_remove(void)
{
	mutex_lock(&switch_lock);
	if (phase == LOADED && weir_tier_lists.count)
		weir_tier_files_remove();
	phase = UNLOADING;
	mutex_unlock(&switch_lock);
}
