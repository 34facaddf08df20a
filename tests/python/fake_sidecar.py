"""A stand-in for `paddle client`: one process that keeps the rows itself and applies sgd at rate 1.

FAKE_* variables make it misbehave. Requests are kept in FAKE_LOG, a line of JSON each.
"""
import ctypes
import json
import mmap
import os
import socket
import struct
import sys
import threading
import time

import numpy as np

HEADER = struct.Struct("<IHHII")
WIDTHS = {"user": 4, "item": 2}


class Refused(Exception):
    pass


class Fake:
    def __init__(self, channel, memory):
        self.channel = channel
        self.memory = memory
        self.lock = threading.Lock()
        self.tables = {name: {} for name in WIDTHS}
        self.pulls = {}
        self.batch = self.passes = 0
        self.stop = False
        self.state = bytearray()
        threading.Thread(target=self.pulse, daemon=True).start()

    def put(self, number, message):
        text = json.dumps(message).encode()
        with self.lock:
            self.channel.sendall(HEADER.pack(0x434C4450, 1, 0, number, len(text)) + text)

    def pulse(self):
        while "FAKE_SILENT" not in os.environ:
            time.sleep(0.2)
            self.put(0, {"event": "alive", "waiting": os.environ.get("FAKE_WAITING", "")})

    def view(self, offset, count, dtype):
        size = count * np.dtype(dtype).itemsize
        assert offset % 64 == 0 and offset + size <= len(self.memory), (offset, size)
        return np.frombuffer(self.memory, dtype, count, offset)

    def hello(self, message):
        if "FAKE_REFUSE" in os.environ:
            raise Refused(os.environ["FAKE_REFUSE"])
        return {"engine": "0.0", "trainer": 1, "trainers": 3, "pass": 2, "batch": 5, "samples": 400,
                "resumed": "FAKE_STATE" in os.environ, "is_over": False, "strategy": "sync",
                "state_bytes": len(os.environ.get("FAKE_STATE", "")), "save_dir": "",
                "tables": [{"name": name, "width": width} for name, width in WIDTHS.items()]}

    def pull(self, message):
        answer = []
        kept = {}
        for each in message["tables"]:
            offset, count = each["ids"]
            unique, index = np.unique(self.view(offset, count, np.uint64), return_inverse=True)
            width = WIDTHS[each["table"]]
            rows = self.tables[each["table"]]
            initial = 0 if each["test"] else 1
            values = [rows.get(int(id), np.full(width, initial, np.float32)) for id in unique]
            self.view(each["out"], count, np.uint32)[:] = index
            begin = each["out"] + -(-count * 4 // 64) * 64
            out = self.view(begin, len(unique) * width, np.float32)
            out[:] = np.array(values, np.float32).reshape(-1)
            kept[each["table"]] = unique
            answer.append({"rows": len(unique)})
        self.pulls[self.number] = kept
        return {"tables": answer}

    def push(self, message):
        used = set()
        for each in message["tables"]:
            width = WIDTHS[each["table"]]
            for number, offset in zip(each["pulls"], each["gradients"]):
                unique = self.pulls[number][each["table"]]
                gradient = self.view(offset, len(unique) * width, np.float32).reshape(-1, width)
                for id, row in zip(unique, gradient):
                    rows = self.tables[each["table"]]
                    rows[int(id)] = rows.get(int(id), np.ones(width, np.float32)) - row
                used.add(number)
        for number in used:
            del self.pulls[number]
        self.batch += 1
        if os.environ.get("FAKE_REFUSES_PUSH") == str(self.batch):
            raise Refused("data:batch %d is odd" % self.batch)
        return {"batch": self.batch, "stop": self.stop}

    def release(self, message):
        for number in message["pulls"]:
            del self.pulls[number]
        return {}

    def finish_pass(self, message):
        self.passes, self.batch = self.passes + 1, 0
        tables = {name: {"rows": len(rows), "bytes": 64} for name, rows in self.tables.items()}
        return {"pass": self.passes, "samples": 100, "cost": 50, "tables": tables, "paused": False}

    def state_(self, message):
        offset, size = message["data"]
        if message["offset"] == 0:
            self.state.clear()
        assert message["offset"] == len(self.state)
        self.state += self.view(offset, size, np.uint8).tobytes()
        return {}

    def read_state(self, message):
        state = os.environ["FAKE_STATE"].encode()[message["offset"]:]
        offset, size = message["into"]
        some = state[:size]
        self.view(offset, len(some), np.uint8)[:] = np.frombuffer(some, np.uint8)
        return {"bytes": len(some)}

    def answer(self, message):
        op = message["op"]
        if op == os.environ.get("FAKE_SLOW"):
            time.sleep(float(os.environ["FAKE_SECONDS"]))
        if op == os.environ.get("FAKE_DIES"):
            print("a first line\nout of luck", file=sys.stderr, flush=True)
            os._exit(7)
        if op == os.environ.get("FAKE_FREEZES"):
            os.kill(os.getpid(), 19)
        if op == os.environ.get("FAKE_LOSES"):
            raise Refused("unreachable:lost pserver 1")
        if op == os.environ.get("FAKE_GARBAGE"):
            self.channel.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        if op == "stop":
            self.stop = True
        known = {"hello": self.hello, "pull": self.pull, "push": self.push, "release": self.release,
                 "finish_pass": self.finish_pass, "state": self.state_,
                 "read_state": self.read_state, "save": lambda m: {"path": "", "within_pass": True},
                 "share": lambda m: {"files": [m["pattern"] + "-1"]}}
        return known.get(op, lambda m: {})(message)

    def run(self):
        stream = self.channel.makefile("rb")
        while header := stream.read(HEADER.size):
            magic, version, zero, number, size = HEADER.unpack(header)
            assert (magic, version, zero) == (0x434C4450, 1, 0)
            message = json.loads(stream.read(size))
            self.number = number
            if "FAKE_LOG" in os.environ:
                with open(os.environ["FAKE_LOG"], "a") as log:
                    log.write(json.dumps(message) + "\n")
            try:
                self.put(number, {"ok": True, **self.answer(message)})
            except Refused as refused:
                kind, _, text = str(refused).partition(":")
                self.put(number, {"ok": False, "code": 4, "kind": kind, "message": text,
                                  "hint": "look there"})


def main():
    if sys.argv[1] == "version":
        print("paddle 0.0, compiled with\n    with_gpu: OFF")
        return
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL, as the engine has it
    flags = dict((each.lstrip("-").split("=", 1) + [""])[:2] for each in sys.argv[2:])
    if "FAKE_LOG" in os.environ:
        with open(os.environ["FAKE_LOG"], "a") as log:
            log.write(json.dumps({"flags": flags}) + "\n")
    channel = socket.socket(fileno=int(flags["channel_fd"]))
    channel.setblocking(True)
    memory = mmap.mmap(int(flags["memory_fd"]), 0)
    Fake(channel, memory).run()


if __name__ == "__main__":
    main()
