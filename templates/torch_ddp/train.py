"""Learns handwritten digits with PyTorch's DistributedDataParallel.

It is started once per rank with the variables that torchrun sets, by torchrun itself as well:
torchrun --nproc_per_node 4 train.py"""

import argparse
import glob
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def read(pattern):
    """64 grey values and the digit a line."""
    rows = [[float(word) for word in line.split(",")] for name in sorted(glob.glob(pattern)) for line in open(name)]
    table = torch.tensor(rows)
    return TensorDataset(table[:, :-1], table[:, -1].long())


def test(network, digits, device):
    """The mean loss over the digits, and which part of them is read wrongly."""
    values, labels = (tensor.to(device) for tensor in digits.tensors)
    with torch.no_grad():
        outputs = network(values)
    wrong = (outputs.argmax(1) != labels).float().mean().item()
    return nn.functional.cross_entropy(outputs, labels).item(), wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="data", help="folder of train.csv-* and test.csv")
    parser.add_argument("--output", default="output", help="folder for checkpoint.pt")
    parser.add_argument("--metrics", default=os.devnull, help="file to append JSON lines to")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16, help="of each rank")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} on {device}", flush=True)

    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    # Rank 0 keeps the checkpoint, and the others get what it has.
    checkpoint = os.path.join(options.output, "checkpoint.pt")
    begin = [None]
    if rank == 0 and os.path.exists(checkpoint):
        begin = [torch.load(checkpoint, map_location="cpu")]
    dist.broadcast_object_list(begin)
    if begin[0]:
        network.load_state_dict(begin[0]["network"])
        optimizer.load_state_dict(begin[0]["optimizer"])

    digits = read(os.path.join(options.data, "train.csv-*"))
    held_out = read(os.path.join(options.data, "test.csv"))
    sampler = DistributedSampler(digits, seed=1)
    batches = DataLoader(digits, options.batch, sampler=sampler)
    metrics = open(options.metrics, "a", buffering=1)

    def report(kind, **fields):
        print(json.dumps({"kind": kind, **fields, "unix_ms": int(time.time() * 1000)}), file=metrics)

    for epoch in range(begin[0]["epoch"] if begin[0] else 0, options.epochs):
        sampler.set_epoch(epoch)
        started, total = time.time(), 0.0
        for values, labels in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(values.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        rate = len(sampler) / (time.time() - started)
        report("pass", **{"pass": epoch}, passes=options.epochs, batch=len(batches), samples=len(sampler),
               cost=total / len(sampler), examples_per_second=rate)
        if rank > 0:
            continue
        cost, wrong = test(network, held_out, device)
        report("test", **{"pass": epoch}, batch=len(batches), samples=len(held_out), cost=cost, classification_error=wrong)
        print(f"epoch {epoch + 1} of {options.epochs}: held-out loss {cost:.4f}, {wrong:.2%} wrong", flush=True)
        os.makedirs(options.output, exist_ok=True)
        state = {"epoch": epoch + 1, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, checkpoint + ".new")
        os.replace(checkpoint + ".new", checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
