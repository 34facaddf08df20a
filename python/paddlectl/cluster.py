"""From the laptop: a cluster, jobs on it and their results, by the program `paddlectl`."""

from __future__ import annotations

import collections
import json
import math
import os
import shutil
import signal
import subprocess
import threading
import time
from typing import (
    Any,
    Deque,
    Dict,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np
from numpy.typing import NDArray

from . import display
from .errors import Error, UsageError, from_answer

Setting = Union[bool, int, float, str, Sequence[Union[bool, int, float, str]]]
# The exit codes of paddlectl that have a class of their own, and those of a stop.
_KINDS = {
    2: "usage",
    3: "version",
    4: "unreachable",
    5: "auth",
    6: "data",
    7: "resource",
    75: "resumable",
    130: "interrupted",
}
_STOPPED = 75
_REDRAW_SECONDS = 0.5
_LAST_LINES_SECONDS = 5.0  # for those that were written shortly before the job ended
_END_SECONDS = 60.0  # for a command to end once it was interrupted
_ERROR_LINES_MAX = 1000
_INT64_LIMIT = 2**63
_PROCESS_COLUMNS = ("role", "node", "state", "pass", "batch", "cost", "examples/s", "restarts")


class LogLine(NamedTuple):
    """A line of a process's log. unix_ms is the node's time, or 0 if it is not known."""

    node: str
    role: str
    unix_ms: int
    text: str

    def __str__(self) -> str:
        return f"{self.node}/{self.role} | {self.text}"


class Cluster:
    """The servers of a cluster file, as `paddlectl --cluster FILE` uses them.

    Every method runs one command of paddlectl and raises paddlectl.Error, with the command's
    message, kind and hint, if it fails. Relative paths begin in the folder where the object was
    made.
    """

    def __init__(
        self,
        file: Union[str, os.PathLike[str]] = "cluster.toml",
        program: Optional[str] = None,
        options: Sequence[str] = (),
    ) -> None:
        """`program`: paddlectl; default: the one in PATH. `options`: for every command, such as
        ("--password-file", "secret"). No command asks a question.
        """
        self.file = os.path.abspath(file)
        self._folder = os.getcwd()
        self._options = tuple(options)
        found = shutil.which(program or "paddlectl")
        if found is None:
            raise UsageError(
                f"cannot find the program {program or 'paddlectl'}",
                "install paddlectl, or name it: Cluster(file, program='/path/to/paddlectl')",
            )
        self._program = os.path.abspath(found)

    def up(self) -> List[Dict[str, Any]]:
        """Reaches, checks and prepares every node. Returns what it found, a dict for each node."""
        nodes: List[Dict[str, Any]] = self._read("up", [])
        return nodes

    def train(
        self,
        workspace: Union[str, os.PathLike[str]],
        *,
        trainers: Optional[int] = None,
        pservers: Optional[int] = None,
        gpus: Optional[Union[int, str]] = None,
        set: Optional[Mapping[str, Setting]] = None,
        env: Optional[Mapping[str, str]] = None,
        restarts: Optional[int] = None,
        name: Optional[str] = None,
        resume: bool = False,
        arguments: Sequence[str] = (),
    ) -> ClusterJob:
        """Pushes the workspace and starts a job; returns as soon as its trainers run.

        None stands for the default of `paddlectl train`. `set`: keys of job.toml,
        {"train.passes": 3}. `env`: variables of the job's processes. `resume`: continues the job
        `name` from its last snapshot. `arguments`: any other options, ("--from", "old:best").
        """
        words = ["--detach"]
        for option, value in (
            ("--trainers", trainers),
            ("--pservers", pservers),
            ("--gpus", gpus),
            ("--restarts", restarts),
            ("--name", name),
        ):
            if value is not None:
                words += [option, str(value)]
        for key, setting in (set or {}).items():
            words += ["--set", f"{key}={_setting_text(setting)}"]
        if resume:
            words.append("--resume")
        lines = _environment_lines(env or {})
        if lines:
            words += ["--env-file", "/dev/stdin"]
        words += [*arguments, os.path.join(self._folder, workspace)]
        return ClusterJob(self, str(self._read("train", words, lines)["job"]))

    def job(self, name: Optional[str] = None) -> ClusterJob:
        """A job that is on the cluster; default: the latest."""
        status = self._read("status", [] if name is None else [name])
        return ClusterJob(self, str(status["job"]))

    def jobs(self) -> List[Dict[str, Any]]:
        """All jobs on the nodes: a dict with job, state, pass, cost, bytes ... for each."""
        jobs: List[Dict[str, Any]] = self._read("jobs", [])
        return jobs

    def teardown(self, discard: bool = False) -> None:
        """Ends what runs on the nodes and removes paddlectl's files there.

        Without `discard` it is refused while a job runs, or results were never fetched.
        """
        self._read("teardown", ["--yes", *(["--discard"] if discard else [])])

    def __repr__(self) -> str:
        return f"Cluster({self.file!r})"

    def _command(self, command: str, words: Sequence[str]) -> List[str]:
        target = ["--cluster", self.file]
        return [self._program, "--json", *self._options, command, *target, *words]

    def _start(self, command: str, words: Sequence[str]) -> _Running:
        return _Running(self._command(command, words), self._folder)

    def _run(self, command: str, words: Sequence[str], given: str = "") -> List[str]:
        """The lines that the command prints. Raises what it reports."""
        with self._start(command, words) as running:
            running.give(given)
            running.wait()
        if running.code != 0:
            raise _error_of(command, running.code, running.errors)
        return list(running.lines)

    def _read(self, command: str, words: Sequence[str], given: str = "") -> Any:
        return json.loads("\n".join(self._run(command, words, given)) or "null")


class ClusterJob:
    """A job on a cluster. In a notebook it shows its processes and its costs."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster = cluster
        self.name = name

    def wait(self, timeout: Optional[float] = None) -> ClusterJob:
        """Waits until the job has ended, and shows its progress in one line meanwhile.

        A job that was stopped has ended too. Ctrl-C, or the notebook's stop button, ends the
        waiting and not the job. `timeout` is in seconds.

        Raises Error with the first cause if the job failed, and TimeoutError.
        """
        words = ["--metrics", "--follow", "--role", "trainer-0", self.name]
        with self.cluster._start("wait", [self.name]) as waiting:
            with self.cluster._start("logs", words) as metrics:
                self._show_progress(waiting, metrics, timeout)
        if waiting.code not in (0, _STOPPED):
            raise _error_of("wait", waiting.code, waiting.errors)
        return self

    def status(self) -> Dict[str, Any]:
        """The processes of the job and its progress, as `paddlectl status --json` has them."""
        status: Dict[str, Any] = self.cluster._read("status", [self.name])
        return status

    def logs(self, role: Optional[str] = None, tail: Optional[int] = None) -> List[LogLine]:
        """Lines of all logs in order of time. `role`: "trainer", "pserver" or "trainer-2"."""
        words = [] if role is None else ["--role", role]
        words += [] if tail is None else ["--tail", str(tail)]
        lines = map(json.loads, self.cluster._run("logs", [*words, self.name]))
        return [LogLine(it["node"], it["role"], it["unix_ms"], it["line"]) for it in lines]

    def metrics(self) -> Dict[str, Dict[str, Dict[str, NDArray[Any]]]]:
        """What the processes wrote: metrics()["trainer-0"]["train"]["cost"].

        By process, kind of line and key: an array with an element for each line, in order of time.
        Whole numbers are int64 if every line has one, other numbers are float64, with NaN where a
        line has none. Texts and lists are arrays of objects.
        """
        lines: Dict[str, Dict[str, List[Dict[str, Any]]]] = {}
        for line in self._metric_lines():
            kinds = lines.setdefault(str(line.get("role")), {})
            kinds.setdefault(str(line.get("kind")), []).append(line)
        return {
            role: {kind: _columns(rows) for kind, rows in kinds.items()}
            for role, kinds in lines.items()
        }

    def fetch(self, which: Optional[str] = None) -> str:
        """Fetches logs, metrics and snapshots; returns the folder where they are.

        `which` snapshots: "last" (default), "best", "all", or a name such as "pass-00002".
        """
        words = [] if which is None else ["--pass", which]
        return str(self.cluster._read("fetch", [*words, self.name])["output"])

    def stop(self, now: bool = False) -> None:
        """Saves the job where it is and ends it; with `now` it ends at once, without a snapshot."""
        self.cluster._read("stop", [*(["--now"] if now else []), self.name])

    def __repr__(self) -> str:
        return f"ClusterJob({self.name!r})"

    def _repr_html_(self) -> str:
        try:
            status = self.status()
            chart = self._repr_svg_()
        except Error as error:
            return display.table_html(f"job {self.name}: {error}", (), ())
        rows = [_process_row(process) for process in status["processes"]]
        title = f"job {self.name}: {_state_of(status)}"
        return display.table_html(title, _PROCESS_COLUMNS, rows) + (chart or "")

    def _repr_svg_(self) -> Optional[str]:
        """The costs by time; None before the first line of metrics."""
        lines = self._metric_lines()
        return display.chart_svg(_cost_curves(lines), "seconds", "cost")

    def _metric_lines(self) -> List[Dict[str, Any]]:
        printed = self.cluster._run("logs", ["--metrics", self.name])
        return [_metric_line(line) for line in printed]

    def _show_progress(
        self, waiting: _Running, metrics: _Running, timeout: Optional[float]
    ) -> None:
        """Returns when `waiting` has ended. `metrics` prints lines of trainer 0."""
        begun = time.monotonic()
        shown = display.ProgressLine()
        words = ""
        while True:
            is_over = waiting.wait(_REDRAW_SECONDS)
            if is_over:
                metrics.wait(_LAST_LINES_SECONDS)
            while metrics.lines:
                line = _metric_line(metrics.lines.popleft())
                if line.get("kind") in ("train", "pass"):
                    words = display.describe(line) or words
            seconds = time.monotonic() - begun
            state = _state_after(waiting.lines) if is_over else "running"
            text = ", ".join(filter(None, (f"job {self.name}: {state}", words, f"{seconds:.0f} s")))
            if is_over:
                return shown.print(text)
            shown.show(text)
            if timeout is not None and seconds >= timeout:
                raise TimeoutError(f"job {self.name} has not ended within {timeout:g} s")


class _Running:
    """A command that runs. Threads collect what it prints, so that no pipe is ever full."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self.lines: Deque[str] = collections.deque()
        self.errors: Deque[str] = collections.deque(maxlen=_ERROR_LINES_MAX)
        self.code = 0  # once it has ended; minus a signal's number
        # Ctrl-C of a terminal reaches only this program, which passes it on once.
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=_collect, args=pair, daemon=True)
            for pair in ((self._process.stdout, self.lines), (self._process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def give(self, text: str) -> None:
        """Writes its stdin to the end."""
        assert self._process.stdin is not None
        try:
            with self._process.stdin as stdin:
                stdin.write(text)
        except BrokenPipeError:
            pass  # it has ended already, and reports why

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Whether it has ended. Its output is then complete."""
        try:
            self.code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        for reader in self._readers:
            reader.join()
        return True

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, *_: object) -> None:
        """Interrupts it as Ctrl-C does, once, if it still runs, and waits for its end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        if not self.wait(_END_SECONDS):
            self._process.kill()
            self.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


def _collect(stream: Iterable[str], into: Deque[str]) -> None:
    for line in stream:
        into.append(line.rstrip("\n"))


def _metric_line(text: str) -> Dict[str, Any]:
    """A line of `paddlectl logs --metrics`. Its own node and role come before keys of the program."""

    def first(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
        own = dict(reversed(pairs))
        return {key: own[key] for key, _ in pairs}

    line: Dict[str, Any] = json.loads(text, object_pairs_hook=first)
    return line


def _state_after(printed: Sequence[str]) -> str:
    """The state in which `paddlectl wait` found the job; "unknown" if it found none."""
    return str(json.loads(printed[0])[0]["state"]) if printed else "unknown"


def _error_of(command: str, code: int, lines: Sequence[str]) -> Error:
    """The error that the command printed as its last line of JSON."""
    for line in reversed(lines):
        if line.startswith('{"error"'):
            error = json.loads(line)["error"]
            return from_answer(
                _KINDS.get(error["code"], "failed"), error["message"], _for_a_shell(error["hint"])
            )
    how = f"died of signal {-code}" if code < 0 else f"exited with code {code}"
    return Error(f"paddlectl {command} {how}: {lines[-1] if lines else 'it printed nothing'}")


def _for_a_shell(hint: str) -> str:
    """A hint that repeats the command, without the words that this module added to it."""
    if "paddlectl --json" in hint:
        for word in (" --json", " --detach", " --env-file /dev/stdin"):
            hint = hint.replace(word, "")
    return hint


def _setting_text(value: Setting) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    return json.dumps(list(value))


def _environment_lines(env: Mapping[str, str]) -> str:
    """The variables as lines for --env-file: not arguments, which all users of this machine see."""
    for name, value in env.items():
        if "\n" in value or "\r" in value or value.endswith(" "):
            raise UsageError(
                f"the value of the variable {name} has a line break, or a space at its end",
                "put it into a file of the workspace",
            )
    return "".join(f"{name}={value}\n" for name, value in env.items())


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    return _is_number(value) and 0 <= value < _INT64_LIMIT


def _columns(rows: Sequence[Mapping[str, Any]]) -> Dict[str, NDArray[Any]]:
    names = {name: None for row in rows for name in row if name not in ("node", "role", "kind")}
    columns: Dict[str, NDArray[Any]] = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if all(_is_number(it) and isinstance(it, int) and abs(it) < _INT64_LIMIT for it in values):
            columns[name] = np.array(values, dtype=np.int64)
        elif all(value is None or _is_number(value) for value in values):
            columns[name] = np.array(
                [math.nan if value is None else value for value in values], dtype=np.float64
            )
        else:
            columns[name] = np.empty(len(values), dtype=object)
            columns[name][:] = values
    return columns


def _cost_curves(lines: Sequence[Mapping[str, Any]]) -> List[display.Curve]:
    """The costs of training by process, and those of tests, by seconds since the first line."""
    timed = [line for line in lines if _is_time(line.get("unix_ms"))]
    begin = min((line["unix_ms"] for line in timed), default=0)
    points: Dict[str, Any] = {}
    for line in timed:
        cost = display.cost_of(line)
        if cost is None or line.get("kind") not in ("train", "test"):
            continue
        name = "held-out" if line["kind"] == "test" else str(line["role"])
        points.setdefault(name, []).append(((line["unix_ms"] - begin) / 1000, cost))
    names = sorted(points, key=lambda name: (name != "held-out", len(name), name))
    return [display.Curve(name, points[name], name == "held-out") for name in names]


def _process_row(process: Mapping[str, Any]) -> List[object]:
    number = process.get("pass")
    rate = process.get("examples_per_second")
    return [
        process.get("role"),
        process.get("node"),
        process.get("state"),
        number + 1 if isinstance(number, int) else None,
        process.get("batch"),
        display.number_text(process.get("cost")),
        f"{rate:,.0f}" if isinstance(rate, (int, float)) else None,
        len(process.get("restarts") or ()) or None,
    ]


def _state_of(status: Mapping[str, Any]) -> str:
    states = {str(process.get("state")) for process in status["processes"]}
    if status.get("failure"):
        return f"failed: {status['failure']}"
    return "running" if "running" in states else ", ".join(sorted(states)) or "no processes"
