#include "engine/table/parameter_set.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/safe_path.h"
#include "base/text.h"
#include "engine/math/optimizer.h"

namespace paddle::parameter {
namespace {

Error refuse(const std::string& name, const std::string& why) {
  return Error{Errc::kUsage, fmt::format("parameter '{}': {}", escape_control(name), why)};
}

constexpr float kGradientMax = 1e18F;  // its square is far below the largest float, 3e38
// Limit for the change of one value in one update. With a learning rate up to 10^19, kGradientMax
// is the stricter limit. All the updates of a job together stay finite.
constexpr float kStepMax = 1e37F;

// Returns the product of dims[first..], or 0 when it is above the limit.
std::uint64_t bounded_product(const wire::ParameterSpec& spec, int first, std::uint64_t limit) {
  std::uint64_t product = 1;
  for (int i = first; i < spec.dims_size(); ++i) {
    const std::uint64_t dim = spec.dims(i);
    if (dim == 0 || product > limit / dim) return 0;
    product *= dim;
  }
  return product;
}

Status validate_dims(const wire::ParameterSpec& spec) {
  if (spec.sparse()) {
    if (spec.dims_size() != 2 || spec.dims(0) != 0) {
      return refuse(spec.name(), "a sparse table has dims {0, width}");
    }
    if (bounded_product(spec, 1, kRowWidthMax) == 0) {
      return refuse(spec.name(),
                    fmt::format("row width {}, must be 1 to {}", spec.dims(1), kRowWidthMax));
    }
    return {};
  }
  if (spec.dims_size() == 0 || bounded_product(spec, 0, kParameterElementsMax) == 0) {
    return refuse(spec.name(), fmt::format("needs 1 to {} elements", kParameterElementsMax));
  }
  return {};
}

bool is_of_group(wire::Strategy strategy) {
  return strategy == wire::STRATEGY_COLLECTIVE || strategy == wire::STRATEGY_LOCAL_SGD;
}

Status validate_placement(const wire::ParameterSet& set) {
  const wire::Partitioning& partitioning = set.partitioning();
  if (!wire::Placement_IsValid(partitioning.placement()) || !wire::Merge_IsValid(set.merge()) ||
      !wire::Strategy_IsValid(set.dense_strategy()) ||
      !wire::Strategy_IsValid(set.sparse_strategy())) {
    return Error{Errc::kUsage, "a strategy, placement or merge that this version does not know"};
  }
  std::unordered_set<std::string> dense;
  for (const auto& spec : set.parameters()) {
    if (!spec.sparse()) dense.insert(spec.name());
  }
  for (const wire::PlacedParameter& one : partitioning.placed()) {
    const std::string what =
        fmt::format("[[strategy.place]] of '{}'", escape_control(one.parameter()));
    if (dense.erase(one.parameter()) == 0) {
      return Error{Errc::kUsage, what + ": no dense parameter has that name, or it is placed twice",
                   "paddlectl plan lists them"};
    }
    if (one.port() >= set.dense_shards()) {
      return Error{Errc::kUsage,
                   fmt::format("{}: there is no dense port {}, the job has {}", what, one.port(),
                               set.dense_shards()),
                   "ports are numbered from 0 over all pservers"};
    }
  }
  return {};
}

// Stores the first difference in `found`, for parameter_difference().
template <class T>
void compare(std::string& found, std::string_view what, const T& here, const T& there) {
  if (found.empty() && here != there) {
    found = fmt::format("{} is {} here, {} there", what, here, there);
  }
}

std::string dims(const wire::ParameterSpec& spec) {
  return fmt::format("{}", fmt::join(spec.dims(), "x"));
}

std::string entries(const wire::TablePolicy& policy) {
  std::string text;
  for (const wire::SlotEntry& entry : policy.entry()) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", entry.slot(), entry.entry_count(),
                        entry.entry_probability());
  }
  return text;
}

std::string shrink(const wire::TablePolicy& policy) {
  if (!policy.has_shrink()) return "off";
  const wire::ShrinkPolicy& shrink = policy.shrink();
  return fmt::format("label {} decay {} threshold {} coefficients {} {}", shrink.label(),
                     shrink.decay(), shrink.threshold(), shrink.nonclick_coefficient(),
                     shrink.click_coefficient());
}

void compare_specs(std::string& found, const wire::ParameterSpec& a, const wire::ParameterSpec& b) {
  const std::string prefix = fmt::format("parameter '{}' ", a.name());
  compare(found, prefix + "dims", dims(a), dims(b));
  compare(found, prefix + "sparse", a.sparse(), b.sparse());
  compare(found, prefix + "initial_mean", a.initial_mean(), b.initial_mean());
  compare(found, prefix + "initial_std", a.initial_std(), b.initial_std());
  compare(found, prefix + "learning_rate", a.learning_rate(), b.learning_rate());
  compare(found, prefix + "l1", a.l1(), b.l1());
  compare(found, prefix + "l2", a.l2(), b.l2());
  compare(found, prefix + "clip_value", a.clip_value(), b.clip_value());
  compare(found, prefix + "clip_norm", a.clip_norm(), b.clip_norm());
  compare(found, prefix + "is_static", a.is_static(), b.is_static());
  const wire::TablePolicy& here = a.table();
  const wire::TablePolicy& there = b.table();
  compare(found, prefix + "entry_count", here.entry_count(), there.entry_count());
  compare(found, prefix + "entry_probability", here.entry_probability(), there.entry_probability());
  compare(found, prefix + "expire_passes", here.expire_passes(), there.expire_passes());
  compare(found, prefix + "bytes_max", here.bytes_max(), there.bytes_max());
  compare(found, prefix + "on_full = evict", here.evict(), there.evict());
  compare(found, prefix + "unseen = draw", here.draws_unseen(), there.draws_unseen());
  compare(found, prefix + "entry", entries(here), entries(there));
  compare(found, prefix + "shrink", shrink(here), shrink(there));
}

std::string schedule(const wire::LearningRateSchedule& schedule) {
  std::string text = fmt::format("{} a {} b {} warm-up {}", schedule.name(), schedule.a(),
                                 schedule.b(), schedule.warmup_samples());
  for (const auto& step : schedule.steps()) {
    text += fmt::format(" {}:{}", step.until(), step.rate());
  }
  return text;
}

std::string optional_text(bool is_set, double value) {
  return is_set ? fmt::format("{}", value) : "the default";
}

void compare_optimizers(std::string& found, const wire::Optimizer& a, const wire::Optimizer& b) {
  compare(found, "optimizer method", a.method(), b.method());
  compare(found, "optimizer learning_rate", a.learning_rate(), b.learning_rate());
  compare(found, "optimizer momentum", a.momentum(), b.momentum());
  compare(found, "optimizer beta1", a.beta1(), b.beta1());
  compare(found, "optimizer beta2", a.beta2(), b.beta2());
  compare(found, "optimizer epsilon", a.epsilon(), b.epsilon());
  compare(found, "optimizer rho", a.rho(), b.rho());
  compare(found, "optimizer beta", a.beta(), b.beta());
  compare(found, "optimizer weight_decay", optional_text(a.has_weight_decay(), a.weight_decay()),
          optional_text(b.has_weight_decay(), b.weight_decay()));
  compare(found, "optimizer centered", a.centered(), b.centered());
  compare(found, "optimizer l1", a.l1(), b.l1());
  compare(found, "optimizer l2", a.l2(), b.l2());
  compare(found, "optimizer clip_value", a.clip_value(), b.clip_value());
  compare(found, "optimizer clip_norm", a.clip_norm(), b.clip_norm());
  compare(found, "optimizer clip_global_norm", a.clip_global_norm(), b.clip_global_norm());
  compare(found, "learning_rate_schedule", schedule(a.schedule()), schedule(b.schedule()));
  compare(found, "average_window", a.average().window(), b.average().window());
  compare(found, "min_average_window", a.average().window_min(), b.average().window_min());
  compare(found, "max_average_window", a.average().window_max(), b.average().window_max());
}

std::string placed(const wire::ParameterSet& set) {
  std::string text;
  for (const auto& one : set.partitioning().placed()) {
    text += fmt::format("{}{}@{}", text.empty() ? "" : " ", one.parameter(), one.port());
  }
  return text;
}

// The name as in job.toml: "half_async" for STRATEGY_HALF_ASYNC.
std::string strategy(wire::Strategy value) {
  if (!wire::Strategy_IsValid(value)) return fmt::format("number {}", static_cast<int>(value));
  std::string name = wire::Strategy_Name(value).substr(std::string_view("STRATEGY_").size());
  std::ranges::transform(name, name.begin(), [](char c) { return c == '_' ? c : c | 0x20; });
  return name;
}

}  // namespace

std::uint64_t element_count(const wire::ParameterSpec& spec) {
  return spec.dims_size() == 0 ? 0 : bounded_product(spec, 0, kParameterElementsMax);
}

std::uint64_t row_width(const wire::ParameterSpec& spec) {
  return bounded_product(spec, 1, kParameterElementsMax);
}

Status validate_name(const std::string& name) {
  if (name.size() > kParameterNameBytesMax) {
    return refuse(name, fmt::format("name over {} bytes", kParameterNameBytesMax));
  }
  if (const auto path = SafePath::parse(name); !path) return refuse(name, path.error().message);
  if (name.find('/') != std::string::npos) return refuse(name, "'/' in the name");
  if (escape_control(name) != name) return refuse(name, "control character in the name");
  // Snapshots keep their own files beside the parameters'.
  if (name == "MANIFEST" || name == "done" || name == "path.txt" || name == "job.toml" ||
      name == "model" || name.ends_with(".tmp") || name.ends_with(".state") ||
      name.find(".sparse-") != std::string::npos) {
    return refuse(name, "the name is reserved for snapshots");
  }
  return {};
}

Status validate(const wire::ParameterSpec& spec) {
  PADDLE_TRY_STATUS(validate_name(spec.name()));
  PADDLE_TRY_STATUS(validate_dims(spec));
  if (!std::isfinite(spec.initial_mean()) || !std::isfinite(spec.initial_std()) ||
      spec.initial_std() < 0) {
    return refuse(spec.name(),
                  "initial_mean and initial_std must be finite, initial_std not negative");
  }
  const auto check = [&spec](const char* what, float value) -> Status {
    if (std::isfinite(value) && value >= 0) return {};
    return refuse(spec.name(), fmt::format("{} must be finite and not negative", what));
  };
  PADDLE_TRY_STATUS(check("learning_rate", spec.learning_rate()));
  PADDLE_TRY_STATUS(check("l1", spec.l1()));
  PADDLE_TRY_STATUS(check("l2", spec.l2()));
  PADDLE_TRY_STATUS(check("clip_value", spec.clip_value()));
  return check("clip_norm", spec.clip_norm());
}

Status validate_table(const wire::ParameterSpec& spec) {
  const wire::TablePolicy& policy = spec.table();
  if (!spec.sparse() && spec.has_table())
    return refuse(spec.name(), "a dense parameter cannot have a table policy");
  if (policy.entry_count() > kEntryCountMax || policy.expire_passes() > kExpirePassesMax) {
    return refuse(spec.name(), fmt::format("entry_count must be at most {}, expire_passes {}",
                                           kEntryCountMax, kExpirePassesMax));
  }
  if (!(policy.entry_probability() >= 0 && policy.entry_probability() <= 1)) {
    return refuse(spec.name(), "entry_probability must be 0 to 1");
  }
  if (policy.entry_size() > kSlotEntriesMax) {
    return refuse(spec.name(), fmt::format("entry has over {} slots", kSlotEntriesMax));
  }
  for (const wire::SlotEntry& entry : policy.entry()) {
    if (entry.entry_count() > kEntryCountMax ||
        !(entry.entry_probability() >= 0 && entry.entry_probability() <= 1)) {
      return refuse(spec.name(), fmt::format("entry of slot '{}': entry_count must be at most {}, "
                                             "entry_probability 0 to 1",
                                             escape_control(entry.slot()), kEntryCountMax));
    }
  }
  const wire::ShrinkPolicy& shrink = policy.shrink();
  const auto is_count = [](float value) { return std::isfinite(value) && value >= 0; };
  if (!is_count(shrink.decay()) || shrink.decay() > 1 || !is_count(shrink.threshold()) ||
      !is_count(shrink.nonclick_coefficient()) || !is_count(shrink.click_coefficient())) {
    return refuse(spec.name(), "shrink: decay must be 0 to 1, the others finite and not negative");
  }
  if (policy.evict() && policy.bytes_max() == 0) {
    return refuse(spec.name(), "on_full = \"evict\" needs bytes_max");
  }
  return {};
}

bool has_group(const wire::ParameterSet& set) {
  return is_of_group(set.dense_strategy());
}

Status validate(const wire::ParameterSet& set) {
  PADDLE_TRY_STATUS(optim::validate(set.optimizer()));
  if (set.parameters_size() > kParametersMax) {
    return Error{Errc::kUsage,
                 fmt::format("the job has {} parameters; the limit is {}", set.parameters_size(),
                             kParametersMax),
                 "let layers share a table: give their weights one name"};
  }
  if (is_of_group(set.sparse_strategy()) || (has_group(set) && set.dense_shards() > 0)) {
    return Error{Errc::kUsage,
                 "'collective' and 'local_sgd' apply only to dense parameters, and need no dense "
                 "ports"};
  }
  if (set.node_groups() && set.dense_strategy() != wire::STRATEGY_SYNC) {
    return Error{Errc::kUsage, "'node_groups' needs dense = 'sync'"};
  }
  std::unordered_set<std::string> names;
  std::uint64_t blocks = 0;
  for (const wire::ParameterSpec& spec : set.parameters()) {
    PADDLE_TRY_STATUS(validate(spec));
    PADDLE_TRY_STATUS(validate_table(spec));
    if (!names.insert(spec.name()).second) return refuse(spec.name(), "the name is used twice");
    const std::uint32_t shards = spec.sparse() ? set.sparse_shards() : set.dense_shards();
    if (!spec.sparse() && has_group(set)) continue;
    if (shards == 0 || shards > kShardsMax) {
      return refuse(spec.name(), fmt::format("{} {} shards, must be 1 to {}", shards,
                                             spec.sparse() ? "sparse" : "dense", kShardsMax));
    }
    if (spec.sparse()) continue;
    const std::uint64_t least = std::max<std::uint64_t>(1, set.min_block_size());
    const std::uint64_t cuts = set.partitioning().whole() ? 1 : element_count(spec) / least;
    blocks += std::clamp<std::uint64_t>(cuts, 1, shards);
    if (blocks > kDenseBlocksMax || blocks * shards > kPlacementStepsMax) {
      return Error{Errc::kUsage,
                   fmt::format("parameter '{}' raises the number of blocks to {} on {} ports; the "
                               "limits are {} blocks, and {} for blocks x ports",
                               spec.name(), blocks, shards, kDenseBlocksMax, kPlacementStepsMax),
                   "raise min_block_size, or use fewer ports"};
    }
  }
  return validate_placement(set);
}

float gradient_limit(const wire::ParameterSet& set) {
  float rate = 1;
  for (const wire::ParameterSpec& spec : set.parameters())
    rate = std::max(rate, spec.learning_rate() * set.optimizer().learning_rate());
  return std::min(kGradientMax, kStepMax / rate);
}

std::string parameter_difference(const wire::ParameterSet& here, const wire::ParameterSet& there) {
  std::string found;
  compare(found, "num_gradient_servers", here.num_trainers(), there.num_trainers());
  for (int i = 0; i < here.parameters_size() && i < there.parameters_size(); ++i) {
    const std::string what = fmt::format("the name of parameter {}", i);
    compare(found, what, here.parameters(i).name(), there.parameters(i).name());
    compare_specs(found, here.parameters(i), there.parameters(i));
  }
  compare(found, "the number of parameters", here.parameters_size(), there.parameters_size());
  compare_optimizers(found, here.optimizer(), there.optimizer());
  compare(found, "dense strategy", strategy(here.dense_strategy()),
          strategy(there.dense_strategy()));
  compare(found, "sparse strategy", strategy(here.sparse_strategy()),
          strategy(there.sparse_strategy()));
  compare(found, "async_lagged_grad_discard_ratio", here.async_lagged_grad_discard_ratio(),
          there.async_lagged_grad_discard_ratio());
  compare(found, "seed", here.seed(), there.seed());
  compare(found, "the number of dense ports", here.dense_shards(), there.dense_shards());
  compare(found, "the number of sparse ports", here.sparse_shards(), there.sparse_shards());
  compare(found, "min_block_size", here.min_block_size(), there.min_block_size());
  compare(found, "slice_var_up", !here.partitioning().whole(), !there.partitioning().whole());
  compare(found, "placement", wire::Placement_Name(here.partitioning().placement()),
          wire::Placement_Name(there.partitioning().placement()));
  compare(found, "[[strategy.place]]", placed(here), placed(there));
  compare(found, "merge", wire::Merge_Name(here.merge()), wire::Merge_Name(there.merge()));
  compare(found, "node_groups", here.node_groups(), there.node_groups());
  compare(found, "update_frequency", here.update_frequency(), there.update_frequency());
  compare(found, "snapshot_seconds", here.snapshot_seconds(), there.snapshot_seconds());
  compare(found, "delta snapshots", here.delta_snapshots(), there.delta_snapshots());
  compare(found, "the return of lost trainers", here.trainers_return(), there.trainers_return());
  compare(found, "staleness_max", here.staleness_max(), there.staleness_max());
  compare(found, "the list of data.command", here.data_names(), there.data_names());
  // One side gives a value explicitly, and the other leaves it out, which means the same value.
  if (found.empty() && here.SerializeAsString() != there.SerializeAsString()) {
    found = "one gives a value explicitly that the other leaves out";
  }
  return found;
}

}  // namespace paddle::parameter
