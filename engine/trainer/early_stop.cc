#include "engine/trainer/early_stop.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/snapshot/retention.h"

namespace paddle::trainer {
namespace {

Status check_figure(const std::string& location, const char* key, const std::string& figure,
                    std::span<const nn::Value> figures) {
  if (std::ranges::find(figures, figure, &nn::Value::name) != figures.end()) return {};
  std::vector<std::string> names;
  for (const nn::Value& one : figures) names.push_back(one.name);
  return Error{Errc::kUsage,
               fmt::format("{}: [train] {}: tests of this job have no '{}'", location, key, figure),
               fmt::format("they have {}; [[evaluator]] adds others", fmt::join(names, ", "))};
}

}  // namespace

std::vector<nn::Value> figures_of(const Reading& reading) {
  std::vector<nn::Value> figures{{"cost", reading.cost}};
  figures.insert(figures.end(), reading.values.begin(), reading.values.end());
  return figures;
}

bool operator==(const PassTest& a, const PassTest& b) {
  return a.pass == b.pass &&
         std::ranges::equal(a.figures, b.figures, [](const nn::Value& x, const nn::Value& y) {
           return x.name == y.name && x.value == y.value;
         });
}

Status EarlyStop::check(const config::TrainConfig& train, std::span<const nn::Value> figures) {
  if (!train.best.empty()) {
    PADDLE_TRY_STATUS(check_figure(train.best_location, "best", train.best, figures));
  }
  if (!train.stop_when) return {};
  return check_figure(train.stop_when_location, "stop_when", train.stop_when->figure, figures);
}

EarlyStop::EarlyStop(const config::TrainConfig& train, std::span<const nn::Value> figures)
    : best_figure_(train.best), worse_max_(train.stop_after_worse), stop_when_(train.stop_when) {
  const auto found = std::ranges::find(figures, best_figure_, &nn::Value::name);
  higher_is_better_ = found != figures.end() && found->higher_is_better;
}

void EarlyStop::add(PassTest test) {
  std::erase_if(tests_, [&](const PassTest& other) { return other.pass >= test.pass; });
  tests_.push_back(std::move(test));
}

bool EarlyStop::has_test(std::uint32_t pass) const {
  return std::ranges::find(tests_, pass, &PassTest::pass) != tests_.end();
}

std::optional<double> EarlyStop::value_of(const PassTest& test, const std::string& figure) const {
  const auto found = std::ranges::find(test.figures, figure, &nn::Value::name);
  if (found == test.figures.end() || !std::isfinite(found->value)) return {};
  return found->value;
}

std::optional<std::uint32_t> EarlyStop::best(
    const std::function<bool(std::uint32_t pass)>& is_candidate) const {
  std::optional<std::uint32_t> best;
  double best_value = 0;
  for (const PassTest& test : tests_) {
    const auto value = value_of(test, best_figure_);
    if (!value || !is_candidate(test.pass)) continue;
    if (best && !is_better(*value, best_value)) continue;
    best = test.pass;
    best_value = *value;
  }
  return best;
}

// A pass as good as the best one, or without a test of its own, ends a row of worse ones.
EndReason EarlyStop::judge() const {
  if (tests_.empty()) return EndReason::kNone;
  if (stop_when_) {
    const auto value = value_of(tests_.back(), stop_when_->figure);
    if (value && stop_when_->holds(*value)) return EndReason::kReached;
  }
  if (worse_max_ == 0) return EndReason::kNone;
  std::optional<double> best;
  std::uint32_t worse = 0;
  for (const PassTest& test : tests_) {
    const auto value = value_of(test, best_figure_);
    const bool is_worse = best && (!value || is_better(*best, *value));
    worse = is_worse ? worse + 1 : 0;
    if (value && !is_worse) best = value;
  }
  return worse >= worse_max_ ? EndReason::kWorse : EndReason::kNone;
}

std::string EarlyStop::explain(EndReason reason) const {
  if (reason == EndReason::kReached && stop_when_) {
    return fmt::format("train.stop_when = '{}' is fulfilled", stop_when_->text);
  }
  const auto pass = best([](std::uint32_t) { return true; });
  const auto test = std::ranges::find(tests_, pass.value_or(0), &PassTest::pass);
  const std::string than =
      pass ? fmt::format("{:.6g}, that of pass {} ({}),", *value_of(*test, best_figure_), *pass + 1,
                         snapshot::pass_name(*pass))
           : std::string("the best one");
  return fmt::format("{} was worse than {} in {} passes in a row (train.stop_after_worse)",
                     best_figure_, than, worse_max_);
}

}  // namespace paddle::trainer
