// SPDX-License-Identifier: GPL-2.0-only
/*
 * Notes the sections of irqsoff.h, and shows them in
 * /sys/module/weir/parameters/irqsoff, one line per place:
 *
 *   irqs share:156 412 90123
 *
 * interrupts off, closed there, 412 cycles at most, 90,123 times; "preempt" and "lock"
 * likewise, with preemption off, for weir_lock or another.  A section
 * that an interrupt fell into is left out: its time is the interrupt's.
 */
#include <linux/hardirq.h>
#include <linux/module.h>
#include <asm/msr.h>

struct open_sections {
	unsigned int depth[WEIR_OFF_KINDS];
	unsigned int irqs[WEIR_OFF_KINDS];
	u64 since[WEIR_OFF_KINDS];
};

static DEFINE_PER_CPU(struct open_sections, open_sections);
static struct weir_section *sections;
static const char * const kinds[] = { "irqs", "preempt", "lock" };

/*
 * The number of interrupts that this CPU has taken; the timer's and other CPUs'
 * suffice.
 */
static unsigned int interrupt_count(void)
{
	return this_cpu_read(irq_stat.apic_timer_irqs) +
	       this_cpu_read(irq_stat.icr_read_retry_count) +
	       this_cpu_read(irq_stat.irq_resched_count) +
	       this_cpu_read(irq_stat.irq_call_count);
}

void weir_section_begin(enum weir_off_kind kind)
{
	struct open_sections *open = this_cpu_ptr(&open_sections);

	if (open->depth[kind]++)
		return;
	open->irqs[kind] = interrupt_count();
	open->since[kind] = rdtsc_ordered();
}

static void list_section(struct weir_section *section)
{
	struct weir_section *first;

	do {
		first = READ_ONCE(sections);
		section->next = first;
	} while (cmpxchg(&sections, first, section) != first);
}

void weir_section_end(struct weir_section *section)
{
	struct open_sections *open = this_cpu_ptr(&open_sections);
	enum weir_off_kind kind = section->kind;
	u64 took = rdtsc_ordered() - open->since[kind];

	if (--open->depth[kind] || open->irqs[kind] != interrupt_count())
		return;
	/* one CPU in the test: no race for the first or the longest */
	if (!section->count++)
		list_section(section);
	section->longest = max(section->longest, took);
}

static int show_sections(char *text, const struct kernel_param *param)
{
	struct weir_section *section;
	int length = 0;

	for (section = READ_ONCE(sections); section; section = section->next)
		length += scnprintf(text + length, PAGE_SIZE - length,
				    "%s %s %llu %llu\n", kinds[section->kind],
				    section->at, section->longest,
				    section->count);
	return length;
}

static const struct kernel_param_ops ops = { .get = show_sections };
module_param_cb(irqsoff, &ops, NULL, 0444);
