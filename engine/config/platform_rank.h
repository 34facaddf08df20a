// The rank of a process in a job that another platform started, from that platform's environment.
// Ranks 0 to P-1 are the P pservers in the order of --pservers, the rest are trainers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace paddle::config {

struct PlatformRank {
  std::uint32_t rank = 0;
  // Number of processes; empty where the platform does not provide it (Kubernetes' Indexed Job).
  std::optional<std::uint32_t> size;
};

// Returns a variable's value; null when it is not set.
using Environment = std::function<const char*(const char* name)>;

// `name` is "kubernetes" (JOB_COMPLETION_INDEX), "slurm" (SLURM_PROCID, SLURM_STEP_NUM_TASKS) or
// "openmpi" (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE). kUsage: another platform, or a variable
// that is missing or not a number.
Result<PlatformRank> platform_rank(std::string_view name, const Environment& environment);

// The id of this pserver or trainer in a job of `pservers` pservers. kUsage: the rank has the other
// role.
Result<std::uint32_t> id_in_role(const PlatformRank& process, bool is_pserver,
                                 std::uint32_t pservers);
// The number of trainers; `fallback` where the platform gives no size. kUsage: no process is left
// for trainers.
Result<std::uint32_t> trainers_of(const PlatformRank& process, std::uint32_t pservers,
                                  std::uint32_t fallback);

}  // namespace paddle::config
