#include "cli/sweep/sweep_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/rng.h"
#include "cli/job/folders.h"

namespace paddle::cli {
namespace {

constexpr const char* kPage = "docs/sweep.md";
constexpr auto kMethods = std::to_array<std::string_view>({"grid", "random", "halving"});
constexpr auto kRanges = std::to_array<std::string_view>({"values", "uniform", "log", "integer"});
constexpr std::size_t kParametersMax = 50;
constexpr std::size_t kSweepNameBytesMax = 58;  // a tag contains it
constexpr std::int64_t kReductionMax = 1000;
constexpr std::int64_t kPassesMax = 1'000'000;
constexpr double kIntegerMax = 9'007'199'254'740'992;  // 2^53, up to which a double is exact

bool is_key(std::string_view key) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !key.empty() && std::ranges::all_of(key, is_part);
}

// The number with six digits, and more if the bounds have first digits in common; within the
// bounds.
std::string rounded(double value, double low, double high) {
  constexpr int kDigits = 6, kDigitsMax = 17;
  const double common = std::log10(std::max(std::abs(low), std::abs(high)) / (high - low));
  const int digits = std::clamp(kDigits + static_cast<int>(common), kDigits, kDigitsMax);
  const std::string text = fmt::format("{:.{}g}", value, digits);
  double number = value;
  std::from_chars(text.data(), text.data() + text.size(), number);
  if (number >= low && number <= high) return text;
  return fmt::format("{}", std::clamp(number, low, high));
}

SweepMethod method_of(config::TomlTable& table) {
  const std::string name = table.choice("method", "grid", kMethods);
  return static_cast<SweepMethod>(std::ranges::find(kMethods, name) - kMethods.begin());
}

std::string read_name(config::TomlTable& table, const std::string& path) {
  std::string name = table.string("name", std::filesystem::path(path).stem().string());
  if (check_job_name(name + "-000") && name.size() <= kSweepNameBytesMax) return name;
  const bool is_written = table.has("name");
  table.fail("name",
             fmt::format("{}'{}' cannot begin the names of jobs",
                         is_written ? "" : "there is no 'name', and the file's name ", name),
             fmt::format("use up to {} letters, digits, '.', '-' and '_': name = \"lr\"",
                         kSweepNameBytesMax));
  return "sweep";
}

std::size_t grid_size(Sweep& sweep) {
  std::size_t size = 1;
  for (const SweepParameter& parameter : sweep.parameters) {
    size *= std::max<std::size_t>(1, parameter.values().size());
    if (size > kTrialsMax) {
      sweep.table.fail("parameter", fmt::format("the grid has over {} trials", kTrialsMax),
                       "leave values out, or use method = \"random\" with trials = 100");
      return 0;
    }
  }
  return size;
}

void read_trials(Sweep& sweep) {
  config::TomlTable& table = sweep.table;
  if (sweep.method == SweepMethod::kGrid) {
    sweep.trials = grid_size(sweep);
    for (const char* key : {"trials", "seed"}) {
      if (table.has(key))
        table.fail(key, fmt::format("'{}' is for method = \"random\" and \"halving\"", key),
                   "a grid has all combinations of the values");
    }
    return;
  }
  if (!table.has("trials"))
    table.fail("trials", "'trials' is missing: the number of trials to draw", "trials = 20");
  sweep.trials = static_cast<std::size_t>(table.integer("trials", 1, 1, kTrialsMax));
  sweep.seed = static_cast<std::uint64_t>(table.integer("seed", 1));
}

void read_halving(Sweep& sweep) {
  config::TomlTable& table = sweep.table;
  if (sweep.method == SweepMethod::kHalving) {
    sweep.reduction = static_cast<std::uint32_t>(table.integer("reduction", 3, 2, kReductionMax));
    sweep.passes_min = static_cast<std::uint32_t>(table.integer("passes_min", 1, 1, kPassesMax));
    return;
  }
  for (const char* key : {"reduction", "passes_min"}) {
    if (table.has(key)) table.fail(key, fmt::format("'{}' is for method = \"halving\"", key));
  }
}

void read_parameters(Sweep& sweep) {
  std::set<std::string> keys;
  for (config::TomlTable& table : sweep.table.tables("parameter", kParametersMax)) {
    sweep.parameters.emplace_back(table, sweep.method);
    const std::string& key = sweep.parameters.back().key();
    if (!key.empty() && !keys.insert(key).second)
      table.fail("key", fmt::format("two parameters have the key '{}'", key), "join their values");
  }
  if (sweep.parameters.empty())
    sweep.table.fail(
        "parameter", "there is no [[parameter]]",
        "[[parameter]] with key = \"optimizer.learning_rate\" and values = [0.1, 0.01]");
}

}  // namespace

SweepParameter::SweepParameter(config::TomlTable table, SweepMethod method)
    : table_(std::move(table)), key_(table_.string("key")) {
  if (!table_.has("key")) {
    table_.fail("key", "a [[parameter]] lacks 'key'", "key = \"optimizer.learning_rate\"");
  } else if (table_.is_string("key") && !is_key(key_)) {
    table_.fail("key", fmt::format("'{}' is no key of job.toml", key_),
                "write it as --set takes it: key = \"optimizer.learning_rate\"");
  }
  read_range(method);
}

void SweepParameter::read_range(SweepMethod method) {
  std::vector<std::string_view> found;
  for (const std::string_view key : kRanges) {
    if (table_.has(key)) found.push_back(key);
  }
  if (found.empty()) {
    table_.fail("values", "a [[parameter]] lacks its values",
                "values = [0.1, 0.01], uniform = [0, 0.5], log = [1e-4, 0.1], or integer = [1, 8]");
    return;
  }
  for (const std::string_view key : found) {
    if (found.size() > 1) {
      table_.fail(key, fmt::format("a [[parameter]] has '{}' and '{}'", found[0], found[1]),
                  "leave one of them out");
    }
  }
  if (found.size() > 1) return;
  range_key_ = found.front();
  range_ = static_cast<Range>(std::ranges::find(kRanges, range_key_) - kRanges.begin());
  if (range_ == Range::kValues) {
    values_ = table_.literals("values", kTrialsMax);
    if (table_.is_list("values") && values_.empty()) table_.fail("values", "'values' is empty");
    std::set<std::string> known;
    for (const std::string& value : values_) {
      if (!known.insert(value).second)
        table_.fail("values", fmt::format("'values' has {} twice", value),
                    "each value once; for other random numbers, make `seed` a parameter");
    }
    return;
  }
  read_bounds();
  if (method == SweepMethod::kGrid)
    table_.fail(range_key_, fmt::format("a grid cannot have all values of '{}'", range_key_),
                "list some: values = [0.1, 0.01]; or use method = \"random\"");
}

void SweepParameter::read_bounds() {
  const std::vector<double> bounds = table_.numbers(range_key_, 2);
  if (bounds.empty()) return;  // a mistake that is reported
  const auto is_whole = [](double one) {
    return std::floor(one) == one && std::abs(one) <= kIntegerMax;
  };
  const bool is_valid = bounds.size() == 2 &&
                        std::ranges::all_of(bounds, [](double one) { return std::isfinite(one); });
  if (!is_valid || bounds[0] >= bounds[1] || !std::isfinite(bounds[1] - bounds[0])) {
    const bool is_one = is_valid && bounds[0] == bounds[1];
    table_.fail(
        range_key_, fmt::format("'{}' must be two finite numbers, the lower first", range_key_),
        is_one ? fmt::format("for one value: values = [{}]", bounds[0])
               : fmt::format("{} = [{}]", range_key_, range_key_ == "log" ? "1e-4, 0.1" : "1, 8"));
  } else if (range_ == Range::kLog && bounds[0] <= 0) {
    table_.fail(range_key_, "the bounds of 'log' must be above 0");
  } else if (range_ == Range::kInteger && !std::ranges::all_of(bounds, is_whole)) {
    table_.fail(range_key_, "the bounds of 'integer' must be whole numbers");
  } else {
    low_ = bounds[0];
    high_ = bounds[1];
  }
}

std::string SweepParameter::drawn(std::uint64_t seed, std::size_t trial) const {
  Rng rng(hash_combine(hash_combine(seed, stable_hash(key_)), trial));
  switch (range_) {
    case Range::kValues:
      return values_[rng.below(values_.size())];
    case Range::kUniform:
      return rounded(low_ + rng.uniform() * (high_ - low_), low_, high_);
    case Range::kLog:
      return rounded(std::exp(std::log(low_) + rng.uniform() * (std::log(high_) - std::log(low_))),
                     low_, high_);
    case Range::kInteger:
      return fmt::format(
          "{:.0f}",
          low_ + static_cast<double>(rng.below(static_cast<std::uint64_t>(high_ - low_) + 1)));
  }
  return "";
}

Error SweepParameter::at_key(std::string_view message, std::string_view hint) {
  table_.fail("key", message, hint);
  return table_.finish().error();
}

Error SweepParameter::at_values(std::string_view message, std::string_view hint) {
  table_.fail(range_key_, message, hint);
  return table_.finish().error();
}

std::string Sweep::job_of(std::size_t trial) const {
  return fmt::format("{}-{:03}", name, trial);
}

std::vector<std::string> Sweep::settings_of(std::size_t trial) const {
  std::vector<std::string> settings(parameters.size());
  std::size_t rest = trial;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const SweepParameter& parameter = parameters[i];
    std::string value;
    if (method == SweepMethod::kGrid) {
      value = parameter.values()[rest % parameter.values().size()];
      rest /= parameter.values().size();
    } else {
      value = parameter.drawn(seed, trial);
    }
    settings[i] = parameter.key() + "=" + value;
  }
  return settings;
}

Error Sweep::at(std::string_view key, std::string_view message, std::string_view hint) {
  table.fail(key, message, hint);
  return table.finish().error();
}

Result<Sweep> parse_sweep(std::string_view text, const std::string& file) {
  PADDLE_TRY(config::TomlTable table, config::TomlTable::parse(text, file, {}, kPage));
  Sweep sweep{table};
  sweep.name = read_name(sweep.table, file);
  sweep.method = method_of(sweep.table);
  sweep.at_once = static_cast<std::uint32_t>(table.integer("at_once", 1, 1, kTrialsAtOnceMax));
  sweep.figure = table.string("figure");
  if (table.is_string("figure") && sweep.figure.empty())
    table.fail("figure", "'figure' is empty", "name \"cost\" or an evaluator, such as \"auc\"");
  read_parameters(sweep);
  read_trials(sweep);
  read_halving(sweep);
  PADDLE_TRY_STATUS(table.finish());
  return sweep;
}

Result<Sweep> read_sweep(const std::string& directory, const std::string& file) {
  auto text =
      read_file((std::filesystem::path(directory) / file).string(), config::kConfigBytesMax);
  if (!text) {
    return Error{Errc::kUsage, text.error().message,
                 "name the file of the sweep, then the workspace: paddlectl sweep sweep.toml ."};
  }
  return parse_sweep(*text, file);
}

}  // namespace paddle::cli
