#include "engine/trainer/early_stop.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/text.h"
#include "engine/snapshot/file_system.h"

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

constexpr std::size_t kTestsBytesMax = 64U << 20U;
constexpr unsigned kFileMode = 0644;
constexpr std::size_t kFiguresMax = 64;  // bits of the count kFinite

// Indices into the counts of a decision's tally.
enum Count : std::size_t { kReason, kIsTested, kFinite, kCounts };

// Returns the text up to `end` and removes it, and `end`, from `left`.
std::string_view cut(std::string_view& left, char end) {
  const std::string_view part = left.substr(0, left.find(end));
  left.remove_prefix(std::min(left.size(), part.size() + 1));
  return part;
}

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && at == text.data() + text.size();
}

std::optional<PassTest> parse_test(std::string_view line) {
  constexpr std::string_view kPass = "pass=";
  PassTest test;
  std::string_view first = cut(line, '\t');
  if (!first.starts_with(kPass) || !parse(first.substr(kPass.size()), test.pass)) return {};
  while (!line.empty()) {
    const std::string_view field = cut(line, '\t');
    const std::size_t equal = field.rfind('=');
    if (equal == std::string_view::npos) return {};
    nn::Value& figure = test.figures.emplace_back();
    figure.name = field.substr(0, equal);
    if (!parse(field.substr(equal + 1), figure.value)) return {};
  }
  return test;
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
  if (found == figures.end()) return;
  higher_is_better_ = found->higher_is_better;
  one_is_best_ = found->one_is_best;
}

bool EarlyStop::is_better(double value, double than) const {
  if (one_is_best_) return std::abs(value - 1) < std::abs(than - 1);
  return higher_is_better_ ? value > than : value < than;
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

std::optional<PassTest> EarlyStop::best_value() const {
  const auto pass = best([](std::uint32_t) { return true; });
  if (!pass) return {};
  const auto test = std::ranges::find(tests_, *pass, &PassTest::pass);
  return PassTest{*pass, {{best_figure_, *value_of(*test, best_figure_)}}};
}

// A test as good as the best one so far ends a row of worse ones. After a best one, a test without
// a finite value counts as worse.
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
      pass ? fmt::format("{:.6g}, that of {},", *value_of(*test, best_figure_), pass_words(*pass))
           : std::string("the best one");
  const std::string passes =
      worse_max_ == 1 ? "the last pass" : fmt::format("the last {} passes", worse_max_);
  return fmt::format("{} was worse than {} in {} (train.stop_after_worse)", best_figure_, than,
                     passes);
}

// The files TESTS and BEST, and the tally of a decision.

Result<std::vector<PassTest>> read_tests(const std::string& folder) {
  const std::string path = folder + "/TESTS";
  std::vector<PassTest> tests;
  if (!snapshot::kernel_file_system().exists(path)) return tests;
  PADDLE_TRY(const std::string text, read_file(path, kTestsBytesMax));
  for (std::string_view left = text; !left.empty();) {
    auto test = parse_test(cut(left, '\n'));
    if (!test || (!tests.empty() && test->pass <= tests.back().pass)) {
      return Error{Errc::kData, fmt::format("{}:{}: the line is not the test of a pass", path,
                                            tests.size() + 1)};
    }
    tests.push_back(*std::move(test));
  }
  return tests;
}

Status write_tests(const std::string& folder, std::span<const PassTest> tests) {
  std::string text;
  for (const PassTest& test : tests) {
    text += fmt::format("pass={}", test.pass);
    for (const nn::Value& one : test.figures) text += fmt::format("\t{}={}", one.name, one.value);
    text += '\n';
  }
  return replace_file(folder + "/TESTS", as_bytes(text), kFileMode);
}

Status write_best(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/BEST";
  if (!name.empty()) return replace_file(path, as_bytes(name + "\n"), kFileMode);
  return snapshot::kernel_file_system().remove_all(path);
}

Tally encode(const Decision& decision, std::span<const nn::Value> figures) {
  PADDLE_CHECK(figures.size() <= kFiguresMax);
  Tally tally;
  tally.counts.resize(kCounts);
  tally.sums.resize(figures.size());
  tally.counts[kReason] = static_cast<std::uint64_t>(decision.reason);
  if (decision.figures.size() != figures.size()) return tally;
  tally.counts[kIsTested] = 1;
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const double value = decision.figures[i].value;
    if (!std::isfinite(value)) continue;  // pservers refuse such a value
    tally.counts[kFinite] |= std::uint64_t{1} << i;
    tally.sums[i] = value;
  }
  return tally;
}

std::optional<Decision> decode_decision(const Tally& tally, std::span<const nn::Value> figures) {
  if (tally.counts.size() != kCounts || tally.sums.size() != figures.size()) return {};
  Decision decision;
  decision.reason = static_cast<EndReason>(tally.counts[kReason]);
  if (tally.counts[kIsTested] == 0) return decision;
  decision.figures.assign(figures.begin(), figures.end());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const bool is_finite = (tally.counts[kFinite] >> i & 1U) != 0;
    decision.figures[i].value = is_finite ? tally.sums[i] : std::nan("");
  }
  return decision;
}

}  // namespace paddle::trainer
