"""The objects of the stand-in cluster: kinds, the store with its history, selectors, patches, defaults and tables' ages."""
import asyncio
import base64
import calendar
import copy
import random
import re
import time
import typing
import uuid


class Kind(typing.NamedTuple):
    """A kind as discovery announces it."""
    plural: str
    group_version: str
    name: str
    namespaced: bool
    short: tuple = ()

    @property
    def group(self):
        return self.group_version.rpartition("/")[0]

    @property
    def version(self):
        return self.group_version.rpartition("/")[2]

    @property
    def resource(self):
        """Its name in messages: statefulsets.apps."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def full_name(self):
        """Its name in messages about faults: StatefulSet.apps."""
        return f"{self.name}.{self.group}" if self.group else self.name


KINDS = {kind.plural: kind for kind in (
    Kind("pods", "v1", "Pod", True, ("po",)),
    Kind("services", "v1", "Service", True, ("svc",)),
    Kind("secrets", "v1", "Secret", True),
    Kind("configmaps", "v1", "ConfigMap", True, ("cm",)),
    Kind("events", "v1", "Event", True, ("ev",)),
    Kind("resourcequotas", "v1", "ResourceQuota", True, ("quota",)),
    Kind("persistentvolumeclaims", "v1", "PersistentVolumeClaim", True, ("pvc",)),
    Kind("persistentvolumes", "v1", "PersistentVolume", False, ("pv",)),
    Kind("namespaces", "v1", "Namespace", False, ("ns",)),
    Kind("nodes", "v1", "Node", False, ("no",)),
    Kind("statefulsets", "apps/v1", "StatefulSet", True, ("sts",)),
    Kind("jobs", "batch/v1", "Job", True),
)}
GROUP_VERSIONS = sorted({kind.group_version for kind in KINDS.values()})


class Refused(Exception):
    """A request that the API server refuses; becomes a Status."""

    def __init__(self, code, reason, message, **details):
        super().__init__(message)
        self.code, self.reason, self.details = code, reason, details

    def status(self):
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(self),
                "reason": self.reason, "details": self.details, "code": self.code}


def not_found(kind, name):
    return Refused(404, "NotFound", f'{kind.resource} "{name}" not found', name=name, group=kind.group, kind=kind.plural)


def invalid(kind, name, faults):
    """`faults` is a list of (field, message)."""
    text = "; ".join(f"{field}: {message}" for field, message in faults)
    one = text if len(faults) == 1 else f"[{text.replace('; ', ', ')}]"
    causes = [{"reason": "FieldValueInvalid", "field": field, "message": message} for field, message in faults]
    return Refused(422, "Invalid", f'{kind.full_name} "{name}" is invalid: {one}', name=name, group=kind.group, kind=kind.name,
                   causes=causes)


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def seconds_since(stamp):
    return time.time() - calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))


def random_suffix():
    return "".join(random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))


def is_ending(thing):
    return "deletionTimestamp" in thing["metadata"]


def condition(thing, type_):
    return next((one for one in thing.get("status", {}).get("conditions", []) if one["type"] == type_), {})


def set_condition(thing, type_, status, **more):
    """Returns whether it changed."""
    old = condition(thing, type_)
    new = {"type": type_, "status": status, **more}
    if {key: value for key, value in old.items() if key != "lastTransitionTime"} == new:
        return False
    conditions = thing.setdefault("status", {}).setdefault("conditions", [])
    stamp = old["lastTransitionTime"] if old.get("status") == status else now()
    conditions[:] = [one for one in conditions if one["type"] != type_] + [dict(new, lastTransitionTime=stamp)]
    return True


class Store:
    """All objects, every change of them with its version, and the queues of those that watch."""

    def __init__(self):
        self.objects, self.history, self.watchers = {}, [], set()
        self.version = 1000
        self.changed = asyncio.Event()  # for the controllers

    @staticmethod
    def key(kind, namespace, name):
        return kind.plural, namespace or "" if kind.namespaced else "", name

    def key_of(self, thing):
        return self.key(kind_of(thing), thing["metadata"].get("namespace"), thing["metadata"]["name"])

    def get(self, plural, namespace, name):
        return self.objects.get(self.key(KINDS[plural], namespace, name))

    def list(self, plural, namespace=None):
        return [thing for (its, where, _), thing in sorted(self.objects.items(), key=lambda item: item[0])
                if its == plural and (namespace is None or where == namespace)]

    def holds(self, thing):
        return self.objects.get(self.key_of(thing), {}).get("metadata", {}).get("uid") == thing["metadata"]["uid"]

    def owned(self, plural, owner):
        uid = owner["metadata"]["uid"]
        return [thing for thing in self.list(plural, owner["metadata"].get("namespace"))
                if any(one["uid"] == uid and one.get("controller") for one in thing["metadata"].get("ownerReferences", []))]

    def add(self, thing):
        """Names it, fills in its metadata and defaults, and stores it."""
        kind, metadata = kind_of(thing), thing["metadata"]
        metadata.update(uid=str(uuid.uuid4()), creationTimestamp=now(), generation=1)
        fill_in_defaults(thing, kind)
        self.objects[self.key_of(thing)] = thing
        self.publish("ADDED", thing)
        return thing

    def update(self, thing):
        """Stores a new state, unless the object is gone."""
        if self.holds(thing):
            self.objects[self.key_of(thing)] = thing
            self.publish("MODIFIED", thing)

    def remove(self, thing):
        if self.holds(thing):
            del self.objects[self.key_of(thing)]
            self.publish("DELETED", thing)

    def publish(self, change, thing):
        self.version += 1
        thing["metadata"]["resourceVersion"] = str(self.version)
        entry = self.version, change, kind_of(thing).plural, copy.deepcopy(thing)
        self.history.append(entry)
        for queue in self.watchers:
            queue.put_nowait(entry)
        self.changed.set()

    def event(self, about, reason, message, type_="Normal"):
        """Says what happened to an object; the same event again raises the count of the first."""
        metadata = about["metadata"]
        namespace = metadata.get("namespace", "default")
        for old in self.list("events", namespace):
            if (old["involvedObject"].get("uid"), old["reason"], old["message"]) == (metadata["uid"], reason, message):
                old.update(count=old["count"] + 1, lastTimestamp=now())
                return self.update(old)
        return self.add({
            "kind": "Event", "apiVersion": "v1",
            "metadata": {"name": f'{metadata["name"]}.{uuid.uuid4().hex[:16]}', "namespace": namespace},
            "involvedObject": {"kind": about["kind"], "apiVersion": about["apiVersion"], "name": metadata["name"], "namespace": namespace,
                               "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "reason": reason, "message": message, "type": type_, "count": 1, "firstTimestamp": now(), "lastTimestamp": now(),
            "source": {"component": "standin"}, "reportingComponent": "standin", "reportingInstance": ""})


def kind_of(thing):
    return next(kind for kind in KINDS.values() if (kind.group_version, kind.name) == (thing["apiVersion"], thing["kind"]))


def fill_in(values, **defaults):
    for key, value in defaults.items():
        values.setdefault(key, value)


def fill_in_defaults(thing, kind):
    """Fields that a real API server fills in, if kubectl, a controller or paddlectl could look at them."""
    spec, metadata = thing.get("spec", {}), thing["metadata"]
    if kind.name == "StatefulSet":
        fill_in(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10,
                updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"})
        fill_in_pod_defaults(spec["template"]["spec"])
        for claim in spec.get("volumeClaimTemplates", []):
            fill_in(claim, apiVersion="v1", kind="PersistentVolumeClaim", status={"phase": "Pending"})
    elif kind.name == "Job":
        fill_in(spec, parallelism=1, backoffLimit=2**31 - 1 if "backoffLimitPerIndex" in spec else 6, completionMode="NonIndexed",
                suspend=False, podReplacementPolicy="TerminatingOrFailed")
        if spec["completionMode"] == "Indexed" or "parallelism" not in spec:
            fill_in(spec, completions=1)
        labels = {prefix + key: value for key, value in (("job-name", metadata["name"]), ("controller-uid", metadata["uid"]))
                  for prefix in ("", "batch.kubernetes.io/")}
        fill_in(spec, selector={"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}})
        spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(labels)
        metadata.setdefault("labels", dict(spec["template"]["metadata"]["labels"]))
        fill_in_pod_defaults(spec["template"]["spec"])
    elif kind.name == "Pod":
        fill_in_pod_defaults(spec)
        fill_in(thing, status={"phase": "Pending", "qosClass": quality_of_service(spec)})
    elif kind.name == "Service":
        fill_in(spec, clusterIP="10.96.0.1", type="ClusterIP", sessionAffinity="None", publishNotReadyAddresses=False)
        for port in spec.get("ports", []):
            fill_in(port, protocol="TCP", targetPort=port["port"])
    elif kind.name == "Secret":
        thing.setdefault("type", "Opaque")
        for key, value in thing.pop("stringData", {}).items():
            thing.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
    elif kind.name == "PersistentVolume":
        fill_in(spec, persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
        fill_in(thing, status={"phase": "Available"})
        fill_in(metadata, finalizers=["kubernetes.io/pv-protection"])
    elif kind.name == "PersistentVolumeClaim":
        fill_in(spec, volumeMode="Filesystem", storageClassName="standard")  # so a volume of no class is never bound by mistake
        fill_in(thing, status={"phase": "Pending"})
        fill_in(metadata, finalizers=["kubernetes.io/pvc-protection"])
    elif kind.name == "Namespace":
        fill_in(thing, status={"phase": "Active"})
        metadata.setdefault("labels", {})["kubernetes.io/metadata.name"] = metadata["name"]


def fill_in_pod_defaults(spec):
    fill_in(spec, restartPolicy="Always", terminationGracePeriodSeconds=30, dnsPolicy="ClusterFirst", securityContext={},
            schedulerName="default-scheduler")
    for container in spec.get("initContainers", []) + spec["containers"]:
        fill_in(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", resources={},
                imagePullPolicy="IfNotPresent" if ":" in container.get("image", "") else "Always")
        resources = container["resources"]
        for name, amount in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)
        for port in container.get("ports", []):
            fill_in(port, protocol="TCP")
    for volume in spec.get("volumes", []):
        if "secret" in volume or "configMap" in volume:
            fill_in(volume.get("secret") or volume["configMap"], defaultMode=0o644)


def quality_of_service(spec):
    resources = [container["resources"] for container in spec["containers"]]
    if not any(one.get("requests") or one.get("limits") for one in resources):
        return "BestEffort"
    is_guaranteed = all({"cpu", "memory"} <= set(one.get("limits", {})) and
                        all(one["requests"].get(name) == one["limits"][name] for name in ("cpu", "memory")) for one in resources)
    return "Guaranteed" if is_guaranteed else "Burstable"


UNITS = {"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def quantity(text):
    """The number in "500m" or "8Gi"; ValueError if it is none."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti|)", str(text))
    if not match:
        raise ValueError(text)
    return float(match[1]) * UNITS[match[2]]


# Lists whose elements a strategic merge patch finds by a key; all others are replaced.
MERGE_KEYS = {"containers": "name", "initContainers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath",
              "ownerReferences": "uid", "conditions": "type", "imagePullSecrets": "name", "hostAliases": "ip"}


def merge_key(field, elements):
    if field == "ports":  # of containers, of services
        return "containerPort" if any("containerPort" in one for one in elements) else "port"
    return MERGE_KEYS.get(field)


def merged(old, patch, strategic, field=""):
    """A JSON merge patch, or those parts of a strategic merge patch that kubectl sends for our kinds, applied to `old`."""
    if isinstance(patch, list) and strategic:
        return merged_list(old or [], patch, field)
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    if strategic and patch.get("$patch") == "replace":
        result = {}
    if strategic and "$retainKeys" in patch:
        result = {key: value for key, value in result.items() if key in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [one for one in result.get(name, []) if one not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value, strategic, key)
    return result


def merged_list(old, patch, field):
    key = merge_key(field, patch)
    if key is None:
        return [one for one in old if one not in patch] + patch if field == "finalizers" else patch
    result = list(old)
    for element in patch:
        at = next((i for i, one in enumerate(result) if one.get(key) == element.get(key)), None)
        if element.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(element)
        else:
            result[at] = merged(result[at], element, True)
    return result


def without_withdrawn(value, before, wanted, field=""):
    """`value` without the fields that its manager applied before and does not want any more."""
    if isinstance(before, dict) and isinstance(wanted, dict) and isinstance(value, dict):
        return {key: without_withdrawn(one, before.get(key), wanted.get(key), key) for key, one in value.items()
                if key in wanted or key not in before}
    key = isinstance(before, list) and isinstance(wanted, list) and isinstance(value, list) and merge_key(field, before + wanted)
    if not key:
        return value
    found = {name: {one[key]: one for one in elements if isinstance(one, dict) and key in one}
             for name, elements in (("before", before), ("wanted", wanted))}
    return [without_withdrawn(one, found["before"].get(one.get(key)), found["wanted"].get(one.get(key))) for one in value
            if one.get(key) in found["wanted"] or one.get(key) not in found["before"]]


def matches_labels(thing, selector):
    have = thing["metadata"].get("labels") or {}
    for term in filter(None, (one.strip() for one in re.split(r",(?![^(]*\))", selector))):
        of_set = re.fullmatch(r"(\S+)\s+(in|notin)\s+\((.*)\)", term)
        if of_set:
            fits = (have.get(of_set[1]) in [one.strip() for one in of_set[3].split(",")]) == (of_set[2] == "in")
        elif "!=" in term:
            name, value = term.split("!=")
            fits = have.get(name) != value
        elif "=" in term:
            name, value = re.split("==?", term)
            fits = have.get(name) == value
        else:
            fits = (term.lstrip("!") in have) != term.startswith("!")
        if not fits:
            return False
    return True


def matches_fields(thing, selector):
    for term in filter(None, selector.split(",")):
        path, operator, value = re.fullmatch(r"([^!=]+)(!=|==?)(.*)", term).groups()
        at = thing
        for part in path.split("."):
            at = (at or {}).get(part)
        if (str(at or "") == value) == (operator == "!="):
            return False
    return True


def matches(thing, query):
    return matches_labels(thing, query.get("labelSelector", "")) and matches_fields(thing, query.get("fieldSelector", ""))
