#include <charconv>

#include <fmt/format.h>

#include "base/named_rows.h"
#include "engine/config/sections.h"
#include "engine/math/optimizer.h"
#include "engine/math/schedule.h"

namespace paddle::config {
namespace {

constexpr std::int64_t kSamplesMax = std::int64_t{1} << 62;
constexpr int kStepsMax = 10000;

// Reads a fraction in [0, 1), or a number above 0.
float read_open(TomlTable& table, std::string_view key, float fallback, bool is_fraction) {
  const float value = read_float(table, key, fallback, 0, is_fraction ? 1 : kFloatMax);
  if (is_fraction && value == 1) {
    table.fail(key, fmt::format("'{}' is 1, but must be below 1", key));
  }
  if (!is_fraction && value == 0) {
    table.fail(key, fmt::format("'{}' is 0, but must be above 0", key));
  }
  return value;
}

void check_reads(TomlTable& table, std::string_view key, const optim::Method& method,
                 optim::Trait trait) {
  if (!table.has(key) || method.has(trait)) return;
  std::string readers;
  for (const optim::Method& other : optim::methods()) {
    if (other.has(trait)) readers += fmt::format(" {}", other.name);
  }
  table.fail(key, fmt::format("'{}' has no effect with method '{}'", key, method.name),
             fmt::format("it is for{}", readers));
}

void read_method(TomlTable& table, wire::Optimizer& optimizer) {
  const std::string name = table.choice("method", "sgd", row_names(optim::methods()));
  const optim::Method& method = *find_row(optim::methods(), name);
  optimizer.set_method(name);
  optimizer.set_learning_rate(method.has(optim::kDividesByRate)
                                  ? read_open(table, "learning_rate", method.learning_rate, false)
                                  : read_float(table, "learning_rate", method.learning_rate, 0));
  for (const optim::Option& option : optim::options()) {
    check_reads(table, option.name, method, option.trait);
    if (!table.has(option.name)) continue;
    (optimizer.*option.set)(read_open(table, option.name, 0, option.is_fraction));
  }
  check_reads(table, "centered", method, optim::kCentered);
  const bool centered = table.boolean("centered", true);
  if (method.has(optim::kCentered)) optimizer.set_centered(centered);
}

// Parses "<until>:<rate>".
bool read_step(std::string_view text, wire::LearningRateSchedule::Step& step) {
  const char* const end = text.data() + text.size();
  std::uint64_t until = 0;
  const auto first = std::from_chars(text.data(), end, until);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ':') return false;
  float rate = 0;
  const auto second = std::from_chars(first.ptr + 1, end, rate);
  if (second.ec != std::errc() || second.ptr != end || !(rate >= 0 && rate <= kFloatMax)) {
    return false;
  }
  step.set_until(until);
  step.set_rate(rate);
  return true;
}

void read_steps(TomlTable& table, wire::LearningRateSchedule& schedule) {
  constexpr std::string_view kKey = "learning_rate_args";
  const std::string text = table.string("learning_rate_args");
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    wire::LearningRateSchedule::Step step;
    const bool is_good =
        read_step(std::string_view(text).substr(begin, end - begin), step) &&
        schedule.steps_size() < kStepsMax &&
        (schedule.steps().empty() || step.until() > schedule.steps().rbegin()->until());
    if (!is_good) {
      table.fail(kKey,
                 fmt::format("'{}' must be \"until:rate,until:rate,...\", ascending and at most {}",
                             kKey, kStepsMax),
                 "for example \"100000:1.0,200000:0.5\"");
      return;
    }
    *schedule.add_steps() = step;
  }
}

void read_schedule(TomlTable& table, wire::LearningRateSchedule& schedule) {
  using Keys = optim::ScheduleKeys;
  const std::string name =
      table.choice("learning_rate_schedule", "constant", row_names(optim::schedules()));
  schedule.set_name(name);
  const optim::Schedule& row = *optim::find_schedule(name);
  const auto check = [&](std::string_view key, Keys keys) {
    if (row.keys == keys) {
      require(table, key, "learning_rate_schedule " + name);
    } else if (table.has(key)) {
      table.fail(key, fmt::format("'{}' has no effect with schedule '{}'", key, name));
    }
  };
  check("learning_rate_decay_a", Keys::kDecay);
  schedule.set_a(table.number("learning_rate_decay_a", 0, row.a.min, row.a.max));
  check("learning_rate_decay_b", Keys::kDecay);
  schedule.set_b(table.number("learning_rate_decay_b", 0, row.b.min, row.b.max));
  check("learning_rate_args", Keys::kSteps);
  if (row.keys == Keys::kSteps && table.has("learning_rate_args")) read_steps(table, schedule);
  schedule.set_warmup_samples(
      static_cast<std::uint64_t>(table.integer("warmup_samples", 0, 0, kSamplesMax)));
}

void read_average(TomlTable& table, wire::ModelAverage& average) {
  average.set_window(read_float(table, "average_window", 0, 0, 1));
  for (const std::string_view key : {"min_average_window", "max_average_window"}) {
    if (table.has(key) && !table.has("average_window")) {
      table.fail(key, fmt::format("'{}' without 'average_window'", key));
    }
  }
  average.set_window_min(
      static_cast<std::uint64_t>(table.integer("min_average_window", 0, 1, kSamplesMax)));
  average.set_window_max(
      static_cast<std::uint64_t>(table.integer("max_average_window", 0, 1, kSamplesMax)));
  if (average.window_max() > 0 && average.window_max() < average.window_min()) {
    table.fail("max_average_window", "'max_average_window' is below 'min_average_window'");
  }
}

}  // namespace

void read_optimizer(TomlTable table, JobConfig& job) {
  wire::Optimizer& optimizer = job.optimizer;
  read_method(table, optimizer);
  read_schedule(table, *optimizer.mutable_schedule());
  read_average(table, *optimizer.mutable_average());
  optimizer.set_l1(read_float(table, "l1", 0));
  optimizer.set_l2(read_float(table, "l2", 0));
  optimizer.set_clip_value(read_float(table, "clip_value", 0));
  optimizer.set_clip_norm(read_float(table, "clip_norm", 0));
  optimizer.set_clip_global_norm(read_float(table, "clip_global_norm", 0));
}

}  // namespace paddle::config
