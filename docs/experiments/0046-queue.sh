#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# 0046: a reader, then an fdatasync writer, 20 calls a second each, beside a flood on the disk "slow".
# Arguments: seconds to wait before the first arm, then arms: alone, stock, or settings as in nr=4,ms=32
D=/mnt/slow; cg=/sys/fs/cgroup
echo 67108864 > /proc/sys/vm/dirty_bytes; echo 33554432 > /proc/sys/vm/dirty_background_bytes
echo "+memory +io" > $cg/cgroup.subtree_control
mkdir -p $cg/etcd $cg/flood
dev=$(readlink -f /dev/weir/slow); b=${dev#/dev/}; q=/sys/block/$b/queue; mm=$(cat /sys/block/$b/dev)
echo "dev $b $mm sched $(cat $q/scheduler) nr_requests $(cat $q/nr_requests) max_sectors_kb $(cat $q/max_sectors_kb) of $(cat $q/max_hw_sectors_kb) wbt $(cat $q/wbt_lat_usec 2>&1) depth $(ls -d /sys/block/$b/mq/* | wc -l) rot $(cat $q/rotational)"
echo "files: $(ls $cg/etcd | grep '^io' | tr '\n' ' ') root: $(ls $cg | grep '^io' | tr '\n' ' ')"
modprobe mq-deadline 2>/dev/null; modprobe bfq 2>/dev/null
echo "sched $(cat $q/scheduler)"
secs() { awk '{print $7}' /sys/block/$b/stat; }
fio --name=lay --filename=$D/readme --rw=write --bs=1M --size=200M --ioengine=psync --end_fsync=1 >/dev/null 2>&1; sync
offset=$1; shift
sleep $offset
nr0=$(cat $q/nr_requests); ms0=$(cat $q/max_sectors_kb); wbt0=$(cat $q/wbt_lat_usec 2>/dev/null)
for arm in "$@"; do
  sync; sleep 1; echo 1 > /proc/sys/vm/drop_caches
  ion=""
  for kv in $(echo $arm | tr ',' ' '); do
    v=${kv#*=}
    case $kv in
      sched=*) echo $v > $q/scheduler || echo "FAILED $kv";;
      ms=*) echo $v > $q/max_sectors_kb || echo "FAILED $kv";;
      nr=*) echo $v > $q/nr_requests || echo "FAILED $kv";;
      wbt=*) echo $v > $q/wbt_lat_usec || echo "FAILED $kv";;
      prio=*) echo idle > $cg/flood/io.prio.class; echo rt > $cg/etcd/io.prio.class || echo "FAILED $kv";;
      ionice=*) ion="ionice -c 1 -n 0";;
      lat=*) echo "$mm target=$v" > $cg/etcd/io.latency || echo "FAILED $kv";;
      bfqw=*) echo $v > $cg/etcd/io.bfq.weight && echo 1 > $cg/flood/io.bfq.weight || echo "FAILED $kv";;
      cost=*) echo "$mm enable=1 ctrl=user rlat=10000 wlat=10000 rpct=95 wpct=95" > $cg/io.cost.qos || echo "FAILED $kv"
              echo "$mm ctrl=user model=linear rbps=16777216 rseqiops=4096 rrandiops=4096 wbps=16777216 wseqiops=4096 wrandiops=4096" > $cg/io.cost.model
              echo "default $v" > $cg/etcd/io.weight; echo "default 10" > $cg/flood/io.weight;;
    esac
  done
  fp=
  if [ $arm != alone ]; then
    ( echo 0 > $cg/flood/cgroup.procs; exec fio --name=flood --directory=$D --rw=write --bs=64k --size=${FLOOD:-900M} --overwrite=0 --fallocate=none --ioengine=psync --runtime=60 --output=/dev/null >/dev/null 2>&1 ) & fp=$!
    sleep ${LEAD:-8}
  fi
  s0=$(secs); t0=$(cut -d' ' -f1 /proc/uptime)
  ( echo 0 > $cg/etcd/cgroup.procs; exec $ion fio --name=rd --filename=$D/readme --rw=randread --bs=4k --rate=80k --size=200M --ioengine=psync --runtime=${READS:-10} --time_based=1 --output=/tmp/rd.txt >/dev/null 2>&1 )
  r=$(grep -A20 'clat percentiles' /tmp/rd.txt | tr ',' '\n' | grep -E '50.00th|99.00th' | tr -d ' |' | tr '\n' ' '); ru=$(grep 'clat percentiles' /tmp/rd.txt | sed 's/.*(\(.*\)).*/\1/'); ri=$(grep -m1 'IOPS' /tmp/rd.txt | cut -d, -f1)
  ( echo 0 > $cg/etcd/cgroup.procs; exec $ion fio --name=etcd --directory=$D --rw=write --bs=4k --rate=80k --size=16M --fdatasync=1 --ioengine=psync --runtime=${SYNCS:-15} --time_based=1 --output=/tmp/etcd.txt >/dev/null 2>&1 )
  s1=$(secs); t1=$(cut -d' ' -f1 /proc/uptime)
  held=$(awk '$1=="file_dirty"||$1=="file_writeback"{s+=$2}END{print s/1048576}' $cg/flood/memory.stat)
  p=$(grep -A20 'sync percentiles' /tmp/etcd.txt | tr ',' '\n' | grep -E '50.00th|99.00th' | tr -d ' |' | tr '\n' ' '); u=$(grep 'sync percentiles' /tmp/etcd.txt | sed 's/.*(\(.*\)).*/\1/'); io=$(grep -m1 'write: IOPS' /tmp/etcd.txt | cut -d, -f1)
  echo "RESULT $arm | read $ri $ru $r | sync $io $u $p | disk_MBs=$(awk -v a=$s0 -v b=$s1 -v t=$t0 -v u=$t1 'BEGIN{printf "%.2f", (b-a)*512/1e6/(u-t)}') held $held MiB"
  [ -n "$fp" ] && { kill $fp 2>/dev/null; wait $fp 2>/dev/null; }
  echo none > $q/scheduler 2>/dev/null
  echo $nr0 > $q/nr_requests; echo $ms0 > $q/max_sectors_kb; [ -n "$wbt0" ] && echo $wbt0 > $q/wbt_lat_usec
  [ -e $cg/etcd/io.prio.class ] && { echo no-change > $cg/flood/io.prio.class; echo no-change > $cg/etcd/io.prio.class; }
  [ -e $cg/etcd/io.latency ] && echo "$mm target=0" > $cg/etcd/io.latency
  [ -e $cg/io.cost.qos ] && echo "$mm enable=0" > $cg/io.cost.qos
  rm -f $D/flood* $D/etcd*; sync
done
