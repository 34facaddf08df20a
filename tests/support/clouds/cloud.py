#!/usr/bin/env python3
"""Stand-ins, by name, for hcloud and gcloud with the calls of templates/providers, and for the ssh that logs in to their servers.

Their servers are in the file $CLOUD. A file $CLOUD.full makes every `create` fail.
"""
import json
import os
import sys

STATE = os.environ["CLOUD"]
PRICES = [{"location": "hel1", "price_hourly": {"net": "9", "gross": "9"}}, {"location": "fsn1", "price_hourly": {"net": "0.04", "gross": "0.05"}}]


def load():
    if not os.path.exists(STATE):
        return {}
    with open(STATE) as file:
        return json.load(file)


def save(servers):
    with open(STATE, "w") as file:
        json.dump(servers, file)


def new_server(servers, name, user_data, labels):
    if os.path.exists(STATE + ".full"):
        sys.exit("error: no capacity\nin this place")
    with open(user_data) as file:
        head, _, text = file.read().partition("\n")
    assert head == "#cloud-config" and name not in servers
    config = json.loads(text)
    assert config["ssh_keys"]["ed25519_private"].startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert config["users"][0]["ssh_authorized_keys"][0].startswith("ssh-ed25519 ")
    servers[name] = {"name": name, "labels": labels, "_host": f"192.0.2.{len(servers) + 1}", "_key": config["ssh_keys"]["ed25519_public"]}
    return servers[name]


def hcloud(words):
    servers = load()
    options = [words[i + 1] for i, word in enumerate(words) if word in ("-l", "--label")]
    labels = dict(option.split("=", 1) for option in options)
    value = {word: words[i + 1] for i, word in enumerate(words[:-1])}
    if words[:2] == ["server", "list"]:
        assert value["-o"] == "json"
        print(json.dumps([one for one in servers.values() if labels.items() <= one["labels"].items()]))
    elif words[:2] == ["server", "create"]:
        assert all(len(text) <= 63 and text[-1].isalnum() and "/" not in text and "+" not in text for text in labels.values())
        server = new_server(servers, value["--name"], value["--user-data-from-file"], labels)
        server |= {"status": "running", "created": "2026-11-27T10:00:00+00:00", "public_net": {"ipv4": {"ip": server["_host"]}},
                   "datacenter": {"location": {"name": value["--location"]}}, "server_type": {"name": value["--type"], "prices": PRICES}}
    elif words[:2] == ["server", "delete"]:
        del servers[words[2]]
    save(servers)


def gcloud(words):
    servers = load()
    assert words[:2] == ["compute", "instances"], words
    value = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    if words[2] == "list":
        key, _, wanted = value["filter"].removeprefix("labels.").partition("=")
        print(json.dumps([one for one in servers.values() if one["labels"][key] == wanted]))
    elif words[2] == "create":
        labels = dict(pair.split("=") for pair in value["labels"].split(","))
        assert all(text == text.lower() for text in labels.values())
        server = new_server(servers, words[3], value["metadata-from-file"].removeprefix("user-data="), labels)
        key, _, text = value["metadata"].partition("=")
        server |= {"status": "RUNNING", "creationTimestamp": "2026-11-27T02:00:00.000-08:00",
                   "zone": f"https://www.googleapis.com/compute/v1/projects/p/zones/{value['zone']}",
                   "metadata": {"items": [{"key": "user-data", "value": "..."}, {"key": key, "value": text}]},
                   "networkInterfaces": [{"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": server["_host"]}]}]}
    elif words[2] == "delete":
        assert value["zone"] == "europe-west1-b"
        del servers[words[3]]
    save(servers)


def ssh(words):
    known_hosts = next(word.split("=", 1)[1] for word in words if word.startswith("-oUserKnownHostsFile="))
    host = words[-2].removeprefix("train@")
    server = next(one for one in load().values() if one["_host"] == host)
    with open(known_hosts) as file:
        if file.read().split() != [host, *server["_key"].split()[:2]]:
            sys.exit("Host key verification failed.")


{"hcloud": hcloud, "gcloud": gcloud, "ssh": ssh}[os.path.basename(sys.argv[0])](sys.argv[1:])
