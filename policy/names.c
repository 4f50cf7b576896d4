// SPDX-License-Identifier: GPL-2.0-only
/* The lists of names.h as tables, for programs that cannot expand a macro. */
#include "tier.h"

const struct weir_stat_key *weir_stat_key(enum weir_stat key)
{
	static const struct weir_stat_key keys[] = {
#define WEIR_KEY(ID, key, of, is)					\
		[WEIR_STAT_##ID] = {					\
			.name = key,					\
			.unit = WEIR_UNIT_##of,				\
			.kind = WEIR_KIND_##is,				\
		},
		WEIR_STAT_KEYS(WEIR_KEY)
#undef WEIR_KEY
	};

	return key < WEIR_STAT_COUNT ? &keys[key] : (void *)0;
}

const char *weir_stat_file(void)
{
	return "memory." WEIR_STAT_FILE;
}

const char *weir_knob_file(enum weir_knob knob)
{
	static const char *const files[] = {
#define WEIR_FILE(ID, file, unset) [WEIR_KNOB_##ID] = "memory." file,
		WEIR_KNOBS(WEIR_FILE)
#undef WEIR_FILE
	};

	return knob < WEIR_KNOB_COUNT ? files[knob] : (void *)0;
}

/* The value of a knob that was never written. */
weir_u64 weir_knob_unset(enum weir_knob knob)
{
	static const weir_u64 unset[] = {
#define WEIR_UNSET(ID, file, value) [WEIR_KNOB_##ID] = value,
		WEIR_KNOBS(WEIR_UNSET)
#undef WEIR_UNSET
	};

	return knob < WEIR_KNOB_COUNT ? unset[knob] : 0;
}

const char *weir_decider_name(enum weir_pause_by by)
{
	static const char *const names[] = {
#define WEIR_NAME(arg, ID, name) [WEIR_BY_##ID] = name,
		WEIR_DECIDERS(WEIR_NAME,)
#undef WEIR_NAME
	};

	return by < WEIR_BY_COUNT ? names[by] : (void *)0;
}
