/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a ftrace callback may read and change, by the names of each release.
 *
 * Linux 6.2 renamed ftrace_instruction_pointer_set() to
 * ftrace_regs_set_instruction_pointer(); 6.3 gave struct ftrace_regs accessors
 * for arguments.  All of them are macros, so what is there can be asked for.
 */
#ifndef WEIR_COMPAT_FTRACE_H
#define WEIR_COMPAT_FTRACE_H

#include <linux/ftrace.h>

#ifdef ftrace_regs_set_instruction_pointer
#define weir_ftrace_set_ip(fregs, ip) \
	ftrace_regs_set_instruction_pointer(fregs, ip)
#else
#define weir_ftrace_set_ip(fregs, ip) ftrace_instruction_pointer_set(fregs, ip)
#endif

#ifdef ftrace_regs_get_argument
#define weir_ftrace_argument(fregs, n) ftrace_regs_get_argument(fregs, n)
#else
#define weir_ftrace_argument(fregs, n) \
	regs_get_kernel_argument(&(fregs)->regs, n)
#endif

#endif
