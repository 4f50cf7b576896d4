// SPDX-License-Identifier: GPL-2.0-only
/*
 * A reader for BTF, the type information the running kernel carries of itself.
 *
 * The blob is a header, a run of variable-length type records numbered from 1,
 * and a string table.  One walk notes where each record starts; after that a
 * type id is an index.  Lookups by name are linear: there are a dozen of them,
 * at load.  Every offset is checked against the blob before it is followed.
 */
#include "weir.h"
#include <linux/btf.h>
#include <linux/fs.h>
#include <linux/vmalloc.h>

#define BTF_PATH "/sys/kernel/btf/vmlinux"
/* Ten times what a distribution kernel brings. */
#define BTF_MAX_BYTES (64 << 20)
/* Typedefs and qualifiers followed before a type is called unresolvable. */
#define MAX_ALIASES 16

/* Bytes that follow the common part of a record of this kind. */
static int extra_bytes(const struct btf_type *type)
{
	u32 vlen = btf_type_vlen(type);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT: return sizeof(u32);
	case BTF_KIND_ARRAY: return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION: return vlen * sizeof(struct btf_member);
	case BTF_KIND_ENUM: return vlen * sizeof(struct btf_enum);
	case BTF_KIND_FUNC_PROTO: return vlen * sizeof(struct btf_param);
	case BTF_KIND_VAR: return sizeof(struct btf_var);
	case BTF_KIND_DATASEC: return vlen * sizeof(struct btf_var_secinfo);
	case BTF_KIND_DECL_TAG: return sizeof(struct btf_decl_tag);
	case BTF_KIND_ENUM64: return vlen * sizeof(struct btf_enum64);
	case BTF_KIND_PTR: case BTF_KIND_FWD: case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE: case BTF_KIND_CONST: case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC: case BTF_KIND_FLOAT: case BTF_KIND_TYPE_TAG:
		return 0;
	default: return -EINVAL;
	}
}

/* Walk all records; note their offsets if @offsets.  The count, or -EINVAL. */
static int walk(const struct weir_btf *btf, u32 *offsets)
{
	u32 at = 0, count = 0;

	while (at < btf->types_len) {
		const struct btf_type *type = (const void *)(btf->types + at);
		int extra;

		if (btf->types_len - at < sizeof(*type))
			return -EINVAL;
		extra = extra_bytes(type);
		if (extra < 0 ||
		    btf->types_len - at - sizeof(*type) < (u32)extra)
			return -EINVAL;
		count++;
		if (offsets)
			offsets[count] = at;
		at += sizeof(*type) + extra;
	}
	return count;
}

static int find_sections(struct weir_btf *btf, size_t size)
{
	const struct btf_header *header = btf->blob;
	u64 base;

	if (size < sizeof(*header) || header->magic != BTF_MAGIC)
		return -EINVAL;
	base = header->hdr_len;
	if (base + header->type_off + (u64)header->type_len > size ||
	    base + header->str_off + (u64)header->str_len > size ||
	    !header->str_len)
		return -EINVAL;
	btf->types = btf->blob + base + header->type_off;
	btf->types_len = header->type_len;
	btf->strings = btf->blob + base + header->str_off;
	btf->strings_len = header->str_len;
	/* every string ends inside the table if the last one does */
	return btf->strings[btf->strings_len - 1] ? -EINVAL : 0;
}

/*
 * The whole of a sysfs file.  Opened and read as any reader would:
 * kernel_read_file() is for code and policy, and LSMs treat it so.
 */
static ssize_t read_all(const char *path, void **blob)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	loff_t size, at = 0;
	ssize_t got = 0;

	if (IS_ERR(file))
		return PTR_ERR(file);
	size = i_size_read(file_inode(file));
	*blob = size > 0 && size <= BTF_MAX_BYTES ? vmalloc(size) : NULL;
	while (*blob && at < size) {
		got = kernel_read(file, *blob + at, size - at, &at);
		if (got <= 0)
			break;
	}
	filp_close(file, NULL);
	if (*blob && at == size)
		return size;
	vfree(*blob);
	*blob = NULL;
	return got < 0 ? got : -EIO;
}

/* Read and index the running kernel's BTF.  Says what is wrong if it cannot. */
int weir_btf_load(struct weir_btf *btf)
{
	u32 *offsets;
	ssize_t size;
	int count;

	memset(btf, 0, sizeof(*btf));
	size = read_all(BTF_PATH, &btf->blob);
	if (size < 0) {
		pr_err("refusing to load: cannot read %s (error %zd); weir needs CONFIG_DEBUG_INFO_BTF and a mounted sysfs\n",
		       BTF_PATH, size);
		return size;
	}
	count = find_sections(btf, size) ?: walk(btf, NULL);
	if (count < 0) {
		pr_err("refusing to load: %s is not BTF that weir can read\n",
		       BTF_PATH);
		weir_btf_free(btf);
		return -EINVAL;
	}
	offsets = vmalloc_array(count + 1, sizeof(*offsets));
	if (!offsets) {
		weir_btf_free(btf);
		return -ENOMEM;
	}
	walk(btf, offsets);
	btf->type_offsets = offsets;
	btf->type_count = count;
	return 0;
}

void weir_btf_free(struct weir_btf *btf)
{
	vfree(btf->type_offsets);
	vfree(btf->blob);
	memset(btf, 0, sizeof(*btf));
}

static const struct btf_type *by_id(const struct weir_btf *btf, u32 id)
{
	if (!id || id > btf->type_count)
		return NULL;
	return (const void *)(btf->types + btf->type_offsets[id]);
}

static const char *name_at(const struct weir_btf *btf, u32 offset)
{
	return offset < btf->strings_len ? btf->strings + offset : "";
}

static const struct btf_type *by_name(const struct weir_btf *btf, u32 kind,
				      const char *name)
{
	u32 id;

	for (id = 1; id <= btf->type_count; id++) {
		const struct btf_type *type = by_id(btf, id);

		if (BTF_INFO_KIND(type->info) == kind &&
		    !strcmp(name_at(btf, type->name_off), name))
			return type;
	}
	return NULL;
}

/* Look through typedefs and qualifiers. */
static const struct btf_type *resolve(const struct weir_btf *btf, u32 id)
{
	const struct btf_type *type = by_id(btf, id);
	int hops;

	for (hops = 0; type && hops < MAX_ALIASES; hops++) {
		switch (BTF_INFO_KIND(type->info)) {
		case BTF_KIND_TYPEDEF: case BTF_KIND_CONST:
		case BTF_KIND_VOLATILE: case BTF_KIND_RESTRICT:
		case BTF_KIND_TYPE_TAG:
			type = by_id(btf, type->type);
			break;
		default:
			return type;
		}
	}
	return NULL;
}

/* Size of a type in bytes, 0 if it has none. */
static u32 size_of(const struct weir_btf *btf, u32 id)
{
	const struct btf_type *type = resolve(btf, id);
	const struct btf_array *array;

	if (!type)
		return 0;
	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT: case BTF_KIND_STRUCT: case BTF_KIND_UNION:
	case BTF_KIND_ENUM: case BTF_KIND_ENUM64: case BTF_KIND_FLOAT:
		return type->size;
	case BTF_KIND_PTR:
		return sizeof(void *);
	case BTF_KIND_ARRAY:
		array = (const void *)(type + 1);
		type = resolve(btf, array->type);
		/* one level is all that is asked for */
		if (!type || BTF_INFO_KIND(type->info) == BTF_KIND_ARRAY)
			return 0;
		return array->nelems * size_of(btf, array->type);
	default:
		return 0;
	}
}

/* Where member @name of struct @type lies.  -ENOENT if there is none. */
int weir_btf_member(const struct weir_btf *btf, const char *type,
		    const char *name, struct weir_member *member)
{
	const struct btf_type *owner = by_name(btf, BTF_KIND_STRUCT, type);
	const struct btf_member *members;
	u32 i;

	if (!owner || weir_fault_hides(name))
		return -ENOENT;
	members = (const void *)(owner + 1);
	for (i = 0; i < btf_type_vlen(owner); i++) {
		u32 bits = members[i].offset;

		if (strcmp(name_at(btf, members[i].name_off), name))
			continue;
		if (BTF_INFO_KFLAG(owner->info)) {
			if (BTF_MEMBER_BITFIELD_SIZE(bits))
				return -ENOENT;
			bits = BTF_MEMBER_BIT_OFFSET(bits);
		}
		if (bits % 8)
			return -ENOENT;
		member->offset_bytes = bits / 8;
		member->size_bytes = size_of(btf, members[i].type);
		return 0;
	}
	return -ENOENT;
}

/* Size of struct @type in bytes, or -ENOENT. */
int weir_btf_size(const struct weir_btf *btf, const char *type)
{
	const struct btf_type *owner = by_name(btf, BTF_KIND_STRUCT, type);

	return owner ? (int)owner->size : -ENOENT;
}

static int takes(const struct weir_btf *btf, const struct btf_type *proto,
		 const char *const *params, u32 count)
{
	const struct btf_param *given;
	u32 i;

	if (!proto || BTF_INFO_KIND(proto->info) != BTF_KIND_FUNC_PROTO)
		return -ENOENT;
	if (btf_type_vlen(proto) != count)
		return -EINVAL;
	given = (const void *)(proto + 1);
	for (i = 0; i < count; i++) {
		const struct btf_type *got = resolve(btf, given[i].type);
		u32 kind = got ? BTF_INFO_KIND(got->info) : BTF_KIND_UNKN;

		if (params[i][0] == '*') {
			if (kind != BTF_KIND_PTR)
				return -EINVAL;
			continue;
		}
		if (strchr("148", params[i][0])) {
			if (kind != BTF_KIND_INT || got->size != params[i][0] - '0')
				return -EINVAL;
			continue;
		}
		got = kind == BTF_KIND_PTR ? resolve(btf, got->type) : NULL;
		if (!got || BTF_INFO_KIND(got->info) != BTF_KIND_STRUCT ||
		    strcmp(name_at(btf, got->name_off), params[i]))
			return -EINVAL;
	}
	return 0;
}

/*
 * Does @function exist with exactly these parameters?  Each of @params is a
 * struct name, for a pointer to it, or "1", "4" or "8", for an integer of that
 * many bytes.  A function whose arguments the compiler changed fails here: its
 * entry is missing from BTF or shows another list.
 */
int weir_btf_function_takes(const struct weir_btf *btf, const char *function,
			    const char *const *params, u32 count)
{
	const struct btf_type *type = by_name(btf, BTF_KIND_FUNC, function);

	return takes(btf, type ? by_id(btf, type->type) : NULL, params, count);
}

/*
 * The same of what is called at a tracepoint, by the name of its callback type
 * (btf_trace_...), whose first argument is a void pointer: "*".
 */
int weir_btf_tracepoint_takes(const struct weir_btf *btf, const char *callback,
			      const char *const *params, u32 count)
{
	const struct btf_type *type = by_name(btf, BTF_KIND_TYPEDEF, callback);

	type = type ? resolve(btf, type->type) : NULL;
	if (!type || BTF_INFO_KIND(type->info) != BTF_KIND_PTR)
		return -ENOENT;
	return takes(btf, by_id(btf, type->type), params, count);
}
