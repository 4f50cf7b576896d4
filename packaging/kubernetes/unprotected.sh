# SPDX-License-Identifier: GPL-2.0-only
# Without the module pods start all the same, and it shows that they are unprotected.
. ./kube.sh

configure <<END
allow:
- namespaces: [db]
  pod-floor: 64M
END
ok "the plugin starts without the module" plugin_starts
ok "says that there is none" shows "weir_nri_module_present 0"
ok "a pod that asks for a floor starts" annotated dirty-min=16M pod.dirty-min=1M -- --namespace db early a b
ok "and counts as unprotected" shows "weir_nri_unprotected_pods 1"
ok "which is logged once for its two containers" is "$(plugin_said 'unprotected: the module')" 1
ok "a pod that asks for nothing starts, too" pod plain a
ok "and does not count" shows "weir_nri_unprotected_pods 1"
ok "a wish that would be refused does not end a pod either" annotated dirty-min=lots -- early2 a
cripod remove "$pod"
# The first pod stays: knobs.sh sees what becomes of it when the module is there. The plugin
# does not: install.sh wants to see the module without knobs.
plugin_stops
finish
