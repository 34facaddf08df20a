#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::array<std::string_view, 5> kStrategies{"sync", "async", "half_async", "geo",
                                                      "local_sgd"};
// The names of this strategy: here, in Fluid and in other systems.
constexpr std::array<std::string_view, 3> kCollectiveNames{"collective", "nccl2", "allreduce"};
constexpr std::int64_t kMaxMergeMax = 1 << 20;       // batches
constexpr std::int64_t kSendQueueSizeMax = 1 << 10;  // windows, each as large as the model
constexpr std::array<std::string_view, 2> kCenterUpdates{"average", "elastic_average"};
constexpr float kDeltaAddRateDefault = 0.9F;  // of elastic averaging, as in its paper
constexpr std::array<std::string_view, 2> kMerges{"mean", "sum"};
constexpr std::array<std::string_view, 3> kUnevens{"join", "drop", "pad"};
constexpr std::array<std::string_view, 2> kWires{"float32", "bf16"};
constexpr std::array<std::string_view, 4> kPlacements{"round_robin", "hash_name", "size_balanced",
                                                      "explicit"};

// The position of a choice in `names` is the value of its enumerator.
template <class Enum, std::size_t n>
Enum read_enum(TomlTable& table, std::string_view key,
               const std::array<std::string_view, n>& names) {
  const std::string chosen = table.choice(key, names[0], names);
  std::size_t i = 0;
  while (i + 1 < n && names[i] != chosen) ++i;
  return static_cast<Enum>(i);
}

wire::Strategy read_dense_strategy(TomlTable& table) {
  std::array<std::string_view, kStrategies.size() + kCollectiveNames.size()> names;
  std::ranges::copy(kCollectiveNames, std::ranges::copy(kStrategies, names.begin()).out);
  const auto chosen = read_enum<wire::Strategy>(table, "dense", names);
  return std::min(chosen, wire::STRATEGY_COLLECTIVE);
}

// Returns the key itself, or Fluid's name for it if the file uses that.
std::string_view read_spelling(TomlTable& table, std::string_view key) {
  struct Alias {
    std::string_view fluid;
    std::string_view ours;
  };
  constexpr std::array<Alias, 7> kAliases{{{"use_hierarchical_allreduce", "node_groups"},
                                           {"geo_need_push_nums", "update_frequency"},
                                           {"geo_sgd_need_push_nums", "update_frequency"},
                                           {"geo_step", "update_frequency"},
                                           {"max_merge_var_num", "max_merge"},
                                           {"communicator_max_merge_var_num", "max_merge"},
                                           {"communicator_send_queue_size", "send_queue_size"}}};
  for (const Alias& alias : kAliases) {
    if (alias.ours != key || !table.has(alias.fluid)) continue;
    if (table.has(key)) {
      table.fail(alias.fluid,
                 fmt::format("'{}' is Fluid's name of '{}', which is set too", alias.fluid, key));
      return key;
    }
    log_warning("[strategy] '{}' is Fluid's name; use '{}'", alias.fluid, key);
    return alias.fluid;
  }
  return key;
}

// Refuses a key that the chosen strategies do not read.
void check_used(TomlTable& table, std::string_view key, bool is_used, std::string_view by) {
  if (!table.has(key) || is_used) return;
  table.fail(key, fmt::format("'{}' is for {}", key, by));
}

void read_asynchronous(TomlTable& table, JobConfig& job) {
  const bool has_half_async = job.uses(wire::STRATEGY_HALF_ASYNC);
  const std::string_view max_merge = read_spelling(table, "max_merge");
  job.max_merge = read_count(table, max_merge, 1, 1, kMaxMergeMax);
  check_used(table, max_merge, has_half_async, "half_async");
  const std::string_view send_queue_size = read_spelling(table, "send_queue_size");
  job.send_queue_size = read_count(table, send_queue_size, 1, 1, kSendQueueSizeMax);
  check_used(table, send_queue_size, has_half_async, "half_async");
  if (table.has("staleness_max")) job.staleness_max = read_count(table, "staleness_max", 0);
  check_used(table, "staleness_max", has_half_async || job.uses(wire::STRATEGY_ASYNC),
             "async and half_async");
  if (job.staleness_max && table.has("async_lagged_grad_discard_ratio")) {
    table.fail(
        "staleness_max",
        "'staleness_max' and 'async_lagged_grad_discard_ratio' cannot be combined: remove one");
  }
  job.delay_compensation = read_float(table, "delay_compensation", 0);
  check_used(table, "delay_compensation", job.dense_strategy == wire::STRATEGY_ASYNC,
             "dense = 'async'");
}

// Reads the averaging of a local_sgd round, under v0.10's names.
void read_center(TomlTable& table, JobConfig& job) {
  const bool has_center = job.dense_strategy == wire::STRATEGY_LOCAL_SGD;
  const bool is_elastic = table.choice("center_parameter_update_method", "average",
                                       kCenterUpdates) == "elastic_average";
  check_used(table, "center_parameter_update_method", has_center, "dense = 'local_sgd'");
  const float rate = read_float(table, "delta_add_rate", kDeltaAddRateDefault, 0, 1);
  if (rate == 0) table.fail("delta_add_rate", "'delta_add_rate' is 0, but must be above 0");
  check_used(table, "delta_add_rate", is_elastic,
             "center_parameter_update_method = 'elastic_average'");
  if (is_elastic) job.elastic_rate = rate;
}

// With geo and local_sgd trainers hold the optimizer, so keys for the shards' half are refused.
void read_local(TomlTable& table, JobConfig& job) {
  const std::string_view update_frequency = read_spelling(table, "update_frequency");
  job.update_frequency = read_count(table, update_frequency, job.update_frequency, 1, kMaxMergeMax);
  check_used(table, update_frequency, job.is_local(), "geo and local_sgd");
  read_center(table, job);
  if (!job.is_local()) return;
  const auto refuse = [&](bool is_given, const char* why) {
    if (is_given) table.fail(table.has("dense") ? "dense" : "sparse", why);
  };
  refuse(job.uses(wire::STRATEGY_HALF_ASYNC),
         "half_async cannot be combined with geo or local_sgd");
  if (!job.uses(wire::STRATEGY_LOCAL_SGD)) return;
  // A trainer at the end of its data would wait for a round of one strategy, and the others would
  // wait for it in a round of the other strategy.
  refuse(job.uses(wire::STRATEGY_SYNC),
         "sync cannot be combined with local_sgd: their rounds would wait for each other");
  if (job.is_collective())
    table.fail("dense", "collective cannot be combined with local_sgd for tables");
  refuse(job.staleness_max.has_value(), "staleness_max cannot be combined with local_sgd");
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
    table.fail(
        "placement", "placement = 'explicit' needs [[strategy.place]]",
        "write [[strategy.place]] with, for example, parameter = \"_output.w0\" and port = 0");
  }
}

}  // namespace

void read_strategy(TomlTable table, JobConfig& job) {
  job.dense_strategy = read_dense_strategy(table);
  job.sparse_strategy = read_enum<wire::Strategy>(table, "sparse", kStrategies);
  // local_sgd goes with no other strategy in rounds, and a network may have no table to choose one
  // for.
  if (job.dense_strategy == wire::STRATEGY_LOCAL_SGD && !table.has("sparse"))
    job.sparse_strategy = wire::STRATEGY_LOCAL_SGD;
  job.async_lagged_grad_discard_ratio = static_cast<float>(
      table.number("async_lagged_grad_discard_ratio", job.async_lagged_grad_discard_ratio, 1));
  read_asynchronous(table, job);
  read_local(table, job);
  job.merge = read_enum<wire::Merge>(table, "merge", kMerges);
  const std::string_view node_groups = read_spelling(table, "node_groups");
  job.node_groups = table.boolean(node_groups, false);
  check_used(table, node_groups, job.dense_strategy == wire::STRATEGY_SYNC || job.is_collective(),
             "dense = 'sync' and 'collective'");
  job.uneven = read_enum<Uneven>(table, "uneven", kUnevens);
  check_used(table, "uneven", job.is_collective(), "dense = 'collective'");
  job.bf16_wire = table.choice("wire", kWires[0], kWires) == kWires[1];
  check_used(table, "wire", job.is_collective(), "dense = 'collective'");
  if (job.bf16_wire && job.node_groups)
    table.fail("wire", "wire = 'bf16' cannot be combined with 'node_groups'");
  job.lanes = read_count(table, "lanes", 1, 1, kLanesMax);
  check_used(table, "lanes", job.is_collective() || job.dense_strategy == wire::STRATEGY_LOCAL_SGD,
             "dense = 'collective' and 'local_sgd'");
  read_partitioning(table, job);
}

}  // namespace paddle::config
