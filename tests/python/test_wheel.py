"""scripts/wheel: a wheel that pip installs without network, the same bytes each time."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _make(folder: pathlib.Path, **variables: str) -> pathlib.Path:
    folder.mkdir()
    made = subprocess.run(
        [sys.executable, str(ROOT / "scripts/wheel"), str(folder)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    return pathlib.Path(made.stdout.strip())


def test_the_same_files_give_the_same_bytes(tmp_path: pathlib.Path) -> None:
    first = _make(tmp_path / "first")
    second = _make(tmp_path / "second", TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert first.read_bytes() == second.read_bytes()
    version = re.search(r'kProgramVersion = "(.*)"', (ROOT / "base/version.h").read_text())
    assert version is not None
    assert first.name == f"paddlectl-{version[1]}-py3-none-any.whl"


def test_its_record_has_every_file(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(_make(tmp_path / "made")) as wheel:
        names = wheel.namelist()
        (record,) = [name for name in names if name.endswith(".dist-info/RECORD")]
        lines = csv.reader(io.StringIO(wheel.read(record).decode()))
        rows = {name: (digest, size) for name, digest, size in lines}
        assert sorted(rows) == sorted(names)
        assert rows.pop(record) == ("", "")
        for name, (digest, size) in rows.items():
            content = wheel.read(name)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
            assert (digest, size) == (f"sha256={hashed.rstrip('=')}", str(len(content))), name
    sources = {str(path.relative_to(ROOT / "python")) for path in (ROOT / "python").rglob("*.py")}
    assert {"paddlectl/py.typed", *sources} == {name for name in names if ".dist-info/" not in name}


def test_pip_installs_it_into_an_environment(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("numpy")
    wheel = _make(tmp_path / "made")
    venv = tmp_path / "venv"
    # numpy is the system's.
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--system-site-packages", str(venv)],
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        pytest.skip("python3 -m venv failed: apt install python3-venv")
    python = str(venv / "bin" / "python3")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [python, *arguments], capture_output=True, text=True, cwd=tmp_path, env=variables
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "pip", "install", "--no-index", "--no-deps", str(wheel))
    assert f"module {venv}/lib/" in run("-m", "paddlectl")
    assert run("-m", "pip", "show", "paddlectl").startswith("Name: paddlectl\nVersion: 0.")
    run("-m", "pip", "uninstall", "--yes", "paddlectl")
    assert not list(venv.glob("lib/*/site-packages/paddlectl*"))
