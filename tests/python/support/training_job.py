"""Pservers and trainers of a job on loopback, as paddlectl would start them."""
from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from random import Random
from typing import Any, Dict, List, Optional, Sequence

import pytest

from support.free_ports import FreePorts

ROOT = pathlib.Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests/python/support/train_tables.py"
_SECONDS = 100


def engine() -> str:
    """The engine to test. Skips the test if there is none."""
    path = os.environ.get("PADDLE_PROGRAM", "")
    if not os.access(path, os.X_OK):
        pytest.skip("PADDLE_PROGRAM does not name the engine")
    return path


class TrainingJob:
    """A folder with the logs and results; end() leaves no process behind."""

    def __init__(self, folder: pathlib.Path, trainers: int = 2, pservers: int = 2,
                 flags: Sequence[str] = ()) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.engine = engine()
        self.trainers = trainers
        self.pservers: List[subprocess.Popen[bytes]] = []
        self.processes: List[subprocess.Popen[bytes]] = []
        self.program = PROGRAM
        self.variables: Dict[str, str] = {}  # more variables of trainers
        self._claims: List[FreePorts] = []
        self._memory: Dict[int, int] = {}  # of each trainer, for all its processes
        self._incarnations: Dict[int, int] = {}
        self.start_pservers(pservers, *flags)

    def write_program(self, text: str) -> None:
        """What trainers run from now on; `given` in it has their arguments."""
        self.program = self.folder / "program.py"
        self.program.write_text(
            "import json, os, signal, sys, time\nimport numpy as np\nimport paddlectl as pd\n"
            "given = json.loads(sys.argv[1])\nrank = int(os.environ['PADDLE_INIT_TRAINER_ID'])\n"
            + text)

    def start_pservers(self, count: int, *flags: str) -> None:
        self._claims.append(FreePorts())
        self.port = self._claims[-1].first
        self.pservers = []
        for id in range(count):
            self.pservers.append(self._start(
                [self.engine, "pserver", f"--port={self.port + 2 * id}", "--ports_num=1",
                 "--ports_num_for_sparse=1", f"--num_gradient_servers={self.trainers}",
                 f"--pserver_id={id}", "--lost_trainer_ends_job", "--lost_trainer_grace=60",
                 *flags], f"pserver-{id}", {}))
        for id in range(count):
            self.wait_for(f"pserver-{id}", "READY pserver")

    def start(self, rank: int, *, resume: bool = False, **arguments: Any
              ) -> subprocess.Popen[bytes]:
        """Starts a process of a trainer; each one of a rank has the next incarnation."""
        if rank not in self._memory:
            self._memory[rank] = os.memfd_create("paddlectl-trainer", 0)
        self._incarnations[rank] = self._incarnations.get(rank, 0) + 1
        pservers = ",".join(f"127.0.0.1:{self.port + 2 * id}" for id in range(len(self.pservers)))
        variables = {
            "PADDLE_PROGRAM": self.engine,
            "PADDLE_INIT_TRAINER_ID": str(rank),
            "PADDLE_INIT_NUM_GRADIENT_SERVERS": str(self.trainers),
            "PADDLE_INIT_PSERVERS": pservers,
            "PADDLE_INIT_PORTS_NUM": "1",
            "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
            "PADDLE_INIT_SAVE_DIR": str(self.folder / "output"),
            "PADDLE_INIT_METRICS": str(self.folder / f"metrics-{rank}.jsonl"),
            "PADDLE_INIT_INCARNATION": str(self._incarnations[rank]),
            "PADDLE_INIT_RESUME": "true" if resume or self._incarnations[rank] > 1 else "false",
            "PADDLECTL_MEMORY_FD": str(self._memory[rank]),
            **self.variables,
        }
        arguments["folder"] = str(self.folder)
        return self._start([sys.executable, str(self.program), json.dumps(arguments)],
                           f"trainer-{rank}", variables, [self._memory[rank]])

    def run(self, *, restarts: int = 0, resume: bool = False, **arguments: Any) -> List[int]:
        """Runs all trainers to their ends, and starts one that fails again. Returns exit codes."""
        running = [self.start(rank, resume=resume, **arguments) for rank in range(self.trainers)]
        end = time.monotonic() + _SECONDS
        while any(each.poll() is None for each in running):
            assert time.monotonic() < end, self.logs()
            time.sleep(0.02)
            for rank, each in enumerate(running):
                if each.poll() not in (None, 0, 75) and restarts > 0:
                    restarts -= 1
                    running[rank] = self.start(rank, **arguments)
        return [each.returncode for each in running]

    def run_under_kills(self, kills: int, seed: int, **arguments: Any) -> List[int]:
        """Kills programs or their sidecars at random moments, and starts each program again.

        Returns exit codes.
        """
        random = Random(seed)
        running = [self.start(rank, **arguments) for rank in range(self.trainers)]
        self.wait_for("trainer-0", "joined")
        end = time.monotonic() + _SECONDS
        while any(each.poll() is None for each in running):
            assert time.monotonic() < end, self.logs()
            time.sleep(random.uniform(0.05, 0.4) if kills > 0 else 0.02)
            rank = random.randrange(self.trainers)
            if kills > 0 and running[rank].poll() is None:
                kills -= 1
                pid = running[rank].pid
                children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                os.kill(int(random.choice([pid, *children])), signal.SIGKILL)
                if running[rank].wait(_SECONDS) != 0:
                    running[rank] = self.start(rank, **arguments)
        assert kills == 0, "the job was too short"
        return [each.returncode for each in running]

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def logs(self) -> str:
        return "".join(f"--- {path.name}\n{path.read_text(errors='replace')}"
                       for path in sorted(self.folder.glob("*.log")))

    def wait_for(self, name: str, text: str) -> None:
        """Waits until a process has printed a text."""
        end = time.monotonic() + _SECONDS
        while text not in self.log(name):
            assert time.monotonic() < end, self.logs()
            time.sleep(0.02)

    def leftovers(self) -> List[str]:
        """Command lines of processes that should have ended: sidecars of this job's trainers."""
        found = []
        ports = f":{self.port}"
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                environment = (entry / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.folder) in environment and f"127.0.0.1{ports}" in environment:
                found.append(command)
        return found

    def wait_pservers(self) -> List[Optional[int]]:
        return [each.wait(_SECONDS) for each in self.pservers]

    def forget_incarnations(self) -> None:
        """As a job that is started anew, by train --resume."""
        for fd in self._memory.values():
            os.close(fd)
        self._memory.clear()
        self._incarnations.clear()

    def end(self) -> None:
        for each in self.processes:
            if each.poll() is None:
                each.send_signal(signal.SIGKILL)
            each.wait()
        self.forget_incarnations()
        for claim in self._claims:
            claim.close()

    def _start(self, arguments: List[str], name: str, variables: Dict[str, str],
               fds: Any = ()) -> subprocess.Popen[bytes]:
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "python"),
                       "PYTHONDONTWRITEBYTECODE": "1", **variables}
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       env=environment, pass_fds=fds, cwd=self.folder)
        self.processes.append(process)
        return process
