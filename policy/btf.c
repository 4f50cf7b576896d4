// SPDX-License-Identifier: GPL-2.0-only
/*
 * A reader for BTF, the type information a kernel carries of itself.
 *
 * The blob is a header, a run of variable-length type records numbered from 1,
 * and a string table.  One walk notes where each record starts; after that a
 * type id is an index.  Lookups by name are linear: there are some dozens of
 * them, once.  Every offset is checked against the blob before it is followed,
 * so a blob may hold anything.
 *
 * A record begins with three words, the offset of its name, its kind with a
 * count, and a size or the id of another type:
 *
 *   struct list_head { next; prev; }
 *     name "list_head", kind 4 (struct), 2 members, 16 bytes
 *     name "next", type 31, bit 0
 *     name "prev", type 31, bit 64
 */
#include "btf.h"

#define MAGIC		0xeb9f
/* Typedefs and qualifiers followed before a type is called unresolvable. */
#define MAX_ALIASES	16
#define POINTER_BYTES	8

/* The format's numbers: Documentation/bpf/btf.rst in the kernel's sources. */
enum kind {
	INT = 1, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST,
	RESTRICT, FUNC, FUNC_PROTO, VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG,
	ENUM64,
};

struct header {
	unsigned short magic;
	unsigned char version;
	unsigned char flags;
	weir_u32 header_len;
	weir_u32 types_off;
	weir_u32 types_len;
	weir_u32 strings_off;
	weir_u32 strings_len;
};

struct type {
	weir_u32 name;
	weir_u32 info;
	weir_u32 size_or_type;
};

struct array {
	weir_u32 type;
	weir_u32 index_type;
	weir_u32 count;
};

struct member {
	weir_u32 name;
	weir_u32 type;
	weir_u32 bits;		/* with bit fields: their size in the top byte */
};

struct param {
	weir_u32 name;
	weir_u32 type;
};

/* Older kernels have less of the word in use, and zeros in the rest. */
static enum kind kind_of(const struct type *type)
{
	return type->info >> 24 & 0x7f;
}

static weir_u32 count_of(const struct type *type)
{
	return type->info & 0xffffff;
}

static int strings_equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* Bytes that follow the common part of a record; -1 for an unknown kind. */
static int extra_bytes(const struct type *type)
{
	weir_u32 count = count_of(type);

	switch (kind_of(type)) {
	case INT: case VAR: case DECL_TAG:
		return 4;
	case ARRAY:
		return sizeof(struct array);
	case STRUCT: case UNION: case DATASEC: case ENUM64:
		return count * sizeof(struct member);
	case ENUM: case FUNC_PROTO:
		return count * sizeof(struct param);
	case PTR: case FWD: case TYPEDEF: case VOLATILE: case CONST:
	case RESTRICT: case FUNC: case FLOAT: case TYPE_TAG:
		return 0;
	}
	return -1;
}

/* Walk all records; note their offsets if @offsets.  The count, or -1. */
static long long walk_records(const struct weir_btf *btf, weir_u32 *offsets)
{
	weir_u32 at = 0, count = 0;

	while (at < btf->types_len) {
		const struct type *type = (const void *)(btf->types + at);
		int extra;

		if (btf->types_len - at < sizeof(*type))
			return -1;
		extra = extra_bytes(type);
		if (extra < 0 ||
		    btf->types_len - at - sizeof(*type) < (weir_u32)extra)
			return -1;
		count++;
		if (offsets)
			offsets[count] = at;
		at += sizeof(*type) + extra;
	}
	return count;
}

/*
 * Find the sections of a blob, which stays where it is, aligned to 4 bytes.
 * -1 if it is not BTF that can be read.  weir_btf_index() is to follow.
 */
int weir_btf_open(struct weir_btf *btf, const void *blob, weir_u64 size)
{
	const struct header *header = blob;
	long long count;
	weir_u64 base;

	if (size < sizeof(*header) || header->magic != MAGIC)
		return -1;
	base = header->header_len;
	if (base + header->types_off + header->types_len > size ||
	    base + header->strings_off + header->strings_len > size ||
	    (base + header->types_off) % sizeof(weir_u32) ||
	    !header->strings_len)
		return -1;
	*btf = (struct weir_btf) {
		.types = (const char *)blob + base + header->types_off,
		.types_len = header->types_len,
		.strings = (const char *)blob + base + header->strings_off,
		.strings_len = header->strings_len,
	};
	/* every string ends inside the table if the last one does */
	if (btf->strings[btf->strings_len - 1])
		return -1;
	count = walk_records(btf, (void *)0);
	if (count < 0)
		return -1;
	btf->type_count = count;
	return 0;
}

/* Number the records.  @offsets has room for type_count + 1, and stays. */
void weir_btf_index(struct weir_btf *btf, weir_u32 *offsets)
{
	walk_records(btf, offsets);
	btf->type_offsets = offsets;
}

static const struct type *by_id(const struct weir_btf *btf, weir_u32 id)
{
	if (!id || id > btf->type_count)
		return (void *)0;
	return (const void *)(btf->types + btf->type_offsets[id]);
}

static const char *name_at(const struct weir_btf *btf, weir_u32 offset)
{
	return offset < btf->strings_len ? btf->strings + offset : "";
}

static const struct type *by_name(const struct weir_btf *btf, enum kind kind,
				  const char *name)
{
	weir_u32 id;

	for (id = 1; id <= btf->type_count; id++) {
		const struct type *type = by_id(btf, id);

		if (kind_of(type) == kind &&
		    strings_equal(name_at(btf, type->name), name))
			return type;
	}
	return (void *)0;
}

/* Look through typedefs and qualifiers. */
static const struct type *resolve_aliases(const struct weir_btf *btf, weir_u32 id)
{
	const struct type *type = by_id(btf, id);
	int hops;

	for (hops = 0; type && hops < MAX_ALIASES; hops++) {
		switch (kind_of(type)) {
		case TYPEDEF: case CONST: case VOLATILE: case RESTRICT:
		case TYPE_TAG:
			type = by_id(btf, type->size_or_type);
			break;
		default:
			return type;
		}
	}
	return (void *)0;
}

/* Size of what is no array, in bytes; 0 if it has none. */
static weir_u32 plain_size(const struct type *type)
{
	switch (kind_of(type)) {
	case INT: case STRUCT: case UNION: case ENUM: case ENUM64: case FLOAT:
		return type->size_or_type;
	case PTR:
		return POINTER_BYTES;
	default:
		return 0;
	}
}

static weir_u32 size_of(const struct weir_btf *btf, weir_u32 id)
{
	const struct type *type = resolve_aliases(btf, id);
	const struct array *array;
	weir_u64 bytes;

	if (!type || kind_of(type) != ARRAY)
		return type ? plain_size(type) : 0;
	array = (const void *)(type + 1);
	/* one level is all that is asked for */
	type = resolve_aliases(btf, array->type);
	bytes = type ? (weir_u64)array->count * plain_size(type) : 0;
	return bytes > 0xffffffffU ? 0 : bytes;
}

/* Finds the place and the size of member @name of struct @type. */
enum weir_fit weir_btf_member(const struct weir_btf *btf, const char *type,
			      const char *name, struct weir_member *member)
{
	const struct type *owner = by_name(btf, STRUCT, type);
	const struct member *members;
	weir_u32 i;

	if (!owner)
		return WEIR_MISSING;
	members = (const void *)(owner + 1);
	for (i = 0; i < count_of(owner); i++) {
		weir_u32 bits = members[i].bits;

		if (!strings_equal(name_at(btf, members[i].name), name))
			continue;
		/* with this flag, members say how many bits they have */
		if (owner->info >> 31) {
			if (bits >> 24)
				return WEIR_OTHER;
			bits &= 0xffffff;
		}
		if (bits % 8)
			return WEIR_OTHER;
		member->offset_bytes = bits / 8;
		member->size_bytes = size_of(btf, members[i].type);
		return WEIR_FITS;
	}
	return WEIR_MISSING;
}

/* Size of struct @type in bytes, -1 if there is none. */
long long weir_btf_size(const struct weir_btf *btf, const char *type)
{
	const struct type *owner = by_name(btf, STRUCT, type);

	return owner ? (long long)owner->size_or_type : -1;
}

/* Is it what @wanted says?  See weir_btf_function(). */
static int is_param(const struct weir_btf *btf, weir_u32 id, const char *wanted)
{
	const struct type *type = resolve_aliases(btf, id);

	if (!type)
		return 0;
	if (wanted[0] >= '1' && wanted[0] <= '8')
		return kind_of(type) == INT &&
		       type->size_or_type == (weir_u32)(wanted[0] - '0');
	if (wanted[0] == 'e')
		return kind_of(type) == ENUM && type->size_or_type == 4;
	if (kind_of(type) != PTR)
		return 0;
	if (wanted[0] == '*')
		return 1;
	type = resolve_aliases(btf, type->size_or_type);
	return type && kind_of(type) == STRUCT &&
	       strings_equal(name_at(btf, type->name), wanted);
}

static enum weir_fit match_params(const struct weir_btf *btf, const struct type *proto,
				  const char *const *params)
{
	const struct param *given;
	weir_u32 i;

	if (!proto || kind_of(proto) != FUNC_PROTO)
		return WEIR_MISSING;
	given = (const void *)(proto + 1);
	for (i = 0; i < count_of(proto); i++) {
		if (!params[i] || !is_param(btf, given[i].type, params[i]))
			return WEIR_OTHER;
	}
	return params[i] ? WEIR_OTHER : WEIR_FITS;
}

int weir_btf_has_function(const struct weir_btf *btf, const char *function)
{
	return !!by_name(btf, FUNC, function);
}

/*
 * Does @function exist with exactly these parameters?  Each of @params, up to a
 * NULL, is a struct's name, for a pointer to it, "*" for any pointer, or "1",
 * "4" or "8", for an integer of that many bytes, "e", for an enum of four.  A function whose arguments the
 * compiler changed does not: its entry is missing, or shows another list.
 */
enum weir_fit weir_btf_function(const struct weir_btf *btf,
				const char *function, const char *const *params)
{
	const struct type *type = by_name(btf, FUNC, function);

	return match_params(btf, type ? by_id(btf, type->size_or_type) : (void *)0,
			    params);
}

/*
 * The same of what is called at a tracepoint, by the name of its callback type
 * (btf_trace_...), whose first argument is a void pointer: "*".
 */
enum weir_fit weir_btf_tracepoint(const struct weir_btf *btf,
				  const char *callback,
				  const char *const *params)
{
	const struct type *type = by_name(btf, TYPEDEF, callback);

	type = type ? resolve_aliases(btf, type->size_or_type) : (void *)0;
	if (!type || kind_of(type) != PTR)
		return WEIR_MISSING;
	return match_params(btf, by_id(btf, type->size_or_type), params);
}
