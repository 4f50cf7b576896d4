#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Renders the chart to plain manifests, by helm as it is pinned in cluster/charts/check/go.mod:
#   cluster/charts/render.sh DIRECTORY
#     weir.yaml            the default values
#     weir-etcd.yaml       values-etcd.yaml
#     weir-nri.yaml        the plugin alone, for nodes that load the module by weir-dkms
#     weir-uninstall.yaml  what `helm uninstall` runs last, with the module's unloading
#   cluster/charts/render.sh --guest DIRECTORY
# renders what packaging/kubernetes applies without an API server.
set -eu
guest=
if [ "${1:-}" = --guest ]; then
	guest=yes
	shift
fi
charts=$(dirname "$(readlink -f "$0")")
out=$(readlink -f "$1")
cd "$charts/check"

render() { # FILE NOTE ARGUMENTS...
	file=$1
	{
		echo "# SPDX-License-Identifier: GPL-2.0-only"
		echo "# $2"
		echo "# Rendered from cluster/charts/weir by \`make manifests\`: change that, not this."
		shift 2
		go tool helm template weir ../weir --namespace kube-system --kube-version 1.34.0 "$@" |
			sed -e '/helm.sh\/chart: /d' -e 's/managed-by: Helm/managed-by: manifests/'
	} >"$out/$file"
}
if [ "$guest" ]; then
	render weir.yaml "For the guest" --no-hooks --values ../weir/values-etcd.yaml --set node.enabled=false
	render weir-nri.yaml "For the guest" --no-hooks --values ../check/values-guest.yaml \
		--set module.enabled=false,agent.enabled=false,node.enabled=false
	render weir-stock.yaml "For the guest" --no-hooks --values ../check/values-guest.yaml --set mode=stock,node.enabled=false
	render weir-auto.yaml "For the guest" --no-hooks --values ../check/values-guest.yaml --set mode=auto,module.again=20
	render weir-uninstall.yaml "For the guest" --set uninstall.unload=true --show-only templates/uninstall.yaml
	exit
fi
render weir.yaml "weir on every node of a cluster: kubectl apply -f weir.yaml" --no-hooks
render weir-etcd.yaml "The same with floors for etcd, kubelet and containerd" --no-hooks --values ../weir/values-etcd.yaml
render weir-nri.yaml "weir-nri alone. The nodes load the module, by weir-dkms" --no-hooks \
	--set module.enabled=false,agent.enabled=false,node.enabled=false
render weir-uninstall.yaml "After the rest is deleted: unloads the module, unmarks the nodes. Delete it, too" \
	--set uninstall.unload=true --show-only templates/uninstall.yaml
sed -i -e '/annotations:$/{N;/helm.sh\/hook/d}' -e '/helm.sh\/hook/d' "$out/weir-uninstall.yaml"
