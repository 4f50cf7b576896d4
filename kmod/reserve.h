/* SPDX-License-Identifier: GPL-2.0-only */
/* Pages that floors reserve and do not use, and the limits that passes find for them.  Included by weir.h. */
#ifndef WEIR_RESERVE_H
#define WEIR_RESERVE_H

/* host.c: the host's limits as passes find them */
void weir_reserve_note(struct weir_record *record, u64 unused);
u64 weir_unused_pages(void);
struct weir_drain_host weir_host_amendments(void);
struct weir_limits weir_host_limits(void);
void weir_wake_flusher(struct bdi_writeback *wb);

/* reserve.c: what floors reserve and do not use, kept fresh */
extern struct list_head weir_holders, weir_others;	/* all records; weir_lock */
/* Cost of a visit to a record besides counting, in reads. */
#define WEIR_VISIT_COST	16
void weir_reserve_watch(void);
void weir_reserve_end(void);

#endif
