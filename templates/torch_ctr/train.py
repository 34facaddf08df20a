"""Learns which advertisements are clicked, with torch. The rows of 26 categories are on the job's pservers; every trainer has
the layers, and DistributedDataParallel averages their gradients.

`paddlectl train` starts it once per trainer."""

import os
import sys
import tomllib

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import paddlectl as pd
import paddlectl.torch as pt

COLUMNS, NUMBERS, WIDTH, HIDDEN = 26, 13, 10, 400
RATES = [1.0, 0.3, 0.1]  # of each pass, as learning_rate_args in job.toml
LOG_PERIOD = 100


class Clicks(nn.Module):
    """The logit of a click."""

    def __init__(self):
        super().__init__()
        # On the device "meta" it takes no memory: convert_() replaces it, and any 64-bit id will do.
        self.categories = nn.Embedding(COLUMNS << 36, WIDTH, device="meta")
        layers, inputs = [], COLUMNS * WIDTH + NUMBERS
        for _ in range(3):
            layers += [nn.Linear(inputs, HIDDEN), nn.ReLU()]
            inputs = HIDDEN
        self.layers = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, ids, numbers):
        rows = self.categories(ids).flatten(1)
        return self.layers(torch.cat([rows, numbers], 1)).squeeze(1)


def read(files):
    """Lines as in the Criteo challenge: the label, 13 whole numbers and 26 hexadecimal texts between tabs. Returns the labels
    float32 (n,), log(1 + number) float32 (n, 13), and ids int64 (n, 26)."""
    labels, numbers, ids = [], [], []
    for name in files:
        with open(name) as lines:
            for line in lines:
                fields = line.rstrip("\n").split("\t")
                labels.append(int(fields[0]))
                numbers.append([int(text or 0) for text in fields[1:1 + NUMBERS]])
                # A missing text is a category, too.
                ids.append([column << 36 | int("1" + text, 16) for column, text in enumerate(fields[1 + NUMBERS:])])
    numbers = np.log1p(np.maximum(np.array(numbers, np.float32).reshape(-1, NUMBERS), 0))
    ids = np.array(ids, np.int64).reshape(-1, COLUMNS)
    return torch.tensor(labels, dtype=torch.float32), torch.from_numpy(numbers), torch.from_numpy(ids)


def area_under_curve(labels, scores):
    """The share of pairs of a click and no click that the scores put in the right order."""
    ordered = np.sort(scores)
    ranks = (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right") + 1) / 2
    clicks = labels.sum()
    return (ranks[labels == 1].sum() - clicks * (clicks + 1) / 2) / (clicks * (len(labels) - clicks))


def test(model, examples):
    """The mean cost and the AUC. Categories that were never trained have zeros."""
    labels, numbers, ids = examples
    model.eval()
    with torch.no_grad():
        scores = torch.cat([model(*part) for part in zip(ids.split(4096), numbers.split(4096))])
    model.train()
    cost = nn.functional.binary_cross_entropy_with_logits(scores, labels).item()
    return cost, area_under_curve(labels.numpy(), scores.numpy())


def train_pass(job, net, optimizer, examples, count, batch_size, begin, passes):
    """One pass of `count` batches, from batch `begin` on; it ends early if the job stops."""
    order = torch.randperm(len(examples[0]), generator=torch.Generator().manual_seed(job.pass_))
    batches = ([part[order[i * batch_size:(i + 1) * batch_size]] for part in examples] for i in range(begin, count))
    for number, (labels, numbers, ids) in enumerate(optimizer.prefetch(batches, {"categories": lambda batch: batch[2]}), begin):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(ids, numbers), labels)
        loss.backward()
        optimizer.step(samples=len(labels), cost=loss.item() * len(labels))
        if (number + 1) % LOG_PERIOD == 0:
            job.metrics(passes=passes, pass_done=(number + 1) / count)
        if optimizer.stop_asked:
            return


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    with open(os.environ.get("PADDLE_INIT_CONFIG", "job.toml"), "rb") as file:
        settings = tomllib.load(file)
    passes = settings["train"]["passes"]
    with pd.join() as job:
        batch_size = settings["train"]["batch_size_total"] // job.trainers
        model = net = Clicks()
        pt.convert_(model, job)
        examples, held_out = read(job.share()), read([settings["data"]["test"]]) if job.trainer == 0 else None
        count = torch.tensor(len(examples[0]) // batch_size)
        if job.trainers > 1:
            dist.init_process_group("gloo")
            dist.all_reduce(count, dist.ReduceOp.MIN)  # all trainers have as many batches
            net = nn.parallel.DistributedDataParallel(model)
        optimizer = pt.ServedOptimizer(job, dense=torch.optim.Adam(net.parameters(), lr=settings["optimizer"]["learning_rate"]))
        optimizer.resume(model)
        begin = job.batch  # of a job that continues within a pass
        for number in range(job.pass_, passes):
            for group in optimizer.dense.param_groups:
                group["lr"] = settings["optimizer"]["learning_rate"] * RATES[min(number, len(RATES) - 1)]
            train_pass(job, net, optimizer, examples, count.item(), batch_size, begin, passes)
            if optimizer.stop_asked:
                optimizer.save(model)
                sys.exit(pd.job.RESUMABLE)
            begin = 0
            totals = job.finish_pass({"passes": passes})
            optimizer.save(model)
            if job.trainer == 0:
                cost, auc = test(model, held_out)
                job.metrics("test", **{"pass": number}, passes=passes, samples=len(held_out[0]), cost=cost, auc=auc)
                print(f"pass {number + 1} of {passes}: cost {totals.cost:.4f}, held-out cost {cost:.4f}, AUC {auc:.4f}", flush=True)


if __name__ == "__main__":
    main()
