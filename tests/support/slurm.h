// Slurm's daemons on this machine, by tests/support/slurm_cluster.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace paddle::test {

// Why this machine has no Slurm for a test; empty: it has.
inline std::string slurm_obstacle() {
  for (const char* const program : {"munged", "slurmctld", "slurmd"}) {
    if (!std::filesystem::exists(fmt::format("/usr/sbin/{}", program)))
      return fmt::format("no {} here: scripts/deps optional", program);
  }
  return ::geteuid() == 0 ? "" : "Slurm's daemons on one machine need root";
}

}  // namespace paddle::test
