// SPDX-License-Identifier: GPL-2.0-only
/*
 * The bill: what a cgroup dirtied on one device, and until when it is paid.
 *
 * Model.  Each pass looks at what the cgroup's wb has recorded since it was made.
 * What is new since the look before (recorded.c) is to be paid for, at the price of
 * the moment (weight.c).
 *
 * Example.  A wb has recorded 5,000 pages when a task that dirtied 32 first looks:
 * 32 are to be paid for.  The next look finds 5,100: 100.
 */
#include "policy.h"

/* Note a look; returns the pages that are to be paid for. */
weir_u64 weir_bill_note(struct weir_bill *bill, const struct weir_look *look)
{
	weir_u64 before = bill->recorded.pages;
	weir_u64 pages = weir_recorded_note(&bill->recorded, look);

	/* said nothing */
	if (look->dirtied < bill->recorded.pages)
		return 0;
	if (!look->first && look->written > bill->written)
		bill->cleaned += look->written - bill->written;
	bill->dirtied += pages;
	/* a look that was overtaken may say less of one count and as much of the other */
	if (look->first || look->dirtied < before || look->written > bill->written)
		bill->written = look->written;
	bill->queued = look->queued;
	weir_arrears_record(&bill->arrears, pages);
	return pages;
}

/* Pay for @pages; how long is a writer to wait, in ms? */
weir_u64 weir_bill_charge(struct weir_bill *bill, const struct weir_turn *turn,
			  weir_u64 now_ns, weir_u64 pages)
{
	struct weir_payment payment = weir_turn_pay(turn, bill->due_ns, now_ns, pages);

	weir_arrears_forgive(&bill->arrears, payment.forgiven);
	bill->cost_ns = payment.cost_ns;
	bill->due_ns = payment.due_ns;
	return weir_turn_wait_ms(turn, bill->due_ns, now_ns);
}
