# SPDX-License-Identifier: GPL-2.0-only
weir completions fish | source
