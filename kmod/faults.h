/* SPDX-License-Identifier: GPL-2.0-only */
/* Faults that tests inject.  Included by weir.h. */
#ifndef WEIR_FAULTS_H
#define WEIR_FAULTS_H

/* faults.c, for tests only */
#ifdef WEIR_FAULTS
bool weir_fault_loses(void);
bool weir_fault_stalls(void);
void weir_fault_late(void);
bool weir_fault_hides(const char *name);
void weir_fault_rename(void *blob, size_t size);
struct cftype *weir_fault_files(void);
#else
static inline bool weir_fault_loses(void) { return false; }
static inline bool weir_fault_stalls(void) { return false; }
static inline void weir_fault_late(void) { }
static inline bool weir_fault_hides(const char *name) { return false; }
static inline void weir_fault_rename(void *blob, size_t size) { }
static inline struct cftype *weir_fault_files(void) { return NULL; }
#endif

#endif
