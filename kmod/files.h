/* SPDX-License-Identifier: GPL-2.0-only */
/* Files of cgroups and of sysfs.  Included by weir.h. */
#ifndef WEIR_FILES_H
#define WEIR_FILES_H

/* files.c */
int weir_files_create(void);
void weir_files_remove(void);
const char *weir_files_find_taken(const struct cftype *wanted);

/* status.c */
int weir_status_create(void);
void weir_status_remove(void);

#endif
