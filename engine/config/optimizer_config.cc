#include <array>
#include <charconv>

#include <fmt/format.h>

#include "engine/config/sections.h"

namespace paddle::config {
namespace {

constexpr std::array<std::string_view, 10> kMethods{
    "sgd",      "momentum", "torch_momentum", "adagrad", "decayed_adagrad",
    "adadelta", "rmsprop",  "adam",           "adamax",  "ftrl"};
constexpr std::array<std::string_view, 8> kSchedules{
    "constant", "poly", "caffe_poly", "exp", "discexp", "linear", "manual", "pass_manual"};

constexpr double kDecayMax = 1e18;
constexpr std::int64_t kSamplesMax = std::int64_t{1} << 62;
constexpr int kStepsMax = 10000;

// Methods, each between spaces, that have an option.
constexpr std::string_view kWithMomentum =
    " momentum torch_momentum adagrad decayed_adagrad adadelta rmsprop ";
constexpr std::string_view kWithRho = " decayed_adagrad adadelta rmsprop ";
constexpr std::string_view kWithBetas = " adam adamax ";
constexpr std::string_view kWithEpsilon = " adagrad decayed_adagrad adadelta rmsprop adam adamax ";

// From 0 to below 1, or above 0.
float read_open(TomlTable& table, std::string_view key, float otherwise, bool is_share) {
  const float value = read_float(table, key, otherwise, 0, is_share ? 1 : kFloatMax);
  if (is_share && value == 1) table.fail(key, fmt::format("'{}' is 1, but must be below 1", key));
  if (!is_share && value == 0) table.fail(key, fmt::format("'{}' is 0, but must be above 0", key));
  return value;
}

bool takes(std::string_view methods, const std::string& method) {
  return methods.find(fmt::format(" {} ", method)) != std::string_view::npos;
}

void check_takes(TomlTable& table, std::string_view key, std::string_view methods,
                 const std::string& method) {
  if (!table.has(key) || takes(methods, method)) return;
  table.fail(key, fmt::format("'{}' has no meaning for method '{}'", key, method),
             fmt::format("it is for{}", methods.substr(0, methods.size() - 1)));
}

void read_method(TomlTable& table, wire::Optimizer& optimizer) {
  const std::string method = table.choice("method", "sgd", kMethods);
  optimizer.set_method(method);
  const float rate = method == "adadelta" ? 1.0F : 0.01F;
  optimizer.set_learning_rate(read_open(table, "learning_rate", rate, false));
  const auto read_option = [&](std::string_view key, std::string_view methods, bool is_share,
                               void (wire::Optimizer::*set)(float)) {
    check_takes(table, key, methods, method);
    if (table.has(key)) (optimizer.*set)(read_open(table, key, 0, is_share));
  };
  read_option("momentum", kWithMomentum, true, &wire::Optimizer::set_momentum);
  read_option("rho", kWithRho, true, &wire::Optimizer::set_rho);
  read_option("beta1", kWithBetas, true, &wire::Optimizer::set_beta1);
  read_option("beta2", kWithBetas, true, &wire::Optimizer::set_beta2);
  read_option("epsilon", kWithEpsilon, false, &wire::Optimizer::set_epsilon);
  read_option("beta", " ftrl ", false, &wire::Optimizer::set_beta);
  check_takes(table, "centered", " rmsprop ", method);
  const bool centered = table.boolean("centered", true);
  if (method == "rmsprop") optimizer.set_centered(centered);
}

// "<until>:<rate>"
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
  constexpr std::string_view kPowers = " exp discexp ";
  constexpr std::string_view kWithDecay = " poly caffe_poly exp discexp linear ";
  constexpr std::string_view kSteps = " manual pass_manual ";
  const std::string name = table.choice("learning_rate_schedule", "constant", kSchedules);
  schedule.set_name(name);
  const auto read_decay = [&](std::string_view key, double min, double max) {
    if (!takes(kWithDecay, name) && table.has(key)) {
      table.fail(key, fmt::format("'{}' has no meaning for schedule '{}'", key, name));
    } else if (takes(kWithDecay, name)) {
      require(table, key, "learning_rate_schedule " + name);
    }
    return table.number(key, 0, min, max);
  };
  const bool is_power = takes(kPowers, name);
  constexpr double kPositive = std::numeric_limits<double>::min();
  schedule.set_a(read_decay("learning_rate_decay_a",
                            is_power || name == "caffe_poly" ? kPositive : 0,
                            is_power ? 1 : kDecayMax));
  schedule.set_b(read_decay("learning_rate_decay_b", is_power ? 1 : 0, kDecayMax));
  constexpr std::string_view kArguments = "learning_rate_args";
  if (!takes(kSteps, name) && table.has(kArguments)) {
    table.fail(kArguments, fmt::format("'{}' has no meaning for schedule '{}'", kArguments, name));
  } else if (takes(kSteps, name)) {
    require(table, kArguments, "learning_rate_schedule " + name);
    if (table.has(kArguments)) read_steps(table, schedule);
  }
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
