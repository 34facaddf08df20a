#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::array<std::string_view, 4> kSparse{"sync", "async", "half_async", "geo"};
// The last three are one strategy: its names here, in Fluid and in other systems.
constexpr std::array<std::string_view, 8> kDense{
    "sync", "async", "half_async", "geo", "local_sgd", "collective", "nccl2", "allreduce"};
constexpr std::int64_t kMaxMergeMax = 1 << 20;       // batches
constexpr std::int64_t kSendQueueSizeMax = 1 << 10;  // windows, each as large as the model
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

wire::Strategy read_sparse_strategy(TomlTable& table) {
  if (!table.is_string("sparse") || table.string("sparse") != "local_sgd")
    return read_enum<wire::Strategy>(table, "sparse", kSparse);
  table.fail("sparse", "'local_sgd' is for dense parameters only",
             "write dense = \"geo\" and sparse = \"geo\", which train copies of tables too; or "
             "leave 'sparse' out if no table exists");
  return wire::STRATEGY_SYNC;
}

// Refuses keys of modes that do not exist, with what to write instead.
void refuse_absent_modes(TomlTable& table) {
  struct Absent {
    std::string_view key;
    std::string_view mode;
    std::string_view hint;
  };
  constexpr std::string_view kMean =
      "remove it: dense = \"local_sgd\" sets every copy to the mean of all";
  constexpr std::array<Absent, 3> kAbsent{
      {{"center_parameter_update_method", "elastic averaging", kMean},
       {"delta_add_rate", "elastic averaging", kMean},
       {"delay_compensation", "delay compensation",
        "remove it; staleness_max limits how old an asynchronous gradient can be"}}};
  for (const Absent& absent : kAbsent) {
    if (!table.has(absent.key)) continue;
    table.fail(absent.key, fmt::format("unknown key '{}': there is no {}", absent.key, absent.mode),
               absent.hint);
  }
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

// With [[table]] the program has the dense parameters. Dense ports, if there are any, then have no
// work, and follow the tables.
void leave_dense_to_program(TomlTable& table, JobConfig& job) {
  constexpr auto kDenseKeys = std::to_array<std::string_view>(
      {"node_groups", "use_hierarchical_allreduce", "uneven", "wire", "lanes", "slice_var_up",
       "placement", "place", "min_block_size"});
  job.dense_strategy = job.sparse_strategy;
  for (const std::string_view key : kDenseKeys) {
    if (!table.has(key)) continue;
    table.fail(key, fmt::format("'{}' is for dense parameters, which the program has itself", key),
               "remove the key");
  }
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
}

// With geo and local_sgd trainers hold the optimizer.
void read_local(TomlTable& table, JobConfig& job) {
  const std::string_view update_frequency = read_spelling(table, "update_frequency");
  job.update_frequency = read_count(table, update_frequency, job.update_frequency, 1, kMaxMergeMax);
  check_used(table, update_frequency, job.is_local(), "geo and local_sgd");
  if (job.uses(wire::STRATEGY_GEO) && job.uses(wire::STRATEGY_HALF_ASYNC)) {
    table.fail(table.has("dense") ? "dense" : "sparse", "half_async cannot be combined with geo");
  }
  const std::string layer = job.sparse_layer();
  if (job.dense_strategy != wire::STRATEGY_LOCAL_SGD || layer.empty()) return;
  table.fail("dense",
             fmt::format("'local_sgd' has no place for the sparse table of layer '{}'", layer),
             "write dense = \"geo\" and sparse = \"geo\", which train copies of tables too; or "
             "dense = \"collective\"");
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
  job.dense_strategy =
      std::min(read_enum<wire::Strategy>(table, "dense", kDense), wire::STRATEGY_COLLECTIVE);
  job.sparse_strategy = read_sparse_strategy(table);
  if (!job.tables.empty()) leave_dense_to_program(table, job);
  refuse_absent_modes(table);
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
  check_used(table, "lanes", job.has_group(), "dense = 'collective' and 'local_sgd'");
  read_partitioning(table, job);
}

}  // namespace paddle::config
