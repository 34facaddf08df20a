"""The program of test_training.py: trains tables with gradients that depend on the pulled rows.

Its argument is a JSON object: see defaults. Rank 0 writes the rows of all ids before and after
training into `folder`: initial.npz and final.npz, and their bytes as final.bin.
"""
import json
import os
import signal
import sys
import time

import numpy as np
import paddlectl as pd

IDS = 300
WIDTHS = {"user": 4, "item": 3}
defaults = {
    "folder": os.environ.get("PADDLE_INIT_SAVE_DIR", ""),
    "strategy": "sync", "optimizer": "sgd", "rate": 0.125, "initial_std": 0.5,
    "passes": 2, "steps": 25,
    "whole": False,  # gradients are whole numbers, which do not depend on the rows
    "depth": 0,  # of prefetch
    "pause": 0,  # seconds before each step
    "until": "",  # a file: while it is missing, each step after the first pass takes a second
    "dies": [],  # [trainer, pass, step, where]: where its first process kills itself or its sidecar
    "stops": [],  # [trainer, pass, step]: where it gets a SIGTERM
}


def ids_of(trainer, pass_, step):
    """The ids of a batch, by table. Some occur twice, and some in the batches of both trainers."""
    rng = np.random.default_rng([trainer, pass_, step])
    return {table: rng.integers(0, IDS, 40) for table in WIDTHS}


def samples_of(trainer, pass_, step):
    return 3 + (trainer + step) % 3


def gradient(values, table, trainer, pass_, step, whole):
    """float32, as `values`; depends on every bit of them unless it is whole."""
    rng = np.random.default_rng([trainer, pass_, step, len(table), 1])
    if whole:
        return rng.integers(-4, 5, values.shape).astype(np.float32)
    return (values - rng.standard_normal(values.shape, dtype=np.float32)) * np.float32(0.37)


def at_place(job, place, pass_, step):
    return place[:3] == [job.trainer, pass_, step]


def main():
    given = {**defaults, **json.loads(sys.argv[1])}
    is_first = os.environ.get("PADDLE_INIT_INCARNATION", "1") == "1"
    tables = [pd.Table(name, width, initial_std=given["initial_std"])
              for name, width in WIDTHS.items()]
    optimizer = pd.Optimizer(given["optimizer"], {"learning_rate": given["rate"]})
    every = np.arange(IDS)
    with pd.join(tables, optimizer, given["strategy"]) as job:
        print(f"joined at pass {job.pass_} batch {job.batch}, state "
              f"{job.resumed.state if job.resumed else None}", flush=True)
        if job.trainer == 0 and job.resumed is None:
            rows = job.pull({table: every for table in WIDTHS})
            np.savez(f"{given['folder']}/initial.npz",
                     **{table: each.values for table, each in rows.items()})
        while job.pass_ < given["passes"] and not job.is_over:
            pass_ = job.pass_
            steps = range(job.batch, given["steps"])
            ids = {table: lambda step, table=table: ids_of(job.trainer, pass_, step)[table]
                   for table in WIDTHS}
            for step, rows in job.prefetch(steps, ids, given["depth"]):
                time.sleep(given["pause"])
                if pass_ > 0 and given["until"] and not os.path.exists(given["until"]):
                    time.sleep(1)
                dies = is_first and at_place(job, given["dies"], pass_, step)
                if dies and given["dies"][3] == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                if dies and given["dies"][3] == "sidecar":
                    os.kill(job._channel.sidecar_pid, signal.SIGKILL)
                if at_place(job, given["stops"], pass_, step) and not job.resumed:
                    os.kill(os.getpid(), signal.SIGTERM)
                gradients = {
                    table: (each, gradient(each.values, table, job.trainer, pass_, step,
                                           given["whole"])) for table, each in rows.items()}
                handle = job.push_async(gradients, samples_of(job.trainer, pass_, step), cost=1.5)
                if dies and given["dies"][3] == "within":
                    os.kill(os.getpid(), signal.SIGKILL)
                handle.wait()
                if dies and given["dies"][3] == "after":
                    os.kill(os.getpid(), signal.SIGKILL)
                if job.stop_asked:
                    job.save(state=f"stopped in pass {pass_}".encode())
                    print(f"stopped at pass {pass_} batch {job.batch}", flush=True)
                    sys.exit(pd.RESUMABLE)
            totals = job.finish_pass()
            if totals.paused:
                job.save(state=b"paused")
                sys.exit(pd.RESUMABLE)
            print(f"pass {totals.passes}: {totals.samples} samples, cost {totals.cost:g}, "
                  f"{totals.tables['user'].rows} rows", flush=True)
            job.save(state=f"after pass {pass_}".encode())
        if job.trainer == 0 and not job.is_over:
            rows = job.pull({table: every for table in WIDTHS})
            np.savez(f"{given['folder']}/final.npz",
                     **{table: each.values for table, each in rows.items()})
            with open(f"{given['folder']}/final.bin", "wb") as file:
                file.writelines(each.values.tobytes() for each in rows.values())


if __name__ == "__main__":
    main()
