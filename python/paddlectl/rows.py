"""Pulled rows, and the messages that pull rows and push their gradients."""

from __future__ import annotations

from typing import Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from .channel import Channel, Message, Request
from .errors import UsageError
from .memory import padded

Ids = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float32]


class Pull:
    """The rows that the sidecar keeps for a pull, until they are pushed or no Rows needs them."""

    def __init__(self, number: int, forgotten: Deque[int], *, trains: bool) -> None:
        self.number = number
        self.shapes: Dict[str, Tuple[int, int]] = {}  # (m, width) by table
        self.trains = trains
        self.is_pushed = False
        self._forgotten = forgotten

    def __del__(self) -> None:
        if not self.is_pushed:
            self._forgotten.append(self.number)


class Rows:
    """The rows of one table for the ids of a pull.

    values: float32 (m, width), a row for each different id, by ascending id.
    index: int64, shaped as the ids; values[index] has the row of each id.
    Both are copies, which belong to the caller and can be changed in place.
    """

    __slots__ = ("_table", "_values", "_index", "_pull")

    def __init__(self, table: str, values: Floats, index: npt.NDArray[np.int64], pull: Pull):
        self._table = table
        self._values = values
        self._index = index
        self._pull = pull

    @property
    def table(self) -> str:
        """The name of the table."""
        return self._table

    @property
    def values(self) -> Floats:
        """float32 (m, width)."""
        return self._values

    @property
    def index(self) -> npt.NDArray[np.int64]:
        """int64, shaped as the ids."""
        return self._index

    @property
    def pull(self) -> Pull:
        """The pull that these rows are part of."""
        return self._pull

    def __len__(self) -> int:
        return self._pull.shapes[self._table][0]

    def __repr__(self) -> str:
        m, width = self._pull.shapes[self._table]
        return f"Rows({self._table!r}, {m} rows of {width} floats)"


def to_ids(table: str, ids: npt.ArrayLike) -> Ids:
    """The ids as uint64, in their shape. UsageError: a number that is no id."""
    array = np.asarray(ids)
    if array.size == 0:
        return np.empty(array.shape, dtype=np.uint64)
    if array.dtype.kind not in "iu" and not isinstance(ids, np.ndarray):
        # A list with ids from 2**63 on becomes an array of float64 or objects.
        array = np.asarray(ids, dtype=object)
        for each in array.flat:
            if isinstance(each, bool) or not hasattr(each, "__index__"):
                raise _no_id(table, repr(each))
            if not 0 <= int(each) < 2**64:
                raise _no_id(table, repr(each))
        return array.astype(np.uint64)
    if array.dtype.kind not in "iu":
        raise _no_id(table, f"{array.flat[0]} of type {array.dtype}")
    if array.dtype.kind == "i" and (least := array.min()) < 0:
        raise _no_id(table, str(least))
    return array.astype(np.uint64, copy=False)


def _no_id(table: str, value: str) -> UsageError:
    return UsageError(
        f"table '{table}': {value} is no id", "ids are whole numbers from 0 to 2**64 - 1"
    )


def send_pull(
    channel: Channel,
    widths: Mapping[str, int],
    ids: Mapping[str, npt.ArrayLike],
    forgotten: Deque[int],
    *,
    test: bool,
) -> Request[Dict[str, Rows]]:
    """Sends one request for the rows of several tables."""
    arrays = {table: to_ids(known_table(table, widths), each) for table, each in ids.items()}
    entries: List[Message] = []
    blocks: List[int] = []
    try:
        for table, array in arrays.items():
            into = channel.allocate(array.size * 8, f"the ids of table '{table}'")
            blocks.append(into)
            channel.memory.array(into, array.shape, np.uint64)[...] = array
            room = padded(array.size * 4) + array.size * widths[table] * 4
            out = channel.allocate(room, f"a pull of {array.size} ids of table '{table}'")
            blocks.append(out)
            entry: Message = {"table": table, "ids": [into, array.size], "out": out, "test": test}
            entries.append(entry)
    except BaseException:
        for block in blocks:
            channel.memory.free(block)
        raise

    def finish(answer: Message) -> Dict[str, Rows]:
        pull = Pull(answer["request"], forgotten, trains=not test)
        rows = {}
        for entry, got in zip(entries, answer["tables"]):
            table, size, m = entry["table"], entry["ids"][1], int(got["rows"])
            index = channel.memory.array(entry["out"], size, np.uint32).astype(np.int64)
            begin = entry["out"] + padded(size * 4)
            pull.shapes[table] = (m, widths[table])
            values = channel.memory.array(begin, pull.shapes[table], np.float32).copy()
            rows[table] = Rows(table, values, index.reshape(arrays[table].shape), pull)
        return rows

    return channel.send({"op": "pull", "tables": entries}, finish, blocks)


def known_table(table: str, widths: Mapping[str, int]) -> str:
    """The name itself. UsageError: the job has no such table."""
    if table in widths:
        return table
    raise UsageError(
        f"the job has no table '{table}'", "its tables are " + ", ".join(sorted(widths))
    )


Gradients = Sequence[Tuple[Rows, npt.ArrayLike]]


class CheckedGradient(NamedTuple):
    """A gradient that fits its rows."""

    rows: Rows
    gradient: Floats


def check_gradient(table: str, rows: Rows, gradient: npt.ArrayLike) -> CheckedGradient:
    """UsageError: the gradient does not fit its rows. The engine finds what is not finite."""
    if rows.table != table:
        raise UsageError(f"table '{table}': the rows are those of table '{rows.table}'")
    if not rows.pull.trains:
        raise UsageError(
            f"table '{table}': rows that were pulled with absent='zero' are for tests",
            "pull the rows to train with absent='seed'",
        )
    if rows.pull.is_pushed:
        raise UsageError(
            f"table '{table}': the rows of this pull were pushed before",
            "push all tables of a pull in one call, and pull again for the next step",
        )
    array = np.asarray(gradient)
    shape = rows.pull.shapes[table]  # The program can resize rows.values.
    if array.dtype != np.float32 or array.shape != shape:
        raise UsageError(
            f"table '{table}': the gradient is {array.dtype} of shape {array.shape}, and its rows "
            f"are float32 of shape {shape}",
            "give a float32 gradient for each row that the pull returned",
        )
    return CheckedGradient(rows, array)


def send_push(
    channel: Channel,
    gradients: Mapping[str, Sequence[CheckedGradient]],
    samples: int,
    cost: float,
    finish: Callable[[Message], Any],
    *,
    awaited: bool,
) -> Request[Any]:
    """Copies the gradients into the shared memory and sends them in one request."""
    entries: List[Message] = []
    blocks: List[int] = []
    try:
        for table, pairs in gradients.items():
            offsets = []
            for rows, gradient in pairs:
                block = channel.allocate(gradient.nbytes, f"the gradient of table '{table}'")
                blocks.append(block)
                channel.memory.array(block, gradient.shape, np.float32)[...] = gradient
                offsets.append(block)
            pulls = [rows.pull.number for rows, _ in pairs]
            entries.append({"table": table, "pulls": pulls, "gradients": offsets})
    except BaseException:
        for block in blocks:
            channel.memory.free(block)
        raise
    message = {"op": "push", "samples": samples, "cost": cost, "tables": entries}
    pulls_of_all = [rows.pull for pairs in gradients.values() for rows, _ in pairs]

    def mark(is_pushed: bool) -> None:
        for pull in pulls_of_all:
            pull.is_pushed = is_pushed

    mark(True)  # send() undoes it if the request cannot be sent.
    return channel.send(message, finish, blocks, undo=lambda: mark(False), awaited=awaited)
