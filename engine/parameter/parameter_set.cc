#include "engine/parameter/parameter_set.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

#include "base/safe_path.h"
#include "base/text.h"
#include "engine/optim/optimizer.h"

namespace paddle::parameter {
namespace {

Error refuse(const std::string& name, const std::string& why) {
  return Error{Errc::kUsage, fmt::format("parameter '{}': {}", escape_control(name), why)};
}

constexpr float kGradientMax = 1e18F;  // its square is far below the largest float, 3e38
// Of one value in one update. With a learning rate up to 10^19, kGradientMax is the stricter bound,
// and all the updates of a job stay finite.
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

Status validate_placement(const wire::ParameterSet& set) {
  const wire::Partitioning& partitioning = set.partitioning();
  if (!wire::Placement_IsValid(partitioning.placement()) || !wire::Merge_IsValid(set.merge()) ||
      !wire::Strategy_IsValid(set.dense_strategy()) ||
      !wire::Strategy_IsValid(set.sparse_strategy())) {
    return Error{Errc::kUsage, "a strategy, placement or merge that this version does not know"};
  }
  if (!std::isfinite(set.delay_compensation()) || set.delay_compensation() < 0) {
    return Error{Errc::kUsage, "delay_compensation must be finite and not negative"};
  }
  if (!(set.elastic_rate() >= 0 && set.elastic_rate() <= 1)) {
    return Error{Errc::kUsage, "delta_add_rate must be at most 1 and not negative"};
  }
  std::unordered_set<std::string> dense;
  for (const auto& spec : set.parameters()) {
    if (!spec.sparse()) dense.insert(spec.name());
  }
  for (const wire::PlacedParameter& one : partitioning.placed()) {
    const std::string what =
        fmt::format("[[strategy.place]] of '{}'", escape_control(one.parameter()));
    if (dense.erase(one.parameter()) == 0) {
      return Error{Errc::kUsage, what + ": no dense parameter of that name is left to place",
                   "paddlectl plan lists them"};
    }
    if (one.port() >= set.dense_shards()) {
      return Error{Errc::kUsage,
                   fmt::format("{}: dense port {}, but the job has {}", what, one.port(),
                               set.dense_shards()),
                   "ports are numbered from 0 over all pservers"};
    }
  }
  return {};
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
    return refuse(name, "the name is one that snapshots use themselves");
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
  if (!spec.sparse() && spec.has_table()) return refuse(spec.name(), "a dense one has no policy");
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

Status validate(const wire::ParameterSet& set) {
  PADDLE_TRY_STATUS(optim::validate(set.optimizer()));
  if (set.parameters_size() > kParametersMax) {
    return Error{
        Errc::kUsage,
        fmt::format("{} parameters, a job has at most {}", set.parameters_size(), kParametersMax),
        "let layers share a table: give their weights one name"};
  }
  const bool is_collective = set.dense_strategy() == wire::STRATEGY_COLLECTIVE;
  if (set.sparse_strategy() == wire::STRATEGY_COLLECTIVE ||
      (is_collective && set.dense_shards() > 0)) {
    return Error{Errc::kUsage, "'collective' is for dense parameters, which are on no port then"};
  }
  if (set.node_groups() && set.dense_strategy() != wire::STRATEGY_SYNC) {
    return Error{Errc::kUsage, "'node_groups' is for dense parameters in rounds: dense = 'sync'"};
  }
  std::unordered_set<std::string> names;
  std::uint64_t blocks = 0;
  for (const wire::ParameterSpec& spec : set.parameters()) {
    PADDLE_TRY_STATUS(validate(spec));
    PADDLE_TRY_STATUS(validate_table(spec));
    if (!names.insert(spec.name()).second) return refuse(spec.name(), "the name is used twice");
    const std::uint32_t shards = spec.sparse() ? set.sparse_shards() : set.dense_shards();
    if (!spec.sparse() && is_collective) continue;
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
                   fmt::format("parameter '{}' makes it {} blocks on {} ports; the limits are {} "
                               "blocks, and {} for blocks x ports",
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

}  // namespace paddle::parameter
