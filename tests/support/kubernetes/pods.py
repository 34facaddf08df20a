"""The kubelet of the stand-in cluster: pods that really run."""
import asyncio
import base64
import os
import re
import shutil
import signal
import subprocess

import streams
from limits import Limits, remove_group
from network import HUB, Network
from objects import Refused, condition, is_ending, now, quantity, set_condition
from volumes import NotReady, Volumes

HERE = os.path.dirname(os.path.abspath(__file__))
NODE = "standin-node"
RETRY = 0.2  # seconds
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
            await asyncio.sleep(min(probe.get("periodSeconds", 10), 1) if probe else RETRY)

    async def passes(self, probe):
        if "exec" in probe:
            command = self.enter(probe["exec"]["command"])
        elif "tcpSocket" in probe:
            command = ["ip", "netns", "exec", HUB, "bash", "-c", f': </dev/tcp/{self.pod.address}/{probe["tcpSocket"]["port"]}']
        else:
            http = probe["httpGet"]
            command = ["ip", "netns", "exec", HUB, "curl", "-sf", f'http://{self.pod.address}:{http["port"]}{http.get("path", "/")}']
        process = await asyncio.create_subprocess_exec(*command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
        return ["sh", "-c", groups + 'exec "$@"', "sh", "nsenter", "--target", str(self.init), *namespaces, *self.wrapped(command)]

    def kill(self, number, reason=None):
        if self.init and self.process.returncode is None:
            self.forced_reason = reason
            try:
                os.kill(self.init, number)
            except ProcessLookupError:
                pass


def make_root(root, image):
    """The parts of an image that can be written: small files of /etc and empty folders; /usr comes as a mount that is read-only."""
    for name in ("dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "usr", "var/log", "var/tmp", "var/lib"):
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
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb"))
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


class PodRun:
    """One pod from its creation to its end."""

    def __init__(self, kubelet, pod):
        self.kubelet, self.store = kubelet, kubelet.store
        self.uid, self.name, self.namespace = (pod["metadata"][key] for key in ("uid", "name", "namespace"))
        self.last, self.folder = pod, f'{kubelet.folder}/pods/{pod["metadata"]["uid"]}'
        self.init_containers = [Container(self, one) for one in pod["spec"].get("initContainers", [])]
        self.containers = [Container(self, one) for one in pod["spec"]["containers"]]
        self.number, self.sources, self.is_over, self.is_lost = None, {}, False, False
        self.task = asyncio.create_task(self.run())
        self.ending = None

    @property
    def pod(self):
        """The object as it is stored now, or was when it was removed."""
        found = self.store.get("pods", self.namespace, self.name)
        if found and found["metadata"]["uid"] == self.uid:
            self.last = found
        return self.last

    @property
    def network_name(self):
        return Network.name(self.number)

    @property
    def address(self):
        return Network.address(self.number)

    @property
    def host_name(self):
        return self.pod["spec"].get("hostname") or self.name

    def event(self, reason, message, type_="Normal"):
        self.store.event(self.pod, reason, message, type_)

    async def run(self):
        os.makedirs(self.folder, exist_ok=True)
        for container in self.init_containers + self.containers:
            os.makedirs(container.folder, exist_ok=True)
        await self.wait_for(self.schedule)
        self.event("Scheduled", f"Successfully assigned {self.namespace}/{self.name} to {NODE}")
        self.pod["status"]["startTime"] = now()
        self.publish()
        await self.wait_for(self.set_up_volumes)
        self.number = await self.kubelet.network.add()
        self.publish()
        self.kubelet.write_hosts()
        for container in self.init_containers:
            await self.wait_for(lambda one=container: self.pull(one))
            while await container.run() != 0:
                if self.pod["spec"]["restartPolicy"] == "Never" or self.is_over:
                    return self.finish("Failed")
                container.restarts += 1
                await asyncio.sleep(BACK_OFF_FIRST)
        codes = await asyncio.gather(*(self.start(one) for one in self.containers))
        return self.finish("Failed" if any(codes) else "Succeeded")

    async def start(self, container):
        await self.wait_for(lambda: self.pull(container))
        return await container.run_again_and_again()

    async def wait_for(self, step):
        """Tries a step of the start until it succeeds, and says why it did not in an event."""
        while True:
            try:
                return step()
            except NotReady as error:
                if error.reason == "FailedScheduling" and set_condition(self.pod, "PodScheduled", "False", reason="Unschedulable", message=str(error)):
                    self.store.update(self.pod)
                if str(error) not in self.kubelet.said.setdefault(self.uid, set()):
                    self.kubelet.said[self.uid].add(str(error))
                    self.event(error.reason, str(error), "Warning")
                await asyncio.sleep(RETRY)

    def schedule(self):
        self.kubelet.check_node(self.pod)
        for volume in self.pod["spec"].get("volumes", []):
            if "persistentVolumeClaim" in volume:
                self.kubelet.volumes.bound(self.pod, volume["persistentVolumeClaim"]["claimName"])
        self.pod["spec"]["nodeName"] = NODE
        set_condition(self.pod, "PodScheduled", "True")
        self.store.update(self.pod)

    def set_up_volumes(self):
        for volume in self.pod["spec"].get("volumes", []):
            self.sources[volume["name"]] = self.kubelet.volumes.source(self.pod, volume, f'{self.folder}/volumes/{volume["name"]}')

    def pull(self, container):
        rule = self.kubelet.rule("image", self.pod)
        try:
            self.environment(container)
        except NotReady as error:
            container.state = {"waiting": {"reason": error.reason, "message": str(error)}}
            self.publish()
            raise NotReady("Failed", f"Error: {error}") from error
        image = container.spec["image"]
        if rule is None:
            return
        cause = rule.get("message") or (f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": failed to resolve '
                                        f'reference "{image}": {image}: not found')
        state = {"waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}}
        if container.state != state:
            container.state = state
            self.event("Failed", f'Failed to pull image "{image}": {cause}', "Warning")
            self.event("Failed", "Error: ErrImagePull", "Warning")
            self.event("BackOff", f'Back-off pulling image "{image}"')
            self.publish()
        raise NotReady("Failed", "Error: ImagePullBackOff")

    def environment(self, container):
        """The variables of a container, by name."""
        values = {"PATH": PATH, "HOSTNAME": self.host_name, "HOME": "/root" if container.security().get("runAsUser", 0) == 0 else "/"}
        values["KUBERNETES_SERVICE_HOST"], values["KUBERNETES_SERVICE_PORT"] = "10.96.0.1", "443"
        for source in container.spec.get("envFrom", []):
            reference = source.get("secretRef") or source["configMapRef"]
            for key in (self.referenced("secretRef" in source, reference) or {}):
                values[source.get("prefix", "") + key] = self.referenced("secretRef" in source, dict(reference, key=key))
        for one in container.spec.get("env", []):
            value = self.value_from(one["valueFrom"], container) if "valueFrom" in one else expanded([one.get("value", "")], values)[0]
            if value is not None:
                values[one["name"]] = value
        return values

    def value_from(self, source, container):
        if "fieldRef" in source:
            path = source["fieldRef"]["fieldPath"]
            of_map = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
            if of_map:
                return (self.pod["metadata"].get(of_map[1]) or {}).get(of_map[2], "")
            if path in ("status.podIP", "status.podIPs"):
                return self.address if self.number else ""
            value = self.pod
            for part in path.split("."):
                value = value.get(part, {})
            return value or ""
        if "resourceFieldRef" in source:
            which, _, name = source["resourceFieldRef"]["resource"].partition(".")
            amount = quantity(container.spec["resources"].get(which, {}).get(name, "0"))
            return str(-int(-amount // quantity(source["resourceFieldRef"].get("divisor", "1"))))
        of_secret = "secretKeyRef" in source
        return self.referenced(of_secret, source["secretKeyRef" if of_secret else "configMapKeyRef"])

    def referenced(self, of_secret, reference):
        """The value of a key of a secret or configMap, or all of it."""
        found = self.store.get("secrets" if of_secret else "configmaps", self.namespace, reference["name"])
        data = (found or {}).get("data") or {}
        if found is None or "key" in reference and reference["key"] not in data:
            if reference.get("optional"):
                return None
            what = "secret" if of_secret else "configmap"
            raise NotReady("CreateContainerConfigError", f'{what} "{reference["name"]}" not found' if found is None else
                           f'couldn\'t find key {reference["key"]} in {what.capitalize()} {self.namespace}/{reference["name"]}')
        if "key" not in reference:
            return data
        return base64.b64decode(data[reference["key"]]).decode() if of_secret else data[reference["key"]]

    def mounts(self, container, root):
        """Makes the places for a container's mounts in its root; returns (source, target, mode) of each."""
        found = [(f"{self.folder}/hosts", "etc/hosts", "rw")]
        for mount in sorted(container.spec.get("volumeMounts", []), key=lambda one: one["mountPath"]):
            source, is_read_only = self.sources[mount["name"]]
            if mount.get("subPath"):
                source = f'{source}/{mount["subPath"]}'
                if not os.path.exists(source):
                    os.makedirs(source)
            target = os.path.normpath(mount["mountPath"]).lstrip("/")
            if os.path.isdir(source):
                os.makedirs(f"{root}/{target}", exist_ok=True)
            else:
                os.makedirs(os.path.dirname(f"{root}/{target}"), exist_ok=True)
                with open(f"{root}/{target}", "ab"):
                    pass
            found.append((source, target, "ro" if is_read_only or mount.get("readOnly") else "rw"))
        return found

    def publish(self):
        """Writes how the pod is into its object."""
        pod = self.pod
        if self.is_lost or not self.store.holds(pod):
            return
        status = pod["status"]
        if status["phase"] not in ("Succeeded", "Failed"):
            if any("running" in one.state or one.restarts for one in self.containers):
                status["phase"] = "Running"
        for key, containers in (("containerStatuses", self.containers), ("initContainerStatuses", self.init_containers)):
            if containers:
                status[key] = [one.status() for one in containers]
        if self.number:
            status.update(podIP=self.address, podIPs=[{"ip": self.address}], hostIP="10.0.0.9")
        is_ready = status["phase"] == "Running" and not self.is_over and all(one.is_ready for one in self.containers)
        unready = {} if is_ready else {"reason": "PodCompleted"} if status["phase"] == "Succeeded" else {
            "reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(one.name for one in self.containers if not one.is_ready)}]"}
        set_condition(pod, "Initialized", "True" if all("terminated" in one.state for one in self.init_containers) else "False")
        for type_ in ("Ready", "ContainersReady"):
            set_condition(pod, type_, "True" if is_ready else "False", **unready)
        self.store.update(pod)
        self.kubelet.write_hosts()

    def finish(self, phase, **more):
        """The pod's processes have ended for good."""
        self.is_over = True
        pod = self.pod
        if self.is_lost:
            return
        if pod["status"]["phase"] not in ("Succeeded", "Failed"):
            pod["status"].update(phase=phase, **more)
        self.publish()

    async def stop(self, grace):
        """Stops all containers."""
        self.is_over = True
        await asyncio.gather(*(one.stop(grace) for one in self.init_containers + self.containers))
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def end(self, grace):
        """Stops the pod and removes all of it."""
        await self.stop(grace)
        if self.number:
            await self.kubelet.network.remove(self.number)
        self.store.remove(self.pod)
        self.kubelet.forget(self)


class Kubelet:
    """Runs all pods, and gives their logs and shells to kubectl."""

    def __init__(self, store, folder, image, limits):
        self.store, self.folder, self.image, self.limits = store, folder, image, limits
        self.network, self.volumes = Network(), Volumes(store, folder)
        self.runs, self.said, self.rules = {}, {}, {}
        self.ended = {}  # pods of jobs that have ended, by the job
        self.has_websockets = True

    async def start(self):
        await self.network.start()
        resources = {"cpu": "64", "memory": "256Gi", "pods": "250", "nvidia.com/gpu": "0"}
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": NODE}
        self.store.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}, "spec": {},
                        "status": {"capacity": resources, "allocatable": dict(resources),
                                   "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}})

    def run_new_pods(self):
        for pod in self.store.list("pods"):
            if pod["metadata"]["uid"] not in self.runs and pod["status"]["phase"] == "Pending":
                self.runs[pod["metadata"]["uid"]] = PodRun(self, pod)

    def run_of(self, pod):
        return self.runs.get(pod["metadata"]["uid"])

    def rule(self, name, pod):
        """The rule that a test set for pods whose names match, if there is one for this pod."""
        rule = self.rules.get(name)
        return rule if rule and re.search(rule.get("match", ""), pod["metadata"]["name"]) else None

    def check_node(self, pod):
        """Raises NotReady, in the scheduler's words, unless the pod fits on the node."""
        rule = self.rule("unschedulable", pod)
        if rule:
            raise NotReady("FailedScheduling", rule.get("message") or "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are "
                           "available: 1 No preemption victims found for incoming pod.")
        node = self.store.get("nodes", None, NODE)
        if not pod["spec"].get("nodeSelector", {}).items() <= node["metadata"]["labels"].items():
            raise NotReady("FailedScheduling", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: "
                           "0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
        total = {}
        for one in self.store.list("pods"):
            if one is pod or one["spec"].get("nodeName") and one["status"]["phase"] not in ("Succeeded", "Failed"):
                for container in one["spec"]["containers"]:
                    for name, text in container["resources"].get("requests", {}).items():
                        total[name] = total.get(name, 0) + quantity(text)
        lacking = [name for name, amount in sorted(total.items()) if amount > quantity(node["status"]["allocatable"].get(name, "0"))]
        if lacking:
            raise NotReady("FailedScheduling", f"0/1 nodes are available: {', '.join(f'1 Insufficient {one}' for one in lacking)}. preemption: "
                           "0/1 nodes are available: 1 No preemption victims found for incoming pod.")

    def write_hosts(self):
        """The hosts file of each pod: stands for the kubelet's entry and for the cluster's DNS; rewritten in place, as it is mounted."""
        names = {}
        for run in self.runs.values():
            pod = run.pod
            service = run.number and self.store.get("services", run.namespace, pod["spec"].get("subdomain"))
            selector = service and service["spec"].get("selector") or {}
            if not service or not selector.items() <= (pod["metadata"].get("labels") or {}).items() or run.is_over:
                continue
            if condition(pod, "Ready").get("status") == "True" or service["spec"].get("publishNotReadyAddresses"):
                for base in (f'{run.host_name}.{service["metadata"]["name"]}', service["metadata"]["name"]):
                    full = f"{base}.{run.namespace}.svc"
                    names.setdefault(run.namespace, []).append(f"{run.address}\t{full}.cluster.local {full} {base}.{run.namespace} {base}\n")
        for run in self.runs.values():
            if os.path.isdir(run.folder):
                own = f"{run.address}\t{run.host_name}\n" if run.number else ""
                with open(f"{run.folder}/hosts", "w", encoding="ascii") as file:
                    file.writelines(["127.0.0.1\tlocalhost\n", own, *names.get(run.namespace, [])])

    def disrupt(self, pod, reason, message):
        set_condition(pod, "DisruptionTarget", "True", reason=reason, message=message)
        self.store.update(pod)

    async def evict(self, pod, message):
        """As the kubelet of a node under pressure does: the pod stays, as failed."""
        run = self.run_of(pod)
        message = message or "The node was low on resource: memory. Threshold quantity: 100Mi, available: 92Mi. "
        self.store.event(pod, "Evicted", message, "Warning")
        set_condition(pod, "DisruptionTarget", "True", reason="TerminationByKubelet", message=message)
        await run.stop(0)
        run.finish("Failed", reason="Evicted", message=message)

    async def lose(self, pod):
        """The pod's machine is gone: nothing of it answers, and its object stays, Terminating, until it is deleted by force."""
        run = self.run_of(pod)
        run.is_lost = run.is_over = True
        await self.network.set_link(run.number, "down")
        for container in run.containers:
            container.kill(signal.SIGKILL)
        pod["status"].update(reason="NodeLost", message=f"Node {NODE} which was running pod {run.name} is unresponsive")
        for type_ in ("Ready", "ContainersReady"):
            set_condition(pod, type_, "False", reason="NodeNotReady")
        set_condition(pod, "DisruptionTarget", "True", reason="DeletionByTaintManager", message="Taint manager: deleting due to NoExecute taint")
        pod["metadata"].update(deletionTimestamp=now(), deletionGracePeriodSeconds=pod["spec"]["terminationGracePeriodSeconds"])
        self.store.event(pod, "NodeNotReady", "Node is not ready", "Warning")
        self.store.update(pod)

    def begin_end(self, pod, grace=None):
        """DELETE of a pod: it is Terminating until its processes have ended, or gone at once if there is no grace."""
        run = self.run_of(pod)
        grace = pod["spec"]["terminationGracePeriodSeconds"] if grace is None else grace
        if run is None:
            return self.store.remove(pod)
        if grace == 0:
            self.store.remove(pod)
        elif run.is_lost:
            return None
        elif not is_ending(pod):
            pod["metadata"].update(deletionTimestamp=now(), deletionGracePeriodSeconds=grace)
            self.store.update(pod)
        if run.ending is None or grace == 0:
            run.ending = asyncio.create_task(run.end(grace))
        return None

    def forget(self, run):
        self.runs.pop(run.uid, None)
        self.said.pop(run.uid, None)
        for container in run.init_containers + run.containers:
            for group in container.groups.values():
                remove_group(group)
        remove_folder(run.folder)
        self.write_hosts()

    def container(self, pod, query):
        name = query.get("container") or pod["spec"]["containers"][0]["name"]
        run = self.run_of(pod)
        found = next((one for one in (run.init_containers + run.containers if run else []) if one.name == name), None)
        if found is None:
            raise Refused(400, "BadRequest", f'container {name} is not valid for pod {pod["metadata"]["name"]}')
        return found

    async def answer_log(self, request, pod):
        container = self.container(pod, request.query)
        restarts = container.restarts
        if request.query.get("previous") in ("1", "true"):
            restarts -= 1
            if restarts < 0:
                raise Refused(400, "BadRequest", f'previous terminated container "{container.name}" in pod "{container.pod.name}" not found')
        if container.pod.is_lost:
            raise unreachable()
        if not os.path.exists(container.log(restarts)):
            reason = container.state.get("waiting", {}).get("reason", "ContainerCreating")
            waits = "waiting to start" if reason == "ContainerCreating" else "waiting to start: trying and failing to pull image"
            raise Refused(400, "BadRequest", f'container "{container.name}" in pod "{container.pod.name}" is {waits}: {reason}')

        def is_over():
            return container.restarts != restarts or "running" not in container.state
        return await streams.answer_log(request, container.log(restarts), is_over)

    async def answer_exec(self, request, pod):
        if pod["status"]["phase"] in ("Succeeded", "Failed"):
            raise Refused(400, "BadRequest", f'cannot exec into a container in a completed pod; current phase is {pod["status"]["phase"]}')
        container = self.container(pod, request.query)
        if container.pod.is_lost:
            raise unreachable()
        if container.init is None:
            raise Refused(500, "InternalError", f'unable to upgrade connection: container not found ("{container.name}")')
        if request.headers.get("Upgrade", "").lower() == "websocket" and not self.has_websockets:
            raise Refused(403, "Forbidden", "unable to upgrade: the stand-in was started without WebSockets")
        return await streams.answer_exec(request, container.enter(request.query.getall("command")))


def unreachable():
    return Refused(500, "InternalError", "error dialing backend: dial tcp 10.0.0.9:10250: connect: no route to host")


def remove_folder(folder):
    """A pod's folder; a volume in memory is unmounted first."""
    if os.path.isdir(f"{folder}/volumes"):
        for name in os.listdir(f"{folder}/volumes"):
            if os.path.ismount(f"{folder}/volumes/{name}"):
                subprocess.run(["umount", "-l", f"{folder}/volumes/{name}"], check=False)
    subprocess.run(["rm", "-rf", folder], check=False)
