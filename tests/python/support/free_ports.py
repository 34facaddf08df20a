"""Blocks of ports that no other test uses, as in tests/support/free_ports.h."""

from __future__ import annotations

import os
import socket

_FIRST_PORT = 12000
_BLOCK_PORTS = 64
_BLOCKS = 280


class FreePorts:
    """A block of 64 ports from `first` on, until close()."""

    def __init__(self) -> None:
        for attempt in range(_BLOCKS):
            block = (os.getpid() + attempt) % _BLOCKS
            self._claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                self._claim.bind(f"\0paddle-test-ports-{block}")
            except OSError:
                self._claim.close()
                continue
            self.first = _FIRST_PORT + block * _BLOCK_PORTS
            return
        raise RuntimeError("no free ports")

    def close(self) -> None:
        self._claim.close()
