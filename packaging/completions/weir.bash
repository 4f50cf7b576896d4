# SPDX-License-Identifier: GPL-2.0-only
# bash loads this at the first completion of weir.
source <(weir completions bash)
