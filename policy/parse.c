// SPDX-License-Identifier: GPL-2.0-only
/*
 * The text of the knob files.
 *
 * A byte value is decimal digits with an optional K, M, G or T (either case,
 * powers of 1024), or the word "max".  A percentage is decimal digits.  White
 * space around the value is allowed, nothing else: no sign, no hexadecimal, no
 * second value.  A value is taken whole or not at all.
 */
#include "tier.h"

static int is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static void trim_space(const char **text, weir_u64 *len)
{
	while (*len && is_space((*text)[0])) {
		(*text)++;
		(*len)--;
	}
	while (*len && is_space((*text)[*len - 1]))
		(*len)--;
}

static unsigned int suffix_shift(char c)
{
	switch (c) {
	case 'k': case 'K': return 10;
	case 'm': case 'M': return 20;
	case 'g': case 'G': return 30;
	case 't': case 'T': return 40;
	default: return 0;
	}
}

/* Digits only; WEIR_PARSE_RANGE once the value passes WEIR_BYTES_MAX. */
static enum weir_parsed parse_digits(const char *text, weir_u64 len, weir_u64 *value)
{
	enum weir_parsed result = WEIR_PARSED;
	weir_u64 i;

	if (!len)
		return WEIR_PARSE_INVALID;
	*value = 0;
	for (i = 0; i < len; i++) {
		weir_u64 digit = (weir_u64)text[i] - '0';

		if (digit > 9)
			return WEIR_PARSE_INVALID;
		if (*value > (WEIR_BYTES_MAX - digit) / 10)
			result = WEIR_PARSE_RANGE;
		else
			*value = *value * 10 + digit;
	}
	return result;
}

/* memory.dirty_min, _bytes, _bandwidth, writeback_bytes; "max" gives WEIR_UNLIMITED. */
enum weir_parsed weir_parse_bytes(const char *text, weir_u64 len,
				  weir_u64 *bytes)
{
	enum weir_parsed result;
	unsigned int shift;
	weir_u64 value;

	trim_space(&text, &len);
	if (len == 3 && text[0] == 'm' && text[1] == 'a' && text[2] == 'x') {
		*bytes = WEIR_UNLIMITED;
		return WEIR_PARSED;
	}
	shift = len ? suffix_shift(text[len - 1]) : 0;
	result = parse_digits(text, shift ? len - 1 : len, &value);
	if (result != WEIR_PARSED)
		return result;
	if (value > WEIR_BYTES_MAX >> shift)
		return WEIR_PARSE_RANGE;
	*bytes = value << shift;
	return WEIR_PARSED;
}

/*
 * memory.dirty_min: bytes, or "auto", its default, 0.  With what the file says after that, so
 * that what was read can be written back.
 */
static enum weir_parsed parse_floor(const char *text, weir_u64 len, weir_u64 *bytes)
{
	static const char word[] = "auto";
	enum weir_parsed result = WEIR_PARSED;
	weir_u64 i = 0;

	trim_space(&text, &len);
	while (i < len && i < sizeof(word) - 1 && text[i] == word[i])
		i++;
	if (i < sizeof(word) - 1 || (i < len && !is_space(text[i])))
		return weir_parse_bytes(text, len, bytes);
	if (i < len)
		result = weir_parse_bytes(text + i, len - i, bytes);
	*bytes = 0;
	return result;
}

/* memory.dirty_ratio: above 100 is as invalid as no number at all. */
enum weir_parsed weir_parse_percent(const char *text, weir_u64 len,
				    weir_u32 *percent)
{
	weir_u64 value;

	trim_space(&text, &len);
	if (parse_digits(text, len, &value) != WEIR_PARSED || value > 100)
		return WEIR_PARSE_INVALID;
	*percent = (weir_u32)value;
	return WEIR_PARSED;
}

/* memory.toptier_ratio: a percentage, or "default" for the host's. */
enum weir_parsed weir_parse_ratio(const char *text, weir_u64 len,
				  weir_u32 *ratio)
{
	static const char word[] = "default";
	weir_u64 i = 0;

	trim_space(&text, &len);
	while (i < len && i < sizeof(word) - 1 && text[i] == word[i])
		i++;
	if (i == len && i == sizeof(word) - 1) {
		*ratio = WEIR_TIER_BY_CAPACITY;
		return WEIR_PARSED;
	}
	return weir_parse_percent(text, len, ratio);
}

/* memory.dirty_weight, 1 to 10000 as every cgroup v2 weight. */
enum weir_parsed weir_parse_weight(const char *text, weir_u64 len,
				   weir_u32 *weight)
{
	enum weir_parsed result;
	weir_u64 value;

	trim_space(&text, &len);
	result = parse_digits(text, len, &value);
	if (result != WEIR_PARSED)
		return result;
	if (value < WEIR_WEIGHT_MIN || value > WEIR_WEIGHT_MAX)
		return WEIR_PARSE_RANGE;
	*weight = (weir_u32)value;
	return WEIR_PARSED;
}

/*
 * A ceiling below what Linux takes for vm.dirty_bytes would stop all writing: two of
 * the kernel's pages, of @page_bytes each.  A program asks its kernel for that, since
 * arm64 has three sizes and one program runs on each.
 */
enum weir_parsed weir_check_ceiling_bytes(weir_u64 bytes, weir_u64 page_bytes)
{
	return bytes / WEIR_CEILING_MIN < page_bytes ?
	       WEIR_PARSE_RANGE : WEIR_PARSED;
}

/* Slower than that a write of one large folio would take minutes. */
enum weir_parsed weir_check_bandwidth(weir_u64 bytes)
{
	return bytes < WEIR_BANDWIDTH_MIN ? WEIR_PARSE_RANGE : WEIR_PARSED;
}

/* Less than what a flusher submits at a time would not be kept. */
enum weir_parsed weir_check_window(weir_u64 bytes)
{
	return bytes < WEIR_WINDOW_MIN ? WEIR_PARSE_RANGE : WEIR_PARSED;
}

/*
 * Parses @text as the file of @knob takes it on a kernel with pages of
 * @page_bytes; @value is set if it is valid.
 */
enum weir_parsed weir_parse_knob(enum weir_knob knob, const char *text,
				 weir_u64 len, weir_u64 page_bytes,
				 weir_u64 *value)
{
	enum weir_parsed result = WEIR_PARSE_INVALID;
	weir_u64 bytes = 0;
	weir_u32 number = 0;

	switch (knob) {
	case WEIR_KNOB_DIRTY_MIN:
		result = parse_floor(text, len, &bytes);
		break;
	case WEIR_KNOB_DIRTY_BYTES:
	case WEIR_KNOB_DIRTY_BANDWIDTH:
	case WEIR_KNOB_WRITEBACK_BYTES:
		result = weir_parse_bytes(text, len, &bytes);
		if (result == WEIR_PARSED && knob == WEIR_KNOB_DIRTY_BYTES)
			result = weir_check_ceiling_bytes(bytes, page_bytes);
		if (result == WEIR_PARSED && knob == WEIR_KNOB_DIRTY_BANDWIDTH)
			result = weir_check_bandwidth(bytes);
		if (result == WEIR_PARSED && knob == WEIR_KNOB_WRITEBACK_BYTES)
			result = weir_check_window(bytes);
		break;
	case WEIR_KNOB_DIRTY_RATIO:
		result = weir_parse_percent(text, len, &number);
		break;
	case WEIR_KNOB_DIRTY_WEIGHT:
		result = weir_parse_weight(text, len, &number);
		break;
	case WEIR_KNOB_TOPTIER_RATIO:
		result = weir_parse_ratio(text, len, &number);
		break;
	case WEIR_KNOB_COUNT:
		break;
	}
	if (result == WEIR_PARSED)
		*value = bytes | number;
	return result;
}
