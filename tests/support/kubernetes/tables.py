"""Tables: the rows that `kubectl get` prints as they come."""
from objects import condition, is_ending, seconds_since


def age(thing):
    seconds = int(seconds_since(thing["metadata"]["creationTimestamp"]))
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h"


def pod_status(pod):
    """The word in the column STATUS."""
    if is_ending(pod):
        return "Terminating"
    status = pod["status"]
    word = status.get("reason") or status["phase"]
    if word in ("Pending", "Running"):
        for one in status.get("initContainerStatuses", []):
            state = one["state"]
            waits = state.get("waiting", {}).get("reason")
            if "running" in state or waits not in (None, "PodInitializing"):
                return f"Init:{waits or 'Running'}"
    for one in status.get("containerStatuses", []):
        state = one["state"]
        word = (state.get("waiting") or state.get("terminated") or {}).get("reason") or word
    return word


def pod_row(pod):
    containers = pod["status"].get("containerStatuses", [])
    return [pod["metadata"]["name"], f'{sum(one["ready"] for one in containers)}/{len(pod["spec"]["containers"])}', pod_status(pod),
            str(sum(one["restartCount"] for one in containers)), age(pod), pod["status"].get("podIP", "<none>"),
            pod["spec"].get("nodeName", "<none>")]


def event_row(event):
    about = event["involvedObject"]
    return [age(event), event["type"], event["reason"], f'{about["kind"].lower()}/{about["name"]}', event["message"]]


def job_status(job):
    return next((name for name in ("Complete", "Failed", "Suspended") if condition(job, name).get("status") == "True"), "Running")


def name_and(*cells):
    """A row that begins with the name and ends with the age."""
    return lambda thing: [thing["metadata"]["name"], *(cell(thing) for cell in cells), age(thing)]


# The columns, with a star those for `-o wide` only, and the function that makes a row.
TABLES = {
    "pods": (["Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*"], pod_row),
    "events": (["Last Seen", "Type", "Reason", "Object", "Message"], event_row),
    "statefulsets": (["Name", "Ready", "Age"],
                     name_and(lambda one: f'{one.get("status", {}).get("readyReplicas", 0)}/{one["spec"]["replicas"]}')),
    "jobs": (["Name", "Status", "Completions", "Age"],
             name_and(job_status, lambda one: f'{one.get("status", {}).get("succeeded", 0)}/{one["spec"].get("completions", 1)}')),
    "services": (["Name", "Type", "Cluster-IP", "Age"], name_and(lambda one: one["spec"]["type"], lambda one: one["spec"]["clusterIP"])),
    "persistentvolumes": (["Name", "Capacity", "Access Modes", "Status", "Claim", "Age"],
                          name_and(lambda one: one["spec"]["capacity"]["storage"], lambda one: ",".join(one["spec"]["accessModes"]),
                                   lambda one: one["status"]["phase"], lambda one: one["spec"].get("claimRef", {}).get("name", ""))),
    "persistentvolumeclaims": (["Name", "Status", "Volume", "Age"],
                               name_and(lambda one: one["status"]["phase"], lambda one: one["spec"].get("volumeName", ""))),
    "namespaces": (["Name", "Status", "Age"], name_and(lambda one: one["status"]["phase"])),
    "nodes": (["Name", "Status", "Age"],
              name_and(lambda one: "Ready" if condition(one, "Ready").get("status") == "True" else "NotReady")),
}


def table(plural, things, version, with_columns=True):
    columns, row = TABLES.get(plural, (["Name", "Age"], name_and()))
    definitions = [{"name": name.rstrip("*"), "type": "string", "format": "name" if name == "Name" else "", "description": "",
                    "priority": int(name.endswith("*"))} for name in columns]
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(version)},
            "columnDefinitions": definitions if with_columns else None,
            "rows": [{"cells": row(one), "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                                                    "metadata": one["metadata"]}} for one in things]}
