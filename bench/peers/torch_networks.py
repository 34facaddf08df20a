#!/usr/bin/python3
"""Trains one of bench/trainer's networks with PyTorch and writes one JSON object to RESULT: mean cost of each tenth of the
steps, and examples per second of the second half, by the clock and by this process's CPU time. With COUNT above 1 it is
number RANK of so many processes that average their gradients (DistributedDataParallel over gloo, which meets at PORT), and
takes every COUNT-th record.

usage: torch_networks.py word2vec|ctr|ctr-dense DATA BATCH THREADS RATE RESULT RANK COUNT PORT    DATA: what bench/trainer wrote

ctr-dense: the same network, and dense gradients of its table."""
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


def ctr(sparse):
    table = torch.nn.Embedding(CTR_VOCABULARY, CTR_SIZE, sparse=sparse)
    layers, width = [], CTR_SLOTS * CTR_SIZE + CTR_FLOATS
    for _ in range(3):
        layers += [linear(width, CTR_HIDDEN), torch.nn.ReLU()]
        width = CTR_HIDDEN
    return table, torch.nn.Sequential(*layers, linear(width, 2))


class Model(torch.nn.Module):
    def __init__(self, name, count):
        super().__init__()
        self.name = name
        self.table, self.net = word2vec(count) if name == "word2vec" else ctr(sparse=name == "ctr")
        torch.nn.init.normal_(self.table.weight, std=self.table.weight.shape[1] ** -0.5)

    def forward(self, ids, floats):
        rows = self.table(ids).flatten(1)
        return self.net(torch.cat([rows, floats], 1) if self.name != "word2vec" else rows)


def read_records(name, path, rank, count):
    """Ids, floats and labels of every count-th record."""
    ids, floats, labels = [], [], []
    with open(path) as lines:
        for line in itertools.islice(lines, rank, None, count):
            fields = line.split(",")
            wide = CTR_SLOTS if name != "word2vec" else 4
            ids.append([int(field) for field in fields[:wide]])
            floats.append([float(field) for field in fields[wide:-1]])
            labels.append(int(fields[-1]))
    return torch.tensor(ids), torch.tensor(floats), torch.tensor(labels)


class Measured:
    """Batches of the records, and the costs and the time of their steps."""

    def __init__(self, records, batch):
        self.batch = batch
        self.steps = len(records[2]) // batch
        self.batches = ([part[step * batch:(step + 1) * batch] for part in records] for step in range(self.steps))
        self.costs = []

    def add(self, cost):
        self.costs.append(cost)
        if len(self.costs) == self.steps // 2:
            self.begun = time.perf_counter(), time.process_time()

    def write(self, result):
        measured = (self.steps - self.steps // 2) * self.batch
        by_clock, by_cpu = time.perf_counter() - self.begun[0], time.process_time() - self.begun[1]
        tenth = max(1, self.steps // 10)
        with open(result, "w") as out:
            json.dump({
                "costs": [sum(self.costs[i:i + tenth]) / tenth for i in range(0, tenth * 10, tenth)],
                "by_clock": measured / by_clock,
                "by_cpu": measured / by_cpu,
            }, out)


def distributed(model, rank, count, port):
    """The model of one of several processes."""
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=count)
    return torch.nn.parallel.DistributedDataParallel(model)


def main():
    name, data, batch, threads, rate, result = sys.argv[1:7]
    rank, count, port = (int(text) for text in sys.argv[7:10])
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    model = Model(name, count)
    measured = Measured(read_records(name, data, rank, count), int(batch))
    if count > 1:
        model = distributed(model, rank, count, port)
    cost = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=float(rate))
    for ids, floats, labels in measured.batches:
        optimizer.zero_grad(set_to_none=True)
        loss = cost(model(ids, floats), labels)
        loss.backward()
        optimizer.step()
        measured.add(loss.item())
    measured.write(result)


if __name__ == "__main__":
    main()
