/* SPDX-License-Identifier: GPL-2.0-only */
/* A floor for each cgroup that writes.  Included by weir.h. */
#ifndef WEIR_FAIR_H
#define WEIR_FAIR_H

/* fair.c: a floor for each cgroup that writes */
void weir_fair_start(struct weir_record *record);
void weir_fair_leave(struct weir_record *record, bool for_good);
void weir_fair_fill_pool(void);
void weir_fair_count(struct weir_record *record);
void weir_fair_beat(void);

/* A task of the record's own cgroup is in a pass. */
static inline void weir_fair_note(struct weir_record *record)
{
	if (!READ_ONCE(weir_fair))
		return;
	if (!READ_ONCE(record->writes))
		weir_fair_start(record);
	else if (READ_ONCE(record->wrote) != jiffies)
		WRITE_ONCE(record->wrote, jiffies);
}

#endif
