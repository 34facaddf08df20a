// Nodes as people name them: ranges as Slurm and ClusterShell write them ("node[01-03,07].lab",
// "rack[1-2]n[1-4]"), one host with its user and a number ("me@node1:8", "[2001:db8::1]:22"), and
// the hosts of a hostfile or of a list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

constexpr std::size_t kRangeNamesMax = 4096;
constexpr std::size_t kRangeBytesMax = 16U << 10U;  // of a pattern with brackets

// "node[01-03,07].lab" -> node01.lab node02.lab node03.lab node07.lab. A pair of brackets holds
// numbers and ranges, separated by commas; "0-10/2" takes every second number. The zeros in front
// of a range's first number stay. Several pairs give every combination, the last pair counts
// fastest, as `scontrol show hostnames` has it. A text without '[' is itself, and so is an IPv6
// address in brackets. kUsage: bounds that are not numbers, last < first, too many names.
Result<std::vector<std::string>> expand_range(const std::string& pattern);

// The length of the first part of a list: up to a comma outside brackets.
std::size_t list_part(std::string_view list);
// The parts of a list, split at commas outside brackets, without blanks around them. "" is one
// empty part.
std::vector<std::string> split_list(std::string_view list);

// The names of a list of patterns.
Result<std::vector<std::string>> expand_list(std::string_view list);

// An IPv6 address, with or without a zone: "2001:db8::1", "fe80::1%eth0".
bool is_ipv6(std::string_view text);

// "[user@]host[:number]"; an IPv6 address with a number is written "[address]:number". "ssh://" may
// stand in front, as OpenSSH has it: then the number can only be a port.
struct HostWord {
  std::string user;    // "": not said
  std::string host;    // without brackets
  std::string number;  // the text behind the ':'; "": not said
  bool has_number = false;
  bool is_url = false;  // "ssh://" stands in front

  // Whether a node with this port of sshd (0: that of ssh's configuration) is meant.
  bool may_have_port(std::uint16_t port) const {
    return !has_number || port == 0 || number == std::to_string(port);
  }
};
// The user ends at the last '@', since users of a directory have one in their names. Nothing but an
// address in brackets is checked.
HostWord split_host(std::string_view word);

// The name of a node that has no other: the host, or for an IPv6 address the host with '-' for each
// character that no folder's name may have.
std::string node_name_of(std::string_view host);

constexpr std::size_t kHostfileBytesMax = 4U << 20U;

// Hosts as people name them: in the hostfiles that mpirun, DeepSpeed, PBS, Slurm and others read
// ("node1 slots = 8", "node1 cpu=8", "node1:8", "node1 8", "node[01-16]", '#' comments), and in a
// list ("node[01-16].lab,me@node2:8,[2001:db8::1]:8"). A number behind ':' is slots there, as
// mpirun and Horovod have it; "ssh://me@node1:2222" has a port of sshd, as OpenSSH writes one.
struct HostfileEntry {
  std::string host;
  std::string user;            // "": not said
  std::uint32_t slots = 0;     // 0: not said
  std::uint16_t ssh_port = 0;  // of sshd; 0: not said
  bool colon_slots = false;    // the slots stand behind a ':', where ssh has a port
};

// In the order of the file; a host named twice has the sum of its slots, as mpirun has it, but two
// ports of sshd are two nodes. kUsage with file and line for what cannot be read.
Result<std::vector<HostfileEntry>> parse_hostfile(std::string_view text, const std::string& file);

// A list separated by commas, with ranges; `option` names it in errors, which are kUsage. No host
// may stand there twice with one port of sshd.
Result<std::vector<HostfileEntry>> parse_host_list(std::string_view list,
                                                   const std::string& option);

}  // namespace paddle::cli
