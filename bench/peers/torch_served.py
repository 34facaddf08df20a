#!/usr/bin/python3
"""torch_networks.py's CTR network, whose table is on pservers, by paddlectl.torch with prefetch; or only pulls of rows.

usage: torch_served.py ctr DATA BATCH THREADS RATE RESULT RANK COUNT PORT PSERVER_PORT CORE
       torch_served.py pulls ROWS IDS WIDTH SECONDS RESULT PSERVER_PORT

CORE: moves to this core after the sidecar has started; -1: stays where it is."""
import json
import os
import statistics
import sys
import time

import numpy

import paddlectl


def train():
    import torch

    import paddlectl.torch
    from torch_networks import Measured, Model, distributed, read_records
    data, batch, threads, rate, result = sys.argv[2:7]
    rank, count, port, pserver_port, core = (int(text) for text in sys.argv[7:12])
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    model = net = Model("ctr", count)
    tables = paddlectl.torch.convert_(model)
    measured = Measured(read_records("ctr", data, rank, count), int(batch))
    paddlectl.init(pservers="127.0.0.1", port=pserver_port, ports_num=0, ports_num_for_sparse=1, num_gradient_servers=count,
                   trainer_id=rank)
    with paddlectl.join(tables=tables, optimizer=paddlectl.sgd(float(rate))) as job:
        if core >= 0:
            os.sched_setaffinity(0, [core])
        paddlectl.torch.attach(model, job)
        if count > 1:
            net = distributed(model, rank, count, port)
        optimizer = paddlectl.torch.ServedOptimizer(job, dense=torch.optim.SGD(net.parameters(), lr=float(rate)))
        cost = torch.nn.CrossEntropyLoss()
        for ids, floats, labels in optimizer.prefetch(measured.batches, {"table": lambda batch: batch[0]}):
            optimizer.zero_grad()
            loss = cost(net(ids, floats), labels)
            loss.backward()
            optimizer.step(samples=len(labels), cost=loss.item() * len(labels))
            measured.add(loss.item())
        measured.write(result)
        job.finish_pass()


def pull():
    rows, count, width, seconds, result, port = sys.argv[2:8]
    rows, count, width = int(rows), int(count), int(width)
    paddlectl.init(pservers="127.0.0.1", port=int(port), ports_num=0, ports_num_for_sparse=1, num_gradient_servers=1,
                   trainer_id=0)
    rng = numpy.random.default_rng(3)
    ids = numpy.unique(rng.integers(0, 2**63, rows))
    with paddlectl.join(tables=[paddlectl.Table("table", width, initial_std=0.0)], optimizer=paddlectl.sgd(0.5)) as job:
        for begin in range(0, len(ids), count):
            some = job.pull("table", ids[begin:begin + count])
            job.push({"table": (some, numpy.ones_like(some.values))}, samples=1)
        drawn = [rng.choice(ids, count) for _ in range(10)]
        rates = {"ascending": pull_rate(job, [numpy.unique(request) for request in drawn], float(seconds)),
                 "any_order": pull_rate(job, drawn, float(seconds))}
        job.finish_pass()
    with open(result, "w") as out:
        json.dump(rates, out)


def pull_rate(job, requests, seconds):
    """Different rows per second of the median request."""
    times, begun = [], time.perf_counter()
    while time.perf_counter() - begun < seconds:
        request = requests[len(times) % len(requests)]
        begin = time.perf_counter()
        rows = job.pull("table", request)
        times.append(time.perf_counter() - begin)
    if not (rows.values == -0.5).all() or rows.index.shape != request.shape:
        sys.exit("the pulled rows are wrong")
    return len(rows) / statistics.median(times)


if __name__ == "__main__":
    {"ctr": train, "pulls": pull}[sys.argv[1]]()
