/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * btf.c: what a kernel says of its own types.
 *
 * Read by the module from the kernel it is loaded into, and by the command from a
 * file of any kernel.
 */
#ifndef WEIR_POLICY_BTF_H
#define WEIR_POLICY_BTF_H

#include "policy.h"

struct weir_btf {
	const char *types;		/* 4-byte aligned */
	const char *strings;
	weir_u32 types_len;
	weir_u32 strings_len;
	weir_u32 type_count;
	const weir_u32 *type_offsets;	/* by type id; [0] unused */
};

/* A member's place in its struct and its size; an array counts as a whole. */
struct weir_member {
	weir_u32 offset_bytes;
	weir_u32 size_bytes;
};

/* A name in the kernel, compared with the one that is asked for. */
enum weir_fit {
	WEIR_FITS,
	WEIR_MISSING,
	/* it is there, and it is something else */
	WEIR_OTHER,
};

int weir_btf_open(struct weir_btf *btf, const void *blob, weir_u64 size);
void weir_btf_index(struct weir_btf *btf, weir_u32 *offsets);
enum weir_fit weir_btf_member(const struct weir_btf *btf, const char *type,
			      const char *name, struct weir_member *member);
long long weir_btf_size(const struct weir_btf *btf, const char *type);
int weir_btf_has_function(const struct weir_btf *btf, const char *function);
enum weir_fit weir_btf_function(const struct weir_btf *btf,
				const char *function, const char *const *params);
enum weir_fit weir_btf_tracepoint(const struct weir_btf *btf,
				  const char *callback,
				  const char *const *params);

#endif
