"""The module's own work, against a stand-in for the engine."""
import copy
import json
import math
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

np = pytest.importorskip("numpy", reason="there is no python3-numpy")

import paddlectl as pd  # noqa: E402
from paddlectl.memory import SharedMemory  # noqa: E402
from paddlectl.tables import to_toml  # noqa: E402

PYTHON = str(pathlib.Path(__file__).resolve().parents[2] / "python")


def requests(log, op):
    return [each for each in map(json.loads, log.read_text().splitlines()) if each.get("op") == op]


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ends(pid, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


def test_a_job_of_paddlectl_without_pservers_is_refused_at_once(fake, monkeypatch):
    requested = fake()
    monkeypatch.setenv("PADDLECTL_PROCESS", "/r:job/trainer-0")
    with pytest.raises(pd.UsageError, match="has no pservers") as refused:
        pd.join()
    assert "--pservers" in refused.value.hint
    assert not requested.exists()
    monkeypatch.setenv("PADDLE_INIT_PSERVERS", "127.0.0.1")
    pd.join().close()


def test_a_pull_gives_each_different_id_once_in_the_shape_of_the_ids(fake):
    fake()
    with pd.join() as job:
        assert (job.trainer, job.trainers, job.pass_, job.batch) == (1, 3, 2, 5)
        assert job.tables == {"user": 4, "item": 2}
        rows = job.pull("user", [[7, 2**63], [7, 3]])
        assert rows.values.dtype == np.float32 and rows.values.shape == (3, 4)
        assert rows.index.dtype == np.int64
        assert rows.index.tolist() == [[1, 2], [1, 0]]
        empty = job.pull("user", [])
        assert empty.values.shape == (0, 4) and empty.index.shape == (0,)
        both = job.pull({"user": np.array([1], np.int32), "item": np.array([5, 5], np.uint64)})
        assert both["user"].values.shape == (1, 4) and both["item"].values.shape == (1, 2)


def test_a_push_changes_the_rows_and_counts_the_batch(fake):
    fake()
    with pd.join() as job:
        first = job.pull("user", [1, 2])
        second = job.pull("user", [2])
        gradient = np.arange(8, dtype=np.float32).reshape(2, 4)
        job.push({"user": [(first, gradient), (second, np.ones((1, 4), np.float32))]}, samples=8)
        assert job.batch == 1
        after = job.pull("user", [1, 2]).values
        assert after.tolist() == [[1, 0, -1, -2], [-4, -5, -6, -7]]
        assert first.values.tolist() == [[1] * 4] * 2, "earlier values stay as they were"
        job.push({}, samples=0)
        assert job.batch == 2


def test_pushes_in_the_background_and_their_errors(fake):
    fake(LOSES="push")
    job = pd.join()
    rows = job.pull("user", [1])
    handle = job.push_async({"user": (rows, np.ones((1, 4), np.float32))}, samples=1)
    with pytest.raises(pd.UnreachableError, match="lost pserver 1") as caught:
        handle.wait()
    assert caught.value.kind == "unreachable" and caught.value.hint == "look there"
    job.push_async({}, samples=1)
    with pytest.raises(pd.UnreachableError):  # Nothing waited for it, so a later call says it.
        for _ in range(100):
            job.pull("user", [1])
    job.close()


@pytest.mark.parametrize(
    "ids, says",
    [
        (np.array([3, -1]), "table 'user': -1 is no id"),
        ([2**63, -2], "table 'user': -2 is no id"),
        ([2**64], "table 'user': 18446744073709551616 is no id"),
        ([0.5], "table 'user': 0.5 is no id"),
        (np.array([1.0], np.float32), "table 'user': 1.0 of type float32 is no id"),
        ([True], "table 'user': True is no id"),
        (["a"], "table 'user': 'a' is no id"),
    ],
)
def test_what_is_no_id_is_named(fake, ids, says):
    fake()
    with pd.join() as job:
        with pytest.raises(pd.UsageError, match=re.escape(says)):
            job.pull("user", ids)
        assert len(job.pull("user", [2**64 - 1, 2**63])) == 2, "the job goes on"


def test_a_gradient_that_does_not_fit_is_named_with_both_shapes(fake):
    log = fake()
    with pd.join() as job:
        rows = job.pull("user", [1, 2])
        fits = np.zeros((2, 4), np.float32)
        for gradient, says in [
            (np.zeros((2, 3), np.float32), "float32 of shape (2, 3), and its rows are float32 of"
                                           " shape (2, 4)"),
            (np.zeros((2, 4)), "float64 of shape (2, 4), and its rows are float32 of shape (2, 4)"),
            ([[1, 2], [3, 4]], "int64 of shape (2, 2), and its rows are float32 of shape (2, 4)"),
        ]:
            with pytest.raises(pd.UsageError, match="table 'user'.*" + re.escape(says)):
                job.push({"user": (rows, gradient)}, samples=1)
        with pytest.raises(pd.UsageError, match="table 'item'.*those of table 'user'"):
            job.push({"item": (rows, fits)}, samples=1)
        with pytest.raises(pd.UsageError, match="(?s)no table 'users'.*item, user"):
            job.push({"users": (rows, fits)}, samples=1)
        with pytest.raises(pd.UsageError, match="no table 'users'"):
            job.pull("users", [1])
        with pytest.raises(pd.UsageError, match="samples=-1"):
            job.push({"user": (rows, fits)}, samples=-1)
        with pytest.raises(pd.UsageError, match="cost=nan"):
            job.push({"user": (rows, fits)}, samples=1, cost=np.float32(math.nan))
        job.push({"user": (rows, fits)}, samples=1)
        with pytest.raises(pd.UsageError, match="pushed before"):
            job.push({"user": (rows, fits)}, samples=1)
        test = job.pull("user", [9], absent="zero")
        assert test.values.tolist() == [[0, 0, 0, 0]]
        with pytest.raises(pd.UsageError, match="absent='zero'"):
            job.push({"user": (test, np.zeros((1, 4), np.float32))}, samples=1)
        with pytest.raises(pd.UsageError, match="'none'.*'seed' or 'zero'"):
            job.pull("user", [9], absent="none")
    assert len(requests(log, "push")) == 1


def test_rows_that_nothing_needs_are_released_once(fake):
    log = fake()
    with pd.join() as job:
        rows = job.pull({"user": [1], "item": [1]})
        kept = rows.pop("item")
        del rows
        job.pull("user", [2])
        job.pull("user", [3])  # Releases the pull of 2.
        job.push({"item": (kept, np.zeros((1, 2), np.float32))}, samples=1)
        del kept
        job.pull("user", [4])
    released = [number for each in requests(log, "release") for number in each["pulls"]]
    assert released == [3, 5], "not 2, whose other table was needed and pushed"


def test_prefetch_pulls_ahead_in_order_and_with_depth_0_after_the_push(fake):
    log = fake()
    with pd.join() as job:
        for depth in (0, 1, 3):
            log.write_text("")
            seen = []
            for batch, rows in job.prefetch([[1], [2], [1]], {"user": lambda ids: ids}, depth):
                seen.append((batch, float(rows["user"].values[0, 0])))
                job.push({"user": (rows["user"], np.ones((1, 4), np.float32))}, samples=1)
            ops = [each["op"][2] for each in map(json.loads, log.read_text().splitlines())]
            assert "".join(ops) == {0: "lslsls", 1: "llslss", 3: "lllsss"}[depth]
            assert [batch for batch, _ in seen] == [[1], [2], [1]]
        assert len(list(job.prefetch([], {"user": lambda ids: ids}))) == 0
        with pytest.raises(pd.UsageError, match="depth=-1"):
            job.prefetch([], {}, depth=-1)


def test_memory_that_is_too_small_is_named_and_pushes_wait_for_it(fake):
    fake(SLOW="push", SECONDS="0.3")
    with pd.join(memory=1 << 16) as job:
        with pytest.raises(pd.ResourceError, match="(?s)table 'user'.*memory=160000") as caught:
            job.pull("user", np.arange(4000))
        assert "80000 bytes" in str(caught.value)
        ids = np.arange(1000)
        rows = [job.pull("user", ids) for _ in range(4)]
        for each in rows:  # 16,000 bytes each, of 65,536
            job.push_async({"user": (each, np.ones((1000, 4), np.float32))}, samples=1)
            each = job.pull("user", [5])
        assert job.batch == 4
    with pytest.raises(pd.UsageError, match="memory=0"):
        pd.join(memory=0)


def test_blocks_of_memory_are_joined_again():
    memory = SharedMemory(640)
    blocks = [memory.allocate(65) for _ in range(5)]
    assert blocks == [0, 128, 256, 384, 512] and memory.allocate(1) is None
    for block in (128, 512, 0, 384, 256):
        memory.free(block)
    assert memory.allocate(640) == 0
    memory.close()


@pytest.mark.parametrize("op", ["hello", "pull", "push", "finish_pass", "save", "leave"])
def test_a_sidecar_that_dies_is_an_error_with_its_last_words(fake, op, capfd):
    fake(DIES=op)
    begin = time.monotonic()
    with pytest.raises(pd.SidecarError, match="exited with code 7; its last words: out of luck"):
        with pd.join() as job:
            rows = job.pull("user", [1])
            job.push({"user": (rows, np.ones((1, 4), np.float32))}, samples=1)
            job.finish_pass()
            job.save()
    assert time.monotonic() - begin < 10
    assert "a first line" in capfd.readouterr().err, "its log is the program's"


def test_a_sidecar_that_was_killed_or_stopped_is_an_error_within_the_timeout(fake):
    fake(FREEZES="push", WAITING="trainer 2")
    job = pd.join(timeout=2)
    pid = job._channel.sidecar_pid
    os.kill(pid, signal.SIGKILL)
    for _ in range(2):  # Each later call says so too.
        with pytest.raises(pd.SidecarError, match=r"killed by signal 9 \(Killed\)"):
            job.pull("user", [1])
    job.close()

    job = pd.join(timeout=2)
    pid = job._channel.sidecar_pid
    time.sleep(0.5)
    begin = time.monotonic()
    with pytest.raises(pd.SidecarError, match="no sign of life for 2 s; it waited for trainer 2"):
        job.push({}, samples=1)
    assert 1.5 < time.monotonic() - begin < 8
    assert ends(pid)
    with pytest.raises(pd.UsageError, match="timeout=1"):
        pd.join(timeout=1)


def test_pulses_count_as_life_and_the_programs_own_sleep_does_not_matter(fake):
    fake(SLOW="push", SECONDS="2")
    with pd.join(timeout=1.1) as job:
        job.push({}, samples=1)
    fake(SILENT="1")
    os.environ["FAKE_SLOW"] = ""
    with pd.join(timeout=1.1) as job:
        time.sleep(1.5)
        job.pull("user", [1])


def test_a_program_that_was_frozen_does_not_take_its_sidecar_for_lost(fake, tmp_path):
    fake(SILENT="1", SLOW="push", SECONDS="1.5")
    code = "import paddlectl as pd\nwith pd.join(timeout=2.5) as job:\n  print('in', flush=True)\n"
    code += "  job.push({}, samples=1)\nprint('left')\n"
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": PYTHON})
    assert program.stdout.readline() == "in\n"
    time.sleep(0.2)
    program.send_signal(signal.SIGSTOP)
    time.sleep(3)
    program.send_signal(signal.SIGCONT)
    assert program.communicate(timeout=20)[0] == "left\n"


def test_what_is_no_answer_is_an_error(fake):
    fake(GARBAGE="push")
    with pytest.raises(pd.DataError, match="sent a header of magic 0x50545448"):
        with pd.join() as job:
            job.push({}, samples=1)


def test_a_program_that_is_no_engine_is_named(fake, monkeypatch, tmp_path):
    fake()
    monkeypatch.setenv("PADDLE_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(pd.UsageError, match="cannot start .*/none: No such file"):
        pd.join()
    monkeypatch.setenv("PADDLE_PROGRAM", "/bin/false")
    with pytest.raises(pd.SidecarError, match="exited with code 1"):
        pd.join()
    monkeypatch.delenv("PADDLE_PROGRAM")
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(pd.UsageError, match="PADDLE_PROGRAM is not set"):
        pd.join()


def test_a_refused_join_has_the_class_of_its_cause(fake):
    for kind, error in [("auth", pd.AuthError), ("data", pd.DataError), ("usage", pd.UsageError),
                        ("version", pd.VersionError), ("resource", pd.ResourceError),
                        ("failed", pd.Error)]:
        fake(REFUSE=f"{kind}:wrong secret")
        with pytest.raises(error, match="wrong secret\n  next: look there") as caught:
            pd.join()
        assert caught.value.kind == kind and isinstance(caught.value, pd.Error)


def test_tables_from_code_become_sections_of_job_toml(fake):
    log = fake()
    tables = [pd.Table("user", 16, initial_std=np.float32(0.5), entry_count=2, static=False),
              pd.Table('a "b"', 4, on_full="evict", bytes_max=1 << 40)]
    with pd.join(tables, pd.adam(1e-7, beta1=0.5), {"sparse": "geo", "update_frequency": 10}):
        pass
    assert requests(log, "hello")[0]["job"] == """\
[[table]]
name = "user"
width = 16
initial_std = 0.5
static = false
entry_count = 2
[[table]]
name = "a \\"b\\""
width = 4
bytes_max = 1099511627776
on_full = "evict"
[optimizer]
method = "adam"
learning_rate = 1e-07
beta1 = 0.5
[strategy]
sparse = "geo"
update_frequency = 10
"""
    assert to_toml(None, None, "async") == '[strategy]\nsparse = "async"\n'
    assert to_toml(None, None, None) == ""


def test_arguments_of_init_become_flags(fake):
    log = fake()
    pd.init(use_gpu=False, trainer_count=4, port=7164, ports_num=2, trainer_id=np.int64(3),
            pservers=["10.1.0.1", "10.1.0.2"])
    try:
        pd.join(config="other.toml").close()
    finally:
        pd.settings._settings.clear()
    flags = json.loads(log.read_text().splitlines()[0])["flags"]
    del flags["channel_fd"], flags["memory_fd"]
    assert flags == {"port": "7164", "ports_num": "2", "trainer_id": "3", "config": "other.toml",
                     "pservers": "10.1.0.1,10.1.0.2"}


def test_state_travels_in_parts_and_comes_back(fake):
    log = fake(STATE="0123456789" * 9000)
    with pd.join(memory=1 << 16) as job:
        assert (job.resumed.pass_, job.resumed.batch) == (2, 5)
        assert job.resumed.state == b"0123456789" * 9000
        assert len(requests(log, "read_state")) == 3
        job.trainer = 0
        job.save(state=b"a" * 70000)
        job.save(state=b"")
        job.save()
    assert [each["offset"] for each in requests(log, "state")] == [0, 32768, 65536, 0]
    assert len(requests(log, "save")) == 3


def test_lines_of_metrics(fake, monkeypatch, tmp_path):
    fake()
    monkeypatch.setenv("PADDLE_INIT_METRICS", str(tmp_path / "metrics"))
    with pd.join() as job:
        job.batch = job.samples = 0
        job.push({}, samples=10, cost=5)
        job.push({}, samples=30, cost=25)
        job.metrics(auc=np.float32(0.5), passes=3, curve=np.array([1, 2.5]))
        job.metrics("test", cost=0.25, samples=7)
        job.finish_pass(metrics={"auc": 0.75})
        with pytest.raises(pd.UsageError, match="metric 'nested'"):
            job.metrics(nested={"a": 1})
        with pytest.raises(pd.UsageError, match="keys"):
            job.metrics(**{f"m{i}": i for i in range(300)})
        job.metrics()
    lines = [json.loads(line) for line in (tmp_path / "metrics").read_text().splitlines()]
    for line in lines:
        assert abs(line.pop("unix_ms") - time.time() * 1000) < 60_000
    assert lines[0].pop("examples_per_second") > 0
    assert lines[3].pop("examples_per_second") == 0
    assert lines == [
        {"kind": "train", "pass": 2, "batch": 2, "samples": 40, "cost": 0.75, "auc": 0.5,
         "passes": 3, "curve": [1, 2.5]},
        {"kind": "test", "pass": 2, "batch": 2, "samples": 7, "cost": 0.25},
        {"kind": "pass", "pass": 2, "batch": 2, "samples": 40, "cost": 0.75, "auc": 0.75,
         "total_samples": 100, "total_cost": 0.5},
        {"kind": "train", "pass": 1, "batch": 0, "samples": 0},
    ]


def test_the_end_of_the_block_leaves_and_an_exception_abandons(fake):
    log = fake()
    pids = []

    def leave_by(error):
        log.write_text("")
        try:
            with pd.join() as job:
                pids.append(job._channel.sidecar_pid)
                if error is not None:
                    raise error
        except BaseException as caught:
            assert caught is error
        return [(each["op"], each.get("message")) for each in
                map(json.loads, log.read_text().splitlines()) if each.get("op") != "hello"
                and "flags" not in each]

    assert leave_by(None) == [("leave", None)]
    assert leave_by(SystemExit(75)) == [("leave", None)]
    assert leave_by(SystemExit(3)) == [("abandon", "SystemExit: 3")]
    assert leave_by(ValueError("bad\nbatch")) == [("abandon", "ValueError: bad")]
    assert leave_by(KeyboardInterrupt()) == [("abandon", "KeyboardInterrupt")]
    assert leave_by(pd.UnreachableError("lost")) == []
    assert leave_by(RuntimeError("[gloo/transport/tcp/pair.cc:598] Connection closed by peer")) == []
    log.write_text("")
    with pytest.raises(pd.UnreachableError, match="the layers are lost"):
        with pd.join() as job:
            job.go_back("the layers are lost")
    asked = json.loads(log.read_text().splitlines()[-1])
    assert (asked["op"], asked["kind"]) == ("abandon", "unreachable")
    assert all(ends(pid) for pid in pids)
    with pytest.raises(pd.UsageError, match="closed"):
        with pd.join() as job:
            handle = job.pull_async({"user": [1]})
            job.leave()
            assert len(handle.wait()["user"]) == 1
            job.pull("user", [1])
    job = pd.join()
    handle = job.pull_async({"user": [1]})
    job.close()
    with pytest.raises(pd.UsageError, match="closed"):
        handle.wait()


def test_a_job_that_nothing_names_any_more_is_closed(fake):
    fake()
    job = pd.join()
    pid = job._channel.sidecar_pid
    handle = job.pull_async({"user": [1]})
    del job
    assert len(handle.wait()["user"]) == 1, "a handle needs its job"
    del handle
    assert ends(pid)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_job_that_cannot_be_abandoned_in_time_is_closed(fake, monkeypatch):
    fake(SLOW="push", SECONDS="60")
    monkeypatch.setattr(pd.job, "_ABANDON_SECONDS", 0.5)
    with pytest.raises(ValueError):
        with pd.join() as job:
            pid = job._channel.sidecar_pid
            job.push_async({}, samples=1)
            raise ValueError("bad batch")
    assert not is_running(pid)


def test_gradients_that_the_engine_refuses_can_be_pushed_again(fake, monkeypatch):
    fake(LOSES="push")
    with pd.join() as job:
        rows = job.pull("user", [1])
        for _ in range(2):
            with pytest.raises(pd.UnreachableError):
                job.push({"user": (rows, np.ones((1, 4), np.float32))}, samples=1)


def test_two_threads_at_a_time_are_refused(fake):
    fake(SLOW="push", SECONDS="1")
    with pd.join() as job:
        errors = []

        def push():
            try:
                job.push({}, samples=1)
            except pd.UsageError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=push) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(errors) == 1 and "two threads" in errors[0]


def test_sigterm_asks_the_job_to_stop_and_a_second_one_ends_the_program(fake):
    log = fake()
    with pd.join() as job:
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, "the next one ends the program"
        assert not job.stop_asked
        job.push({}, samples=1)
        assert job.stop_asked, "the job has answered"
    assert [each["op"] for each in map(json.loads, log.read_text().splitlines())
            if each.get("op") in ("stop", "push")] == ["stop", "push"]
    with pd.join() as job:
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        job.stop()
        job.push({}, samples=1)
        assert job.stop_asked
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    try:
        signal.signal(signal.SIGTERM, own := lambda *_: None)
        with pd.join():
            assert signal.getsignal(signal.SIGTERM) is own, "a program's own handler stays"
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def run(code, **more):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": PYTHON, **more})


def test_a_forked_worker_is_refused_and_leaves_the_job_to_its_parent(fake):
    fake()
    outcome = run("""
import multiprocessing, os, sys
import paddlectl as pd
def work(job):
    try:
        job.pull("user", [1])
    except pd.UsageError as error:
        print(error)
        sys.exit(5)
context = multiprocessing.get_context("fork")
with pd.join() as job:
    worker = context.Process(target=work, args=(job,))
    worker.start()
    worker.join()
    child = os.fork()
    if child == 0:
        del job
        sys.exit(0)  # Runs what is registered with atexit.
    os.waitpid(child, 0)
    print(worker.exitcode, len(job.pull("user", [1])))
""")
    assert "belongs to process" in outcome.stdout, outcome.stderr
    assert outcome.stdout.endswith("5 1\n") and outcome.returncode == 0, outcome.stderr


def test_the_sidecar_ends_with_its_program_even_if_a_worker_lives_on(fake):
    fake()
    for end in ("os.kill(os.getpid(), 9)", "os._exit(1)", "sys.exit(1)", "raise KeyboardInterrupt"):
        outcome = run(f"""
import os, sys, time
import paddlectl as pd
job = pd.join()
print(job._channel.sidecar_pid, flush=True)
child = os.fork()
if child == 0:
    os.close(1), os.close(2)
    time.sleep(20)
    os._exit(0)
print(child, flush=True)
{end}
""")
        sidecar, child = map(int, outcome.stdout.split())
        assert ends(sidecar), end
        assert is_running(child)
        os.kill(child, signal.SIGKILL)


def test_an_interrupt_during_a_wait_leaves_no_sidecar(fake):
    fake(SLOW="push", SECONDS="1")
    program = subprocess.Popen(
        [sys.executable, "-c", """
import paddlectl as pd
job = pd.join()
print(job._channel.sidecar_pid, flush=True)
job.push({}, samples=1)
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": PYTHON})
    sidecar = int(program.stdout.readline())
    time.sleep(0.5)
    program.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in program.communicate(timeout=20)[1]
    assert ends(sidecar)


def test_without_numpy_one_error_says_what_to_install(tmp_path):
    (tmp_path / "numpy.py").write_text("raise ImportError('No module named numpy')")
    outcome = run("import paddlectl", PYTHONPATH=f"{tmp_path}:{PYTHON}")
    assert outcome.returncode == 1
    assert outcome.stderr.splitlines()[-1] == (
        "ImportError: paddlectl needs numpy: apt install python3-numpy, or python3 -m pip install "
        "numpy")


def test_the_module_needs_no_torch():
    outcome = run("import sys, paddlectl; print('torch' in sys.modules)")
    assert outcome.stdout == "False\n", outcome.stderr


def test_what_the_package_sees(fake):
    fake()
    shown = subprocess.run([sys.executable, "-m", "paddlectl"], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": PYTHON, "PADDLE_INIT_PORT": "7164"})
    assert f"numpy {np.__version__}" in shown.stdout, shown.stderr
    assert re.search("^engine .*/paddle: paddle 0.0$", shown.stdout, re.M), shown.stdout
    assert "PADDLE_INIT_PORT=7164\n" in shown.stdout
    missing = run("import runpy; runpy.run_module('paddlectl', run_name='__main__')",
                  PADDLE_PROGRAM="/none")
    assert "engine /none: " in missing.stdout


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_cost_that_nobody_gave_is_in_no_line(fake, monkeypatch, tmp_path):
    fake()
    metrics = tmp_path / "metrics"
    monkeypatch.setenv("PADDLE_INIT_METRICS", str(metrics))
    with pd.join() as job:
        job.metrics()  # no samples yet
        job.push({}, samples=0)  # nothing is missing from it
        job.push({}, samples=4, cost=2)
        job.metrics()
        job.push({}, samples=4)
        job.metrics()
        assert math.isnan(job.finish_pass().cost)
        job.push({}, samples=4, cost=2)
        assert job.finish_pass().cost == 0.5
        job.metrics(cost=math.nan)  # the program's own
    lines = lines_of(metrics)
    assert [line.get("cost", "none") for line in lines] == ["none", 0.5, "none", "none", 0.5, None]
    assert [line.get("total_cost", "none") for line in lines[3:5]] == ["none", 0.5]


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize("error, says", [
    (ValueError("bad \udcff name"), "ValueError: bad \\udcff name"),
    (pd.Error(""), "Error"),
    (pd.Error("\n \nlate"), "late"),
    (pd.Error(5), "5"),
    (Unprintable(), "Unprintable"),
    (ValueError("\u20ac" * 5000), "ValueError: " + "\u20ac" * 988),
], ids=["surrogate", "empty", "lines", "number", "unprintable", "long"])
def test_any_exception_abandons_the_job(fake, error, says):
    log = fake()
    with pytest.raises(type(error)):
        with pd.join():
            raise error
    assert [each["message"] for each in requests(log, "abandon")] == [says]


def test_abandon_is_sent_while_other_requests_wait(fake, monkeypatch):
    log = fake(SLOW="pull", SECONDS="0.2")
    monkeypatch.setattr(pd.channel, "_OUTSTANDING_MAX", 3)
    with pytest.raises(ValueError):
        with pd.join() as job:
            for _ in range(3):
                job.pull_async({"user": [1]})
            sent = []
            real = job._channel._put
            job._channel._put = lambda request, text: (
                sent.append(sum(not each.done for each in job._channel._requests.values())),
                real(request, text))
            raise ValueError("bad batch")
    assert sent == [3], "all three were still on their way"
    assert len(requests(log, "abandon")) == 1


def test_exit_with_code_0_within_a_pass_ends_the_job(fake):
    for code in (0, None):
        log = fake()
        log.write_text("")
        with pytest.raises(pd.UsageError, match="code 0 in pass 3, after batch 1\n.*finish_pass"):
            with pd.join() as job:
                job.push({}, samples=1)
                sys.exit(code)
        assert "exits with code 0 in pass 3" in requests(log, "abandon")[0]["message"]
    for end in ("finish_pass", "stop"):
        log = fake()
        log.write_text("")
        with pytest.raises(SystemExit):
            with pd.join() as job:
                if end == "stop":
                    job.stop()
                job.push_async({}, samples=1)
                if end == "finish_pass":
                    job.finish_pass()
                sys.exit(0)
        assert len(requests(log, "leave")) == 1 and not requests(log, "abandon"), end


@pytest.mark.parametrize("call", ["finish_pass", "save", "leave"])
def test_the_error_of_a_push_in_the_background_comes_before_the_end_of_a_pass(fake, call):
    log = fake(REFUSES_PUSH="1", SLOW="push", SECONDS="0.3")
    with pytest.raises(pd.DataError, match="batch 1 is odd"):
        with pd.join() as job:
            job.push_async({}, samples=1)
            getattr(job, call)()
    assert not requests(log, call)
    assert len(requests(log, "abandon")) == 1


def test_the_end_of_the_block_raises_the_error_of_a_push_and_abandons(fake):
    log = fake(REFUSES_PUSH="1", SLOW="push", SECONDS="0.3")
    with pytest.raises(pd.DataError, match="batch 1 is odd"):
        with pd.join() as job:
            job.push_async({}, samples=1)
    assert requests(log, "abandon")[0]["message"] == "batch 1 is odd"


def test_metrics_of_a_pass_are_checked_before_it_ends(fake, monkeypatch, tmp_path):
    log = fake()
    monkeypatch.setenv("PADDLE_INIT_METRICS", str(tmp_path / "metrics"))
    with pd.join() as job:
        for bad in ({"auc": {"a": 1}}, {"auc": "x" * 70000}, {f"m{i}": i for i in range(300)}):
            with pytest.raises(pd.UsageError):
                job.finish_pass(metrics=bad)
            assert (job.pass_, job.batch) == (2, 5) and not requests(log, "finish_pass")
        job.push({}, samples=np.int64(3), cost=np.float32(1.5))
        (tmp_path / "metrics").mkdir()
        with pytest.raises(pd.ResourceError, match="metrics to .*: Is a directory"):
            job.finish_pass()
        assert (job.pass_, job.batch, job.samples) == (1, 0, 0), "the pass has ended"


class Scalar:
    """As a tensor with one element."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def __int__(self):
        return int(self.value)

    def __eq__(self, other):
        return self.value == other

    def __lt__(self, other):
        return self.value < other


def test_samples_and_cost_are_numbers_of_any_kind(fake):
    log = fake()
    with pd.join() as job:
        for samples, cost in ((np.int64(2), np.float32(0.5)), (Scalar(2), Scalar(0.5)),
                              (np.array(2), np.array([0.5])), (2.0, 1)):
            job.push({}, samples=samples, cost=cost)
        for bad in (0.5, np.float32(0.5), Scalar(0.5), -1, math.nan, math.inf, "2", None, [1, 2]):
            with pytest.raises(pd.UsageError, match="give the examples in the batch"):
                job.push({}, samples=bad)
        for bad in ("x", [1, 2], np.array([1, 2])):
            with pytest.raises(pd.UsageError, match="give one number"):
                job.push({}, samples=1, cost=bad)
        assert job.samples == 8 and type(job.samples) is int
        job.finish_pass()
    sent = [(each["samples"], each["cost"]) for each in requests(log, "push")]
    assert sent == [(2, 0.5)] * 3 + [(2, 1.0)]


def test_a_push_that_cannot_be_sent_leaves_its_rows_to_push(fake):
    log = fake()
    with pd.join() as job:
        pulled = [job.pull("user", [id]) for id in range(7000)]
        ones = np.ones((1, 4), np.float32)
        with pytest.raises(pd.UsageError, match="(?s)limit is 65536.*one pull for all ids"):
            job.push({"user": [(rows, ones) for rows in pulled]}, samples=1)
        job.push({"user": [(rows, ones) for rows in pulled[:2]]}, samples=1)
        assert job.pull("user", [0]).values.tolist() == [[0] * 4]
        del pulled[2:]
        job.pull("user", [1])
    released = {number for each in requests(log, "release") for number in each["pulls"]}
    assert len(released) >= 6998, "what was not pushed is released"
    assert len(requests(log, "release")) > 1, "in messages that fit"


def test_values_that_the_program_resized_still_need_a_gradient_for_each_row(fake):
    fake()
    with pd.join() as job:
        rows = job.pull("user", [1, 2])
        with pytest.raises(AttributeError):
            rows.values = rows.values[:1]
        with pytest.raises(AttributeError):
            rows.index = rows.index[:1]
        rows.values[0] = 7  # its own copy
        rows.values.resize((1, 4), refcheck=False)
        with pytest.raises(pd.UsageError, match="shape .1, 4., and its rows.*shape .2, 4."):
            job.push({"user": (rows, np.ones((1, 4), np.float32))}, samples=1)
        job.push({"user": (rows, np.ones((2, 4), np.float32))}, samples=1)
        assert job.pull("user", [1, 2]).values.tolist() == [[0] * 4] * 2


def in_thread(call):
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join()
    time.sleep(0.2)  # The kernel would end the thread's children now.
    return results[0]


def test_what_a_thread_started_lives_on_after_it(fake):
    fake()
    with in_thread(pd.join) as job:
        assert len(job.pull("user", [1])) == 1
    with in_thread(lambda: pd.read(snapshot="x")) as reader:
        assert reader.pull("user", [1]).shape == (1, 4)


def test_a_forked_process_starts_its_own(fake):
    fake()
    outcome = run("""
import os
import paddlectl as pd
with pd.read(snapshot="x") as reader:
    child = os.fork()
    if child == 0:
        with pd.read(snapshot="x") as own:
            print(own.pull("user", [1]).shape, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(reader.pull("user", [1]).shape)
""")
    assert outcome.stdout == "(1, 4)\n(1, 4)\n", outcome.stderr


def test_a_reader_that_nothing_names_any_more_is_closed(fake):
    fake()
    pids = []

    def read():
        reader = pd.read(snapshot="x")
        pids.append(reader._channel.sidecar_pid)
        return reader

    read()
    read().pull("user", [1])
    with pytest.raises(pd.UsageError):
        read().pull("users", [1])
    assert all(ends(pid) for pid in pids)
    reader = read()
    reader.close()
    with pytest.raises(pd.UsageError, match="this reader is closed\n.*read\\(\\)"):
        reader.pull("user", [1])


def test_wrong_places_to_read_from_are_named(fake):
    log = fake()
    for empty in ({"snapshot": ""}, {"address": ""}, {"address": []}):
        with pytest.raises(pd.UsageError, match="a snapshot or an address"):
            pd.read(**empty)
    assert not log.exists()
    with pytest.raises(pd.UsageError, match="cannot find the host 'no.such.host.invalid'"):
        pd.read(address="127.0.0.1:7164,no.such.host.invalid:7164")
    fake(REFUSE="auth:wrong secret")
    with pytest.raises(pd.AuthError, match="(?s)wrong secret.*key_file=.*keys/reader"):
        pd.read(address="localhost:7164,10.1.0.2:7164,[::1]:7164")
    flags = json.loads(log.read_text().splitlines()[0])["flags"]
    assert flags["pservers"] == "127.0.0.1:7164,10.1.0.2:7164,[::1]:7164"
    with pytest.raises(pd.AuthError, match="look there"):
        pd.read(address="127.0.0.1:7164", key_file="key")


def test_descriptors_that_the_program_closed_are_an_error_of_the_package(fake):
    fake()
    outcome = run("""
import os
import paddlectl as pd
job = pd.join(timeout=3)
os.closerange(3, 200)
for call in (lambda: job.pull("user", [1]), lambda: job.push({}, 1), job.leave):
    try:
        call()
    except pd.Error as error:
        print(type(error).__name__)
job.close()
""")
    assert outcome.stdout == "SidecarError\n" * 3 and outcome.stderr == "", outcome.stderr


def test_a_job_cannot_be_copied(fake):
    fake()
    with pd.join() as job, pd.read(snapshot="x") as reader:
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(pd.UsageError, match="a job cannot be copied"):
                copied(job)
            with pytest.raises(pd.UsageError, match="a reader cannot be copied"):
                copied(reader)
