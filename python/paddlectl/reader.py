"""Rows of embedding tables without training: from a snapshot, or from a running job."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from types import TracebackType
from typing import Deque, List, Mapping, NoReturn, Optional, Sequence, Type, Union

import numpy as np
import numpy.typing as npt

from .channel import Channel, Message
from .errors import AuthError, ResourceError, UsageError
from .rows import Floats, known_table, send_pull, to_ids

_ABSENT = ("zero", "seed")


class Reader:
    """The tables of a snapshot or job; read() makes one.

    Any number of threads may call pull(). As a context manager it is closed at the end of the
    block. A reader has no part in a job, which goes on and ends without it.
    """

    tables: Mapping[str, int]  # width by name
    engine: str  # version of the engine
    pass_: int  # finished passes, in the snapshot, or of the job when this reader connected

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._one_call = threading.Lock()
        self._forgotten: Deque[int] = deque()  # pulls whose rows the sidecar need not keep
        hello: Message = channel.wait(
            channel.send({"op": "hello", "version": 1, "job": ""}, lambda answer: answer)
        )
        self.tables = {str(each["name"]): int(each["width"]) for each in hello["tables"]}
        self.engine = str(hello["engine"])
        self.pass_ = int(hello["pass"])

    def pull(self, table: str, ids: npt.ArrayLike, absent: str = "zero") -> Floats:
        """The rows of `ids`, float32 (len(ids), width) in their order.

        ids: any integer array or list, with duplicates; of another shape, the result has that
        shape and one more dimension. Many ids are read in several requests: rows of a running job
        may then be from different moments. An id without a row reads as in tests, which is zeros
        unless its table has an initial_mean; with absent="seed" as its initial value in training.
        """
        if absent not in _ABSENT:
            raise UsageError(f"absent='{absent}': use 'zero' or 'seed'")
        width = self.tables[known_table(table, self.tables)]
        wanted = to_ids(table, ids)
        flat = wanted.reshape(-1)
        result = np.empty((flat.size, width), dtype=np.float32)
        with self._one_call:
            self._channel.check()
            step = self._ids_at_once(table, width)
            for begin in range(0, flat.size, step):
                some = flat[begin : begin + step]
                self._read(table, some, absent, result[begin : begin + some.size])
        return result.reshape(*wanted.shape, width)

    def close(self) -> None:
        """Ends the reader's process."""
        with self._one_call:
            self._channel.close()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Without it the process would stay, and keep its place among a job's readers.
        self._channel.close()

    def __reduce__(self) -> NoReturn:
        raise UsageError("a reader cannot be copied or pickled", "call read() again")

    def _ids_at_once(self, table: str, width: int) -> int:
        # 8 bytes for the id, 4 for its place, and the row; each array is padded to 64 bytes.
        step = (self._channel.memory.size - 256) // (12 + 4 * width)
        if step >= 1:
            return step
        raise ResourceError(
            f"a row of table '{table}' has {4 * width} bytes, and the shared memory "
            f"{self._channel.memory.size}",
            f"give more, such as read(..., memory={16 * width})",
        )

    def _read(self, table: str, ids: npt.NDArray[np.uint64], absent: str, into: Floats) -> None:
        request = send_pull(
            self._channel, self.tables, {table: ids}, self._forgotten, test=absent == "zero"
        )
        rows = self._channel.wait(request)[table]
        np.take(rows.values, rows.index, axis=0, out=into)
        del rows  # notes its pull as forgotten
        pulls = [self._forgotten.popleft() for _ in range(len(self._forgotten))]
        if pulls:
            message = {"op": "release", "pulls": pulls}
            self._channel.send(message, lambda answer: None, awaited=False)


def read(
    snapshot: Optional[str] = None,
    address: Union[str, Sequence[str], None] = None,
    *,
    key_file: Optional[str] = None,
    job: Optional[str] = None,
    memory: int = 64 << 20,
    timeout: float = 30,
) -> Reader:
    """Opens the tables of a snapshot folder, or those of the job that runs at `address`.

    snapshot: a folder pass-0000N, full or delta. All rows of its tables are loaded into memory.

    address: the first port of every pserver, "host:port,host:port" or a list, in the order of
    --pserver_id. Waits until the job has values. Values are those at the moment of each pull, also
    in the middle of a round. key_file: the job's key file, or jobs/JOB/keys/reader on the node of
    trainer 0 of a job of paddlectl; needed beyond loopback. job: the job's name, as `paddlectl
    status` shows it.

    memory: bytes shared with the engine's process. timeout: seconds without a sign of life after
    which that process counts as lost.
    """
    if (snapshot is None) == (address is None) or not (snapshot or address):
        raise UsageError(
            "give read() a snapshot or an address", 'read(snapshot="output/pass-00000")'
        )
    flags: List[str] = []
    if snapshot is not None:
        flags.append(f"--snapshot={snapshot}")
    if address is not None:
        each = address.split(",") if isinstance(address, str) else address
        flags += ["--read", "--pservers=" + ",".join(map(_resolved, each))]
    if key_file is not None:
        flags.append(f"--key_file={key_file}")
    if job is not None:
        flags.append(f"--job_tag={job}")
    channel = Channel(flags, memory, timeout, owner="reader")
    try:
        return Reader(channel)
    except BaseException as error:
        channel.close()
        has_key = key_file is not None or "PADDLE_INIT_KEY_FILE" in os.environ
        if isinstance(error, AuthError) and not has_key:
            error.hint = (
                "give key_file=, the job's key file: jobs/JOB/keys/reader on the node of trainer 0 "
                "for a job of paddlectl; and job=, its name"
            )
        raise


def _resolved(endpoint: str) -> str:
    """The endpoint with an IP address in place of a host's name."""
    host, colon, port = endpoint.strip().rpartition(":")
    if not colon or ":" in host or not host:
        return endpoint.strip()
    try:
        found = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"address '{endpoint}': cannot find the host '{host}': {error}",
            "check its name, or give its IP address",
        ) from None
    return f"{found[0][4][0]}:{port}"
