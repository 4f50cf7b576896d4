#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Reads a trace by the schema that Perfetto publishes, and says what is in it; fails on what that does not know."""

import collections
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

trace = Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
tracks, depth, found, last = {}, collections.Counter(), collections.Counter(), 0
for packet in trace.packet:
    # A field of another number or kind than the schema has is kept as unknown: written again without, it is shorter.
    known = type(packet)()
    known.CopyFrom(packet)
    known.DiscardUnknownFields()
    assert known.ByteSize() == packet.ByteSize(), f"not in the schema: {packet}"
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        continue
    event = packet.track_event
    assert event.track_uuid in tracks, f"no such track: {packet}"
    assert packet.timestamp >= last, f"not in order: {packet}"
    last = packet.timestamp
    found[TrackEvent.Type.Name(event.type)] += 1
    if event.type == TrackEvent.TYPE_COUNTER:
        assert tracks[event.track_uuid].HasField("counter"), f"no counter: {packet}"
        assert event.HasField("double_counter_value"), f"no value: {packet}"
    else:
        depth[event.track_uuid] += 1 if event.type == TrackEvent.TYPE_SLICE_BEGIN else -1
        assert depth[event.track_uuid] in (0, 1), f"slices overlap: {packet}"
assert not any(depth.values()), "a slice has no end"
threads = sum(track.HasField("thread") for track in tracks.values())
print(f"{sys.argv[1]}: {len(tracks)} tracks, {threads} threads, {last / 1e9:.1f} s, {dict(found)}")
assert threads and found["TYPE_SLICE_BEGIN"] and found["TYPE_COUNTER"], "something is missing"
