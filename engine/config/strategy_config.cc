#include <array>

#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::array<std::string_view, 2> kStrategies{"sync", "async"};

}  // namespace

void read_strategy(TomlTable table, JobConfig& job) {
  const auto strategy = [&table](std::string_view key) {
    return table.choice(key, "sync", kStrategies) == "async" ? wire::STRATEGY_ASYNC
                                                             : wire::STRATEGY_SYNC;
  };
  job.dense_strategy = strategy("dense");
  job.sparse_strategy = strategy("sparse");
  job.async_lagged_grad_discard_ratio = static_cast<float>(
      table.number("async_lagged_grad_discard_ratio", job.async_lagged_grad_discard_ratio, 1));
  job.min_block_size = static_cast<std::uint64_t>(
      table.integer("min_block_size", static_cast<std::int64_t>(job.min_block_size), 1, kCountMax));
}

}  // namespace paddle::config
