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
constexpr std::size_t kRangeBytesMax = 16U << 10U;  // length of a pattern with brackets

// "node[01-03,07].lab" -> node01.lab node02.lab node03.lab node07.lab. A pair of brackets contains
// numbers and ranges, separated by commas; "0-10/2" takes every second number. Leading zeros of a
// range's first number stay. Several pairs give every combination; the last pair counts fastest, as
// in `scontrol show hostnames`. A text without '[' expands to itself, and so does an IPv6 address
// in brackets. kUsage: bounds that are not numbers, last < first, too many names.
Result<std::vector<std::string>> expand_range(const std::string& pattern);

// The length of the first part of a list: up to a comma outside brackets.
std::size_t list_part(std::string_view list);
// The parts of a list, split at commas outside brackets, without blanks around them. "" is one
// empty part.
std::vector<std::string> split_list(std::string_view list);

// Expands each pattern of a list and returns all names.
Result<std::vector<std::string>> expand_list(std::string_view list);

// Whether the text is an IPv6 address, with or without a zone: "2001:db8::1", "fe80::1%eth0".
bool is_ipv6(std::string_view text);

// "[user@]host[:number]"; an IPv6 address with a number is written "[address]:number". After a
// leading "ssh://", as OpenSSH writes it, the number is always a port.
struct HostWord {
  std::string user;    // "": not given
  std::string host;    // without brackets
  std::string number;  // the text after the ':'; "": not given
  bool has_number = false;
  bool is_url = false;  // begins with "ssh://"

  // Whether the word can mean a node with this port of sshd (0: the port of ssh's configuration).
  bool may_have_port(std::uint16_t port) const {
    return !has_number || port == 0 || number == std::to_string(port);
  }
};
// The user ends at the last '@', because user names of a directory service may contain one. Checks
// nothing but an address in brackets.
HostWord split_host(std::string_view word);

// The name for a node without a given one: the host. In an IPv6 address, '-' replaces each
// character that a folder's name may not contain.
std::string node_name_of(std::string_view host);

constexpr std::size_t kHostfileBytesMax = 4U << 20U;

// Hosts as people name them: in the hostfiles that mpirun, DeepSpeed, PBS, Slurm and others read
// ("node1 slots = 8", "node1 cpu=8", "node1:8", "node1 8", "node[01-16]", '#' comments), and in a
// list ("node[01-16].lab,me@node2:8,[2001:db8::1]:8"). A number after ':' means slots there, as in
// mpirun and Horovod; in "ssh://me@node1:2222" it is a port of sshd, as in OpenSSH.
struct HostfileEntry {
  std::string host;
  std::string user;            // "": not given
  std::uint32_t slots = 0;     // 0: not given
  std::uint16_t ssh_port = 0;  // port of sshd; 0: not given
  bool colon_slots = false;    // the slots follow a ':', where ssh expects a port
};

// Hosts in the order of the file. A host named twice gets the sum of its slots, as in mpirun, but a
// host with two ports of sshd is two nodes. kUsage, with file and line: a line that cannot be
// parsed.
Result<std::vector<HostfileEntry>> parse_hostfile(std::string_view bytes, const std::string& file);

// Parses a list separated by commas, with ranges; `option` names it in errors, which are kUsage. A
// host may appear only once with the same port of sshd.
Result<std::vector<HostfileEntry>> parse_host_list(std::string_view list,
                                                   const std::string& option);

}  // namespace paddle::cli
