/* SPDX-License-Identifier: GPL-2.0-only */
/* The beat: asking for it, what it evaluates, what it arms.  Included by weir.h. */
#ifndef WEIR_BEAT_H
#define WEIR_BEAT_H

/* arm.c: asking for the beat */
#define WEIR_IDLE_JIFFIES	(10 * HZ)

struct weir_beat {
	struct workqueue_struct *queue;
	struct delayed_work work;
	bool stopping;
	unsigned int begun, ended;	/* beats; written by the beat */
	bool asked;
	unsigned long asked_last;	/* jiffies */
	int failure;			/* of the last attempt; 0: none */
};

extern struct weir_beat weir_beat;
int weir_arm(void);
int weir_param_arm(bool wanted);
int weir_params_open(bool wanted);
void weir_params_close(void);
void weir_beat_start(void);
void weir_beat_expedite(void);

/* evaluate.c: floors and ceilings evaluated live */
extern struct list_head weir_floors;	/* records with a floor; weir_lock */
extern unsigned int weir_floor_count;	/* their number; weir_lock */
void weir_record_evaluate(struct weir_record *record);
void weir_floor_evaluate(struct weir_record *record);
void weir_floors_evaluate(void);

/* beat.c: arming by need, heartbeat */
int weir_beat_create(void);
void weir_beat_remove(void);
bool weir_hooks_needed(void);
bool weir_in_effect(void);
u64 weir_beat_age_ms(void);

#endif
