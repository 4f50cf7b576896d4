/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernels' headers that the compiler has to be told.
 *
 * Kbuild looks into the headers it builds with and defines a WEIR_HAS_... for
 * what it finds.  What a running kernel differs in beyond its headers is read
 * from its BTF at load: layout.c.
 */
#ifndef WEIR_COMPAT_H
#define WEIR_COMPAT_H

#include <linux/mm.h>
#include <linux/workqueue.h>
#include <linux/writeback.h>
#include "policy/policy.h"

static_assert(WEIR_PAGE_SHIFT == PAGE_SHIFT);

/*
 * Functions that are not exported are called by static calls.  Where there are
 * none (arm64), those are calls through a pointer, past what marks a function
 * as the target of such a call.
 */
#if !defined(CONFIG_HAVE_STATIC_CALL) && (defined(CONFIG_CFI) || \
	defined(CONFIG_CFI_CLANG) || defined(CONFIG_ARM64_BTI_KERNEL))
#error "weir cannot call into a kernel of this architecture that was built with kCFI or BTI"
#endif

/*
 * Is the disk to be left asleep?  The mode was removed by "mm/block/fs: remove
 * laptop_mode" (7.0).
 */
static inline bool weir_laptop_mode(void)
{
#ifdef WEIR_HAS_LAPTOP_MODE
	return laptop_mode;
#else
	return false;
#endif
}

/* vhost's workers are no kernel threads, and have this flag, since 6.4. */
#ifdef PF_USER_WORKER
#define WEIR_PF_USER_WORKER PF_USER_WORKER
#else
#define WEIR_PF_USER_WORKER 0
#endif

/* system_unbound_wq warns at each first use since it has this name (6.18). */
#ifdef WEIR_HAS_SYSTEM_DFL_WQ
#define weir_unbound_wq system_dfl_wq
#else
#define weir_unbound_wq system_unbound_wq
#endif

#endif
