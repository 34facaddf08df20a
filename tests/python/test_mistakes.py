"""Mistakes and losses on real pservers: each is an exception within a deadline, never a hang."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from support.training_job import TrainingJob, engine

pytest.importorskip("numpy", reason="there is no python3-numpy")
SECONDS = 40

TRAINS = """
width = given.get("width", 4)
tables = [pd.Table("user", width if rank == 1 else 4)]
with pd.join(tables, pd.sgd(given.get("rate", 0.1) if rank == 1 else 0.1),
             timeout=given.get("timeout", 30)) as job:
    print("joined", job._channel.sidecar_pid, flush=True)
    for step in range(given.get("steps", 5)):
        rows = job.pull("user", np.arange(10))
        gradient = np.ones_like(rows.values)
        if rank == 1 and step == 2 and "value" in given:
            gradient[3, 1] = given["value"]
        job.push({"user": (rows, gradient)}, samples=1)
    job.finish_pass()
print("left")
"""


@pytest.fixture
def make(tmp_path):
    made = []

    def start(text=TRAINS, **shape):
        job = TrainingJob(tmp_path, **shape)
        made.append(job)
        job.write_program(text)
        return job

    yield start
    for job in made:
        job.end()


def write_key(folder, name, letter=b"a"):
    path = folder / name
    path.write_bytes(letter * 32)
    path.chmod(0o600)
    return str(path)


def ended(processes):
    end = time.monotonic() + SECONDS
    while any(each.poll() is None for each in processes):
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.02)
    return [each.returncode for each in processes]


def start_all(job, **arguments):
    return [job.start(rank, **arguments) for rank in range(job.trainers)]


def last_error(log):
    """The last exception of a traceback, with its next step."""
    return log[log.rindex("paddlectl.errors."):]


def refused(job, **arguments):
    """The error of the one trainer that is refused; the other waits for it, as at a slow start."""
    processes = start_all(job, **arguments)
    end = time.monotonic() + SECONDS
    while all(each.poll() is None for each in processes):
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.02)
    rank = [each.poll() for each in processes].index(1)
    return last_error(job.log(f"trainer-{rank}"))


def test_another_width_is_an_error_of_both(make):
    error = refused(make(), width=8)
    assert re.search("DataError|UsageError", error)
    assert "user" in error and "4" in error and "8" in error, error


def test_another_optimizer_is_an_error(make):
    error = refused(make(), rate=0.2)
    assert "learning_rate" in error and "0.1" in error and "0.2" in error, error


@pytest.mark.parametrize("value, says", [
    (float("nan"), "nan"),
    (3e38, "3e+38"),
])
def test_a_gradient_that_is_not_finite_ends_the_job_with_its_place(make, value, says):
    job = make()
    assert ended(start_all(job, value=value)) == [1, 1], job.logs()
    says = ("DataError: trainer 1, pass 1 (pass-00000), batch 3: a gradient of row 3 of table "
            f"'user' is {says}")
    assert says in last_error(job.log("trainer-1")), job.logs()
    assert "trainer 1, pass 1" in last_error(job.log("trainer-0")), "the others learn why"
    assert not job.leftovers()


def test_a_wrong_secret_is_an_auth_error(make, tmp_path):
    right = write_key(tmp_path, "right")
    job = make(trainers=1, flags=[f"--key_file={right}"])
    job.variables["PADDLE_INIT_KEY_FILE"] = write_key(tmp_path, "wrong", b"b")
    assert ended(start_all(job)) == [1], job.logs()
    assert "paddlectl.errors.AuthError" in job.log("trainer-0"), job.logs()
    job.variables["PADDLE_INIT_KEY_FILE"] = right
    assert ended(start_all(job)) == [0], job.logs()


def test_pservers_of_another_job_and_none_at_all(make):
    job = make(trainers=1)
    job.variables["PADDLE_INIT_JOB_TAG"] = "another"
    assert ended(start_all(job)) == [1], job.logs()
    print(last_error(job.log("trainer-0")))
    del job.variables["PADDLE_INIT_JOB_TAG"]
    job.variables["PADDLE_INIT_CONNECT_TIMEOUT"] = "1"
    for each in job.pservers:
        each.kill()
        each.wait()
    assert ended(start_all(job)) == [1], job.logs()
    assert "UnreachableError" in last_error(job.log("trainer-0")), job.logs()
    assert "next: start the pservers first" in job.log("trainer-0"), job.logs()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_pserver_is_an_unreachable_error_of_all(make, tmp_path, number):
    key = write_key(tmp_path, "key")  # Heartbeats need one.
    job = make(flags=[f"--key_file={key}"])
    job.variables["PADDLE_INIT_KEY_FILE"] = key
    processes = start_all(job, steps=10**6)
    job.wait_for("trainer-0", "joined")
    job.wait_for("trainer-1", "joined")
    time.sleep(0.3)
    job.pservers[1].send_signal(number)
    assert ended(processes) == [1, 1], job.logs()
    for rank in (0, 1):
        assert "UnreachableError" in last_error(job.log(f"trainer-{rank}")), job.logs()
    assert not job.leftovers()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_sidecar_that_is_killed_or_stopped_is_an_error_of_its_program(make, number):
    job = make()
    processes = start_all(job, steps=10**6, timeout=3)
    for rank in (0, 1):
        job.wait_for(f"trainer-{rank}", "joined")
    sidecar = int(job.log("trainer-1").split("joined ")[1].split()[0])
    time.sleep(0.3)
    os.kill(sidecar, number)
    assert ended(processes[1:]) == [1], job.logs()
    says = {signal.SIGKILL: "killed by signal 9", signal.SIGSTOP: "no sign of life for 3 s"}
    assert says[number] in last_error(job.log("trainer-1"))
    assert not pathlib.Path(f"/proc/{sidecar}").exists()


def test_an_exception_of_the_program_ends_the_job_for_all(make):
    job = make(TRAINS.replace("    job.finish_pass()", "    if rank == 1: raise ValueError('odd')\n"
                                                       "    job.finish_pass()"))
    assert ended(start_all(job)) == [1, 1], job.logs()
    assert "trainer 1: ValueError: odd" in last_error(job.log("trainer-0")), job.logs()


def test_a_stopped_program_wakes_up_to_a_job_that_goes_on(make):
    job = make(TRAINS + "", trainers=1)
    process = start_all(job, steps=2000, timeout=2)[0]
    job.wait_for("trainer-0", "joined")
    process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    process.send_signal(signal.SIGCONT)
    assert ended([process]) == [0], job.logs()


def test_an_engine_of_no_job_says_what_it_needs(tmp_path):
    code = "import paddlectl as pd\npd.join([pd.Table('user', 4)])"
    environment = {"PATH": "/usr/bin:/bin", "PADDLE_PROGRAM": engine(),
                   "PYTHONPATH": os.environ.get("PYTHONPATH", "") or
                   str(pathlib.Path(__file__).resolve().parents[2] / "python"),
                   "PADDLE_INIT_CONNECT_TIMEOUT": "1", "PADDLE_INIT_PORT": "9"}
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                             timeout=SECONDS, env=environment, cwd=tmp_path)
    assert outcome.returncode == 1
    assert "127.0.0.1:9" in last_error(outcome.stderr), outcome.stderr
