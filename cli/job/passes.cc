#include "cli/job/passes.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

namespace paddle::cli {
namespace {

constexpr std::size_t kPassDigits = 5, kBatchDigits = 6;

// Parses a number of at least `digits` digits, as fmt's {:05d} writes it.
std::optional<std::uint64_t> padded_number(std::string_view text, std::size_t digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = error == std::errc() && end == text.data() + text.size();
  if (!good || fmt::format("{:0{}d}", value, digits) != text) return std::nullopt;
  return value;
}

double loss(const MetricsLine& test, bool by_cost) {
  if (by_cost) return *test.cost;
  const auto [name, value] = test.evaluators().front();
  return test.is_better_when_higher(name) ? -value : value;
}

}  // namespace

std::optional<SnapshotName> parse_snapshot_name(std::string_view folder) {
  constexpr std::string_view kPrefix = "pass-";
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  folder.remove_prefix(kPrefix.size());
  const std::size_t dash = folder.find('-');
  const auto pass = padded_number(folder.substr(0, dash), kPassDigits);
  if (!pass) return std::nullopt;
  if (dash == std::string_view::npos) return SnapshotName{*pass};
  const auto batch = padded_number(folder.substr(dash + 1), kBatchDigits);
  if (!batch) return std::nullopt;
  return SnapshotName{*pass, false, *batch};
}

std::string snapshot_of(const std::string& file) {
  const std::size_t slash = file.find('/');
  if (slash == std::string::npos) return "";
  std::string folder = file.substr(0, slash);
  return parse_snapshot_name(folder) ? folder : "";
}

std::string checkpoint_of(const std::string& file) {
  constexpr std::string_view kManifest = "/MANIFEST";
  if (file == "checkpoint.pt") return file;
  return file.ends_with(kManifest) ? file.substr(0, file.size() - kManifest.size()) : "";
}

std::vector<std::string> snapshots_among(const std::set<std::string>& files) {
  std::map<SnapshotName, std::string> all, complete;
  for (const std::string& file : files) {
    const std::string folder = snapshot_of(file);
    if (folder.empty()) continue;
    all[*parse_snapshot_name(folder)] = folder;
    if (file == folder + "/MANIFEST") complete[*parse_snapshot_name(folder)] = folder;
  }
  std::vector<std::string> names;
  for (const auto& [progress, folder] : complete.empty() ? all : complete) names.push_back(folder);
  return names;
}

Result<PassChoice> parse_pass_choice(const std::string& text) {
  using enum PassChoice::Kind;
  if (text.empty()) return PassChoice{kLastAndBest};
  if (text == "last") return PassChoice{kLast};
  if (text == "best") return PassChoice{kBest};
  if (text == "all") return PassChoice{kAll};
  if (const auto name = parse_snapshot_name(text)) return PassChoice{kOne, name->pass};
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number == UINT64_MAX) {
    return Error{Errc::kUsage, fmt::format("unknown --pass '{}'", text),
                 "use last, best, all, or the name of a snapshot, such as pass-00002"};
  }
  return Error{Errc::kUsage,
               fmt::format("--pass {} is ambiguous: a number may mean two passes", text),
               number == 0 ? "write pass-00000 for pass 1"
                           : fmt::format("write pass-{:05} for pass {}, or pass-{:05} for pass {}",
                                         number - 1, number, number, number + 1)};
}

std::vector<std::uint64_t> ranked_passes(const std::vector<MetricsLine>& metrics) {
  const bool by_cost = std::ranges::any_of(
      metrics, [](const MetricsLine& line) { return line.kind == "test" && line.cost; });
  std::map<std::uint64_t, double> losses;
  for (const MetricsLine& line : metrics) {
    if (line.kind != "test") continue;
    if (by_cost ? line.cost.has_value() : !line.evaluators().empty())
      losses[line.pass] = loss(line, by_cost);
  }
  std::vector<std::uint64_t> passes;
  for (const auto& [pass, value] : losses) passes.push_back(pass);
  std::ranges::stable_sort(passes, {}, [&](std::uint64_t pass) { return losses[pass]; });
  return passes;
}

}  // namespace paddle::cli
