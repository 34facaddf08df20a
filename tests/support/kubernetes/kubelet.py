"""The kubelet of the stand-in cluster: which pods run here, and the ways to them that the API server offers."""
import asyncio
import os
import re
import signal
import subprocess

import streams
from limits import remove_group
from network import Network
from objects import Refused, condition, is_ending, now, quantity, set_condition
from pods import NODE, PodRun
from volumes import NotReady, Volumes

NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


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
            raise NotReady("FailedScheduling", rule.get("message") or f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS}")
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
            reasons = ", ".join(f"1 Insufficient {one}" for one in lacking)
            raise NotReady("FailedScheduling", f"0/1 nodes are available: {reasons}. {NO_VICTIMS}")

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
                    line = f"{run.address}\t{full}.cluster.local {full} {base}.{run.namespace} {base}\n"
                    names.setdefault(run.namespace, []).append(line)
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
        message = "Taint manager: deleting due to NoExecute taint"
        set_condition(pod, "DisruptionTarget", "True", reason="DeletionByTaintManager", message=message)
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
                raise Refused(400, "BadRequest", f'previous terminated container "{container.name}" in pod "{container.pod.name}" '
                              "not found")
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
