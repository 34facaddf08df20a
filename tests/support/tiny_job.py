"""A workspace whose job trains in a moment: for scripts that run paddlectl."""
import os
import random

RECORDS = 64  # of one trainer
JOB = """
[data]
train = "data/*"
format = "csv"
columns = ["a", "b", "label"]
[[data.slot]]
name = "a"
type = "id"
[[data.slot]]
name = "b"
type = "id"
[[data.slot]]
name = "label"
type = "id"
[[layer]]
name = "rows"
type = "embedding"
input = ["a", "b"]
size = 4
weight = { sparse = true }
[[layer]]
name = "output"
type = "fc"
input = ["rows"]
size = 2
[[layer]]
name = "cost"
type = "softmax_cross_entropy"
input = ["output"]
label = "label"
[optimizer]
method = "sgd"
learning_rate = 0.1
[train]
passes = 1
batch_size = 16
"""


def write_workspace(folder, trainers):
    rng = random.Random(1)
    os.makedirs(os.path.join(folder, "data"))
    with open(os.path.join(folder, "job.toml"), "w") as file:
        file.write(JOB)
    for i in range(trainers):
        with open(os.path.join(folder, "data", f"part-{i:05}"), "w") as file:
            for _ in range(RECORDS):
                a = rng.randrange(1000)
                file.write(f"{a},{rng.randrange(1000)},{a % 2}\n")
