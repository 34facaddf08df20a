#include "cli/watch/metrics_line.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "cli/console/console.h"
#include "cli/console/json.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kMetricsFieldsMax = 256;  // the engine's lines have about fifty at most

// Numbers in engine/trainer's lines that are not values of evaluators.
constexpr std::array<std::string_view, 15> kTrainerKeys{"current_cost",
                                                        "first_cost",
                                                        "examples_per_second",
                                                        "examples_per_busy_second",
                                                        "discarded",
                                                        "bad_records",
                                                        "dense_pushes",
                                                        "dense_merged",
                                                        "sparse_pushes",
                                                        "sparse_merged",
                                                        "total_samples",
                                                        "total_cost",
                                                        "path",
                                                        "pass_done",
                                                        "passes"};

// Parts of names of figures for which a higher value is better.
constexpr std::array<std::string_view, 10> kNamesOfHigher{
    "auc", "acc", "precision", "recall", "f1", "bleu", "ndcg", "r2", "score", "iou"};

// Whether `word` is one of the words with spaces between them.
bool has_word(std::string_view words, std::string_view word) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

std::uint64_t count_of(double value) {
  return value > 0 && value < 1e18 ? static_cast<std::uint64_t>(value) : 0;
}

void take_number(MetricsLine& line, std::string key, double value) {
  if (key == "pass") {
    line.pass = count_of(value);
  } else if (key == "batch") {
    line.batch = count_of(value);
  } else if (key == "samples") {
    line.samples = count_of(value);
  } else if (key == "unix_ms") {
    line.unix_ms = static_cast<std::int64_t>(count_of(value));
  } else if (key == "cost") {
    line.cost = value;
  } else {
    line.numbers.emplace_back(std::move(key), value);
  }
}

}  // namespace

std::optional<double> MetricsLine::number(std::string_view key) const {
  const auto found = std::ranges::find(numbers, key, &std::pair<std::string, double>::first);
  if (found == numbers.end()) return std::nullopt;
  return found->second;
}

const std::string* MetricsLine::text(std::string_view key) const {
  const auto found = std::ranges::find(texts, key, &std::pair<std::string, std::string>::first);
  return found == texts.end() ? nullptr : &found->second;
}

std::vector<std::pair<std::string, double>> MetricsLine::evaluators() const {
  std::vector<std::pair<std::string, double>> found;
  if (kind == "pserver") return found;
  for (const auto& one : numbers) {
    const bool known = std::ranges::find(kTrainerKeys, one.first) != kTrainerKeys.end();
    if (!known && !one.first.starts_with("total_")) found.push_back(one);
  }
  return found;
}

bool MetricsLine::is_better_when_higher(std::string_view figure) const {
  if (const std::string* const names = text("higher_is_better")) return has_word(*names, figure);
  const std::string name = lower_case(figure);
  return std::ranges::any_of(
      kNamesOfHigher, [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

bool MetricsLine::is_best_at_one(std::string_view figure) const {
  const std::string* const names = text("one_is_best");
  return names != nullptr && has_word(*names, figure);
}

std::optional<MetricsLine> parse_metrics(std::string_view line) {
  auto fields = read_flat_object(line);
  if (!fields || fields->size() > kMetricsFieldsMax) return std::nullopt;
  MetricsLine parsed;
  for (JsonField& field : *fields) {
    if (const auto* const number = std::get_if<double>(&field.value)) {
      take_number(parsed, std::move(field.key), *number);
    } else if (auto* const text = std::get_if<std::string>(&field.value)) {
      if (field.key == "kind") {
        parsed.kind = std::move(*text);
      } else {
        parsed.texts.emplace_back(std::move(field.key), std::move(*text));
      }
    } else if (std::holds_alternative<std::monostate>(field.value)) {
      parsed.cost_is_null = parsed.cost_is_null || field.key == "cost";
    } else if (auto* const list = std::get_if<std::vector<double>>(&field.value)) {
      parsed.lists.emplace_back(std::move(field.key), std::move(*list));
    }
  }
  if (parsed.kind.empty()) return std::nullopt;
  parsed.numbers.shrink_to_fit();  // a report stores many lines
  parsed.texts.shrink_to_fit();
  parsed.lists.shrink_to_fit();
  return parsed;
}

std::string describe(const MetricsLine& line, std::uint64_t passes) {
  std::vector<std::string> figures;
  if (line.cost || line.cost_is_null)
    figures.push_back("cost " + cost_text(line.cost.value_or(std::nan(""))));
  for (const auto& [name, value] : line.evaluators())
    figures.push_back(fmt::format("{} {:.5g}", name, value));
  const std::string pass = pass_words(line.pass, passes);
  const std::string_view kind = line.kind == "test" ? "held-out" : "training";
  if (figures.empty()) return fmt::format("{}: {} {} samples", pass, line.samples, kind);
  return fmt::format("{}: {} {} ({} samples)", pass, kind, fmt::join(figures, ", "), line.samples);
}

MetricsLine of_whole_job(MetricsLine pass) {
  constexpr std::string_view kTotal = "total_";
  const auto totals = pass.numbers;
  for (const auto& [name, value] : totals) {
    if (!name.starts_with(kTotal)) continue;
    const std::string own = name.substr(kTotal.size());
    if (own == "cost") pass.cost = value;
    if (own == "samples" && value >= 0 && value < 1e18)
      pass.samples = static_cast<std::uint64_t>(value);
    for (auto& [known, number] : pass.numbers) {
      if (known == own) number = value;
    }
  }
  return pass;
}

std::string metrics_path(const std::string& log) {
  const auto slash = log.rfind('/');
  std::string name = slash == std::string::npos ? log : log.substr(slash + 1);
  const std::string folder = log.substr(0, log.size() - name.size());
  if (name.starts_with("train")) name.replace(0, 5, "metrics");
  if (name.starts_with("server")) name.insert(6, "-metrics");
  if (name.ends_with(".log")) name.replace(name.size() - 4, 4, ".jsonl");
  return folder + name;
}

}  // namespace paddle::cli
