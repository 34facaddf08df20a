"""The objects that the API server accepts: Kubernetes' published schema, rules between fields, quotas, and pods' restricted standard.

The schema is that of the types of Debian's python3-kubernetes (Kubernetes 1.22), and NEWER for the fields that came after it.
"""
import functools
import re
import types

from kubernetes import client

import protobuf
from objects import KINDS, Refused, invalid, merge_key, quantity

NEWER = {
    "V1JobSpec": {"podFailurePolicy": "V1PodFailurePolicy", "backoffLimitPerIndex": "int", "maxFailedIndexes": "int",
                  "podReplacementPolicy": "str", "managedBy": "str", "successPolicy": "object"},
    "V1PodFailurePolicy": {"rules": "list[V1PodFailurePolicyRule]"},
    "V1PodFailurePolicyRule": {"action": "str", "onExitCodes": "V1PodFailurePolicyOnExitCodesRequirement",
                               "onPodConditions": "list[V1PodFailurePolicyOnPodConditionsPattern]"},
    "V1PodFailurePolicyOnExitCodesRequirement": {"containerName": "str", "operator": "str", "values": "list[int]"},
    "V1PodFailurePolicyOnPodConditionsPattern": {"type": "str", "status": "str"},
    "V1JobStatus": {"failedIndexes": "str", "ready": "int", "terminating": "int"},
    "V1StatefulSetSpec": {"persistentVolumeClaimRetentionPolicy": "object", "ordinals": "object"},
    "V1PodSpec": {"os": "object", "schedulingGates": "list[object]", "hostUsers": "bool"},
    "V1PodStatus": {"hostIPs": "list[object]"},
    "V1Container": {"restartPolicy": "str", "resizePolicy": "list[object]"},
    "V1PersistentVolumeClaimSpec": {"dataSourceRef": "object", "volumeAttributesClassName": "str"},
    "V1TopologySpreadConstraint": {"minDomains": "int", "matchLabelKeys": "list[str]", "nodeAffinityPolicy": "str",
                                   "nodeTaintsPolicy": "str"},
}
NEWER_REQUIRED = {"V1PodFailurePolicy": {"rules"}, "V1PodFailurePolicyRule": {"action"},
                  "V1PodFailurePolicyOnExitCodesRequirement": {"operator", "values"},
                  "V1PodFailurePolicyOnPodConditionsPattern": {"type"}}
PLAIN = {"str": str, "datetime": str, "int": int, "bool": bool, "float": (int, float), "object": object}
QUANTITIES = {"requests", "limits", "capacity", "hard", "sizeLimit", "allocatable"}  # they may be numbers


@functools.lru_cache(None)
def model(name):
    """The fields of a type, as {name: type}, and the names of those that are required."""
    fields, required = {}, set(NEWER_REQUIRED.get(name, ()))
    published = getattr(client, name, None)
    if published:
        empty = object.__new__(published)
        empty.local_vars_configuration = types.SimpleNamespace(client_side_validation=True)
        for own, json_name in published.attribute_map.items():
            fields[json_name] = published.openapi_types[own]
            try:
                setattr(empty, own, None)
            except ValueError:
                required.add(json_name)
    for json_name, type_ in NEWER.get(name, {}).items():
        fields.setdefault(json_name, type_)
    return fields, required


def model_name(kind):
    return ("Core" if kind.name == "Event" else "") + "V1" + kind.name


def element_type(type_):
    """The type of the elements of "list[T]" or "dict(str, T)"; none for any other."""
    match = re.fullmatch(r"list\[(.*)\]|dict\(\w+, (.*)\)", type_)
    return match and (match[1] or match[2])


class Faults:
    """Where an object does not fit the schema: (path, sentence) of each fault."""

    def __init__(self, kind, thing):
        self.unknown, self.wrong, self.missing = [], [], []
        self.walk(thing, model_name(kind), "")

    def walk(self, value, type_, path):
        element = element_type(type_)
        if value is None:
            return
        if type_.startswith("list["):
            if self.is_of(value, list, path, type_):
                for i, one in enumerate(value):
                    self.walk(one, element, f"{path}[{i}]")
        elif type_.startswith("dict("):
            if self.is_of(value, dict, path, type_):
                for key, one in value.items():
                    self.walk(one, element, f"{path}.{key}")
        elif type_ in PLAIN:
            is_quantity = QUANTITIES & set(path.split(".")) and isinstance(value, (int, float))
            if isinstance(value, bool) and type_ in ("int", "float"):
                self.is_of(value, (), path, type_)
            elif not is_quantity:
                self.is_of(value, PLAIN[type_], path, type_)
        elif self.is_of(value, dict, path, type_):
            fields, required = model(type_)
            for key, one in value.items():
                if key in fields:
                    self.walk(one, fields[key], f"{path}.{key}".lstrip("."))
                else:
                    self.unknown.append(f"{path}.{key}".lstrip("."))
            self.missing += [(f"{path}.{key}".lstrip("."), "Required value") for key in sorted(required) if value.get(key) is None]

    def is_of(self, value, class_, path, type_):
        if isinstance(value, class_):
            return True
        name = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        self.wrong.append(f"json: cannot unmarshal {name} into Go struct field {path} of type {type_}")
        return False


def check_fields(kind, thing, query):
    """Fields of an unknown name are refused if the request asks for it, those of a wrong type always."""
    if not isinstance(thing, dict) or (thing.get("apiVersion"), thing.get("kind")) != (kind.group_version, kind.name):
        raise Refused(400, "BadRequest", f"the body is no {kind.group_version} {kind.name}")
    faults = Faults(kind, thing)
    where = f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: '
    if faults.wrong:
        raise Refused(400, "BadRequest", where + faults.wrong[0])
    if faults.unknown and query.get("fieldValidation") == "Strict":
        raise Refused(400, "BadRequest", where + "strict decoding error: " + ", ".join(f'unknown field "{one}"' for one in faults.unknown))


def check_values(kind, thing):
    """Required fields, and what fields say of each other."""
    name = thing.get("metadata", {}).get("name")
    faults = Faults(kind, thing).missing
    if not name:
        raise invalid(kind, "", [("metadata.name", "Required value: name or generateName is required")])
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) or len(name) > 253:
        faults.append(("metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
                       "characters, '-' or '.', and must start and end with an alphanumeric character"))
    if kind.name in ("Service", "StatefulSet", "Job") and not re.fullmatch(r"[-a-z0-9]{1,63}", name):
        faults.append(("metadata.name", f'Invalid value: "{name}": must be no more than 63 characters'))
    for key, value in (thing["metadata"].get("labels") or {}).items():
        faults += label_faults("metadata.labels", key, value)
    if not faults:
        faults = RULES.get(kind.name, lambda _: [])(thing.get("spec", {}))
    if faults:
        raise invalid(kind, name, faults)


def label_faults(path, key, value):
    if not re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", value) or len(value) > 63:
        return [(path, f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumeric characters, '
                 "'-', '_' or '.', and must start and end with an alphanumeric character")]
    if not re.fullmatch(r"([-a-z0-9.]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", key):
        return [(path, f'Invalid value: "{key}": name part must consist of alphanumeric characters')]
    return []


def pod_faults(spec, path="spec"):
    faults, volumes = [], {}
    for i, volume in enumerate(spec.get("volumes") or []):
        volumes[volume["name"]] = volume
        if len(volume) != 2:
            faults.append((f"{path}.volumes[{i}]", "Required value: must specify exactly one volume type"))
    names = set()
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field) or []):
            where = f"{path}.{field}[{i}]"
            if container["name"] in names:
                faults.append((f"{where}.name", f'Duplicate value: "{container["name"]}"'))
            names.add(container["name"])
            if not container.get("image"):
                faults.append((f"{where}.image", "Required value"))
            faults += container_faults(container, where, volumes)
    if not spec.get("containers"):
        faults.append((f"{path}.containers", "Required value"))
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        faults.append((f"{path}.restartPolicy", f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", '
                       '"OnFailure", "Never"'))
    for i, toleration in enumerate(spec.get("tolerations") or []):
        if toleration.get("operator", "Equal") == "Exists" and toleration.get("value"):
            faults.append((f"{path}.tolerations[{i}].operator", "Invalid value: value must be empty when `operator` is 'Exists'"))
    return faults


def container_faults(container, where, volumes):
    faults = []
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", container["name"]):
        faults.append((f"{where}.name", f'Invalid value: "{container["name"]}": a lowercase RFC 1123 label must consist of lower case '
                       "alphanumeric characters or '-', and must start and end with an alphanumeric character"))
    for i, mount in enumerate(container.get("volumeMounts") or []):
        if mount["name"] not in volumes:
            faults.append((f"{where}.volumeMounts[{i}].name", f'Not found: "{mount["name"]}"'))
    amounts = {}
    for which in ("requests", "limits"):
        for name, text in ((container.get("resources") or {}).get(which) or {}).items():
            field = f"{where}.resources.{which}"
            try:
                amounts[which, name] = quantity(text)
            except ValueError:
                faults.append((field, f'Invalid value: "{text}": quantities must match the regular expression '
                               "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"))
            if name not in ("cpu", "memory", "ephemeral-storage") and "/" not in name:
                faults.append((f"{field}[{name}]", f'Invalid value: "{name}": must be a standard resource type or fully qualified'))
    for (which, name), amount in amounts.items():
        if which == "requests" and amount > amounts.get(("limits", name), amount):
            faults.append((f"{where}.resources.requests", f'Invalid value: must be less than or equal to {name} limit'))
        if "/" in name and amount != amounts.get(("limits", name)):
            faults.append((f"{where}.resources.limits[{name}]", "Required value: Limit must be set for non overcommitable resources"))
    return faults


def selector_faults(spec, path="spec"):
    labels, wanted = spec["template"].get("metadata", {}).get("labels") or {}, spec["selector"].get("matchLabels") or {}
    faults = [] if wanted.items() <= labels.items() else [
        (f"{path}.template.metadata.labels", "Invalid value: `selector` does not match template `labels`")]
    return faults + [fault for key, value in labels.items() for fault in label_faults(f"{path}.template.labels", key, value)]


def stateful_set_faults(spec):
    template = spec["template"].get("spec") or {}
    claims = [{"name": one["metadata"]["name"], "persistentVolumeClaim": {}} for one in spec.get("volumeClaimTemplates") or []]
    with_claims = dict(template, volumes=(template.get("volumes") or []) + claims)  # containers may mount them
    faults = selector_faults(spec) + pod_faults(with_claims, "spec.template.spec")
    if template.get("restartPolicy", "Always") != "Always":
        faults.append(("spec.template.spec.restartPolicy", 'Unsupported value: supported values: "Always"'))
    return faults


def job_faults(spec):
    template, policy = spec["template"].get("spec") or {}, spec.get("podFailurePolicy")
    faults, restarts = pod_faults(template, "spec.template.spec"), template.get("restartPolicy", "Always")
    if restarts not in ("OnFailure", "Never"):
        faults.append(("spec.template.spec.restartPolicy", 'Required value: valid values: "OnFailure", "Never"'))
    if policy and restarts != "Never":
        faults.append(("spec.template.spec.restartPolicy",
                       f'Invalid value: "{restarts}": only "Never" is supported when podFailurePolicy is specified'))
    if spec.get("completionMode") == "Indexed" and not spec.get("completions"):
        faults.append(("spec.completions", "Required value: when completion mode is Indexed"))
    if "backoffLimitPerIndex" in spec and spec.get("completionMode") != "Indexed":
        faults.append(("spec.backoffLimitPerIndex", "Invalid value: requires indexed completion mode"))
    for i, rule in enumerate((policy or {}).get("rules", [])):
        where, codes = f"spec.podFailurePolicy.rules[{i}]", rule.get("onExitCodes")
        if rule["action"] not in ("FailJob", "Ignore", "Count", "FailIndex"):
            faults.append((f"{where}.action", f'Unsupported value: "{rule["action"]}"'))
        if bool(codes) == bool(rule.get("onPodConditions")):
            faults.append((where, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"))
        if codes and codes["operator"] == "In" and 0 in codes["values"]:
            faults.append((f"{where}.onExitCodes.values", "Invalid value: must not be 0 for the In operator"))
        if codes and codes["values"] != sorted(set(codes["values"])):
            faults.append((f"{where}.onExitCodes.values", "Invalid value: must be ordered and not repeat"))
    return faults


def volume_faults(spec):
    sources = [field for field in spec if field in ("nfs", "hostPath", "csi", "local", "awsElasticBlockStore")]
    faults = [] if len(sources) == 1 else [("spec", "Required value: must specify a volume type")]
    if "storage" not in (spec.get("capacity") or {}):
        faults.append(("spec.capacity", "Required value"))
    if not spec.get("accessModes"):
        faults.append(("spec.accessModes", "Required value"))
    if spec.get("nfs") and not spec["nfs"]["path"].startswith("/"):
        faults.append(("spec.nfs.path", f'Invalid value: "{spec["nfs"]["path"]}": must be an absolute path'))
    return faults


def claim_faults(spec):
    faults = [] if spec.get("accessModes") else [("spec.accessModes", "Required value: at least 1 access mode is required")]
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        faults.append(("spec.resources[storage]", "Required value"))
    return faults


def service_faults(spec):
    return [] if spec.get("ports") or spec.get("clusterIP") == "None" else [("spec.ports", "Required value")]


RULES = {"Pod": pod_faults, "StatefulSet": stateful_set_faults, "Job": job_faults, "PersistentVolume": volume_faults,
         "PersistentVolumeClaim": claim_faults, "Service": service_faults}
# Fields of a spec that may change, for kinds in which not all may.
CHANGEABLE = {"StatefulSet": {"replicas", "template", "updateStrategy", "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
                              "ordinals", "revisionHistoryLimit"},
              "Job": {"parallelism", "suspend", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"},
              "Pod": {"tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds"},
              "PersistentVolumeClaim": {"resources", "volumeName"}}


def check_change(kind, old, new):
    if kind.name not in CHANGEABLE:
        return
    before, after = old.get("spec", {}), new.get("spec", {})
    changed = [key for key in {**before, **after} if key not in CHANGEABLE[kind.name] and before.get(key) != after.get(key)]
    if changed and kind.name == "StatefulSet":
        raise invalid(kind, old["metadata"]["name"], [(
            "spec", "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")])
    if changed:
        raise invalid(kind, old["metadata"]["name"], [(f"spec.{changed[0]}", "Invalid value: field is immutable")])


def demands(pod):
    """The amounts that a pod counts for in quotas and on a node: {"requests.cpu": ..., "pods": 1}."""
    total = {"pods": 1.0}
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        for which, amounts in (("requests", {**limits, **(resources.get("requests") or {})}), ("limits", limits)):
            for name, text in amounts.items():
                total[f"{which}.{name}"] = total.get(f"{which}.{name}", 0) + quantity(text)
    return total


def check_admission(store, kind, thing):
    """Quotas and the restricted standard, for pods."""
    if kind.name != "Pod":
        return
    namespace, name = thing["metadata"]["namespace"], thing["metadata"]["name"]
    level = (store.get("namespaces", None, namespace)["metadata"].get("labels") or {}).get("pod-security.kubernetes.io/enforce")
    faults = restricted_faults(thing["spec"]) if level == "restricted" else []
    if faults:
        raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": {", ".join(faults)}',
                      name=name, kind="pods")
    wanted = demands(thing)
    for quota in store.list("resourcequotas", namespace):
        hard = {("requests." + key if key in ("cpu", "memory") else key): text for key, text in quota["spec"].get("hard", {}).items()}
        unset = [key for key in hard if key not in wanted and "." in key and key.partition(".")[2] in ("cpu", "memory")]
        if unset:
            raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: failed quota: {quota["metadata"]["name"]}: must specify '
                          f'{",".join(sorted(unset))} for: {thing["spec"]["containers"][0]["name"]}', name=name, kind="pods")
        there = [demands(one) for one in store.list("pods", namespace) if one["status"]["phase"] not in ("Succeeded", "Failed")]
        for key, text in hard.items():
            used = sum(one.get(key, 0) for one in there)
            if key in wanted and used + wanted[key] > quantity(text):
                raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: {quota["metadata"]["name"]}, requested: '
                              f"{key}={wanted[key]:g}, used: {key}={used:g}, limited: {key}={text}", name=name, kind="pods")


def restricted_faults(spec):
    """How a pod violates the restricted standard, in the words of the admission controller."""
    faults, of_pod = [], spec.get("securityContext") or {}
    for container in (spec.get("initContainers") or []) + spec["containers"]:
        own = container.get("securityContext") or {}
        must = f'(container "{container["name"]}" must set securityContext.'
        if own.get("allowPrivilegeEscalation") is not False:
            faults.append(f"allowPrivilegeEscalation != false {must}allowPrivilegeEscalation=false)")
        if "ALL" not in (own.get("capabilities") or {}).get("drop", []):
            faults.append(f'unrestricted capabilities {must}capabilities.drop=["ALL"])')
        if own.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
            faults.append(f"runAsNonRoot != true {must}runAsNonRoot=true)")
        if own.get("runAsUser", of_pod.get("runAsUser")) == 0:
            faults.append(f"runAsUser=0 {must}runAsUser to another than 0)")
        if (own.get("seccompProfile") or of_pod.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
            faults.append(f'seccompProfile {must}seccompProfile.type to "RuntimeDefault" or "Localhost")')
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
    for volume in spec.get("volumes") or []:
        if set(volume) - {"name"} - allowed:
            faults.append(f'restricted volume types (volume "{volume["name"]}" uses restricted volume type '
                          f'"{next(iter(set(volume) - {"name"}))}")')
    return faults


@functools.lru_cache(None)
def openapi_v2():
    """The schema of all kinds as kubectl 1.20 reads it before it applies: a protobuf message of OpenAPI 2."""
    wanted, definitions = [model_name(kind) for kind in KINDS.values()], {}
    types_of = {model_name(kind): kind for kind in KINDS.values()}
    while wanted:
        name = wanted.pop()
        if name in definitions:
            continue
        fields, _ = model(name)
        properties, used = [], []
        for field, type_ in fields.items():
            properties.append(protobuf.message((1, named(field, type_schema(type_, field, used)))))
        extension = []
        if name in types_of:
            kind = types_of[name]
            text = f'- group: "{kind.group}"\n  kind: {kind.name}\n  version: {kind.version}\n'
            extension = [(31, named("x-kubernetes-group-version-kind", protobuf.message((2, text))))]
        definitions[name] = protobuf.message((22, protobuf.message((1, "object"))), (25, b"".join(properties)), *extension)
        wanted += used
    everything = b"".join(protobuf.message((1, named(name, one))) for name, one in definitions.items())
    return protobuf.message((1, "2.0"), (2, protobuf.message((1, "Kubernetes"), (2, "v1"))), (9, everything))


def named(name, value):
    return protobuf.message((1, name), (2, value))


def type_schema(type_, field, used):
    """The schema of one field; names of types that it refers to are appended to `used`."""
    kinds = {"str": "string", "datetime": "string", "int": "integer", "bool": "boolean", "float": "number"}
    if type_ in kinds:
        return protobuf.message((22, protobuf.message((1, kinds[type_]))))
    if type_ == "object":
        return b""
    element = element_type(type_)
    if type_.startswith("list["):
        key, extensions = merge_key(field, [{"containerPort": 0}] if "ContainerPort" in type_ else []), []
        if key and element not in kinds:
            extensions = [(31, named("x-kubernetes-patch-merge-key", protobuf.message((2, key + "\n")))),
                          (31, named("x-kubernetes-patch-strategy",
                                     protobuf.message((2, "merge,retainKeys\n" if field == "volumes" else "merge\n"))))]
        items = protobuf.message((1, type_schema(element, "", used)))
        return protobuf.message((22, protobuf.message((1, "array"))), (23, items), *extensions)
    if type_.startswith("dict("):
        return protobuf.message((22, protobuf.message((1, "object"))), (21, protobuf.message((1, type_schema(element, "", used)))))
    used.append(type_)
    return protobuf.message((1, f"#/definitions/{type_}"))
