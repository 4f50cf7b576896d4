/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registers that a ftrace callback may read and change, by the names of each
 * release.
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

/*
 * The address at which a call that is left alone goes on, behind the ftrace
 * site: to the function that weir_rest_of_NAME, a static call, calls.
 *
 * Beside a BPF program that runs at a function's exit, x86's trampoline calls what the
 * redirection left as the address, through a register (BPF_TRAMP_F_ORIG_STACK).  Behind the
 * site is no ENDBR, and a CPU with IBT traps.  So the call is sent on by a direct jump that
 * has one.  All registers stay as they are, and no task returns to it.
 */
#ifdef CONFIG_X86
#include <asm/ibt.h>
#define WEIR_DEFINE_BEHIND(name)					\
	void weir_behind_##name(void);					\
	asm(".pushsection .text, \"ax\"\n"				\
	    ".balign 16\n"						\
	    ".type weir_behind_" #name ", @function\n"			\
	    "weir_behind_" #name ":\n"					\
	    ASM_ENDBR							\
	    "jmp " STATIC_CALL_TRAMP_STR(weir_rest_of_##name) "\n"	\
	    ".size weir_behind_" #name ", . - weir_behind_" #name "\n"	\
	    ".popsection\n")
#define weir_behind(name, site) ((unsigned long)weir_behind_##name)
#else
#define WEIR_DEFINE_BEHIND(name) static_assert(true)
#define weir_behind(name, site) ((site) + MCOUNT_INSN_SIZE)
#endif

#endif
