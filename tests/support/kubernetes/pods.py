"""Pods: each from its creation to its end, and how its object says so."""
import asyncio
import base64
import os
import re
import subprocess

from containers import BACK_OFF_FIRST, PATH, Container, expanded
from network import Network
from objects import now, quantity, set_condition
from volumes import NotReady

NODE = "standin-node"
SERVICE_ACCOUNT = "run/secrets/kubernetes.io/serviceaccount"
RETRY = 0.2  # seconds


class PodRun:
    """One pod from its creation to its end."""

    def __init__(self, kubelet, pod):
        self.kubelet, self.store = kubelet, kubelet.store
        self.uid, self.name, self.namespace = (pod["metadata"][key] for key in ("uid", "name", "namespace"))
        self.last, self.folder = pod, f'{kubelet.folder}/pods/{pod["metadata"]["uid"]}'
        self.init_containers = [Container(self, one) for one in pod["spec"].get("initContainers", [])]
        self.containers = [Container(self, one) for one in pod["spec"]["containers"]]
        self.number, self.sources, self.is_over, self.is_lost = None, {}, False, False
        self.task = asyncio.create_task(self.run_or_fail())
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

    async def run_or_fail(self):
        try:
            await self.run()
        except (OSError, RuntimeError, subprocess.CalledProcessError) as error:  # this machine lacks something
            self.event("FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}", "Warning")
            self.finish("Failed", reason="FailedCreatePodSandBox", message=str(error))

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
                if error.reason == "FailedScheduling":
                    if set_condition(self.pod, "PodScheduled", "False", reason="Unschedulable", message=str(error)):
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
            security = container.security()
            if security.get("runAsNonRoot") and security.get("runAsUser", 0) == 0:
                raise NotReady("CreateContainerConfigError", f'container has runAsNonRoot and image will run as root (pod: "{self.name}_'
                               f'{self.namespace}({self.uid})", container: {container.name})')
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
        if self.pod["spec"].get("automountServiceAccountToken", True):
            found.append((self.service_account(), SERVICE_ACCOUNT, "ro"))
            os.makedirs(f"{root}/{SERVICE_ACCOUNT}")
        if "workingDir" in container.spec:
            os.makedirs(root + os.path.normpath(container.spec["workingDir"]), exist_ok=True)
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

    def service_account(self):
        """The folder with the token of the pod's service account, which nothing here accepts."""
        folder = f"{self.folder}/service-account"
        os.makedirs(folder, exist_ok=True)
        for name, text in (("token", "a token that the stand-in does not accept"), ("namespace", self.namespace)):
            with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        return folder

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
        names = " ".join(one.name for one in self.containers if not one.is_ready)
        unready = {} if is_ready else {"reason": "PodCompleted"} if status["phase"] == "Succeeded" else {
            "reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
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
