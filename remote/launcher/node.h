// A node as its launcher needs to know it; the CLI fills it from cluster.toml.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace paddle::remote {

struct NodeSpec {
  std::string name;                  // unique in the cluster; the prefix of its messages
  std::string launcher = "ssh";      // of the table in launcher.cc
  std::vector<std::string> command;  // of launcher "command": argv that gives a shell on the node
  std::string host;             // as the user wrote it, looked up in ~/.ssh/config; "": not by SSH
  std::uint16_t ssh_port = 0;   // 0: ~/.ssh/config or 22
  std::string user;             // "": ~/.ssh/config or $USER
  std::string identity;         // private key file, "": agent and defaults
  std::string jump;             // bastion, "": none
  unsigned bastion = 0;         // how many hosts before a node this bastion is; 0: a node itself
  std::string known_hosts;      // "": ~/.ssh/known_hosts
  std::string ssh_directory;    // "": ~/.ssh; holds config, known_hosts and the default keys
  std::string address = {};     // IPv4 for the other nodes; "": the one that the node finds
  std::uint16_t push_port = 0;  // for other nodes during a push; 0, or taken: any
  std::string root;             // our folder on the node, "~/" allowed: <workdir>/<cluster>, and
                                // /<node> where nodes share a machine
  Duration timeout{};           // for reaching it, and for each answer; zero: the defaults

  bool is_local() const { return launcher == "local"; }
};

}  // namespace paddle::remote
