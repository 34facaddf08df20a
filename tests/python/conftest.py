"""Fixtures of the tests of python/paddlectl."""
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Starts a stand-in for the engine with FAKE_* variables; returns the file of its requests."""
    for name in list(os.environ):
        if name.startswith(("PADDLE_", "PADDLECTL_")):
            monkeypatch.delenv(name)

    def start(**variables):
        engine = tmp_path / "paddle"
        stand_in = ROOT / "tests/python/fake_sidecar.py"
        engine.write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in} "$@"\n')
        engine.chmod(0o755)
        monkeypatch.setenv("PADDLE_PROGRAM", str(engine))
        monkeypatch.setenv("FAKE_LOG", str(tmp_path / "requests"))
        for name, value in variables.items():
            monkeypatch.setenv("FAKE_" + name, value)
        return tmp_path / "requests"

    return start
