"""A job that counts itself, as that of tests/e2e/ledger_job.h: a table's own shows tell how often each record was applied."""
import collections
import glob
import os
import random
import struct

TABLE = "_ids.w0"
HEADER = "<4sIQIIQI16sI"
SPARSE = 'weight = { sparse = true, shrink = { label = "click", decay = 1, threshold = 0 } }'
JOB = """
[data]
train = "data/train.txt-*"
format = "multislot"
[[data.slot]]
name = "record"
type = "id"
[[data.slot]]
name = "click"
type = "id"
[[layer]]
name = "ids"
type = "embedding"
input = ["record"]
size = {width}
{weight}
[[layer]]
name = "score"
type = "fc"
input = ["ids"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "click"
[optimizer]
method = "sgd"
learning_rate = 0.01
[strategy]
async_lagged_grad_discard_ratio = 1000000
[train]
batch_size = 8
log_period = 1
snapshots_kept = 3
"""


def write_workspace(folder, trainers, records, width=64, is_sparse=True):
    """Each record of each trainer has an id of its own, and a row of so many floats, without pservers in a dense matrix."""
    os.makedirs(f"{folder}/data")
    with open(f"{folder}/job.toml", "w") as file:
        file.write(JOB.format(width=width, weight=SPARSE if is_sparse else f"vocabulary = {1 + trainers * records}"))
    for trainer in range(trainers):
        rng = random.Random(trainer)
        with open(f"{folder}/data/train.txt-{trainer:05}", "w") as file:
            file.writelines(f"1 {1 + trainer * records + i} 1 {rng.randrange(2)}\n" for i in range(records))


def shows(snapshot):
    """How many rows of the table were shown how often; the layout is that of engine/snapshot/format.h."""
    counts = collections.Counter()
    for path in sorted(glob.glob(f"{glob.escape(snapshot)}/{TABLE}.sparse-0*")):
        with open(path, "rb") as file:
            content = file.read()
        _, _, width, state_width, block, _, has_scores, _, name = struct.unpack_from(HEADER, content)
        if not has_scores:
            raise ValueError(f"{path}: its rows have no scores")
        at, body = struct.calcsize(HEADER) + name + 4, b""
        while at < len(content):
            size = min(block, len(content) - 4 - at)
            body += content[at:at + size]
            at += size + 4
        row = 16 + 4 * width * (1 + state_width) + 8
        for offset in range(0, len(body), row):
            counts[struct.unpack_from("<f", body, offset + row - 8)[0]] += 1
    return dict(counts)
