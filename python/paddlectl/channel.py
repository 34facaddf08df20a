"""The channel to the sidecar: requests and answers in JSON; arrays go through shared memory.

proto/PROTOCOL.md ("Beside a program") describes the bytes.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import select
import socket
import struct
import time
import weakref
from typing import Any, Callable, Dict, Generic, List, NoReturn, Optional, Sequence, TypeVar, cast

from .errors import DataError, Error, ResourceError, SidecarError, UsageError, from_answer
from .memory import SharedMemory
from .sidecar import Sidecar

Message = Dict[str, Any]
T = TypeVar("T")

_HEADER = struct.Struct("<IHHII")  # magic, version, 0, request, bytes of JSON
_MAGIC = 0x434C4450
_VERSION = 1
_REQUEST_BYTES_MAX = 64 << 10
_ANSWER_BYTES_MAX = 16 << 20
_OUTSTANDING_MAX = 1024
_SLICE = 0.5  # seconds; a program that was frozen for longer has not waited for longer
_CLOSED = {"job": "join again in a new process", "reader": "open another one by read()"}
_OTHER_PROCESS = {
    "job": "join, pull and push in the process that trains, not in a DataLoader's worker",
    "reader": "call read() in the process that pulls",
}


class Request(Generic[T]):
    """A request on its way. Its blocks belong to the sidecar until the answer is here."""

    def __init__(
        self,
        number: int,
        finish: Callable[[Message], T],
        blocks: Sequence[int],
        undo: Callable[[], None],
        *,
        awaited: bool,
    ) -> None:
        self.number = number
        self.finish = finish
        self.blocks = blocks
        self.undo = undo  # called if the sidecar refuses the request
        self.awaited = awaited  # False: the next call raises the request's error
        self.done = False
        self.value: Optional[T] = None
        self.error: Optional[Error] = None


class Channel:
    """Starts a sidecar and exchanges messages with it. One thread at a time makes calls."""

    def __init__(
        self, flags: Sequence[str], memory: int, timeout: float, *, owner: str = "job"
    ) -> None:
        if not timeout > 1:  # Pulses come every second.
            raise UsageError(f"timeout={timeout}: give more than 1 second")
        self.timeout = timeout
        self._owner = owner  # "job" or "reader", for errors
        self.on_close: Callable[[], None] = lambda: None
        self.waiting = ""  # what the sidecar waits for, by its last pulse
        self._pid = os.getpid()
        self._number = 0
        self._requests: Dict[int, Request[Any]] = {}
        self._failures: List[Request[Any]] = []  # their errors are not raised yet
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._broken: Optional[Error] = None
        self._closed = False
        self.memory = SharedMemory(memory)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sidecar = Sidecar(flags, theirs.fileno(), self.memory.fd)
        except BaseException:
            self._socket.close()
            self.memory.close()
            raise
        finally:
            theirs.close()
            self.memory.close_fd()
        self._socket.setblocking(False)
        self._poll = select.poll()
        _channels.add(self)
        atexit.register(self.close)

    @property
    def sidecar_pid(self) -> int:
        """The process id of the sidecar."""
        return self._sidecar.pid

    @property
    def is_closed(self) -> bool:
        """Whether the sidecar was ended."""
        return self._closed

    def send(
        self,
        message: Message,
        finish: Callable[[Message], T],
        blocks: Sequence[int] = (),
        undo: Callable[[], None] = lambda: None,
        *,
        awaited: bool = True,
    ) -> Request[T]:
        """Sends a request. `finish` makes its value from the answer, before the blocks are freed.

        The answer has the number of the request as "request". If the request cannot be sent, its
        blocks are freed and `undo` is called.
        """
        try:
            text = _encoded(message)
            self._check_open()
            if len(self._requests) >= _OUTSTANDING_MAX:
                oldest = next(iter(self._requests.values()))
                self._exchange(lambda: oldest.done)
        except BaseException:
            for block in blocks:
                self.memory.free(block)
            undo()
            raise
        request = Request(0, finish, blocks, undo, awaited=awaited)
        self._put(request, text)
        self._exchange(lambda: not self._outgoing)
        return request

    def send_last(self, message: Message, seconds: float) -> None:
        """Sends a request while others are outstanding; waits so many seconds for its answer."""
        self._check_open()
        end = time.monotonic() + seconds
        request: Request[None] = Request(0, lambda answer: None, (), lambda: None, awaited=True)
        self._put(request, _encoded(message))
        self._exchange(lambda: request.done or time.monotonic() > end)

    def wait(self, request: Request[T], seconds: float = math.inf) -> T:
        """The value of a request, when its answer is here. Raises its error.

        SidecarError: the sidecar lives, but has not answered after so many seconds.
        """
        if not request.done:
            self._check_open()
        end = time.monotonic() + seconds
        self._exchange(lambda: request.done or time.monotonic() > end)
        if not request.done:
            raise SidecarError(f"paddle client did not answer for {seconds:g} s")
        if request in self._failures:
            self._failures.remove(request)
        if request.error is not None:
            raise request.error
        return cast(T, request.value)

    def settle(self) -> None:
        """Returns when the requests that nothing waits for are done. Raises the first error."""
        self._check_open()
        self._exchange(lambda: all(each.awaited for each in self._requests.values()))
        self.check()

    def check(self) -> None:
        """Raises the error of a request that nothing waited for, or of the channel."""
        self._check_open()
        self._step(0)
        if self._failures:
            error = self._failures.pop(0).error
            assert error is not None
            raise error

    def allocate(self, size: int, purpose: str) -> int:
        """A block of shared memory. Waits for earlier requests if they have the memory."""
        while True:
            offset = self.memory.allocate(size)
            if offset is not None:
                return offset
            holders = [each for each in self._requests.values() if each.blocks]
            if not holders:
                raise ResourceError(
                    f"{purpose} needs {size} bytes of shared memory, and not all of its "
                    f"{self.memory.size} bytes are free",
                    f"give more, such as join(..., memory={max(2 * size, 2 * self.memory.size)})",
                )
            self._exchange(lambda: holders[0].done)

    def close(self) -> None:
        """Ends the sidecar, without leaving the job: a restarted program can continue."""
        if self._closed or self._pid != os.getpid():
            return
        self._closed = True
        self.on_close()
        atexit.unregister(self.close)
        self._close_socket()
        self._sidecar.end()
        self.memory.close()

    def leave_to_parent(self) -> None:
        """Closes the descriptors of a forked child, so that the sidecar sees its parent's end."""
        self._close_socket()
        self._sidecar.close_words()

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise UsageError(
                f"this {self._owner} belongs to process {self._pid}, and this is process "
                f"{os.getpid()}",
                _OTHER_PROCESS[self._owner],
            )
        if self._broken is not None:
            raise self._broken
        if self._closed:
            raise UsageError(f"this {self._owner} is closed", _CLOSED[self._owner])

    def _put(self, request: Request[Any], text: bytes) -> None:
        """Gives the request its number, and sends as much as fits."""
        self._number += 1
        request.number = self._number
        self._requests[request.number] = request
        self._outgoing += _HEADER.pack(_MAGIC, _VERSION, 0, request.number, len(text)) + text
        self._send_some()

    def _close_socket(self) -> None:
        try:
            self._socket.close()
        except OSError:  # The program has closed the descriptor itself.
            pass

    def _exchange(self, until: Callable[[], bool]) -> None:
        """Sends and receives until `until()`."""
        quiet = 0.0
        while not until():
            if self._broken is not None:
                raise self._broken
            begin = time.monotonic()
            if self._step(_SLICE):
                quiet = 0.0
                continue
            quiet += min(time.monotonic() - begin, _SLICE)
            if quiet >= self.timeout:
                self._break(self._silence())

    def _step(self, seconds: float) -> bool:
        """Sends and receives what it can, after so many seconds at most. True: it received."""
        wanted = select.POLLIN | (select.POLLOUT if self._outgoing else 0)
        self._poll.register(self._socket, wanted)
        events = sum(event for _, event in self._poll.poll(seconds * 1000))
        if events & select.POLLOUT:
            self._send_some()
        if events & ~select.POLLOUT:
            self._receive()
        return bool(events & ~select.POLLOUT)

    def _send_some(self) -> None:
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:  # Its last words are better than "broken pipe".
            self._break(self._death())

    def _receive(self) -> None:
        try:
            data = self._socket.recv(_REQUEST_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._break(self._death())
        self._incoming += data
        while len(self._incoming) >= _HEADER.size:
            magic, version, zero, number, size = _HEADER.unpack_from(self._incoming)
            if (magic, version, zero) != (_MAGIC, _VERSION, 0) or size > _ANSWER_BYTES_MAX:
                self._break(
                    DataError(
                        f"paddle client sent a header of magic {magic:#x}, version {version} and "
                        f"{size} bytes",
                        "PADDLE_PROGRAM and this module must be of one release",
                    )
                )
            end = _HEADER.size + size
            if len(self._incoming) < end:
                return
            message = json.loads(bytes(self._incoming[_HEADER.size : end]))
            del self._incoming[:end]
            self._dispatch(number, message)

    def _dispatch(self, number: int, message: Message) -> None:
        if number == 0:
            self.waiting = str(message.get("waiting", ""))
            return
        request = self._requests.pop(number, None)
        if request is None:
            self._break(DataError(f"paddle client answered the unknown request {number}"))
        try:
            if message.get("ok"):
                request.value = request.finish({**message, "request": number})
            else:
                request.error = from_answer(
                    str(message.get("kind", "failed")),
                    str(message.get("message", "")),
                    str(message.get("hint", "")),
                )
                request.undo()
        finally:
            for block in request.blocks:
                self.memory.free(block)
            request.done = True
        if request.error is not None and not request.awaited:
            self._failures.append(request)

    def _death(self) -> SidecarError:
        self._close_socket()
        return self._sidecar.death()

    def _silence(self) -> SidecarError:
        self._close_socket()
        self._sidecar.end(0)
        waited = f"; it waited for {self.waiting}" if self.waiting else ""
        return SidecarError(
            f"paddle client gave no sign of life for {self.timeout:g} s{waited}; it was ended",
            "the machine may be overloaded; join(..., timeout=120) waits longer",
        )

    def _break(self, error: Error) -> NoReturn:
        self._broken = error
        self.close()
        raise error


def _encoded(message: Message) -> bytes:
    text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    if len(text) <= _REQUEST_BYTES_MAX:
        return text
    raise UsageError(
        f"a message '{message['op']}' of {len(text)} bytes: the limit is {_REQUEST_BYTES_MAX}",
        "use fewer tables and pulls in one call, such as one pull for all ids of a batch",
    )


_channels: "weakref.WeakSet[Channel]" = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    for channel in list(_channels):
        channel.leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)
