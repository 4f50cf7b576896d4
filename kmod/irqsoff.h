/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The times for which weir keeps interrupts or preemption off, for
 * kmod/tests/irqsoff.sh.
 *
 * Included into every file of a build with WEIR_IRQSOFF=y, never otherwise: it
 * replaces the kernel's macros that open and close such a section by ones that
 * read the time stamp counter, too.  The kernel's own tracer for this, irqsoff,
 * is in no distribution's kernel.
 */
#ifndef WEIR_IRQSOFF_H
#define WEIR_IRQSOFF_H

#include <linux/percpu_counter.h>
#include <linux/spinlock.h>
#include <linux/stringify.h>

enum weir_off_kind { WEIR_IRQS_OFF, WEIR_PREEMPT_OFF, WEIR_LOCK_HELD, WEIR_OFF_KINDS };

/* A place that closes sections, and the longest that it closed, in cycles. */
struct weir_section {
	const char *at;
	enum weir_off_kind kind;
	u64 longest;
	u64 count;
	struct weir_section *next;
};

/* Both with interrupts, or preemption, off already. */
void weir_section_begin(enum weir_off_kind kind);
void weir_section_end(struct weir_section *section);

#define weir_section_close(what) do {					\
	static struct weir_section here = {				\
		.at = KBUILD_BASENAME ":" __stringify(__LINE__),	\
		.kind = what,						\
	};								\
									\
	weir_section_end(&here);					\
} while (0)

#undef raw_spin_lock
#define raw_spin_lock(lock) do {					\
	preempt_disable();						\
	weir_section_begin(WEIR_PREEMPT_OFF);				\
	_raw_spin_lock(lock);						\
} while (0)

#undef raw_spin_unlock
#define raw_spin_unlock(lock) do {					\
	_raw_spin_unlock(lock);						\
	weir_section_close(WEIR_PREEMPT_OFF);				\
	preempt_enable();						\
} while (0)

#undef raw_spin_lock_irqsave
#define raw_spin_lock_irqsave(lock, flags) do {				\
	local_irq_save(flags);						\
	weir_section_begin(WEIR_IRQS_OFF);				\
	_raw_spin_lock(lock);						\
} while (0)

#undef raw_spin_unlock_irqrestore
#define raw_spin_unlock_irqrestore(lock, flags) do {			\
	_raw_spin_unlock(lock);						\
	weir_section_close(WEIR_IRQS_OFF);				\
	local_irq_restore(flags);					\
} while (0)

/* weir_lock: no lock of a pass, and held for longer.  On PREEMPT_RT it lets others run. */
#ifndef CONFIG_PREEMPT_RT
#define spin_lock(lock) do {						\
	preempt_disable();						\
	weir_section_begin(WEIR_LOCK_HELD);				\
	(spin_lock)(lock);						\
} while (0)

#define spin_trylock(lock) ({						\
	bool __got;							\
									\
	preempt_disable();						\
	weir_section_begin(WEIR_LOCK_HELD);				\
	__got = (spin_trylock)(lock);					\
	if (!__got) {							\
		weir_section_close(WEIR_LOCK_HELD);			\
		preempt_enable();					\
	}								\
	__got;								\
})

#define spin_unlock(lock) do {						\
	(spin_unlock)(lock);						\
	weir_section_close(WEIR_LOCK_HELD);				\
	preempt_enable();						\
} while (0)
#endif

/* The kernel's, which has interrupts off while it sums up: the call bounds it. */
#define percpu_counter_sum_positive(counter) ({				\
	s64 __sum;							\
									\
	preempt_disable();						\
	weir_section_begin(WEIR_IRQS_OFF);				\
	__sum = (percpu_counter_sum_positive)(counter);			\
	weir_section_close(WEIR_IRQS_OFF);				\
	preempt_enable();						\
	__sum;								\
})

#endif
