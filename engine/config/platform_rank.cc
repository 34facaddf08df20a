#include "engine/config/platform_rank.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/text.h"

namespace paddle::config {
namespace {

constexpr std::uint32_t kRankMax = 1U << 20U;

struct Platform {
  std::string_view name;
  const char* rank;
  const char* size;  // null: there is no such variable
};
constexpr std::array<Platform, 3> kPlatforms = {{
    {"kubernetes", "JOB_COMPLETION_INDEX", nullptr},
    {"slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
}};

Result<std::uint32_t> read_number(const Platform& platform, const char* name,
                                  const Environment& environment) {
  const char* const value = environment(name);
  if (value == nullptr) {
    return Error{Errc::kUsage,
                 fmt::format("--rank_from={}, but {} is not set", platform.name, name),
                 fmt::format("start it as `paddlectl render {}` shows", platform.name)};
  }
  const std::string_view text(value);
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kRankMax) {
    return Error{Errc::kUsage,
                 fmt::format("{}={} is not a rank or size", name, escape_control(text)),
                 fmt::format("{} sets it to a number up to {}", platform.name, kRankMax)};
  }
  return number;
}

}  // namespace

Result<PlatformRank> platform_rank(std::string_view name, const Environment& environment) {
  const auto platform = std::ranges::find(kPlatforms, name, &Platform::name);
  if (platform == kPlatforms.end()) {
    return Error{Errc::kUsage, fmt::format("unknown platform '{}'", escape_control(name)),
                 "use kubernetes, slurm or openmpi"};
  }
  PlatformRank process;
  PADDLE_TRY(process.rank, read_number(*platform, platform->rank, environment));
  if (platform->size == nullptr) return process;
  PADDLE_TRY(process.size, read_number(*platform, platform->size, environment));
  if (process.rank >= *process.size) {
    return Error{Errc::kUsage,
                 fmt::format("rank {} is not below the number of processes, {}", process.rank,
                             *process.size),
                 fmt::format("check {} and {}", platform->rank, platform->size)};
  }
  return process;
}

Result<std::uint32_t> id_in_role(const PlatformRank& process, bool is_pserver,
                                 std::uint32_t pservers) {
  if (is_pserver == (process.rank < pservers))
    return is_pserver ? process.rank : process.rank - pservers;
  return Error{Errc::kUsage,
               fmt::format("rank {} is a {}, because --pservers names {}", process.rank,
                           is_pserver ? "trainer" : "pserver", pservers),
               "the first ranks run `paddle pserver`, the others `paddle train`"};
}

Result<std::uint32_t> trainers_of(const PlatformRank& process, std::uint32_t pservers,
                                  std::uint32_t fallback) {
  if (!process.size) return fallback;
  if (*process.size > pservers) return *process.size - pservers;
  return Error{Errc::kUsage,
               fmt::format("{} processes and {} pservers leave no process to train", *process.size,
                           pservers),
               "start more processes, or name fewer in --pservers"};
}

}  // namespace paddle::config
