"""The API server: REST over the store, discovery, watches, logins, and the faults that tests ask for.

Which answers kubectl insists on: 1.20 wants /openapi/v2 as protobuf before it applies, 1.27 and later want from /openapi/v3 that a
PATCH takes fieldValidation; discovery is the plain form, which all of them read.
"""
import asyncio
import copy
import json
import time

import yaml
from aiohttp import web

import protobuf
import schema
import tables
from objects import (GROUP_VERSIONS, KINDS, Refused, fill_in_defaults, is_ending, matches, merged, not_found, now, random_suffix,
                     without_withdrawn)

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
WATCH_MAX = 3600.0  # seconds


def prefix(group_version):
    return f'{"apis" if "/" in group_version else "api"}/{group_version}'


def reply(thing, status=200):
    return web.json_response(thing, status=status)


def success(**details):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


class Server:
    """Answers requests; `kubelet` has the pods' logs and execs, `faults` the handlers by name."""

    def __init__(self, store, kubelet, faults, token, minor):
        self.store, self.kubelet, self.faults, self.token, self.minor = store, kubelet, faults, token, minor
        self.accepts_token, self.frozen_until = True, 0.0
        self.applied = {}  # the last configuration that a manager applied, by (uid, manager)

    def application(self, needs_token):
        @web.middleware
        async def guard(request, handler):
            try:
                if needs_token and not request.path.startswith("/standin/"):
                    await asyncio.sleep(max(0.0, self.frozen_until - time.monotonic()))
                    self.check_token(request)
                return await handler(request)
            except Refused as refusal:
                return reply(refusal.status(), refusal.code)

        application = web.Application(middlewares=[guard], client_max_size=64 << 20)
        router = application.router
        router.add_get("/version", self.answer_version)
        for path in ("/healthz", "/livez", "/readyz"):
            router.add_get(path, self.answer_health)
        router.add_get("/openapi/v2", self.answer_openapi_v2)
        router.add_get("/openapi/v3", self.answer_openapi_v3)
        router.add_get("/openapi/v3/{path:.+}", self.answer_openapi_v3)
        router.add_post("/standin/{fault}", self.answer_fault)
        router.add_get("/api", self.answer_discovery)
        router.add_get("/apis", self.answer_discovery)
        for group_version in GROUP_VERSIONS:
            router.add_get("/" + prefix(group_version), self.answer_resources)
            router.add_route("*", f"/{prefix(group_version)}/{{path:.+}}", self.answer_objects)
        return application

    def check_token(self, request):
        if not self.accepts_token or request.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")

    async def answer_fault(self, request):
        handler = self.faults.get(request.match_info["fault"])
        if handler is None:
            raise Refused(404, "NotFound", f"no such fault; there are {', '.join(sorted(self.faults))}")
        try:
            text = await request.text()
            return reply(await handler(**json.loads(text or "{}")) or {})
        except TypeError as error:  # a wrong argument
            raise Refused(400, "BadRequest", str(error)) from error

    async def answer_version(self, _):
        return reply({"major": "1", "minor": str(self.minor), "gitVersion": f"v1.{self.minor}.4", "gitCommit": "", "gitTreeState": "clean",
                      "buildDate": now(), "goVersion": "go1.23", "compiler": "gc", "platform": "linux/amd64"})

    async def answer_health(self, _):
        return web.Response(text="ok")

    async def answer_discovery(self, request):
        if request.path == "/api":
            return reply({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
        named = [{"groupVersion": one, "version": one.partition("/")[2]} for one in GROUP_VERSIONS if "/" in one]
        return reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": one["groupVersion"].partition("/")[0], "versions": [one], "preferredVersion": one} for one in named]})

    async def answer_resources(self, request):
        group_version = request.path.split("/", 2)[2]
        resources = [{"name": kind.plural, "singularName": kind.name.lower(), "namespaced": kind.namespaced, "kind": kind.name,
                      "verbs": VERBS, "shortNames": list(kind.short),
                      "categories": ["all"] if kind.plural in ("pods", "services", "statefulsets", "jobs") else []}
                     for kind in KINDS.values() if kind.group_version == group_version]
        return reply({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})

    async def answer_openapi_v2(self, request):
        if "protobuf" not in request.headers.get("Accept", ""):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return web.Response(body=schema.openapi_v2())

    async def answer_openapi_v3(self, request):
        if "path" not in request.match_info:
            return reply({"paths": {prefix(one): {"serverRelativeURL": f"/openapi/v3/{prefix(one)}?hash=1"} for one in GROUP_VERSIONS}})
        paths = {}
        for kind in KINDS.values():
            if prefix(kind.group_version) == request.match_info["path"]:
                scope = "namespaces/{namespace}/" if kind.namespaced else ""
                paths[f"/{prefix(kind.group_version)}/{scope}{kind.plural}/{{name}}"] = {"patch": {
                    "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
                    "x-kubernetes-action": "patch", "responses": {"200": {"description": "OK"}},
                    "x-kubernetes-group-version-kind": {"group": kind.group, "version": kind.version, "kind": kind.name}}}
        return reply({"openapi": "3.0.0", "info": {"title": "standin", "version": "1"}, "paths": paths})

    async def answer_objects(self, request):
        """A request below /api/v1 or /apis/GROUP/VERSION: [namespaces/NAMESPACE/]PLURAL[/NAME[/SUBRESOURCE]]."""
        parts, namespace = request.match_info["path"].strip("/").split("/"), None
        if len(parts) > 2 and parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        kind = KINDS.get(parts[0])
        if kind is None or not request.path.startswith(f"/{prefix(kind.group_version)}/"):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        if len(parts) == 1:
            return await self.answer_collection(request, kind, namespace)
        old = self.store.get(kind.plural, namespace, parts[1])
        if len(parts) > 2:
            if old is None:
                raise not_found(kind, parts[1])
            return await self.answer_subresource(request, kind, old, parts[2])
        return await self.answer_object(request, kind, namespace, parts[1], old)

    async def answer_subresource(self, request, kind, old, name):
        if kind.name == "Pod" and name in ("log", "exec"):
            return await (self.kubelet.answer_log if name == "log" else self.kubelet.answer_exec)(request, old)
        if kind.name == "Pod" and name == "eviction" and request.method == "POST":
            self.kubelet.disrupt(old, "EvictionByEvictionAPI", "Eviction API: evicting")
            self.delete(old)
            return reply(success(), 201)
        if kind.name == "StatefulSet" and name == "scale":
            if request.method != "GET":
                new = copy.deepcopy(old)
                new["spec"]["replicas"] = (await read_body(request))["spec"]["replicas"]
                old = self.change(kind, old, new, request.query)
            metadata = {key: old["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
            return reply({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
                          "spec": {"replicas": old["spec"]["replicas"]}, "status": {"replicas": old.get("status", {}).get("replicas", 0)}})
        raise Refused(404, "NotFound", "the server could not find the requested resource")

    async def answer_collection(self, request, kind, namespace):
        if request.method == "POST":
            thing = await read_body(request)
            return reply(self.create(kind, namespace, thing, request.query), 201)
        found = [one for one in self.store.list(kind.plural, namespace) if matches(one, request.query)]
        if request.method == "DELETE":
            options = await read_body(request) or {}
            for one in found:
                self.delete(one, options.get("propagationPolicy"), options.get("gracePeriodSeconds"))
            return reply(success())
        as_table = "as=Table" in request.headers.get("Accept", "")
        if request.query.get("watch") in ("1", "true"):
            return await self.answer_watch(request, kind, namespace, as_table)
        if as_table:
            return reply(tables.table(kind.plural, found, self.store.version))
        return reply({"kind": kind.name + "List", "apiVersion": kind.group_version,
                      "metadata": {"resourceVersion": str(self.store.version)}, "items": found})

    async def answer_watch(self, request, kind, namespace, as_table):
        if "sendInitialEvents" in request.query:  # the newer way to list, which a server of our versions refuses
            raise Refused(422, "Invalid", "ListOptions.meta.k8s.io is invalid: sendInitialEvents: Forbidden")
        queue, known, since = asyncio.Queue(), set(), int(request.query.get("resourceVersion") or 0)
        if since:
            for entry in self.store.history:
                if entry[0] > since:
                    queue.put_nowait(entry)
                elif concerns(entry, kind, namespace):
                    seen_by_watch(*entry[1::2], known, request.query)
        else:
            for one in self.store.list(kind.plural, namespace):
                queue.put_nowait((self.store.version, "ADDED", kind.plural, copy.deepcopy(one)))
        self.store.watchers.add(queue)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        end, with_columns = time.monotonic() + float(request.query.get("timeoutSeconds") or WATCH_MAX), True
        try:
            await response.prepare(request)
            while (left := end - time.monotonic()) > 0:
                try:
                    entry = await asyncio.wait_for(queue.get(), min(left, 1))
                except asyncio.TimeoutError:
                    if request.transport is None or request.transport.is_closing():
                        break
                    continue
                version, change, _, thing = entry
                change = concerns(entry, kind, namespace) and seen_by_watch(change, thing, known, request.query)
                if not change:
                    continue
                if as_table:
                    thing, with_columns = tables.table(kind.plural, [thing], version, with_columns), False
                await response.write(json.dumps({"type": change, "object": thing}).encode() + b"\n")
        except ConnectionError:
            pass
        finally:
            self.store.watchers.discard(queue)
        return response

    async def answer_object(self, request, kind, namespace, name, old):
        is_apply = request.content_type == "application/apply-patch+yaml"
        if old is None and not (request.method == "PATCH" and is_apply):
            raise not_found(kind, name)
        if request.method == "GET":
            return reply(tables.table(kind.plural, [old], self.store.version) if "as=Table" in request.headers.get("Accept", "") else old)
        if request.method == "DELETE":
            options = await read_body(request) or {}
            if not request.query.get("dryRun"):
                self.delete(old, options.get("propagationPolicy"), options.get("gracePeriodSeconds"))
            return reply(success(name=name, group=kind.group, kind=kind.plural, uid=old["metadata"]["uid"]))
        body = await read_body(request)
        if request.method == "PUT":
            return reply(self.change(kind, old, body, request.query))
        if request.method != "PATCH":
            raise Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if is_apply:
            return self.apply(kind, namespace, old, body, request.query)
        return reply(self.change(kind, old, merged(old, body, "strategic" in request.content_type), request.query))

    def apply(self, kind, namespace, old, wanted, query):
        """Server-side apply: fields that the same manager applied before and withdraws are removed; owners do not conflict."""
        wanted["metadata"].pop("creationTimestamp", None)
        if old is None:
            thing = self.create(kind, namespace, copy.deepcopy(wanted), query)
        else:
            before = self.applied.get((old["metadata"]["uid"], query.get("fieldManager")), {})
            schema.check_fields(kind, wanted, query)
            thing = self.change(kind, old, merged(without_withdrawn(old, before, wanted), wanted, True), query)
        if not query.get("dryRun"):
            self.applied[thing["metadata"]["uid"], query.get("fieldManager")] = wanted
        return reply(thing, 201 if old is None else 200)

    def create(self, kind, namespace, thing, query):
        """Checks a new object as the API server does, and stores it; controllers make their pods this way too."""
        schema.check_fields(kind, thing, query)
        metadata = thing["metadata"]
        thing.pop("status", None)  # typed clients send an empty one
        if kind.namespaced:
            metadata.setdefault("namespace", namespace or "default")
        if "name" not in metadata and "generateName" in metadata:
            metadata["name"] = metadata["generateName"] + random_suffix()
        schema.check_values(kind, thing)
        if kind.namespaced:
            where = self.store.get("namespaces", None, metadata["namespace"])
            if where is None:
                raise not_found(KINDS["namespaces"], metadata["namespace"])
            if is_ending(where):
                raise Refused(403, "Forbidden", f'{kind.resource} "{metadata["name"]}" is forbidden: unable to create new content in '
                              f'namespace {metadata["namespace"]} because it is being terminated')
        if self.store.get(kind.plural, namespace, metadata["name"]):
            raise Refused(409, "AlreadyExists", f'{kind.resource} "{metadata["name"]}" already exists', name=metadata["name"],
                          group=kind.group, kind=kind.plural)
        schema.check_admission(self.store, kind, thing)
        if query.get("dryRun"):
            return thing
        return self.store.add(thing)

    def change(self, kind, old, new, query):
        name = old["metadata"]["name"]
        if new["metadata"].get("resourceVersion") not in (None, old["metadata"]["resourceVersion"]):
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been modified; '
                          "please apply your changes to the latest version and try again", name=name, group=kind.group, kind=kind.plural)
        schema.check_fields(kind, new, query)
        schema.check_values(kind, new)
        for field in ("uid", "creationTimestamp", "resourceVersion", "namespace"):
            if field in old["metadata"]:
                new["metadata"][field] = old["metadata"][field]
        fill_in_defaults(new, kind)
        schema.check_change(kind, old, new)
        if new == old or query.get("dryRun"):
            return new
        if old.get("spec") != new.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        self.store.update(new)
        if is_ending(new) and not new["metadata"].get("finalizers") and kind.name not in ("Pod", "Namespace"):  # it was the last one
            self.store.remove(new)
        return new

    def delete(self, thing, propagation=None, grace=None):
        """Begins the end of an object; a controller removes its dependents, the kubelet a pod, once its processes have ended."""
        kind, metadata = KINDS_BY_NAME[thing["kind"]], thing["metadata"]
        if kind.name == "Pod":
            return self.kubelet.begin_end(thing, grace)
        if propagation == "Orphan":
            for plural in KINDS:
                for one in self.store.list(plural, metadata.get("namespace")):
                    kept = [owner for owner in one["metadata"].get("ownerReferences", []) if owner["uid"] != metadata["uid"]]
                    if kept != one["metadata"].get("ownerReferences", []):
                        one["metadata"]["ownerReferences"] = kept
                        self.store.update(one)
        if kind.name == "Namespace" or propagation == "Foreground" or metadata.get("finalizers"):
            if is_ending(thing):
                return None
            if propagation == "Foreground":
                metadata.setdefault("finalizers", []).append("foregroundDeletion")
            metadata.update(deletionTimestamp=now(), deletionGracePeriodSeconds=0)
            if kind.name == "Namespace":
                thing["status"]["phase"] = "Terminating"
            return self.store.update(thing)
        return self.store.remove(thing)


KINDS_BY_NAME = {kind.name: kind for kind in KINDS.values()}


def concerns(entry, kind, namespace):
    return entry[2] == kind.plural and (not namespace or entry[3]["metadata"].get("namespace") == namespace)


def seen_by_watch(change, thing, known, query):
    """The change as a watch with these selectors sees it; None if it does not."""
    uid, is_known = thing["metadata"]["uid"], thing["metadata"]["uid"] in known
    if change == "DELETED" or not matches(thing, query):
        known.discard(uid)
        return "DELETED" if is_known else None
    known.add(uid)
    return "MODIFIED" if is_known else "ADDED"


async def read_body(request):
    data = await request.read()
    if request.content_type == "application/vnd.kubernetes.protobuf" and data:
        return protobuf.decode_object(data)
    try:
        return json.loads(data) if data.lstrip()[:1] in (b"{", b"[") else yaml.safe_load(data.decode())
    except (ValueError, yaml.YAMLError) as error:
        raise Refused(400, "BadRequest", f"the object provided is unrecognized: {error}") from error
