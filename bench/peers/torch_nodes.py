"""A rank of PyTorch's DistributedDataParallel over gloo with the network of bench/nodes: torch_nodes.py RANK RANKS PORT HOOK.

HOOK: none, or fp16, the compression of gradients that torch has for gloo. Prints the steps, and the median milliseconds of one."""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

WORDS, SIZE, STEPS = 41, 16, 60


def main():
    rank, ranks, port, hook = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    hidden, batch_size = int(os.environ["HIDDEN"]), int(os.environ["BATCH_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"tcp://{os.environ['MASTER_ADDR']}:{port}", rank=rank, world_size=ranks)
    model = torch.nn.Sequential(torch.nn.Embedding(WORDS, SIZE), torch.nn.Linear(SIZE, hidden), torch.nn.Sigmoid(),
                                torch.nn.Linear(hidden, WORDS))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    if hook == "fp16":
        parallel.register_comm_hook(None, fp16_compress_hook)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=1e-5)
    # Each word is its own label, so that there is something to learn.
    words = torch.arange(rank, rank + batch_size) % WORDS
    took, first = [], None
    for _ in range(STEPS):
        begin = time.perf_counter()
        optimizer.zero_grad()
        cost = torch.nn.functional.cross_entropy(parallel(words), words)
        cost.backward()
        optimizer.step()
        took.append(time.perf_counter() - begin)
        first = first or cost.item()
    if not cost.item() < first:
        sys.exit(f"the cost went from {first} to {cost.item()}")
    print(STEPS, 1e3 * statistics.median(took[STEPS // 3:]))


main()
