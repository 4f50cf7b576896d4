// SPDX-License-Identifier: GPL-2.0-only
/* arith.h as functions, for who cannot inline C: node/policy.  The module is built without. */
#define WEIR_ARITH
#include "policy.h"
