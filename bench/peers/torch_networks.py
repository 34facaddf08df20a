#!/usr/bin/python3
"""Trains one of bench/trainer's networks with PyTorch and writes one JSON object to RESULT: mean cost of each tenth of the
steps, and examples per second of the second half, by the clock and by this process's CPU time. With COUNT above 1 it is
number RANK of so many processes that average their gradients (DistributedDataParallel over gloo, which meets at PORT), and
takes every COUNT-th record.

usage: torch_networks.py word2vec|ctr DATA BATCH THREADS RATE RESULT RANK COUNT PORT    DATA: what bench/trainer wrote"""
import itertools
import json
import sys
import time

import torch
import torch.distributed

WORD2VEC_VOCABULARY, WORD2VEC_SIZE, WORD2VEC_HIDDEN = 2073, 32, 256
CTR_VOCABULARY, CTR_SIZE, CTR_SLOTS, CTR_FLOATS, CTR_HIDDEN = 1000001, 10, 26, 13, 400


def linear(inputs, outputs):
    """As ours starts: normal with 1/sqrt(inputs), bias 0."""
    layer = torch.nn.Linear(inputs, outputs)
    torch.nn.init.normal_(layer.weight, std=inputs ** -0.5)
    torch.nn.init.zeros_(layer.bias)
    return layer


def word2vec(count):
    # With several processes, the gradient of a table this small is summed several times as fast if
    # it is dense.
    table = torch.nn.Embedding(WORD2VEC_VOCABULARY, WORD2VEC_SIZE, sparse=count == 1)
    net = torch.nn.Sequential(linear(4 * WORD2VEC_SIZE, WORD2VEC_HIDDEN), torch.nn.Sigmoid(),
                              linear(WORD2VEC_HIDDEN, WORD2VEC_VOCABULARY))
    return table, net


def ctr():
    table = torch.nn.Embedding(CTR_VOCABULARY, CTR_SIZE, sparse=True)
    layers, width = [], CTR_SLOTS * CTR_SIZE + CTR_FLOATS
    for _ in range(3):
        layers += [linear(width, CTR_HIDDEN), torch.nn.ReLU()]
        width = CTR_HIDDEN
    return table, torch.nn.Sequential(*layers, linear(width, 2))


class Model(torch.nn.Module):
    def __init__(self, name, count):
        super().__init__()
        self.name = name
        self.table, self.net = word2vec(count) if name == "word2vec" else ctr()
        torch.nn.init.normal_(self.table.weight, std=self.table.weight.shape[1] ** -0.5)

    def forward(self, ids, floats):
        rows = self.table(ids).flatten(1)
        return self.net(torch.cat([rows, floats], 1) if self.name == "ctr" else rows)


def main():
    name, data, batch, threads, rate, result = sys.argv[1:7]
    batch, rank, count, port = int(batch), *(int(text) for text in sys.argv[7:10])
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    model = Model(name, count)
    ids, floats, labels = [], [], []
    with open(data) as lines:
        for line in itertools.islice(lines, rank, None, count):
            fields = line.split(",")
            wide = CTR_SLOTS if name == "ctr" else 4
            ids.append([int(field) for field in fields[:wide]])
            floats.append([float(field) for field in fields[wide:-1]])
            labels.append(int(fields[-1]))
    ids, floats, labels = torch.tensor(ids), torch.tensor(floats), torch.tensor(labels)
    if count > 1:
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
        model = torch.nn.parallel.DistributedDataParallel(model)
    cost = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=float(rate))
    steps = len(labels) // batch
    costs, begun = [], None
    for step in range(steps):
        if step == steps // 2:
            begun = time.perf_counter(), time.process_time()
        part = slice(step * batch, (step + 1) * batch)
        optimizer.zero_grad(set_to_none=True)
        loss = cost(model(ids[part], floats[part]), labels[part])
        loss.backward()
        optimizer.step()
        costs.append(loss.item())
    measured = (steps - steps // 2) * batch
    tenth = max(1, steps // 10)
    with open(result, "w") as out:
        json.dump({
            "costs": [sum(costs[i:i + tenth]) / tenth for i in range(0, tenth * 10, tenth)],
            "by_clock": measured / (time.perf_counter() - begun[0]),
            "by_cpu": measured / (time.process_time() - begun[1]),
        }, out)


main()
