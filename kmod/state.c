// SPDX-License-Identifier: GPL-2.0-only
/*
 * State that all of the module reads, and few write: how it was loaded, and
 * what the beat found last.  It is here, below all others, so that a reader
 * need not be above its writer.
 */
#include "weir.h"
#include <linux/module.h>

bool weir_off;
module_param_named(off, weir_off, bool, 0444);
MODULE_PARM_DESC(off, "load and do nothing: no probe, no hook, no file; the way back to a host that crashes on them");

bool weir_observe;
module_param_named(observe, weir_observe, bool, 0644);
MODULE_PARM_DESC(observe, "count what each knob would have done, change nothing");

bool weir_tenants_arm;
module_param_named(tenants_arm, weir_tenants_arm, bool, 0644);
MODULE_PARM_DESC(tenants_arm, "the first knob, which hooks the kernel until unload, may be set without CAP_SYS_RESOURCE");

/* its parameter is fair.c's */
bool weir_fair;
unsigned int weir_writer_count;

/* the beat's */
struct weir_pool weir_pool;
u64 weir_floors_epoch = 1;
bool weir_proven;
unsigned long weir_last_beat;
unsigned long weir_flushers_proven;
