#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
# bpftool 7.8.0 of Linux 7.3.4 dumps a vmlinux.h for 7.3.4 that standard C understands differently:
# the kernel is built with -fms-extensions and has members such as `union pipe_index;`, a tagged
# type without a name. bpftool prints them as they are, a compiler only warns ("declaration does not
# declare anything") and drops them. struct ns_common shrinks from 320 bytes to 160, pipe_inode_info
# has no head and tail, and what follows such a member stands at another offset.
# shellcheck source=findings/common.inc
. "$(dirname "$(readlink -f "$0")")/common.inc"

require_programs cc readelf python3
unpack_debs packages trixie-backports \
	"linux-binary-$kernel=7.3.4-1~bpo13+1:c4fbc8e404958693b28825474c20742d70594d65ca58aea7be6a279c81eb6fa0" \
	"bpftool=7.8.0+7.3.4-1~bpo13+1:d688784c5b09164039329bd47ca442baafccc6f4edd1776f4352c9b3f7713759"
# Libraries of the release that bpftool was built for, with their own loader.
unpack_debs packages trixie \
	libc6=2.41-12+deb13u5:b59b0625cd1a791375d40dab23a4d5d3d0641e3d0a773501becdc3725b7f99cf \
	libelf1t64=0.192-4:94497b7e17b6f574a0605b380d454e20d3f01a9c63b70c2a2263f679d30053e1 \
	libcap2=1:2.75-10+deb13u1+b3:89fc4d34fc7a28ad6f0fcd0c561ab253b9dedf6f77f5a000b47c276c8295bf67 \
	zlib1g=1:1.3.dfsg+really1.3.1-1+deb13u1:8c27c342230503b73dfde629642c3b352e87b554e06d60cf58772f236a305ceb \
	libzstd1=1.5.7+dfsg-1:2f6a2aeacfc925eba8b00ac9139bc4bfccf8cacb09eb93de067074b26948eef9
require_programs zstd

libraries=packages/usr/lib/x86_64-linux-gnu
run_bpftool() { # ARGUMENT...
	"$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" packages/usr/sbin/bpftool "$@"
}

# The payload of a bzImage: its offset and length are in the boot header (Documentation/arch/x86).
python3 - "packages/usr/lib/modules/$kernel/vmlinuz" <<'END'
import struct, sys
image = open(sys.argv[1], "rb").read()
start = (image[0x1f1] + 1) * 512
offset, length = struct.unpack_from("<II", image, 0x248)
# The last four bytes are the size when unpacked.
open("payload.zst", "wb").write(image[start + offset:start + offset + length - 4])
END
zstd -q -d payload.zst -o vmlinux
read -r offset size < <(readelf -SW vmlinux | sed 's/^ *\[ *[0-9]*\]//' | awk '$1 == ".BTF" { print $4, $5 }')
tail -c "+$((0x$offset + 1))" vmlinux >vmlinux.btf
truncate -s "$((0x$size))" vmlinux.btf
run_bpftool btf dump file vmlinux.btf format c >vmlinux.h
run_bpftool btf dump file vmlinux.btf >vmlinux.raw

size_in_header() { # OPTION STRUCT
	printf '#include "vmlinux.h"\nchar probe[sizeof(struct %s)];\n' "$2" >probe.c
	cc ${1:+"$1"} -w -c probe.c -o probe.o && readelf -sW probe.o | awk '$8 == "probe" { print $3 }'
}

state_case "bpftool $(run_bpftool version | awk 'NR == 1 { print $2 }'), Linux $kernel, cc $(cc -dumpfullversion)" \
	"a header in which each struct has the size that BTF gives it" \
	"libbpf, btf_dump__dump_type(): a compilable C syntax; gcc needs -fms-extensions for a tagged struct without a name"
seen=
for name in ns_common pipe_inode_info; do
	btf=$(sed -n "s/.* STRUCT '$name' size=\([0-9]*\) .*/\1/p" vmlinux.raw)
	seen+="$name: BTF $btf, header $(size_in_header "" "$name"), with -fms-extensions $(size_in_header -fms-extensions "$name")"$'\n'
done
dropped=$(cc -fsyntax-only -x c vmlinux.h 2>&1 | grep -c 'does not declare anything' || true)
conclude "${seen}members dropped by the compiler: $dropped" "ns_common: BTF 320, header 160, with -fms-extensions 320
pipe_inode_info: BTF 224, header 216, with -fms-extensions 224
members dropped by the compiler: 9"
