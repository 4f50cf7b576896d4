# SPDX-License-Identifier: GPL-2.0-only
# bash loads this at the first completion of weir-bench.
source <(weir-bench completions bash)
