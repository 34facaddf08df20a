"""A job under observation: its processes by /proc, its batches by the trainers' metrics, what status says of it, and who follows it."""
import collections
import glob
import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time

ATTEMPTS_MAX = 10  # to follow or resume a job that makes no progress
UNREACHABLE = 4
BUSY = 2
Batch = collections.namedtuple("Batch", "time at")  # time: seconds; at: (pass, batch)
Process = collections.namedtuple("Process", "role pid node is_supervisor metrics")


OF_THE_JOB = {"done", "MANIFEST", "job.toml", "path.txt", "model"}  # not of what was trained


def digest(folder):
    """Of all parameters and state of a snapshot."""
    whole = hashlib.sha256()
    for name in sorted(set(os.listdir(folder)) - OF_THE_JOB):
        with open(f"{folder}/{name}", "rb") as file:
            whole.update(name.encode() + hashlib.sha256(file.read()).digest())
    return whole.hexdigest()


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return ") Z " not in file.read()
    except OSError:
        return False


def kill(pids):
    """When they were, in seconds."""
    began = time.time()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    while any(is_alive(pid) for pid in pids):
        time.sleep(0.002)
    return began


def processes_below(folder):
    """Every process whose program is in a node's folder: a role of a job, or "agent"."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            program = os.readlink(f"/proc/{entry}/exe")
            if not program.startswith(folder + "/"):
                continue
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                arguments = file.read().decode("utf8", "replace").split("\0")
        except OSError:
            continue
        node = int(program[len(folder) + 1:].split("/")[0])
        if len(arguments) > 3 and arguments[1] == "supervise":
            found.append(Process(arguments[3].split("/")[1], int(entry), node, True, ""))
            continue
        role = next((match for match in (re.fullmatch(r"--(trainer|pserver)_id=(\d+)", one) for one in arguments) if match), None)
        metrics = next((os.path.basename(one) for one in arguments if one.startswith("--metrics=")), "")
        found.append(Process(f"{role[1]}-{role[2]}" if role else "agent", int(entry), node, False, metrics))
    return found


class Metrics:
    """The batches of one trainer, read as they are written."""

    def __init__(self, pattern):
        self.pattern, self.offset, self.rest, self.batches = pattern, 0, b"", []

    def read(self):
        for path in glob.glob(self.pattern):
            with open(path, "rb") as file:
                file.seek(self.offset)
                new = file.read()
            self.offset += len(new)
            *lines, self.rest = (self.rest + new).split(b"\n")
            for line in lines:
                try:
                    one = json.loads(line)
                except ValueError:  # torn, by a kill or a full disk
                    continue
                if one.get("kind") == "train":
                    self.batches.append(Batch(one["unix_ms"] / 1000, (one["pass"], one["batch"])))
        return self.batches

    def first_after(self, moment):
        """Newest first, since it is asked while they come."""
        found = None
        for batch in reversed(self.batches):
            if batch.time <= moment:
                break
            found = batch.time
        return found

    def redone_since(self, moment):
        """Batches done again by steps back since then; steps back before it do not count."""
        redone, last = 0, None
        for batch in self.batches:
            if batch.time > moment and last and batch.at <= last:
                redone += len({one.at for one in self.batches if batch.at <= one.at <= last})
            last = batch.at
        return redone


class Watcher(threading.Thread):
    """Asks status until every victim is named, and notes when that was."""

    def __init__(self, job, victims, before):
        super().__init__(daemon=True)
        self.job, self.victims, self.before = job, victims, before
        self.named, self.asked, self.over = {}, [], threading.Event()
        self.words = ""

    def run(self):
        while not self.over.is_set() and len(self.named) < len(self.victims):
            began = time.time()
            said = self.job.status()
            ended = time.time()
            self.asked.append(ended - began)
            for victim in self.victims:
                if victim not in self.named and (words := self.words_about(victim, said)):
                    self.named[victim] = ended
                    self.words = words
            self.over.wait(0.1)

    def words_about(self, victim, said):
        view, errors = said
        node = self.job.nodes.names[self.job.node_of[victim]]
        if re.search(rf"\b{node}\b", errors):
            return errors.strip().split("\n")[0]
        for process in view.get("processes", []):
            if process["role"] != victim:
                continue
            if process["state"] != self.before.get(victim, process["state"]):
                return process["state"]
            if process["activity"] in ("suspect", "stalled"):
                return process["activity"]
        for line in view.get("stalls", []):
            if line.startswith(f"{victim} on") or (": no heartbeat reaches" in line and re.search(rf"\b{victim}\b", line)):
                return line
        return next(("slow" for one in view.get("slow", []) if one["role"] == victim), "")


class Paddlectl:
    """The program, run from the namespace that reaches all nodes."""

    def __init__(self, nodes, program):
        self.nodes, self.program = nodes, os.path.abspath(program)
        self.environment = {"PATH": os.environ["PATH"], "HOME": nodes.folder, "LANG": "C.UTF-8"}

    def start(self, out, command, *arguments):
        # Not ended by a Ctrl-C meant for this program. `ip netns exec` becomes paddlectl, so it is one process.
        return subprocess.Popen(self.nodes.in_hub(self.program, command, "--cluster", "cluster.toml", *arguments), cwd=self.nodes.folder,
                                env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                start_new_session=True)

    def run(self, command, *arguments, timeout=120):
        """Its exit code, output and errors; no code if it did not end in time."""
        try:
            done = subprocess.run(self.nodes.in_hub(self.program, command, "--cluster", "cluster.toml", *arguments),
                                  cwd=self.nodes.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return None, "", f"{command}: no end within {timeout} s"
        return done.returncode, done.stdout, done.stderr


class Job:
    """One run of train with what follows it; `resumed` counts how often it had to be resumed by hand."""

    def __init__(self, paddlectl, name, arguments, workspace="ledger"):
        self.paddlectl, self.nodes, self.name, self.arguments = paddlectl, paddlectl.nodes, name, arguments
        self.log = f"{self.nodes.folder}/{name}.log"
        self.metrics, self.node_of, self.file_of = {}, {}, {}
        self.resumed = self.attempts = 0
        self.code = None
        self.workspace = workspace
        self.follow("train", *arguments, workspace)

    def follow(self, verb, *arguments):
        self.verb = verb
        which = "--name" if verb == "train" else "--job"
        with open(self.log, "a") as out:
            out.write(f"--- {verb} {' '.join(arguments)}\n")
            out.flush()
            self.follower = self.paddlectl.start(out, verb, which, self.name, *arguments)

    def status(self):
        """What status says of the job, and its errors."""
        _, out, errors = self.paddlectl.run("status", "--json", "--timeout", "3", "--job", self.name)
        for line in reversed(out.splitlines()):
            try:
                return json.loads(line), errors
            except ValueError:
                continue
        return {}, errors

    def states(self):
        return {one["role"]: one["state"] for one in self.status()[0].get("processes", [])}

    def lives_ended_since(self, moment):
        """When the supervisor of each role noticed that the first incarnation after `moment` had ended."""
        found = {}
        for one in self.status()[0].get("processes", []):
            ends = [incarnation["ended_unix_ms"] / 1000 for incarnation in one["restarts"] if incarnation["ended_unix_ms"] / 1000 >= moment - 0.002]
            if ends:
                found[one["role"]] = min(ends)
        return found

    def engines(self):
        found = {one.role: one for one in processes_below(f"{self.nodes.folder}/disks") if not one.is_supervisor and one.role != "agent"}
        self.node_of.update((role, one.node) for role, one in found.items())
        self.file_of.update((role, one.metrics) for role, one in found.items())
        return found

    def supervisors(self):
        return {one.role: one for one in processes_below(f"{self.nodes.folder}/disks") if one.is_supervisor}

    def trainers(self):
        return sorted(role for role in self.node_of if role.startswith("trainer"))

    def folder_on(self, node):
        return f"{self.nodes.workdir(node)}/*/*/jobs/{self.name}"

    def read(self, takes_up=True):
        """Reads the metrics, and takes up the job again where its follower ended before it did."""
        for role in self.trainers():
            self.metrics.setdefault(role, Metrics(f"{self.folder_on(self.node_of[role])}/node_*/{self.file_of[role]}")).read()
        if takes_up and self.code is None and (code := self.follower.poll()) is not None:
            self.take_up(code)

    def take_up(self, code):
        self.attempts += 1
        if code == 0:
            self.code = 0
        elif self.attempts > ATTEMPTS_MAX:
            self.code = code
        elif code == UNREACHABLE and self.has_ended_the_rest():
            # Processes on the silent node still wait for the others. The hint of train has this command.
            self.paddlectl.run("stop", "--now", "--job", self.name)
            self.resume()
        elif code == UNREACHABLE or code < 0 or (code == BUSY and self.verb == "train"):
            time.sleep(1)
            self.follow("attach")
        else:
            self.resume()

    def has_ended_the_rest(self):
        """Whether the last follower ended the job because a silent node kept it from going on (docs/reliability.md)."""
        with open(self.log) as file:
            return "the rest of the job was stopped" in file.read().rpartition("\n--- ")[2]

    def resume(self):
        self.resumed += 1
        self.follow("train", *self.arguments, "--resume", self.workspace)

    def kill_follower(self):
        self.follower.kill()
        self.follower.wait()

    def position(self):
        """The furthest pass and batch of any trainer now."""
        return max((one.batches[-1].at for one in self.metrics.values() if one.batches), default=(-1, 0))

    def last_batch_time(self):
        return max((one.batches[-1].time for one in self.metrics.values() if one.batches), default=0)

    def snapshot(self, number):
        return f"{self.nodes.folder}/output/{self.name}/pass-{number:05}"

    def tail(self):
        with open(self.log) as file:
            return file.read()[-3000:]

    def end(self):
        """Nothing of it runs afterwards, and the nodes forget it."""
        if self.follower.poll() is None:
            self.kill_follower()
        if self.code != 0:
            self.paddlectl.run("stop", "--now", "--job", self.name)
            kill([one.pid for one in processes_below(f"{self.nodes.folder}/disks") if one.role != "agent"])
        self.paddlectl.run("rm", self.name, "--yes", "--discard")
