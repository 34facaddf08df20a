"""The controllers: StatefulSets and Jobs make their pods, claims get volumes, dependents go with their owners."""
import asyncio
import copy
import hashlib
import json
import traceback

from objects import KINDS, Refused, condition, is_ending, now, random_suffix, seconds_since, set_condition

PERIOD = 0.2  # seconds, if nothing changes


def phase(pod):
    return pod["status"]["phase"]


def is_active(pod):
    return phase(pod) in ("Pending", "Running")


def is_ready(pod):
    return condition(pod, "Ready").get("status") == "True" and not is_ending(pod)


def controlled_by(owner):
    return [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
             "controller": True, "blockOwnerDeletion": True}]


def pod_from(owner, template, name, **metadata):
    template = copy.deepcopy(template)
    own = template.setdefault("metadata", {})
    for field in ("labels", "annotations"):
        own[field] = {**(own.get(field) or {}), **metadata.get(field, {})}
    own.update(name=name, namespace=owner["metadata"]["namespace"], ownerReferences=controlled_by(owner))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template["spec"]}


class Controllers:
    """Brings the objects to what they ask for, whenever one has changed."""

    def __init__(self, store, server, kubelet):
        self.store, self.server, self.kubelet = store, server, kubelet

    async def run(self):
        while True:
            try:
                await asyncio.wait_for(self.store.changed.wait(), PERIOD)
            except asyncio.TimeoutError:
                pass
            self.store.changed.clear()
            try:
                self.step()
            except Exception:  # a fault of the stand-in: its log has it, and the others go on
                traceback.print_exc()

    def step(self):
        self.collect_garbage()
        for one in self.store.list("statefulsets"):
            if not is_ending(one):
                self.keep_stateful_set(one)
        for one in self.store.list("jobs"):
            if not is_ending(one):
                self.keep_job(one)
        self.bind_claims()
        self.kubelet.run_new_pods()

    def collect_garbage(self):
        """Removes objects whose owner is gone, owners in the foreground once their dependents are gone, and ended namespaces."""
        uids = {one["metadata"]["uid"] for one in self.store.objects.values()}
        for one in list(self.store.objects.values()):
            owners = one["metadata"].get("ownerReferences", [])
            ending = [owner for owner in owners if owner["uid"] in uids and
                      "foregroundDeletion" in self.owner_finalizers(owner["uid"])]
            if owners and (ending or not any(owner["uid"] in uids for owner in owners)) and not is_ending(one):
                self.server.delete(one)
        for one in list(self.store.objects.values()):
            if not is_ending(one):
                continue
            if one["kind"] == "Namespace":
                inside = [thing for thing in self.store.objects.values() if thing["metadata"].get("namespace") == one["metadata"]["name"]]
                for thing in inside:
                    if not is_ending(thing):
                        self.server.delete(thing)
                if not inside:
                    self.store.remove(one)
            elif one["kind"] in ("PersistentVolume", "PersistentVolumeClaim"):
                if not self.is_used(one):
                    self.store.remove(one)
            elif "foregroundDeletion" in one["metadata"].get("finalizers", []):
                uid = one["metadata"]["uid"]
                owners = [owner["uid"] for thing in self.store.objects.values() for owner in thing["metadata"].get("ownerReferences", [])]
                if uid not in owners:
                    self.store.remove(one)

    def is_used(self, storage):
        """Whether a pod uses a claim, or a claim has a volume: then it is not removed yet."""
        if storage["kind"] == "PersistentVolume":
            return storage["status"]["phase"] == "Bound"
        name, namespace = storage["metadata"]["name"], storage["metadata"]["namespace"]
        return any(volume.get("persistentVolumeClaim", {}).get("claimName") == name for pod in self.store.list("pods", namespace)
                   if is_active(pod) and "nodeName" in pod["spec"] for volume in pod["spec"].get("volumes", []))

    def owner_finalizers(self, uid):
        return next((one["metadata"].get("finalizers", []) for one in self.store.objects.values() if one["metadata"]["uid"] == uid), [])

    def bind_claims(self):
        claims = self.store.list("persistentvolumeclaims")
        for volume in self.store.list("persistentvolumes"):
            owner = volume["spec"].get("claimRef", {}).get("uid")
            if owner and volume["status"]["phase"] == "Bound" and not any(one["metadata"]["uid"] == owner for one in claims):
                if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                    self.store.remove(volume)
                    self.kubelet.volumes.remove_of_claim(volume["metadata"]["name"])
                else:
                    volume["status"]["phase"] = "Released"
                    self.store.update(volume)
        for claim in claims:
            if claim["status"]["phase"] == "Pending" and not is_ending(claim):
                volume = self.volume_for(claim)
                if volume:
                    self.bind(claim, volume)

    def volume_for(self, claim):
        """The volume that a claim names, one that fits, or a new one of the class "standard"."""
        metadata, spec = claim["metadata"], claim["spec"]
        for volume in self.store.list("persistentvolumes"):
            of_volume, reference = volume["spec"], volume["spec"].get("claimRef", {})
            is_meant = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
            if spec.get("volumeName", volume["metadata"]["name"]) != volume["metadata"]["name"] or reference and not is_meant:
                continue
            if volume["status"]["phase"] != "Available" or of_volume.get("storageClassName", "") != spec["storageClassName"]:
                continue
            if set(spec["accessModes"]) <= set(of_volume["accessModes"]):
                return volume
        if spec["storageClassName"] != "standard" or "volumeName" in spec:
            message = "no persistent volumes available for this claim and no storage class is set"
            if spec["storageClassName"] and "volumeName" not in spec:
                message = f'storageclass.storage.k8s.io "{spec["storageClassName"]}" not found'
            if metadata["uid"] not in [one["involvedObject"]["uid"] for one in self.store.list("events", metadata["namespace"])]:
                self.store.event(claim, "ProvisioningFailed" if spec["storageClassName"] else "FailedBinding", message, "Warning")
            return None
        name = f'pvc-{metadata["uid"]}'
        return self.store.add({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
            "accessModes": spec["accessModes"], "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "storageClassName": "standard", "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": self.kubelet.volumes.make_for_claim(name)}}})

    def bind(self, claim, volume):
        metadata = claim["metadata"]
        claim["spec"]["volumeName"] = volume["metadata"]["name"]
        claim["status"] = {"phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"]}
        volume["spec"]["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": metadata["name"],
                                      "namespace": metadata["namespace"], "uid": metadata["uid"]}
        volume["status"]["phase"] = "Bound"
        self.store.update(volume)
        self.store.update(claim)

    def make_pod(self, owner, pod, words):
        """Whether the API server took the pod; if not, an event says why, with `words` before it."""
        try:
            self.server.create(KINDS["pods"], pod["metadata"]["namespace"], pod, {})
        except Refused as refusal:
            self.store.event(owner, "FailedCreate", words + str(refusal), "Warning")
            return False
        message = f'create Pod {pod["metadata"]["name"]} in {owner["kind"]} {owner["metadata"]["name"]} successful'
        self.store.event(owner, "SuccessfulCreate", message)
        return True

    def keep_stateful_set(self, owner):
        spec, name = owner["spec"], owner["metadata"]["name"]
        revision = f"{name}-{hashlib.sha256(json.dumps(spec['template'], sort_keys=True).encode()).hexdigest()[:10]}"
        in_order, first = spec["podManagementPolicy"] == "OrderedReady", spec.get("ordinals", {}).get("start", 0)
        pods = {int(one["metadata"]["name"].rpartition("-")[2]): one for one in self.store.owned("pods", owner)}
        wanted = range(first, first + spec["replicas"])
        for number in wanted:
            pod = pods.get(number)
            if pod is None and self.make_member(owner, number, revision):
                pod = pods[number] = self.store.get("pods", owner["metadata"]["namespace"], f"{name}-{number}")
            elif pod and not is_active(pod) and not is_ending(pod):
                message = f"StatefulSet {name} is recreating failed Pod {name}-{number}"
                self.store.event(owner, "RecreatingFailedPod", message, "Warning")
                self.server.delete(pod)
            if in_order and not (pod and is_ready(pod)):
                break
        for number in sorted(set(pods) - set(wanted), reverse=True):
            if not is_ending(pods[number]):
                self.server.delete(pods[number])
        old = [number for number, one in sorted(pods.items()) if one["metadata"]["labels"]["controller-revision-hash"] != revision]
        partition = spec["updateStrategy"].get("rollingUpdate", {}).get("partition", 0)
        rolls = spec["updateStrategy"]["type"] == "RollingUpdate"
        if old and rolls and all(is_ready(one) for number, one in pods.items() if number not in old):
            if old[-1] >= partition and not is_ending(pods[old[-1]]):
                self.server.delete(pods[old[-1]])
        ready, updated = sum(is_ready(one) for one in pods.values()), len(pods) - len(old)
        before = owner.get("status", {}).get("currentRevision", revision)
        current = revision if not old else before
        self.set_status(owner, observedGeneration=owner["metadata"]["generation"], replicas=len(pods), readyReplicas=ready,
                        availableReplicas=ready, currentReplicas=updated if current == revision else len(old),
                        updatedReplicas=updated, currentRevision=current, updateRevision=revision, collisionCount=0)

    def make_member(self, owner, number, revision):
        spec, metadata = owner["spec"], owner["metadata"]
        name = f'{metadata["name"]}-{number}'
        pod = pod_from(owner, spec["template"], name, labels={
            "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number), "controller-revision-hash": revision})
        pod["spec"].update(hostname=name, subdomain=spec.get("serviceName", ""))
        for template in spec.get("volumeClaimTemplates", []):
            claim_name = f'{template["metadata"]["name"]}-{name}'
            if not self.store.get("persistentvolumeclaims", metadata["namespace"], claim_name):
                claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": copy.deepcopy(template["spec"]), "metadata": {
                    "name": claim_name, "namespace": metadata["namespace"],
                    "labels": {**(template["metadata"].get("labels") or {}), **(spec["selector"].get("matchLabels") or {})}}}
                if spec["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete":
                    claim["metadata"]["ownerReferences"] = controlled_by(owner)
                self.server.create(KINDS["persistentvolumeclaims"], metadata["namespace"], claim, {})
            pod["spec"].setdefault("volumes", []).append({"name": template["metadata"]["name"],
                                                          "persistentVolumeClaim": {"claimName": claim_name}})
        return self.make_pod(owner, pod, f'create Pod {name} in StatefulSet {metadata["name"]} failed error: ')

    def set_status(self, thing, **status):
        new = {**thing.get("status", {}), **status}
        if new != thing.get("status"):
            thing["status"] = new
            self.store.update(thing)

    def keep_job(self, job):
        if "Complete" in ended(job) or "Failed" in ended(job):
            since = max(one["lastTransitionTime"] for one in job["status"]["conditions"])
            if seconds_since(since) > job["spec"].get("ttlSecondsAfterFinished", float("inf")):
                self.server.delete(job)
            return
        spec, status = job["spec"], job.setdefault("status", {"startTime": now()})
        pods = self.store.owned("pods", job)
        counted = self.count(job, pods)
        verdict = counted.verdict
        if spec.get("activeDeadlineSeconds") is not None and seconds_since(status["startTime"]) > spec["activeDeadlineSeconds"]:
            verdict = ("DeadlineExceeded", "Job was active longer than specified deadline")
        completions = spec.get("completions")
        if verdict:
            for pod in pods:
                if is_active(pod) and not is_ending(pod):
                    self.server.delete(pod)
            self.end_job(job, ("FailureTarget", "Failed"), *verdict, "Warning")
        elif len(counted.succeeded) >= (completions or 1) or counted.failed_indexes and counted.is_over:
            if counted.failed_indexes:
                self.end_job(job, ("FailureTarget", "Failed"), "FailedIndexes", "Job has failed indexes", "Warning")
            else:
                self.end_job(job, ("SuccessCriteriaMet", "Complete"), "CompletionsReached", "Reached expected number of succeeded pods",
                             "Normal")
        else:
            self.add_job_pods(job, pods, counted)
        pods = [one for one in self.store.owned("pods", job) if is_active(one) and not is_ending(one)]
        extra = {"failedIndexes": joined(counted.failed_indexes)} if "backoffLimitPerIndex" in spec else {}
        if spec["completionMode"] == "Indexed":
            extra["completedIndexes"] = joined(counted.succeeded)
        self.set_status(job, active=len(pods), ready=sum(is_ready(one) for one in pods), succeeded=len(counted.succeeded),
                        failed=counted.failed, **extra)

    def count(self, job, pods):
        """Where the job is, from its pods and those that it had: a pod counts once, also after it was deleted."""
        spec, seen = job["spec"], self.kubelet.ended.setdefault(job["metadata"]["uid"], {})
        for pod in pods:
            if not is_active(pod) or is_ending(pod) and phase(pod) != "Succeeded":
                if pod["metadata"]["uid"] not in seen:
                    action = "Succeeded" if phase(pod) == "Succeeded" else action_for(spec, pod)
                    seen[pod["metadata"]["uid"]] = action, index_of(pod), pod["metadata"]["name"]
        return Count(spec, seen.values())

    def add_job_pods(self, job, pods, counted):
        spec, name = job["spec"], job["metadata"]["name"]
        if spec["suspend"]:
            for pod in pods:
                if is_active(pod) and not is_ending(pod):
                    self.server.delete(pod)
            return
        # podReplacementPolicy: without a podFailurePolicy a pod that is Terminating is replaced at once.
        waits = "podFailurePolicy" in spec or spec["podReplacementPolicy"] == "Failed"
        here = [one for one in pods if is_active(one) and (waits or not is_ending(one))]
        is_indexed = spec["completionMode"] == "Indexed"
        taken = {index_of(one) for one in here} | counted.succeeded | counted.failed_indexes
        indexes = [one for one in range(spec["completions"]) if one not in taken] if is_indexed else [None] * (
            (spec.get("completions") or 1) - len(counted.succeeded) - len(here))
        for index in indexes[:max(0, spec["parallelism"] - len(here))]:
            labels = {"batch.kubernetes.io/job-completion-index": str(index)} if is_indexed else {}
            base = f"{name}-{index}" if is_indexed else name
            pod = pod_from(job, spec["template"], f"{base}-{random_suffix()}", labels=labels, annotations=labels)
            if is_indexed:
                pod["spec"]["hostname"] = base
                for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
                    container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
            self.make_pod(job, pod, "Error creating: ")

    def end_job(self, job, conditions, reason, message, type_):
        for condition_type in conditions:
            set_condition(job, condition_type, "True", reason=reason, message=message)
        if conditions[-1] == "Complete":
            job["status"]["completionTime"] = now()
            self.store.event(job, "Completed", "Job completed", type_)
        else:
            self.store.event(job, reason, message, type_)


def ended(job):
    return {one["type"] for one in job.get("status", {}).get("conditions", []) if one["status"] == "True"}


def index_of(pod):
    index = (pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
    return None if index is None else int(index)


def joined(indexes):
    return ",".join(str(one) for one in sorted(indexes))


def action_for(spec, pod):
    """The action of the first rule of the podFailurePolicy that fits a failed pod."""
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        codes = rule.get("onExitCodes")
        for container in pod["status"].get("containerStatuses", []) if codes else []:
            code = container["state"].get("terminated", {}).get("exitCode", 0)
            if code != 0 and codes.get("containerName", container["name"]) == container["name"]:
                if (code in codes["values"]) == (codes["operator"] == "In"):
                    return rule["action"]
        for pattern in rule.get("onPodConditions", []):
            if condition(pod, pattern["type"]).get("status") == pattern.get("status", "True"):
                return rule["action"]
    return "Count"


class Count:
    """How many pods of a job have ended, and which way."""

    def __init__(self, spec, ended_pods):
        ended_pods = list(ended_pods)
        self.succeeded = {name if index is None else index for action, index, name in ended_pods if action == "Succeeded"}
        failures = [(action, index) for action, index, _ in ended_pods if action not in ("Succeeded", "Ignore")]
        self.failed = len(failures)
        limit = spec.get("backoffLimitPerIndex")
        failing = [] if limit is None else [index for action, index in failures
                                            if action == "FailIndex" or sum(one == index for _, one in failures) > limit]
        self.failed_indexes = set(failing) - self.succeeded
        self.is_over = len(self.succeeded | self.failed_indexes) >= (spec.get("completions") or 1)
        failing = [name for action, _, name in ended_pods if action == "FailJob"]
        self.verdict = None
        if failing:
            self.verdict = "PodFailurePolicy", f"Pod {failing[0]} matched a FailJob rule of the pod failure policy"
        elif self.failed > spec["backoffLimit"]:
            self.verdict = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
