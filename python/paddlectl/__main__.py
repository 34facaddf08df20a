"""`python3 -m paddlectl` prints what this package sees: versions, the engine, variables."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy

from .errors import UsageError
from .sidecar import find_program

_SECONDS = 20


def _engine() -> str:
    try:
        program = find_program()
        shown = subprocess.run(
            [program, "version"], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except UsageError as error:
        return str(error)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{program}: {error}"
    first = shown.stdout.partition("\n")[0].removesuffix(", compiled with")
    return f"{program}: {first or 'no version'}"


def main() -> int:
    print(f"python {platform.python_version()}, numpy {numpy.__version__}")
    print(f"module {os.path.dirname(os.path.abspath(__file__))}")
    print(f"engine {_engine()}")
    names = sorted(name for name in os.environ if name.startswith("PADDLE_INIT_"))
    for name in names:
        print(f"{name}={os.environ[name]}")
    if not names:
        print("no PADDLE_INIT_* is set: start the program by `paddlectl train`, or call init()")
    return 0


if __name__ == "__main__":
    sys.exit(main())
