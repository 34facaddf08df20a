// Hosts as people name them: in the hostfiles that mpirun, DeepSpeed, PBS, Slurm and others read
// ("node1 slots = 8", "node1 cpu=8", "node1:8", "node1 8", "node[01-16]", '#' comments), and in a
// list ("node[01-16].lab,me@node2:8,[2001:db8::1]:8"). A number behind ':' is slots there, as
// mpirun and Horovod have it; "ssh://me@node1:2222" has a port of sshd, as OpenSSH writes one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace paddle::cli {

constexpr std::size_t kHostfileBytesMax = 4U << 20U;

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
