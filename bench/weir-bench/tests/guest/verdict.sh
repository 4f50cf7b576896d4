# SPDX-License-Identifier: GPL-2.0-only
# Sourced by tests that have stalls explained: what weir says of $victim, a cgroup, in SECONDS_EACH.
seconds=${SECONDS_EACH:-8}

# explain: into /tmp/verdict, and the command that it prints first into /tmp/command
explain() {
	weir explain "$victim" --for "${seconds}s" --json >/tmp/verdict
	ended=$?
	echo "explain ended with $ended" >>/tmp/verdict
	sed -n 's/^ *"command": "\(.*\)",$/\1/p' /tmp/verdict | head -n 1 | sed 's/\\\(.\)/\1/g' >/tmp/command
}

# lost KIND: seconds, 0 if none
lost() {
	sed -n '/"seconds_by_kind"/,/}/p' /tmp/verdict |
		awk -v kind="\"$1\":" '$1 == kind { all = $2 } END { print all + 0 }'
}

# first KEY: its first value in the verdict
first() {
	sed -n "s/^ *\"$1\": \"\\{0,1\\}\\([^\",]*\\).*/\\1/p" /tmp/verdict | head -n 1
}

# explained STALL CAUSE CULPRIT KNOB
explained() {
	explain
	sed 's/^/# /' /tmp/verdict
	ok "$1: the cause is $2" is "$(first cause)" "$2"
	[ -z "$3" ] || ok "$1: the culprit is $3" is "$(first culprit)" "$3"
	[ -z "$4" ] || ok "$1: the knob is $4" is "$(first knob)" "$4"
}

# typed STALL: the command that was printed
typed() {
	command=$(cat /tmp/command)
	echo "# $command"
	ok "$1: the command is taken" sh -c "$command"
}

# removed STALL KIND BEFORE: less than a tenth of that is lost now
removed() {
	explain
	after=$(lost "$2")
	echo "# $2: $3 s before, $after s after"
	sed 's/^/# after: /' /tmp/verdict
	# one that could not look has seen no stall, either
	ok "$1: explain ends with 0 or 1" between 0 $ended 1
	ok "$1: the command removes the stall" \
		awk -v before="$3" -v after="$after" 'BEGIN { exit !(after * 10 < before) }'
}
