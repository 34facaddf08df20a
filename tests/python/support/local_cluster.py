"""A cluster of nodes on this machine, for tests. Needs PADDLECTL_PROGRAM, the paddlectl to run."""

from __future__ import annotations

import os
import pathlib
import subprocess
from typing import List

import pytest

from support.free_ports import FreePorts


def program() -> str:
    path = os.environ.get("PADDLECTL_PROGRAM")
    if not path:
        pytest.skip("PADDLECTL_PROGRAM does not name a paddlectl")
    return path


class LocalCluster:
    """A folder with cluster.toml; the nodes' files are below `nodes`."""

    def __init__(self, folder: pathlib.Path, nodes: int = 2) -> None:
        self.folder = folder
        self.nodes = folder / "nodes"
        self._ports = FreePorts()
        self.write(
            "cluster.toml",
            f'name = "t"\nworkdir = "{self.nodes}"\nport = {self._ports.first}\n'
            f'[[node]]\nname = "n"\nlauncher = "local"\ncount = {nodes}\n',
        )

    def write(self, file: str, text: str) -> pathlib.Path:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def processes(self) -> List[str]:
        """Command lines of the processes that paddlectl left in this folder."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                place = os.readlink(entry / "cwd")
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if place.startswith(str(self.nodes)) or f"{self.nodes}/" in command:
                found.append(command)
        return found

    def end(self) -> None:
        arguments = ["teardown", "--cluster", "cluster.toml", "--yes", "--discard"]
        if self.nodes.exists():
            subprocess.run([program(), *arguments], cwd=self.folder, capture_output=True)
        self._ports.close()
