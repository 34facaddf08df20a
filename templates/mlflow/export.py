#!/usr/bin/env python3
"""Writes jobs as runs into a file store of MLflow. A job that is exported again is replaced.

    paddlectl compare --tag lr-test --json | templates/mlflow/export.py mlruns [EXPERIMENT]
"""
import getpass, hashlib, json, os, re, shutil, sys

STATUS = {"running": 1, "done": 3, "failed": 4}  # of MLflow; 5: ended early
PREFIX = {"train": "training_", "test": "held_out_", "pass": "pass_"}
NO_METRICS = ("pass", "passes", "pass_done", "batch", "samples", "unix_ms")

def write(folder, name, text):  # a name in the alphabet of MLflow, which is never a path
    os.makedirs(folder, exist_ok=True)
    name = re.sub(r"[^\w. -]", "_", name, flags=re.ASCII)[:250].strip(". ") or "_"
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)

def write_meta(folder, values):  # each JSON value is a YAML value too
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    write(folder, "meta.yaml", "".join(lines))

def metrics_of(path):  # by name, lines "time value step"; steps are batches over all passes
    found, before, in_pass, last = {}, 0, 0, 0
    for line in open(path, encoding="utf-8", errors="replace"):
        try:
            one = json.loads(line)
            number, batch, time, prefix = one["pass"], one["batch"], one["unix_ms"], PREFIX[one["kind"]]
            if number != last:
                before, in_pass, last = before + in_pass, 0, number
            in_pass = max(in_pass, batch)
            for key, value in one.items():
                if type(value) in (int, float) and key not in NO_METRICS:
                    found.setdefault(prefix + key, []).append(f"{time:d} {value} {before + batch:d}\n")
        except (ValueError, TypeError, KeyError):
            pass  # a damaged line, or one of another kind
    return {key: "".join(lines) for key, lines in found.items()}

store, name = os.path.abspath(sys.argv[1]), (sys.argv[2:] or ["paddlectl"])[0]
experiment = str(int(hashlib.sha256(name.encode()).hexdigest()[:14], 16))
write_meta(os.path.join(store, experiment), {
    "artifact_location": f"file://{store}/{experiment}", "experiment_id": experiment, "lifecycle_stage": "active", "name": name})
for job in json.load(sys.stdin)["jobs"]:
    run = hashlib.sha256(job["folder"].encode()).hexdigest()[:32]
    folder = os.path.join(store, experiment, run)
    shutil.rmtree(folder, ignore_errors=True)
    begun, git = job["started_unix_ms"], job["git"] or {}
    write_meta(folder, {
        "artifact_uri": f"file://{folder}/artifacts", "end_time": begun + job["duration_ms"] if job["duration_ms"] else None,
        "entry_point_name": "", "experiment_id": experiment, "lifecycle_stage": "active", "run_id": run, "run_name": job["job"],
        "run_uuid": run, "source_name": "", "source_type": 4, "source_version": "", "start_time": begun,
        "status": STATUS.get(job["state"], 5), "tags": [], "user_id": getpass.getuser()})
    tags = {**dict(tag.partition("=")[::2] for tag in job["tags"]), "mlflow.runName": job["job"], "mlflow.note.content": job["note"],
            "mlflow.source.git.commit": git.get("commit", ""), "mlflow.source.git.branch": git.get("branch", "")}
    metrics = metrics_of(os.path.join(job["folder"], job["metrics"])) if job["metrics"] else {}
    for kind, values in (("params", job["settings"]), ("tags", tags), ("metrics", metrics), ("artifacts", {})):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        for key, text in values.items():
            write(os.path.join(folder, kind), key, text[:6000] if kind == "params" else text)
    print(folder)
