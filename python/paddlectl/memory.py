"""The memory that a program shares with its sidecar, and the blocks in it."""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from .errors import UsageError

ALIGNMENT = 64
MEMORY_MAX = 16 << 30


def padded(size: int) -> int:
    """The size rounded up to whole lines of 64 bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class SharedMemory:
    """A sealed memory file, divided into blocks at multiples of 64 bytes.

    The lowest free place is taken first, so that the same pages are used again and again; pages
    that were never used take no memory.
    """

    def __init__(self, size: int) -> None:
        if not ALIGNMENT <= size <= MEMORY_MAX:
            raise UsageError(f"memory={size}: give {ALIGNMENT} to {MEMORY_MAX} bytes")
        self.size = size // ALIGNMENT * ALIGNMENT
        self.fd = os.memfd_create("paddlectl", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, self.size)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self._map: Optional[mmap.mmap] = mmap.mmap(self.fd, self.size)
        except BaseException:
            os.close(self.fd)
            raise
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self._free: List[Tuple[int, int]] = [(0, self.size)]  # (begin, end), ascending, apart
        self._taken: Dict[int, int] = {}  # begin: end

    def allocate(self, size: int) -> Optional[int]:
        """The offset of a new block of at least `size` bytes; None: no free place is that large."""
        needed = max(padded(size), ALIGNMENT)
        for place, (begin, end) in enumerate(self._free):
            if end - begin < needed:
                continue
            if end - begin == needed:
                del self._free[place]
            else:
                self._free[place] = (begin + needed, end)
            self._taken[begin] = begin + needed
            return begin
        return None

    def free(self, offset: int) -> None:
        """Gives a block back and joins it with free neighbours."""
        begin, end = offset, self._taken.pop(offset)
        place = 0
        while place < len(self._free) and self._free[place][0] < begin:
            place += 1
        if place < len(self._free) and self._free[place][0] == end:
            end = self._free.pop(place)[1]
        if place > 0 and self._free[place - 1][1] == begin:
            place -= 1
            begin = self._free.pop(place)[0]
        self._free.insert(place, (begin, end))

    def array(
        self, offset: int, shape: Union[int, Tuple[int, ...]], dtype: npt.DTypeLike
    ) -> npt.NDArray[Any]:
        """A view of the memory, which is valid until its block is freed."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        return self._bytes[offset : offset + count * kind.itemsize].view(kind).reshape(shape)

    def close_fd(self) -> None:
        """Closes the descriptor, which only the start of the sidecar needs."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def close(self) -> None:
        """Unmaps the memory. REQUIRES: no view of it is used any more."""
        self.close_fd()
        if self._map is None:
            return
        self._bytes = np.empty(0, dtype=np.uint8)
        try:
            self._map.close()
        except BufferError:  # A view is still alive; the memory goes with it.
            pass
        self._map = None
