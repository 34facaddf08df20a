#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/parameter/parameter_set.h"

namespace paddle::parameter {
namespace {

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

// As in job.toml: "half_async" for STRATEGY_HALF_ASYNC.
std::string strategy(wire::Strategy value) {
  if (!wire::Strategy_IsValid(value)) return fmt::format("number {}", static_cast<int>(value));
  std::string name = wire::Strategy_Name(value).substr(std::string_view("STRATEGY_").size());
  std::ranges::transform(name, name.begin(), [](char c) { return c == '_' ? c : c | 0x20; });
  return name;
}

}  // namespace

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
  compare(found, "delta_add_rate", here.elastic_rate(), there.elastic_rate());
  compare(found, "snapshot_seconds", here.snapshot_seconds(), there.snapshot_seconds());
  compare(found, "delta snapshots", here.delta_snapshots(), there.delta_snapshots());
  compare(found, "the return of lost trainers", here.trainers_return(), there.trainers_return());
  compare(found, "staleness_max", here.staleness_max(), there.staleness_max());
  compare(found, "delay_compensation", here.delay_compensation(), there.delay_compensation());
  compare(found, "the list of data.command", here.data_names(), there.data_names());
  // A value that is given on one side only, and is the same as what not giving it reads as.
  if (found.empty() && here.SerializeAsString() != there.SerializeAsString()) {
    found = "one gives a value explicitly that the other leaves out";
  }
  return found;
}

}  // namespace paddle::parameter
