// A node as the launcher needs to know it; the CLI fills it from cluster.toml.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace paddle::remote {

struct NodeSpec {
  std::string name;             // unique in the cluster; the prefix of its messages
  bool local = false;           // a directory and processes on this machine instead of SSH
  std::string host;             // SSH: as the user wrote it, looked up in ~/.ssh/config
  std::uint16_t ssh_port = 0;   // 0: ~/.ssh/config or 22
  std::string user;             // "": ~/.ssh/config or $USER
  std::string identity;         // private key file, "": agent and defaults
  std::string jump;             // bastion, "": none
  unsigned bastion = 0;         // how many hosts before a node it is a bastion; 0: a node itself
  std::string known_hosts;      // "": ~/.ssh/known_hosts
  std::string ssh_directory;    // "": ~/.ssh; holds config, known_hosts and the default keys
  std::string address = {};     // IPv4 where other nodes reach it; "": what it finds itself
  std::uint16_t push_port = 0;  // where they do while files are pushed; 0, or taken: any
  std::string
      root;  // our folder on the node: <workdir>/<cluster>[/<node> when local], "~/" allowed
  Duration timeout{};  // longest wait until it is reached, and for an answer; zero: by default
};

}  // namespace paddle::remote
