#include "engine/trainer/test_record.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "base/fd.h"
#include "engine/snapshot/file_system.h"

namespace paddle::trainer {
namespace {

constexpr std::size_t kTestsBytesMax = 64U << 20U;
constexpr unsigned kFileMode = 0644;
constexpr std::size_t kFiguresMax = 64;  // bits of a count

// Of a decision's tally.
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

Result<std::vector<PassTest>> read_tests(const std::string& folder) {
  const std::string path = folder + "/TESTS";
  std::vector<PassTest> tests;
  if (!snapshot::kernel_file_system().exists(path)) return tests;
  PADDLE_TRY(const std::string text, read_file(path, kTestsBytesMax));
  for (std::string_view left = text; !left.empty();) {
    auto test = parse_test(cut(left, '\n'));
    if (!test || (!tests.empty() && test->pass <= tests.back().pass)) {
      return Error{Errc::kData, fmt::format("{}:{}: no test of a pass", path, tests.size() + 1)};
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
    if (!std::isfinite(value)) continue;  // which a pserver would refuse
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
