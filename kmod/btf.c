// SPDX-License-Identifier: GPL-2.0-only
/*
 * The BTF of the running kernel, taken into memory for policy/btf.c to read.
 */
#include "weir.h"
#include <linux/fs.h>
#include <linux/vmalloc.h>

#define BTF_PATH "/sys/kernel/btf/vmlinux"
/* Ten times what a distribution kernel brings. */
#define BTF_MAX_BYTES (64 << 20)

/*
 * The whole of a sysfs file.  Opened and read as any reader would:
 * kernel_read_file() is for code and policy, and LSMs treat it so.
 */
static ssize_t read_file(const char *path, void **blob)
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
int weir_btf_load(struct weir_btf_blob *blob)
{
	ssize_t size;

	memset(blob, 0, sizeof(*blob));
	size = read_file(BTF_PATH, &blob->bytes);
	if (size < 0) {
		pr_err("refusing to load: cannot read %s (error %zd); weir needs CONFIG_DEBUG_INFO_BTF and a mounted sysfs\n",
		       BTF_PATH, size);
		return size;
	}
	weir_fault_rename(blob->bytes, size);
	if (weir_btf_open(&blob->btf, blob->bytes, size)) {
		pr_err("refusing to load: %s is not BTF that weir can read\n",
		       BTF_PATH);
		weir_btf_free(blob);
		return -EINVAL;
	}
	blob->type_offsets = vmalloc_array(blob->btf.type_count + 1,
					   sizeof(*blob->type_offsets));
	if (!blob->type_offsets) {
		weir_btf_free(blob);
		return -ENOMEM;
	}
	weir_btf_index(&blob->btf, blob->type_offsets);
	return 0;
}

void weir_btf_free(struct weir_btf_blob *blob)
{
	vfree(blob->type_offsets);
	vfree(blob->bytes);
	memset(blob, 0, sizeof(*blob));
}
