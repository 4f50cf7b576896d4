#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# Kubernetes quantities: a number before a suffix may have a fraction, as in 1.5Gi. The official
# client for Node.js 2.0.1 throws a SyntaxError of BigInt at each of them, except with m, u and n;
# the official client for Python 37.0.2 reads them. The API server answers with whole numbers
# (1536Mi), so the error shows at values from manifests and templates only.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

require_programs node
unpack_npm @kubernetes/client-node@2.0.1 529573967a18fb8da9b1861b99c69b1d201c6015aa0f5a651e390a1386162ded
unpack_python kubernetes==37.0.2 d72683392fc10f59fb78b89bd91cb3be60a05d6ff0bbb2150966a224af6edc03

cat >quantity.mjs <<'END'
import { quantityToScalar } from "./node_modules/@kubernetes/client-node/dist/util.js";
try {
  console.log(String(quantityToScalar(process.argv[2])));
} catch (error) {
  console.log(error.name);
}
END
cat >quantity.py <<'END'
# The module alone: the package would want what it depends on.
import importlib.util, sys
spec = importlib.util.spec_from_file_location("quantity", "python/kubernetes/utils/quantity.py")
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(f"{module.parse_quantity(sys.argv[1]).normalize():f}")
END

state_case "@kubernetes/client-node 2.0.1 (quantityToScalar), kubernetes 37.0.2 for Python (parse_quantity)" \
	"the same number by both" \
	"Kubernetes API, Quantity: <quantity> is <signedNumber><suffix>, <number> may be <digits>.<digits> or .<digits>"
seen=
for quantity in 0.5 500m 123Mi 129e6 1.5Gi .5Gi 0.5M; do
	seen+="$quantity: Node.js $(node quantity.mjs "$quantity"), Python $(python3 quantity.py "$quantity")"$'\n'
done
conclude "${seen%$'\n'}" "0.5: Node.js 0.5, Python 0.5
500m: Node.js 0.5, Python 0.5
123Mi: Node.js 128974848, Python 128974848
129e6: Node.js 129000000, Python 129000000
1.5Gi: Node.js SyntaxError, Python 1610612736
.5Gi: Node.js SyntaxError, Python 536870912
0.5M: Node.js SyntaxError, Python 500000"
