/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a ftrace callback may read and change, by the names of each release.
 *
 * "ftrace: abstract DYNAMIC_FTRACE_WITH_ARGS accesses" (6.2) gave struct
 * ftrace_regs accessors.  They are macros on x86 and functions on arm64, so
 * Kbuild looks whether they are there.
 */
#ifndef WEIR_COMPAT_FTRACE_H
#define WEIR_COMPAT_FTRACE_H

#include <linux/ftrace.h>

#ifndef CONFIG_DYNAMIC_FTRACE_WITH_ARGS
#error "weir needs CONFIG_DYNAMIC_FTRACE_WITH_ARGS: CONFIG_FUNCTION_TRACER brings it on x86-64, and on arm64 since Linux 6.2"
#endif

#ifdef WEIR_HAS_FTRACE_REGS_GET_ARGUMENT
#define weir_ftrace_set_ip(fregs, ip) \
	ftrace_regs_set_instruction_pointer(fregs, ip)
#define weir_ftrace_argument(fregs, n) ftrace_regs_get_argument(fregs, n)
#else
#define weir_ftrace_set_ip(fregs, ip) ftrace_instruction_pointer_set(fregs, ip)
#define weir_ftrace_argument(fregs, n) \
	regs_get_kernel_argument(&(fregs)->regs, n)
#endif

#endif
