"""Containers: processes with a root, a user, rights and limits of their own."""
import asyncio
import os
import re
import shutil
import signal
import subprocess

from limits import Limits
from network import HUB
from objects import now, quantity

HERE = os.path.dirname(os.path.abspath(__file__))
PROBE_PERIOD_MAX, READY_PERIOD = 1.0, 0.2  # seconds; those of a manifest may be longer
BACK_OFF_FIRST, BACK_OFF_MAX = 0.5, 10.0  # seconds before a container is started again; a real kubelet waits 10 s to 5 min
ETC = ("alternatives", "debian_version", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "login.defs", "os-release", "profile", "shells")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Container:
    """One container of a pod: its processes, over all its restarts."""

    def __init__(self, pod, spec):
        self.pod, self.spec, self.name = pod, spec, spec["name"]
        self.restarts, self.process, self.init, self.is_ready = 0, None, None, False
        self.state, self.last_state, self.groups = {"waiting": {"reason": "ContainerCreating"}}, {}, {}
        self.forced_reason = None
        self.started, self.exited = asyncio.Event(), asyncio.Event()  # in this life; both are set before the first
        self.started.set()
        self.exited.set()

    @property
    def folder(self):
        return f"{self.pod.folder}/containers/{self.name}"

    def log(self, restarts):
        return f"{self.folder}/{restarts}.log"

    def status(self):
        return {"name": self.name, "image": self.spec["image"], "imageID": f'standin://{self.spec["image"]}', "ready": self.is_ready,
                "containerID": f"standin://{self.init or 0}", "started": "running" in self.state, "restartCount": self.restarts,
                "state": self.state, "lastState": self.last_state}

    async def run(self):
        """One life of the container, from a fresh root to the end of its process 1; returns the exit code."""
        self.started.clear()
        self.exited.clear()
        try:
            return await self.run_process()
        finally:
            self.started.set()
            self.exited.set()

    async def run_process(self):
        root, image = f"{self.folder}/root", self.pod.kubelet.image
        subprocess.run(["rm", "-rf", root], check=True)
        make_root(root, image)
        mounts = self.pod.mounts(self, root)
        with open(f"{self.folder}/mounts", "w", encoding="utf-8") as file:
            file.writelines("\t".join(one) + "\n" for one in mounts)
        limits = self.spec["resources"].get("limits", {})
        name = f'{self.pod.uid}-{self.name}'
        self.groups = self.pod.kubelet.limits.make(name, *(quantity(limits[one]) if one in limits else None for one in ("cpu", "memory")))
        kills_before = Limits.out_of_memory_kills(self.groups)
        command = expanded(self.spec.get("command", []) + self.spec.get("args", []), self.pod.environment(self)) or ["/bin/sh"]
        security = self.security()
        settings = {"PATH": PATH, "NETWORK": self.pod.network_name, "ROOT": root, "IMAGE": image, "MOUNTS": f"{self.folder}/mounts",
                    "READ_ONLY": "1" if security.get("readOnlyRootFilesystem") else "", "HOST": self.pod.host_name,
                    "CONTROL_GROUPS": " ".join(f"{one}={folder}" for one, folder in self.groups.items())}
        with open(self.log(self.restarts), "ab") as log:
            started, writer = os.pipe()
            self.process = await asyncio.create_subprocess_exec(f"{HERE}/container", *self.wrapped(command), stdin=writer, stdout=log,
                                                                env=settings)
            os.close(writer)
        if await read_line(started) == b"started\n":
            self.init = first_child(self.process.pid)
            self.state = {"running": {"startedAt": now()}}
            self.started.set()
            self.pod.publish()
            self.pod.event("Started", f"Started container {self.name}")
            checking = asyncio.create_task(self.watch_readiness())
        else:
            checking = None
        self.started.set()
        code = await self.process.wait()
        if checking:
            checking.cancel()
        code = 128 - code if code < 0 else code
        is_out_of_memory = Limits.out_of_memory_kills(self.groups) > kills_before
        reason = self.forced_reason or ("OOMKilled" if is_out_of_memory else "Completed" if code == 0 else "Error")
        self.forced_reason, self.init, self.is_ready = None, None, False
        self.state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": now(), "containerID": "standin://0",
                                     "startedAt": self.state.get("running", {}).get("startedAt", now())}}
        self.pod.publish()
        return code

    async def run_again_and_again(self):
        """The container under its pod's restartPolicy; returns its last exit code."""
        policy, wait = self.pod.pod["spec"]["restartPolicy"], 0.0
        while True:
            code = await self.run()
            if self.pod.is_over or policy == "Never" or policy == "OnFailure" and code == 0:
                return code
            self.last_state = self.state
            if wait:
                message = f"back-off {wait:g}s restarting failed container={self.name} pod={self.pod.name}"
                self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
                self.pod.event("BackOff", f"Back-off restarting failed container {self.name} in pod {self.pod.name}", "Warning")
                self.pod.publish()
                await asyncio.sleep(wait)
            wait = min(max(wait * 2, BACK_OFF_FIRST), BACK_OFF_MAX)
            self.restarts += 1

    async def stop(self, grace):
        """SIGTERM, and SIGKILL after the grace period."""
        if self.exited.is_set():
            return
        await self.started.wait()
        self.pod.event("Killing", f"Stopping container {self.name}")
        if grace:
            self.kill(signal.SIGTERM)
            try:
                return await asyncio.wait_for(self.exited.wait(), grace)
            except asyncio.TimeoutError:
                pass
        self.kill(signal.SIGKILL, self.forced_reason)
        await self.exited.wait()

    async def watch_readiness(self):
        """Keeps `is_ready` current, by the probe and by what tests delay."""
        probe = self.spec.get("readinessProbe")
        while True:
            is_ready = self.pod.kubelet.rule("unready", self.pod.pod) is None and (probe is None or await self.passes(probe))
            if is_ready != self.is_ready:
                self.is_ready = is_ready
                self.pod.publish()
            await asyncio.sleep(min(probe.get("periodSeconds", 10), PROBE_PERIOD_MAX) if probe else READY_PERIOD)

    async def passes(self, probe):
        if "exec" in probe:
            command = self.enter(probe["exec"]["command"])
        elif "tcpSocket" in probe:
            command = ["ip", "netns", "exec", HUB, "bash", "-c", f': </dev/tcp/{self.pod.address}/{probe["tcpSocket"]["port"]}']
        else:
            http = probe["httpGet"]
            command = ["ip", "netns", "exec", HUB, "curl", "-sf", f'http://{self.pod.address}:{http["port"]}{http.get("path", "/")}']
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        process = await asyncio.create_subprocess_exec(*command, **nowhere)
        try:
            return await asyncio.wait_for(process.wait(), probe.get("timeoutSeconds", 1) + 1) == 0
        except asyncio.TimeoutError:
            process.kill()
            return False

    def security(self):
        return {**self.pod.pod["spec"]["securityContext"], **self.spec.get("securityContext", {})}

    def wrapped(self, command):
        """The command with the container's user, rights, environment and folder; all of it runs inside."""
        security = self.security()
        group = self.pod.pod["spec"]["securityContext"].get("fsGroup")
        supplementary = [str(one) for one in security.get("supplementalGroups", []) + ([] if group is None else [group])]
        rights = ["--groups", ",".join(supplementary)] if supplementary else ["--clear-groups"]
        if "runAsUser" in security:
            rights += ["--reuid", str(security["runAsUser"]), "--regid", str(security.get("runAsGroup", 0))]
        if security.get("allowPrivilegeEscalation") is False:
            rights += ["--no-new-privs"]
        if "ALL" in security.get("capabilities", {}).get("drop", []):
            rights = ["--bounding-set=-all", "--inh-caps=-all", *rights]
        values = [f"{name}={value}" for name, value in self.pod.environment(self).items()]
        return ["setpriv", *rights, "env", "-i", "-C", self.spec.get("workingDir", "/"), *values, *command]

    def enter(self, command):
        """The argument vector, here, of a command in the running container."""
        groups = "".join(f'echo $$ >"{folder}/cgroup.procs"; ' for folder in self.groups.values())
        namespaces = [f"--{one}" for one in ("mount", "uts", "ipc", "net", "pid", "cgroup")]
        # In a chroot the root of the mount namespace is not that of its processes.
        nsenter = ["nsenter", "--target", str(self.init), *namespaces, "--root"]
        return ["sh", "-c", groups + 'exec "$@"', "sh", *nsenter, *self.wrapped(command)]

    def kill(self, number, reason=None):
        if self.init and self.process.returncode is None:
            self.forced_reason = reason
            try:
                os.kill(self.init, number)
            except ProcessLookupError:
                pass


def make_root(root, image):
    """The parts of an image that can be written: small files of /etc and empty folders; /usr comes as a mount that is read-only."""
    for name in ("dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr", "var/log", "var/tmp", "var/lib"):
        os.makedirs(f"{root}/{name}")
    for name in ("tmp", "var/tmp"):
        os.chmod(f"{root}/{name}", 0o1777)
    os.chmod(f"{root}/root", 0o700)
    os.symlink("/run", f"{root}/var/run")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"{image}/{name}"):
            os.symlink(os.readlink(f"{image}/{name}"), f"{root}/{name}")
    for name in ETC:
        path = f"{image}/etc/{name}"
        if os.path.isdir(path):
            shutil.copytree(path, f"{root}/etc/{name}", symlinks=True)
        elif os.path.exists(path):
            shutil.copy(path, f"{root}/etc/{name}")
    texts = {name: system_accounts(f"{image}/etc/{name}") for name in ("passwd", "group")}
    texts.update(hosts="", hostname="", **{"resolv.conf": "", "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n"})
    for name, text in texts.items():
        with open(f"{root}/etc/{name}", "w", encoding="utf-8") as file:
            file.write(text)


def system_accounts(path):
    """The accounts that any image has; users of this machine are not among them."""
    with open(path, encoding="utf-8") as file:
        return "".join(line for line in file if int(line.split(":")[2]) < 100 or line.startswith(("nobody:", "nogroup:")))


async def read_line(descriptor):
    """The first line that comes from a pipe, which is closed then."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(descriptor, "rb"))
    try:
        return await reader.readline()
    finally:
        transport.close()


def first_child(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, IndexError):
        return None


def expanded(words, environment):
    """$(NAME) in a command, as Kubernetes replaces it."""
    def value(match):
        return match[0][1:] if match[0].startswith("$$") else environment.get(match[1], match[0])
    return [re.sub(r"\$?\$\(([A-Za-z_][\w.-]*)\)", value, word) for word in words]
