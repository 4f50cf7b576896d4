# SPDX-License-Identifier: GPL-2.0-only
weir-bench completions fish | source
