/* SPDX-License-Identifier: GPL-2.0-only */
/* Pages that tasks below a floor dirtied, and that their wbs recorded.  Included by weir.h. */
#ifndef WEIR_DEVICE_H
#define WEIR_DEVICE_H

/* device.c: what tasks below a floor dirtied, and what their wbs recorded */
void weir_device_charge(struct weir_record *record, struct weir_record *floored,
			struct bdi_writeback *wb, u64 reported, bool admitted);

/* Foreign pages that count against the record's floor. */
static inline u64 weir_record_foreign(const struct weir_record *record)
{
	return weir_credit_foreign(READ_ONCE(record->credit));
}

/* Have cgroups with fair parts below it dirtied as much of others' as its own part? */
static inline bool weir_fair_filled(const struct weir_record *record)
{
	u64 foreign = weir_record_foreign(record);

	return foreign && !READ_ONCE(record->floor_given) &&
	       foreign >= READ_ONCE(record->fair.part);
}

#define WEIR_REPORTERS_BITS	15
struct weir_reporters { atomic_t last[1 << WEIR_REPORTERS_BITS]; };
u64 weir_dirtied_by_current(struct weir_reporters *reporters, u64 reported);
void weir_device_charge_exit(void);

#endif
