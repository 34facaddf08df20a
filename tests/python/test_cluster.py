"""paddlectl.Cluster on a real cluster of this machine, and in a notebook."""

from __future__ import annotations

import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import pytest

import paddlectl
from paddlectl import display
from paddlectl.cluster import ClusterJob, _columns, _cost_curves, _metric_line
from support.local_cluster import LocalCluster, program

# Trains two passes, then waits for a file `end` if it is to run until then.
TRAIN = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
rank = int(os.environ["RANK"])
print("greetings from", rank, os.environ.get("GREETING"), flush=True)
metrics = open(os.environ["PADDLE_INIT_METRICS"], "a", buffering=1)
def report(kind, **fields):
    fields["unix_ms"] = int(time.time() * 1000)
    print(json.dumps({"kind": kind, **fields}), file=metrics)
for number in range(2):
    for batch in range(1, 6):
        report("train", **{"pass": number}, passes=2, batch=batch, samples=8 * batch,
               cost=4 / (number * 5 + batch), examples_per_second=100.0)
    if rank == 0:
        report("test", **{"pass": number}, batch=5, cost=1 / (1 + number), auc=0.5 + 0.1 * number)
open(os.path.join(os.environ["PADDLE_INIT_SAVE_DIR"], f"saved-{rank}"), "w").write("x")
mode = os.environ.get("MODE", "")
if mode == "fail" and rank == 1:
    sys.exit("the disk is on fire")
while mode == "stay":
    time.sleep(0.1)
"""


@pytest.fixture
def local(tmp_path: pathlib.Path) -> Iterator[LocalCluster]:
    program()
    cluster = LocalCluster(tmp_path)
    cluster.write("ws/job.toml", '[trainer]\ncommand = ["python3", "train.py"]\n')
    cluster.write("ws/train.py", TRAIN)
    yield cluster
    cluster.end()


@pytest.fixture
def cluster(local: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> paddlectl.Cluster:
    monkeypatch.chdir(local.folder)
    made = paddlectl.Cluster("cluster.toml", program=program())
    made.up()
    return made


def test_a_job_from_start_to_results(
    local: LocalCluster, cluster: paddlectl.Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [node["state"] for node in cluster.up()] == ["ready", "ready"]
    job = cluster.train(
        "ws", trainers=2, name="first", set={"train.passes": 2}, env={"GREETING": "a = 'b' $x"}
    )
    assert job.wait(timeout=60) is job
    assert "job first: done, pass 2/2, batch 5, cost 0.4, 100 examples/s" in capfd.readouterr().err
    assert {row["state"] for row in job.status()["processes"]} == {"done"}
    assert [row["state"] for row in cluster.jobs()] == ["done"]

    greeted = [line for line in job.logs() if line.text.startswith("greetings")]
    assert sorted(line.text for line in greeted) == [
        "greetings from 0 a = 'b' $x",
        "greetings from 1 a = 'b' $x",
    ]
    places = {("n-0", "trainer-0"), ("n-1", "trainer-1")}
    assert {(line.node, line.role) for line in greeted} == places
    assert [line.role for line in job.logs(role="trainer-1", tail=1)] == ["trainer-1"]

    metrics = job.metrics()
    assert set(metrics) == {"trainer-0", "trainer-1"} and set(metrics["trainer-1"]) == {"train"}
    train = metrics["trainer-1"]["train"]
    np.testing.assert_array_equal(train["pass"], np.repeat([0, 1], 5))
    assert train["batch"].dtype == np.int64 and train["examples_per_second"].dtype == np.float64
    np.testing.assert_array_equal(train["cost"], 4 / np.arange(1, 11))
    np.testing.assert_array_equal(metrics["trainer-0"]["test"]["auc"], [0.5, 0.6])

    folder = pathlib.Path(job.fetch())
    assert folder == local.folder / "output" / "first"
    assert (folder / "saved-0").exists() and (folder / "saved-1").exists()
    assert cluster.job("first").name == cluster.job().name == "first"
    cluster.teardown()
    assert not local.processes()
    assert list(local.nodes.glob("t/*")) == []


def test_stopping_and_going_on(cluster: paddlectl.Cluster) -> None:
    job = cluster.train("ws", name="long", env={"MODE": "stay"})
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="job long has not ended within 0.2 s"):
        job.wait(timeout=0.2)
    assert time.monotonic() - begun < 20
    assert {row["state"] for row in job.status()["processes"]} == {"running"}, "it still runs"
    with pytest.raises(paddlectl.UsageError, match="a: never fetched|job|runs"):
        cluster.teardown()
    job.stop()
    job.wait(timeout=60)
    assert [row["state"] for row in cluster.jobs()] == ["stopped"]
    cluster.teardown(discard=True)


def test_failures_are_exceptions_with_a_cause_and_a_hint(cluster: paddlectl.Cluster) -> None:
    job = cluster.train("ws", trainers=2, name="bad", env={"MODE": "fail"})
    with pytest.raises(paddlectl.Error, match="trainer-1 on n-1 exited with code 1") as failed:
        job.wait(timeout=60)
    assert failed.value.kind == "failed"
    assert "the disk is on fire" in job._repr_html_()
    with pytest.raises(paddlectl.UsageError, match="has no job 'absent'") as wrong:
        cluster.job("absent")
    assert wrong.value.kind == "usage" and "bad" in wrong.value.hint
    with pytest.raises(paddlectl.UsageError, match="job.toml"):
        cluster.train("nowhere")
    with pytest.raises(paddlectl.UsageError, match="unknown key"):
        cluster.train("ws", set={"train.nonsense": 3})
    with pytest.raises(paddlectl.UsageError, match="line break"):
        cluster.train("ws", env={"A": "b\nC=d"})


def test_a_missing_program_is_named() -> None:
    with pytest.raises(paddlectl.UsageError, match="cannot find the program paddlectl-absent"):
        paddlectl.Cluster(program="paddlectl-absent")


def test_a_hint_repeats_only_the_users_own_words(tmp_path: pathlib.Path) -> None:
    stand_in = tmp_path / "paddlectl"
    stand_in.touch(mode=0o755)
    cluster = paddlectl.Cluster(program=str(stand_in))
    for printed, shown in (
        ("resume with: paddlectl --json --cluster c train --resume --name a --detach "
         "--env-file /dev/stdin --trainers 2 ws",
         "resume with: paddlectl --cluster c train --resume --name a --trainers 2 ws"),
        ("paddlectl --json up", "paddlectl up"),
        ("start it with --detach", "start it with --detach"),
    ):
        error = json.dumps({"error": {"code": 2, "message": "stopped", "hint": printed}})
        stand_in.write_text(f"#!/bin/sh\necho '{error}' >&2\nexit 2\n")
        with pytest.raises(paddlectl.UsageError) as caught:
            cluster.up()
        assert caught.value.hint == shown


def test_a_program_that_is_killed_is_an_error(tmp_path: pathlib.Path) -> None:
    killed = tmp_path / "paddlectl"
    killed.write_text("#!/bin/sh\necho 'half a line' >&2\nkill -9 $$\n")
    killed.chmod(0o755)
    cluster = paddlectl.Cluster(program=str(killed))
    with pytest.raises(paddlectl.Error, match="paddlectl up died of signal 9: half a line"):
        cluster.up()
    killed.write_text("#!/bin/sh\nyes | head -c 300000 >&2\nexit 9\n")
    with pytest.raises(paddlectl.Error, match="paddlectl jobs exited with code 9: y"):
        cluster.jobs()


NOTEBOOK = """
import paddlectl
cluster = paddlectl.Cluster("cluster.toml", program={program!r})
cluster.up()
job = cluster.train("ws", trainers=2, name="book")
job.wait(timeout=60)
---
float(job.metrics()["trainer-0"]["test"]["cost"][-1])
---
cluster.teardown(discard=True)
"""


def _notebook(code: str) -> Dict[str, Any]:
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": it}
        for it in code.strip().split("\n---\n")
    ]
    kernel = {"display_name": "python3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 4}


def test_in_a_notebook_the_line_redraws_and_the_job_is_a_table_and_a_chart(
    local: LocalCluster,
) -> None:
    pytest.importorskip("ipykernel")
    nbconvert = shutil.which("jupyter-nbconvert")
    if nbconvert is None:
        pytest.skip("there is no jupyter-nbconvert")
    # The job takes a few redraws.
    loop = "batch in range(1, 6):"
    local.write("ws/train.py", TRAIN.replace(loop, f"{loop}\n        time.sleep(0.3)"))
    book = local.write("book.ipynb", json.dumps(_notebook(NOTEBOOK.format(program=program()))))
    module = pathlib.Path(paddlectl.__file__).parent.parent
    environment = {**os.environ, "HOME": str(local.folder), "PYTHONPATH": str(module)}
    run = subprocess.run(
        [nbconvert, "--to", "notebook", "--execute", "--inplace", str(book)],
        cwd=local.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
    )
    assert run.returncode == 0, run.stderr
    cells = json.loads(book.read_text())["cells"]
    lines = [it for it in cells[0]["outputs"] if it["output_type"] == "display_data"]
    assert len(lines) == 1, "one line, drawn over"
    text = "".join(lines[0]["data"]["text/plain"])
    assert re.match(r"job book: done, pass 2/2, batch 5, cost 0\.4, 100 examples/s, \d+ s$", text)
    (result,) = [it for it in cells[0]["outputs"] if it["output_type"] == "execute_result"]
    shown = "".join(result["data"]["text/html"])
    assert "<td>trainer-1</td><td>n-1</td><td>done</td><td>2</td><td>5</td><td>0.4</td>" in shown
    assert "<svg" in shown and "".join(result["data"]["image/svg+xml"]).startswith("<svg")
    assert cells[1]["outputs"][0]["data"]["text/plain"] == ["0.5"]
    assert not local.processes()


HOSTILE = '<script>alert(1)</script>&"\'\x1b[31m\n'


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: List[Tuple[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, attrs))


class _Fixed(ClusterJob):
    """A job whose paddlectl gives fixed answers."""

    def __init__(self, status: Dict[str, Any], lines: List[Dict[str, Any]]) -> None:
        self.name = HOSTILE
        self._status, self._lines = status, lines

    def status(self) -> Dict[str, Any]:
        return self._status

    def _metric_lines(self) -> List[Dict[str, Any]]:
        return self._lines


def test_hostile_names_are_inert() -> None:
    process = {name: HOSTILE for name in ("role", "node", "state", "pass", "cost")}
    lines = [
        {"kind": "train", "role": HOSTILE, "cost": 1.0, "unix_ms": 1},
        {"kind": "train", "role": HOSTILE, "cost": 1e308, "unix_ms": 2},
        {"kind": "train", "role": HOSTILE, "cost": HOSTILE, "unix_ms": HOSTILE},
        {"kind": "train", "role": "x", "cost": -1e308, "unix_ms": -1e308},
    ]
    job = _Fixed({"processes": [process] * 1000, "failure": HOSTILE}, lines)
    page = job._repr_html_()
    parser = _Tags()
    parser.feed(page)
    allowed = {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    allowed |= {"svg", "rect", "line", "text", "polyline", "circle"}
    assert {tag for tag, _ in parser.tags} <= allowed
    names = [name for _, attributes in parser.tags for name, _ in attributes]
    assert not [name for name in names if name.startswith("on")]
    assert "\x1b" not in page and len(page) < 100000 and "and 936 more" in page
    chart = job._repr_svg_()
    assert chart is not None
    xml.etree.ElementTree.fromstring(chart)
    assert display.one_line(HOSTILE).isprintable()


def test_charts_of_odd_data() -> None:
    assert display.chart_svg([], "x", "y") is None
    assert display.chart_svg([display.Curve("a", [(0, 1e300)])], "x", "y") is None
    for points in (
        [(0.0, 0.0)],
        [(1, 5.0), (2, 5.0)],
        [(0, -1e99), (1, 1e99)],
        [(0, 1e-300), (1, 0)],
    ):
        svg = display.chart_svg([display.Curve("a", points)], "x", "y")
        assert svg is not None and "nan" not in svg and "inf" not in svg
        xml.etree.ElementTree.fromstring(svg)
    long = display.Curve("a", [(i, i % 7) for i in range(100000)])
    svg = display.chart_svg([long] * 20, "x", "y")
    assert svg is not None and len(svg) < 200000


def test_lines_of_metrics_as_arrays() -> None:
    line = _metric_line('{"node": "n", "role": "trainer-0", "kind": "train", "role": "mine"}')
    assert line["role"] == "trainer-0", "a key of the program does not hide the process"
    columns = _columns(
        [
            {"kind": "a", "count": 1, "big": 2**63, "cost": None, "curve": [1, 2], "flag": True},
            {"kind": "a", "count": 2, "big": 1, "cost": 0.5, "curve": [3], "flag": False},
        ]
    )
    assert list(columns) == ["count", "big", "cost", "curve", "flag"]
    assert columns["count"].dtype == np.int64 and columns["big"].dtype == np.float64
    np.testing.assert_array_equal(columns["cost"], [np.nan, 0.5])
    assert list(columns["curve"]) == [[1, 2], [3]] and list(columns["flag"]) == [True, False]


def test_curves_of_a_job() -> None:
    lines = [
        {"kind": "train", "role": "trainer-10", "cost": 1.0, "unix_ms": 1000},
        {"kind": "train", "role": "trainer-2", "cost": 3.0, "current_cost": 2.0, "unix_ms": 3000},
        {"kind": "test", "role": "trainer-0", "cost": 4.0, "unix_ms": 2000},
        {"kind": "save", "role": "trainer-0", "cost": 4.0, "unix_ms": 2000},
        {"kind": "train", "role": "trainer-0", "cost": None, "unix_ms": 2000},
    ]
    assert [(curve.name, list(curve.points)) for curve in _cost_curves(lines)] == [
        ("held-out", [(1.0, 4.0)]),
        ("trainer-2", [(2.0, 2.0)]),
        ("trainer-10", [(0.0, 1.0)]),
    ]


def test_the_line_on_a_terminal_is_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "20")
    line = display.ProgressLine()
    line.show("a" * 50)
    line.show("b\x1b[2J")
    line.print("end")
    printed = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert printed == "\r" + "a" * 19 + "\x1b[K\rb?[2J\x1b[K\rend\x1b[K\n"
