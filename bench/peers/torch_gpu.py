#!/usr/bin/python3
"""Steps of bench/gpu_bench's networks with PyTorch on the first GPU, with data, parameters and SGD there: eager, and as a CUDA
graph. Prints a JSON object a line; ends with 3 where PyTorch has no GPU.

usage: torch_gpu.py"""
import json
import sys
import time

import torch
from torch import nn

STEPS, TURNS = 50, 5
BATCHES = (512, 4096, 16384)


class Network(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
        self.table = nn.Embedding(2073, 32) if name == "word2vec" else nn.Embedding(20000, 10)
        if name == "word2vec":
            self.net = nn.Sequential(nn.Linear(128, 256), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(256, 2073))
        else:
            self.net = nn.Sequential(nn.Linear(273, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(),
                                     nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 2))

    def forward(self, ids, floats):
        rows = self.table(ids).flatten(1)
        return self.net(torch.cat([rows, floats], 1) if self.name == "ctr" else rows)


def microseconds(step):
    for _ in range(10):
        step()
    best = float("inf")
    for _ in range(TURNS):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begun) / STEPS)
    return best * 1e6


def measure(name, batch, compute):
    model = Network(name).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ids = torch.randint(0, model.table.num_embeddings, (batch, 4 if name == "word2vec" else 26), device="cuda")
    floats = torch.rand(batch, 13, device="cuda")
    labels = torch.randint(0, 2073 if name == "word2vec" else 2, (batch,), device="cuda")
    cost = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", torch.bfloat16, enabled=compute == "bf16", cache_enabled=False):
            loss = cost(model(ids, floats).float(), labels)
        loss.backward()
        optimizer.step()

    found = {"network": name, "batch": batch, "compute": compute, "eager_us": microseconds(step)}
    try:
        found["graph_us"] = graph_microseconds(step)
    except RuntimeError as error:
        print(f"{name} {batch} {compute}: no CUDA graph: {error}", file=sys.stderr)
    print(json.dumps(found), flush=True)


def graph_microseconds(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return microseconds(graph.replay)


def main():
    if not torch.cuda.is_available():
        sys.exit(3)
    begun = time.perf_counter()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    torch.ones(1, device="cuda").item()
    print(json.dumps({"torch": torch.__version__, "open_s": time.perf_counter() - begun}), flush=True)
    for name in ("word2vec", "ctr"):
        for batch in BATCHES:
            for compute in ("float32", "bf16"):
                measure(name, batch, compute)


main()
