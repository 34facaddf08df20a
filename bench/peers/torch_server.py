#!/usr/bin/python3
"""Answers POST with the predictions of bench/trainer's CTR network by PyTorch, behind uvicorn: JSON lines in, JSON lines out, as
`paddle serve` has them.

usage: torch_server.py MODEL.npz PORT WORKERS    MODEL.npz: what `paddle export --format npz` wrote"""
import json
import os
import socket
import sys

import numpy
import torch
import uvicorn

SLOTS = [f"C{i}" for i in range(26)]


class Network:
    def __init__(self, path):
        torch.set_num_threads(1)  # a process for each core
        with numpy.load(path) as file:
            arrays = {name: file[name] for name in file.files}
        ids = arrays["_rows.w0.ids"].astype(numpy.int64)
        order = numpy.argsort(ids)
        self.ids = torch.from_numpy(ids[order])
        self.table = torch.from_numpy(arrays["_rows.w0.values"][order])
        self.layers = [(torch.from_numpy(arrays[f"_{name}.w0"]), torch.from_numpy(arrays[f"_{name}.wbias"]))
                       for name in ("hidden0", "hidden1", "hidden2", "output")]

    @torch.no_grad()
    def scores(self, records):
        ids = torch.tensor([[record[slot] for slot in SLOTS] for record in records])
        dense = torch.tensor([record["dense"] for record in records])
        rows = self.table[torch.searchsorted(self.ids, ids)].flatten(1)
        values = torch.cat([rows, dense], 1)
        for i, (weight, bias) in enumerate(self.layers):
            values = torch.addmm(bias, values, weight)
            if i + 1 < len(self.layers):
                values = torch.relu(values)
        return torch.softmax(values, 1)[:, 1].tolist()


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    records = [json.loads(line) for line in body.splitlines()]
    reply = "".join(json.dumps({"score": score}) + "\n" for score in network.scores(records)).encode()
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"content-type", b"application/x-ndjson"), (b"content-length", str(len(reply)).encode())]})
    await send({"type": "http.response.body", "body": reply})


model, port, workers = sys.argv[1:]
network = Network(model)
for _ in range(int(workers) - 1):
    if os.fork() == 0:
        break
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
# Each process has its own socket: if they shared one, the first process to wake would take all
# connections, and the others would be idle.
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
# Without TCP_NODELAY a reply waits 40 ms for its second packet; uvicorn sets it on sockets that it
# makes itself.
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
listener.bind(("127.0.0.1", int(port)))
listener.listen(128)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, lifespan="off")).run(sockets=[listener])
