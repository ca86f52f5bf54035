#!/usr/bin/python3
"""Reads an event file without TensorFlow and prints its scalars, one a line.

Needs Debian's protobuf-compiler, python3-protobuf and python3-crc32c. The
message's fields are those of tensorflow's event.proto and summary.proto.
"""
import os, struct, subprocess, sys, tempfile

PROTO = """syntax = "proto3";
message Value { string tag = 1; float simple_value = 2; }
message Summary { repeated Value value = 1; }
message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
"""


def masked(data):
    import crc32c

    crc = crc32c.crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


with tempfile.TemporaryDirectory() as d:
    with open(os.path.join(d, "event.proto"), "w") as f:
        f.write(PROTO)
    subprocess.run(["protoc", "-I", d, "--python_out", d, os.path.join(d, "event.proto")], check=True)
    sys.path.insert(0, d)
    import event_pb2

with open(sys.argv[1], "rb") as f:
    while header := f.read(8):
        (length,) = struct.unpack("<Q", header)
        assert struct.unpack("<I", f.read(4))[0] == masked(header), "length checksum"
        data = f.read(length)
        assert struct.unpack("<I", f.read(4))[0] == masked(data), "data checksum"
        e = event_pb2.Event.FromString(data)
        if e.file_version:
            print("version", e.file_version)
        for v in e.summary.value:
            print("%.3f %d %s %.6g" % (e.wall_time, e.step, v.tag, v.simple_value))
