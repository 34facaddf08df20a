#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::chrono::seconds kDurationMax = std::chrono::hours(24 * 365 * 10);

struct Unit {
  char name;
  std::chrono::seconds length;
};
constexpr std::array<Unit, 4> kUnits{{{'d', std::chrono::hours(24)},
                                      {'h', std::chrono::hours(1)},
                                      {'m', std::chrono::minutes(1)},
                                      {'s', std::chrono::seconds(1)}}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

bool StopWhen::holds(double value) const {
  switch (relation) {
    case Relation::kLess:
      return value < limit;
    case Relation::kAtMost:
      return value <= limit;
    case Relation::kMore:
      return value > limit;
    case Relation::kAtLeast:
      break;
  }
  return value >= limit;
}

std::optional<StopWhen> parse_stop_when(std::string_view text) {
  const std::size_t sign = text.find_first_of("<>");
  if (sign == std::string_view::npos) return {};
  const bool has_equal = text.substr(sign + 1).starts_with('=');
  StopWhen parsed;
  parsed.text = trimmed(text);
  parsed.figure = trimmed(text.substr(0, sign));
  if (text[sign] == '<') {
    parsed.relation = has_equal ? StopWhen::Relation::kAtMost : StopWhen::Relation::kLess;
  } else {
    parsed.relation = has_equal ? StopWhen::Relation::kAtLeast : StopWhen::Relation::kMore;
  }
  const std::string_view number = trimmed(text.substr(sign + (has_equal ? 2 : 1)));
  const char* const end = number.data() + number.size();
  const auto [at, error] = std::from_chars(number.data(), end, parsed.limit);
  const bool is_number = error == std::errc() && at == end && std::isfinite(parsed.limit);
  const bool has_figure = !parsed.figure.empty() && parsed.figure.find('=') == std::string::npos;
  if (!has_figure || !is_number) return {};
  return parsed;
}

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
  std::chrono::seconds total{};
  std::string_view left = trimmed(text);
  auto unit = kUnits.begin();
  while (!left.empty()) {
    std::uint32_t count = 0;
    const char* const end = left.data() + left.size();
    const auto [at, error] = std::from_chars(left.data(), end, count);
    if (error != std::errc() || at == end) return {};
    while (unit != kUnits.end() && unit->name != *at) ++unit;
    if (unit == kUnits.end() || count > kDurationMax / unit->length) return {};
    total += count * unit->length;
    if (total > kDurationMax) return {};
    ++unit;
    left.remove_prefix(static_cast<std::size_t>(at + 1 - left.data()));
  }
  if (total == std::chrono::seconds::zero()) return {};
  return total;
}

namespace {

// In the order of kernels::Compute.
constexpr std::array<std::string_view, 3> kComputes{"float32", "bf16", "bf16x3"};
constexpr std::array<std::string_view, 3> kDevices{"auto", "cpu", "gpu"};
constexpr std::array<std::string_view, 2> kOnDivergence{"warn", "stop"};
constexpr std::array<std::string_view, 2> kOnNotFinite{"stop", "skip"};

constexpr std::int64_t kBatchMax = 1 << 20;

// Refuses a key that needs tests of the network, if the job has none.
void check_tested(TomlTable& table, std::string_view key, const JobConfig& job) {
  if (!table.has(key)) return;
  if (!job.has_network()) {
    table.fail(key, fmt::format("'{}' needs a network of [[layer]]", key),
               "the program of [trainer] command decides when training ends");
  } else if (job.data.test.empty() && job.data.test_fraction == 0) {
    table.fail(key, fmt::format("'{}' needs tests, but [data] holds out nothing for them", key),
               "hold out a tenth of the records: test_fraction = 0.1 in [data]; or name files: "
               "test = \"data/test.txt\"");
  }
}

void read_end(TomlTable& table, const JobConfig& job, TrainConfig& train) {
  train.best = table.string("best");
  train.best_location = table.location("best");
  train.stop_after_worse = read_count(table, "stop_after_worse", 0);
  train.stop_when_location = table.location("stop_when");
  const std::string stop_when = table.string("stop_when");
  for (const char* key : {"best", "stop_after_worse", "stop_when"}) check_tested(table, key, job);
  if (table.has("best") && table.is_string("best") && train.best.empty()) {
    table.fail("best", "'best' is empty", "name \"cost\" or an evaluator, or leave the key out");
  }
  if (train.stop_after_worse > 0 && !table.has("best")) {
    table.fail("stop_after_worse", "'stop_after_worse' needs 'best', the figure that is compared",
               "best = \"cost\", or an evaluator such as \"auc\"");
  }
  if (table.is_string("stop_when")) {
    train.stop_when = parse_stop_when(stop_when);
    if (!train.stop_when) {
      table.fail("stop_when",
                 fmt::format("'stop_when' is '{}', which is not a condition", stop_when),
                 "write a figure, one of >=, >, <= and <, and a number: \"auc >= 0.8\"");
    }
  }
  constexpr std::string_view kDurations =
      "write whole numbers of d, h, m and s, the larger first: \"2h\", \"1h30m\", \"90s\"";
  if (table.has("time_max") && !table.is_string("time_max"))
    return table.fail("time_max", "'time_max' must be a string with a unit", kDurations);
  const std::string time_max = table.string("time_max");
  if (!table.is_string("time_max")) return;
  train.time_max = parse_duration(time_max);
  if (!train.time_max) {
    table.fail("time_max", fmt::format("'time_max' is '{}', which is not a duration", time_max),
               kDurations);
  } else if (!job.has_network()) {
    table.fail("time_max", "'time_max' needs a network of [[layer]]",
               "the program of [trainer] command decides when training ends");
  }
}

}  // namespace

Result<std::uint32_t> TrainConfig::batch_size_of(std::uint32_t trainer,
                                                 std::uint32_t trainers) const {
  if (batch_size_total == 0) return batch_size;
  if (batch_size_total >= trainers) {
    return batch_size_total / trainers + (trainer < batch_size_total % trainers ? 1 : 0);
  }
  return Error{
      Errc::kUsage,
      fmt::format("train.batch_size_total = {} is less than one example for each of {} "
                  "trainers",
                  batch_size_total, trainers),
      fmt::format("use {} trainers or fewer, or raise train.batch_size_total", batch_size_total)};
}

TrainConfig read_train(TomlTable table, const JobConfig& job) {
  TrainConfig train;
  train.passes = read_count(table, "passes", train.passes);
  train.batch_size = read_count(table, "batch_size", train.batch_size, 1, kBatchMax);
  train.batch_size_total = read_count(table, "batch_size_total", 0, 1, kBatchMax);
  if (table.has("batch_size") && table.has("batch_size_total")) {
    table.fail("batch_size_total",
               "'batch_size_total' is the size for all trainers together, 'batch_size' for each",
               "leave one of them out");
  }
  train.trainer_count = read_count(table, "trainer_count", train.trainer_count, 1, 1024);
  const std::string compute = table.choice("compute", kComputes[0], kComputes);
  train.compute =
      static_cast<kernels::Compute>(std::ranges::find(kComputes, compute) - kComputes.begin());
  const std::string device = table.choice("device", kDevices[0], kDevices);
  if (device == "cpu") train.device = TrainDevice::kCpu;
  if (device == "gpu") train.device = TrainDevice::kGpu;
  train.log_period = read_count(table, "log_period", train.log_period, 1);
  train.test_period = read_count(table, "test_period", train.test_period);
  train.saving_period = read_count(table, "saving_period", train.saving_period);
  train.full_snapshot_period =
      read_count(table, "full_snapshot_period", train.full_snapshot_period, 1);
  train.snapshots_kept = read_count(table, "snapshots_kept", train.snapshots_kept);
  train.snapshot_copies = read_count(table, "snapshot_copies", train.snapshot_copies, 1, 2);
  if (train.snapshot_copies > 1 && !job.tables.empty()) {
    table.fail("snapshot_copies", "snapshots with [[table]] are on the node of trainer 0 only",
               "remove 'snapshot_copies', and fetch them while the job runs: paddlectl fetch");
  }
  train.snapshot_seconds = read_count(table, "snapshot_seconds", train.snapshot_seconds);
  train.stop_on_divergence = table.choice("on_divergence", "warn", kOnDivergence) == "stop";
  train.skips_not_finite = table.choice("on_not_finite", "stop", kOnNotFinite) == "skip";
  train.shuffle_records = static_cast<std::uint64_t>(table.integer(
      "shuffle_records", static_cast<std::int64_t>(train.shuffle_records), 0, kCountMax));
  read_end(table, job, train);
  return train;
}

}  // namespace paddle::config
