#include <array>

#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::array<std::string_view, 2> kStrategies{"sync", "async"};
constexpr std::array<std::string_view, 2> kMerges{"mean", "sum"};
constexpr std::array<std::string_view, 4> kPlacements{"round_robin", "hash_name", "size_balanced",
                                                      "explicit"};

// The place of a choice is the value of its enumerator.
template <class Enum, std::size_t n>
Enum read_enum(TomlTable& table, std::string_view key,
               const std::array<std::string_view, n>& names) {
  const std::string chosen = table.choice(key, names[0], names);
  std::size_t i = 0;
  while (i + 1 < n && names[i] != chosen) ++i;
  return static_cast<Enum>(i);
}

void read_partitioning(TomlTable& table, JobConfig& job) {
  wire::Partitioning& partitioning = job.partitioning;
  job.min_block_size = static_cast<std::uint64_t>(
      table.integer("min_block_size", static_cast<std::int64_t>(job.min_block_size), 1, kCountMax));
  partitioning.set_whole(!table.boolean("slice_var_up", true));
  partitioning.set_placement(read_enum<wire::Placement>(table, "placement", kPlacements));
  for (TomlTable& place : table.tables("place")) {
    wire::PlacedParameter& placed = *partitioning.add_placed();
    require(place, "parameter", "[[strategy.place]]");
    require(place, "port", "[[strategy.place]]");
    placed.set_parameter(place.string("parameter"));
    placed.set_port(read_count(place, "port", 0));
  }
  const bool is_explicit = partitioning.placement() == wire::PLACEMENT_EXPLICIT;
  if (!is_explicit && partitioning.placed_size() > 0) {
    table.fail("place", "[[strategy.place]] needs placement = 'explicit'");
  }
  if (is_explicit && partitioning.placed_size() == 0) {
    table.fail("placement", "placement = 'explicit' needs [[strategy.place]]",
               "[[strategy.place]] has parameter = \"_output.w0\" and port = 0");
  }
}

}  // namespace

void read_strategy(TomlTable table, JobConfig& job) {
  job.dense_strategy = read_enum<wire::Strategy>(table, "dense", kStrategies);
  job.sparse_strategy = read_enum<wire::Strategy>(table, "sparse", kStrategies);
  job.async_lagged_grad_discard_ratio = static_cast<float>(
      table.number("async_lagged_grad_discard_ratio", job.async_lagged_grad_discard_ratio, 1));
  job.merge = read_enum<wire::Merge>(table, "merge", kMerges);
  read_partitioning(table, job);
}

}  // namespace paddle::config
