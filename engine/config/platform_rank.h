// A process's place in a job that another platform started: its rank, from that platform's
// environment. Ranks 0 to P-1 are the P pservers in the order of --pservers, the rest trainers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::config {

struct PlatformRank {
  std::uint32_t rank = 0;
  // Of all processes; nothing where the platform does not tell (an Indexed Job of Kubernetes).
  std::optional<std::uint32_t> size;
};

// A variable's value; null when it is not set.
using Environment = std::function<const char*(const char* name)>;

// platform: "kubernetes" (JOB_COMPLETION_INDEX), "slurm" (SLURM_PROCID, SLURM_STEP_NUM_TASKS) or
// "openmpi" (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE). kUsage for another one, and where a
// variable is missing or no number.
Result<PlatformRank> platform_rank(std::string_view platform, const Environment& environment);

// The id of this pserver or trainer, of a job with that many pservers. kUsage when the rank is not
// of that role.
Result<std::uint32_t> id_in_role(const PlatformRank& place, bool is_pserver,
                                 std::uint32_t pservers);
// The number of trainers; `otherwise` where the platform does not tell. kUsage when none is left.
Result<std::uint32_t> trainers_of(const PlatformRank& place, std::uint32_t pservers,
                                  std::uint32_t otherwise);

}  // namespace paddle::config
