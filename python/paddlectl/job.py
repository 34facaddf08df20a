"""A trainer's part in a job on pservers: join(), pull rows, push gradients, end passes."""

from __future__ import annotations

import math
import os
import threading
from collections import deque
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    overload,
)

import numpy as np
import numpy.typing as npt

from . import settings, stopping
from .channel import Channel, Message, Request
from .errors import Error, SidecarError, UnreachableError, UsageError
from .metrics import MetricsFile
from .prefetch import prefetch
from .rows import Gradients, Rows, check_gradient, known_table, send_pull, send_push
from .tables import Optimizer, Table, Value, to_toml

T = TypeVar("T")
B = TypeVar("B")

_STATE_PART_BYTES = 16 << 20
_ABSENT = ("seed", "zero")
_ABANDON_SECONDS = 5.0
_REASON_CHARACTERS = 1000
_RELEASED_AT_ONCE = 4096  # pulls; a message has at most 64 KiB
RESUMABLE = 75  # exit code of a program that saved and can continue


@dataclass(frozen=True)
class TableTotals:
    """A table at the end of a pass, over all pservers."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class PassTotals:
    """A finished pass, over all trainers. `cost` is the mean over samples.

    The cost is NaN if this trainer has pushed samples without their cost.
    """

    passes: int  # finished
    samples: int
    cost: float
    tables: Mapping[str, TableTotals]
    paused: bool  # some trainer stopped within the pass: save, and exit with 75


@dataclass(frozen=True)
class Resumed:
    """The place where the job continues, and the `state` that save() put into its snapshot.

    has_returned: trainer 0 was started again in a job that was running. The rows are where the
    pservers are, and there is no `state`: a program with a state of its own calls go_back().
    """

    pass_: int
    batch: int
    state: Optional[bytes]
    has_returned: bool = False


class Handle(Generic[T]):
    """A request that is on its way. An error that nothing waits for is raised by the next call."""

    def __init__(self, job: "Job", request: Request[T]) -> None:
        self._job = job
        self._request = request

    def wait(self) -> T:
        """The value when it is there. Raises the error of the request."""
        with self._job._one_call:
            return self._job._channel.wait(self._request)


class _OneCall:
    """Refuses a call while another thread's, or that of an interrupted handler, is in progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise UsageError(
                "two threads, or a signal handler, use this job at the same time",
                "make all calls from one thread",
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Job:
    """A trainer in a running job; join() makes one.

    One thread at a time makes calls, in the process that joined. As a context manager the job is
    left at the end of the block. If an exception leaves the block, the job ends with an error for
    all trainers; SystemExit with code 0 or 75, UnreachableError, SidecarError, and torch's error
    that another rank is lost do not end it. But SystemExit with code 0 in the middle of a pass ends
    it too, and becomes a UsageError.
    """

    trainer: int  # rank of this trainer
    trainers: int
    engine: str  # version of the engine
    strategy: str  # "sync", "async", "half_async" or "geo"
    tables: Mapping[str, int]  # width by name
    save_dir: str  # "": no snapshots
    pass_: int  # finished passes
    batch: int  # batches of this trainer in the next pass that are pushed
    samples: int  # examples that this process has pushed in the pass
    is_over: bool  # all passes have ended, and other trainers have left: only leave
    resumed: Optional[Resumed]  # None: the job starts from the beginning

    def __init__(self, channel: Channel, code: str) -> None:
        self._channel = channel
        self._one_call = _OneCall()
        self._forgotten: Deque[int] = deque()  # pulls whose rows nothing needs any more
        self._cost_sum = 0.0
        self._metrics = MetricsFile()
        self._is_stopping = False
        hello = self._ask({"op": "hello", "version": 1, "job": code})
        self.trainer = int(hello["trainer"])
        self.trainers = int(hello["trainers"])
        self.engine = str(hello["engine"])
        self.strategy = str(hello["strategy"])
        self.tables = {str(each["name"]): int(each["width"]) for each in hello["tables"]}
        self.save_dir = str(hello.get("save_dir", ""))
        self.pass_ = int(hello["pass"])
        self.batch = int(hello["batch"])
        self.samples = 0
        self.is_over = bool(hello["is_over"])
        size = int(hello["state_bytes"])
        self.resumed = None
        if hello["resumed"]:
            # Another trainer may just be late: the job runs when trainer 0 has joined.
            returned = bool(hello.get("returned", False)) and self.trainer == 0
            self.resumed = Resumed(self.pass_, self.batch, self._read_state(size), returned)
        self._stop_note = stopping.watch()
        channel.on_close = partial(stopping.forget, self._stop_note)

    @overload
    def pull(self, table: str, ids: npt.ArrayLike, *, absent: str = "seed") -> Rows: ...

    @overload
    def pull(
        self, table: Mapping[str, npt.ArrayLike], *, absent: str = "seed"
    ) -> Dict[str, Rows]: ...

    def pull(
        self,
        table: Union[str, Mapping[str, npt.ArrayLike]],
        ids: Optional[npt.ArrayLike] = None,
        *,
        absent: str = "seed",
    ) -> Union[Rows, Dict[str, Rows]]:
        """The rows of `ids`: any integer array or list, in any order, with duplicates.

        pull("user", ids) returns Rows, and pull({"user": ids, ...}) a dict of them in one request.
        An id without a row reads as its initial value, which the first push keeps. With
        absent="zero" the values are those for tests: averages if the optimizer keeps them, and the
        table's initial_mean for an id without a row.
        """
        with self._one_call:
            if not isinstance(table, str):
                return self._channel.wait(self._send_pull(table, absent))
            if ids is None:
                raise UsageError(f"table '{table}': pull(table, ids) needs ids")
            return self._channel.wait(self._send_pull({table: ids}, absent))[table]

    def pull_async(self, ids: Mapping[str, npt.ArrayLike]) -> Handle[Dict[str, Rows]]:
        """Asks for rows ahead of their use; wait() of the handle returns them."""
        with self._one_call:
            return Handle(self, self._send_pull(ids, "seed"))

    def push(
        self,
        gradients: Mapping[str, Union[Tuple[Rows, npt.ArrayLike], Gradients]],
        samples: int,
        cost: Optional[float] = None,
    ) -> None:
        """Pushes the gradients of a batch, float32 (m, width) for the values of Rows.

        gradients: {"user": (rows, gradient)}, or a list of such pairs, which are added by id. They
        are means over the batch. samples: examples in the batch, which are its weight in a sync
        update; cost: the sum over the examples, for metrics. Each trainer pushes every batch, also
        one without rows: push({}, samples). With sync it returns when the update is made.
        """
        with self._one_call:
            self._channel.wait(self._send_push(gradients, samples, cost, awaited=True))

    def push_async(
        self,
        gradients: Mapping[str, Union[Tuple[Rows, npt.ArrayLike], Gradients]],
        samples: int,
        cost: Optional[float] = None,
    ) -> Handle[None]:
        """push() that returns as soon as the gradients are copied."""
        with self._one_call:
            return Handle(self, self._send_push(gradients, samples, cost, awaited=False))

    def prefetch(
        self,
        batches: Iterable[B],
        ids: Mapping[str, Callable[[B], npt.ArrayLike]],
        depth: int = 1,
    ) -> Iterator[Tuple[B, Dict[str, Rows]]]:
        """Yields each batch and its rows, and pulls the rows of the next `depth` batches meanwhile.

        ids: for each table the function that gives a batch's ids. Rows that are pulled ahead lack
        the updates of up to `depth` batches; with depth=0 a sync job has the same bits as with
        pull().
        """
        return prefetch(self, batches, ids, depth)

    def finish_pass(self, metrics: Optional[Mapping[str, Any]] = None) -> PassTotals:
        """Ends the pass, when all trainers have. Writes a `pass` line of metrics."""
        with self._one_call:
            self._channel.settle()
            values = metrics or {}
            # Refused before anything is sent: the pass can end only once.
            self._metrics.line("pass", {**self._place(), **_LONGEST_TOTALS}, values)
            answer = self._ask({"op": "finish_pass"})
            totals = _totals(answer, has_cost=math.isfinite(self._cost_sum))
            if totals.paused:
                return totals
            place: Dict[str, Any] = {**self._place(), "total_samples": totals.samples}
            if math.isfinite(totals.cost):
                place["total_cost"] = totals.cost
            self.pass_ = totals.passes
            self.batch = self.samples = 0
            self._cost_sum = 0.0
            self._metrics.write("pass", place, values)
            return totals

    def save(self, state: Optional[bytes] = None) -> str:
        """Saves a snapshot, which all trainers must do at the same place of the job.

        Trainer 0 writes it; returns its path there, else "". state: bytes of trainer 0's program,
        such as its dense part. After a resume they are in `resumed.state` of trainer 0.
        """
        with self._one_call:
            self._channel.settle()
            if state is not None and self.trainer == 0:
                self._send_state(state)
            answer = self._ask({"op": "save"})
            path = str(answer.get("path", ""))
            if path:
                name = os.path.basename(path)  # "pass-00002", or "pass-00002-17" within a pass
                saved = {"pass": int(name.split("-")[1]), "batch": self.batch}
                self._metrics.write("save", saved, {"path": name})
            return path

    def metrics(self, kind: str = "train", **values: Any) -> None:
        """Appends a line of metrics: numbers, texts or lists of numbers, named as docs/trainer.md.

        The line also has the pass, batch and samples, and for kind="train" the mean cost and
        examples_per_second, unless `values` have them.
        """
        with self._one_call:
            place = self._place()
            if kind == "train":
                place["examples_per_second"] = self._metrics.rate(self.samples)
            elif kind != "pass":
                place.pop("cost", None)
            self._metrics.write(kind, place, values)

    def share(self, pattern: str = "") -> List[str]:
        """This trainer's files of a pattern such as "data/*.csv"; "" is job.toml's [data] train."""
        with self._one_call:
            return [str(each) for each in self._ask({"op": "share", "pattern": pattern})["files"]]

    @property
    def stop_asked(self) -> bool:
        """Whether the job stops: then save() and exit with 75.

        With sync all trainers see it after the same push.
        """
        return self._is_stopping

    def stop(self) -> None:
        """Asks the whole job to stop; `stop_asked` is then set by one of the next pushes."""
        with self._one_call:
            self._ask({"op": "stop"})

    def leave(self) -> None:
        """Ends the job for this trainer, after its last pass."""
        with self._one_call:
            self._channel.settle()
            if not self.is_over:
                self._ask({"op": "leave"})
            self._channel.close()

    def close(self) -> None:
        """Ends the sidecar without leaving the job, as if the program had been lost."""
        with self._one_call:
            self._channel.close()

    def __enter__(self) -> "Job":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._channel.is_closed:
            return
        try:
            if error is None:
                self.leave()
            elif isinstance(error, SystemExit) and error.code in (None, 0, RESUMABLE):
                self._leave_by_exit(is_resumable=error.code == RESUMABLE)
            else:
                self._end_by(error)
        except BaseException as failure:
            self._end_by(failure)
            raise

    def _leave_by_exit(self, *, is_resumable: bool) -> None:
        with self._one_call:
            self._channel.settle()
        is_within_pass = self.batch > 0 and not self.is_over
        if is_within_pass and not is_resumable and not self._is_stopping:
            raise UsageError(
                f"the program exits with code 0 in pass {self.pass_ + 1}, after batch {self.batch}",
                "end the pass by finish_pass(), or save() and exit with 75 to continue later",
            )
        self.leave()

    def _end_by(self, error: BaseException) -> None:
        if self._channel.is_closed:
            return
        if isinstance(error, (UnreachableError, SidecarError)) or _is_of_lost_rank(error):
            self._channel.close()
        else:
            self._end_for_all(_reason(error), kind="failed")

    def go_back(self, why: str) -> NoReturn:
        """Ends all processes of the job, which with --restarts continues from its last snapshot.

        Raises UnreachableError, which should end the program.
        """
        with self._one_call:
            self._channel.check()
            self._end_for_all(_first_line(why), kind="unreachable")
        raise UnreachableError(why, "train with --restarts, or continue with --resume")

    def __reduce__(self) -> NoReturn:
        raise UsageError(
            "a job cannot be copied or pickled",
            "copy a model before its modules have the job, or keep the job out of the model",
        )

    def _end_for_all(self, why: str, *, kind: str) -> None:
        message: Message = {"op": "abandon", "kind": kind, "message": why}
        try:
            self._channel.send_last(message, _ABANDON_SECONDS)
        except Error:  # The program's own error is the one to see.
            pass
        finally:
            self._channel.close()

    def __del__(self) -> None:
        # Without it the sidecar would stay until the program's end, such as in a notebook.
        self._channel.close()

    def _ask(self, message: Message) -> Message:
        """Sends a request and waits for its answer."""
        self._channel.check()
        return self._channel.wait(self._channel.send(message, lambda answer: answer))

    def _send_pull(
        self, ids: Mapping[str, npt.ArrayLike], absent: str
    ) -> Request[Dict[str, Rows]]:
        if absent not in _ABSENT:
            raise UsageError(f"absent='{absent}': use 'seed' or 'zero'")
        self._channel.check()
        self._release()
        return send_pull(
            self._channel, self.tables, ids, self._forgotten, test=absent == "zero"
        )

    def _release(self) -> None:
        while self._forgotten:
            count = min(len(self._forgotten), _RELEASED_AT_ONCE)
            numbers = [self._forgotten.popleft() for _ in range(count)]
            self._channel.send(
                {"op": "release", "pulls": numbers}, lambda answer: None, awaited=False
            )

    def _send_push(
        self,
        gradients: Mapping[str, Union[Tuple[Rows, npt.ArrayLike], Gradients]],
        samples: int,
        cost: Optional[float],
        *,
        awaited: bool,
    ) -> Request[None]:
        count = _whole_samples(samples)
        # The cost of a batch without examples is known.
        known_cost = _finite_cost(cost) if cost is not None else math.nan if count > 0 else 0.0
        self._channel.check()
        checked = {}
        for table, given in gradients.items():
            known_table(table, self.tables)
            pairs = [given] if isinstance(given, tuple) else given
            checked[table] = [check_gradient(table, rows, each) for rows, each in pairs]
        self._release()
        if self._stop_note.is_asked:
            self._stop_note.is_asked = False
            self._channel.send({"op": "stop"}, lambda answer: None, awaited=False)

        def finish(answer: Message) -> None:
            self.batch = int(answer["batch"])
            self.samples += count
            self._cost_sum += known_cost
            self._is_stopping = self._is_stopping or bool(answer["stop"])

        sent_cost = known_cost if math.isfinite(known_cost) else 0.0
        return send_push(self._channel, checked, count, sent_cost, finish, awaited=awaited)

    def _place(self) -> Dict[str, Any]:
        """The keys of every line of metrics."""
        place: Dict[str, Any] = {"pass": self.pass_, "batch": self.batch, "samples": self.samples}
        # Without a key: null would be read as training that diverges.
        if self.samples > 0 and math.isfinite(self._cost_sum):
            place["cost"] = self._cost_sum / self.samples
        return place

    def _send_state(self, state: bytes) -> None:
        data = np.frombuffer(state, dtype=np.uint8)
        part = min(_STATE_PART_BYTES, self._channel.memory.size // 2)
        # The first part has offset 0 and is sent even if it is empty.
        for begin in range(0, max(data.size, 1), part):
            some = data[begin : begin + part]
            block = self._channel.allocate(some.size, "the state for a snapshot")
            self._channel.memory.array(block, some.size, np.uint8)[...] = some
            message = {"op": "state", "offset": begin, "data": [block, some.size]}
            self._channel.wait(self._channel.send(message, lambda answer: None, [block]))

    def _read_state(self, size: int) -> Optional[bytes]:
        if size < 0:
            return None
        state = bytearray()
        part = min(_STATE_PART_BYTES, self._channel.memory.size // 2)
        while len(state) < size:
            wanted = min(part, size - len(state))
            block = self._channel.allocate(wanted, "the state of a snapshot")

            def finish(answer: Message, block: int = block) -> bytes:
                return self._channel.memory.array(block, int(answer["bytes"]), np.uint8).tobytes()

            message = {"op": "read_state", "offset": len(state), "into": [block, wanted]}
            some = self._channel.wait(self._channel.send(message, finish, [block]))
            if not some:
                raise SidecarError(f"the state has {len(state)} bytes, not {size}")
            state += some
        return bytes(state)


_LONGEST_TOTALS = {"total_samples": 2**64, "total_cost": -1.2345678901234567e-300}


def _whole_samples(samples: Any) -> int:
    """Also a number of numpy, or a tensor with one element."""
    try:
        value = samples.item() if hasattr(samples, "item") else samples
        count = int(value)
        if count == value and count >= 0:
            return count
    except (TypeError, ValueError, OverflowError, RuntimeError):
        pass
    raise UsageError(f"push(samples={samples!r}): give the examples in the batch, a whole number")


def _finite_cost(cost: Any) -> float:
    """Also a number of numpy, or a tensor with one element."""
    try:
        value = float(cost.item() if hasattr(cost, "item") else cost)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise UsageError(f"push(cost={cost!r}): give one number, the sum over the batch") from None
    if not math.isfinite(value):
        raise UsageError(
            f"push(cost={value}): the cost of the batch is not finite",
            "lower the learning rate, or leave this batch out",
        )
    return value


def _reason(error: BaseException) -> str:
    """An exception in one line of valid UTF-8."""
    name = type(error).__name__
    try:
        text = str(error.message if isinstance(error, Error) else error)
    except Exception:  # of the program's own __str__
        text = ""
    line = _first_line(text)
    if isinstance(error, Error):
        return line or name
    return _first_line(f"{name}: {line}") if line else name


def _first_line(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "")
    return line.encode("utf-8", "backslashreplace").decode()[:_REASON_CHARACTERS]


def _totals(answer: Message, *, has_cost: bool) -> PassTotals:
    samples = int(answer["samples"])
    return PassTotals(
        passes=int(answer["pass"]),
        samples=samples,
        cost=float(answer["cost"]) / samples if has_cost and samples > 0 else math.nan,
        tables={
            str(name): TableTotals(int(each["rows"]), int(each["bytes"]))
            for name, each in answer["tables"].items()
        },
        paused=bool(answer["paused"]),
    )


def _is_of_lost_rank(error: BaseException) -> bool:
    """Whether torch.distributed reports another rank's end: that rank has the cause."""
    words = ("gloo", "NCCL", "Connection closed by peer", "Connection reset by peer")
    return isinstance(error, RuntimeError) and any(word in str(error) for word in words)


def join(
    tables: Optional[Sequence[Table]] = None,
    optimizer: Optional[Optimizer] = None,
    strategy: Union[str, Mapping[str, Value], None] = None,
    config: Optional[str] = None,
    memory: int = 256 << 20,
    timeout: float = 30,
) -> Job:
    """Joins the job of the running pservers, as PADDLE_INIT_* and init() name them.

    Every trainer gives the same tables, optimizer and strategy; what is None is taken from
    job.toml. strategy: "sync", "async", "half_async" or "geo", or keys of [strategy]:
    {"sparse": "geo", "update_frequency": 10}. config: the path of job.toml. memory: bytes that the
    program shares with the engine; a pull needs 12 + 4 width bytes for each id. timeout: seconds
    without a sign of life after which the engine's process counts as lost.

    Returns when trainer 0 has joined and the initial values, or those of the snapshot, are in
    place; other trainers may still be on their way. If the program has no handler of SIGTERM, the
    first SIGTERM asks the job to stop.
    """
    settings.check_pservers()
    flags = settings.flags()
    if config is not None:
        flags.append(f"--config={config}")
    code = to_toml(tables, optimizer, strategy)
    channel = Channel(flags, memory, timeout)
    try:
        return Job(channel, code)
    except UnreachableError as error:
        channel.close()
        error.hint = error.hint or (
            "start the pservers first, and name them by init(pservers=...); `paddlectl train` "
            "does both"
        )
        raise
    except BaseException:
        channel.close()
        raise
