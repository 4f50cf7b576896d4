/* SPDX-License-Identifier: GPL-2.0-only */
/* Tiers of memory, as named in the parameter.  Included by weir.h. */
#ifndef WEIR_TIERS_H
#define WEIR_TIERS_H

/* tier.c: tiers of memory, as named in the parameter */
#ifdef WEIR_TIERS
int weir_tier_create(void);
void weir_tier_remove(void);

/* tier_now.c */
#define WEIR_TIERS_TEXT_MAX	256

struct weir_tier_nodes {
	nodemask_t tier[WEIR_TIERS_MAX];
	u32 count;
	char text[WEIR_TIERS_TEXT_MAX];
};

extern struct weir_tier_nodes weir_tier_lists;
extern unsigned int weir_tier_ratio;
void weir_tiers_now(struct weir_tiers *now);
const nodemask_t *weir_tier_nodes(u32 tier);

/* tier_files.c */
int weir_tier_files_create(void);
void weir_tier_files_remove(void);
#else
static inline int weir_tier_create(void) { return 0; }
static inline void weir_tier_remove(void) { }
#endif

#endif
