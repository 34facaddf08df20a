#include "cli/watch/progress.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "cli/console/console.h"

namespace paddle::cli {
namespace {

constexpr double kDivergenceRatio = 1000;
constexpr double kCostMin = 1e-6;
constexpr std::size_t kCellsMax = 16;
// A shorter time gives no pace. Reports arrive once a second, so a few of them are off by up to
// one.
constexpr double kSeenMinMs = 5000, kSeenWithFewMovesMinMs = 10'000;
constexpr int kMovesMin = 3;
constexpr double kPositionMin = 1e-4;
constexpr double kPaceMs = 20 * 60'000.0;  // after this much time, what was seen counts half
constexpr double kYearMs = 365.0 * 86'400'000;

using Bars = std::array<std::string_view, 8>;
constexpr Bars kBars{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 6> kAsciiBars{"_", ".", "-", "=", "*", "#"};

}  // namespace

std::optional<remote::Progress> progress_of(const MetricsLine& line) {
  if (line.kind != "train" && line.kind != "pass") return std::nullopt;
  remote::Progress progress;
  progress.unix_ms = line.unix_ms;
  progress.pass = static_cast<std::uint32_t>(line.pass);
  const double passes = line.number("passes").value_or(0);
  if (passes > 0 && passes < 1e9) progress.passes = static_cast<std::uint32_t>(passes);
  if (const auto done = line.number("pass_done"); done && std::isfinite(*done))
    progress.pass_done = std::clamp(*done, 0.0, 1.0);
  if (line.kind == "pass") progress.pass_done = 1;
  progress.batch = line.batch;
  progress.cost = line.cost.value_or(std::nan(""));
  progress.has_cost = line.cost || line.cost_is_null;
  progress.examples_per_second = line.number("examples_per_second").value_or(0);
  return progress;
}

std::uint32_t passes_of(std::span<const MetricsLine> lines) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (const auto progress = progress_of(*line); progress && progress->passes > 0)
      return progress->passes;
  }
  return 0;
}

std::optional<JobProgress> job_progress(const std::vector<remote::Progress>& trainers) {
  if (trainers.empty()) return std::nullopt;
  const auto position = [](const remote::Progress& p) { return p.pass + p.pass_done.value_or(0); };
  const remote::Progress& last = *std::ranges::min_element(trainers, {}, position);
  JobProgress job{last.pass, last.passes, last.pass_done, 0, {}};
  double cost = 0;
  int with_cost = 0;  // not those that have just begun the pass
  for (const remote::Progress& trainer : trainers) {
    if (trainer.batch > 0 && trainer.has_cost) cost += trainer.cost, ++with_cost;
    if (trainer.examples_per_second > 0) job.examples_per_second += trainer.examples_per_second;
  }
  if (with_cost > 0) job.cost = cost / with_cost;
  return job;
}

bool diverges(double cost, std::optional<double> first_cost) {
  if (!std::isfinite(cost)) return true;
  return first_cost &&
         std::abs(cost) > kDivergenceRatio * std::max(std::abs(*first_cost), kCostMin);
}

std::string divergence_text(double cost) {
  return fmt::format(
      "training diverges: the cost is {:.6g}; lower optimizer.learning_rate, or set "
      "optimizer.clip_global_norm",
      cost);
}

void TimeLeft::add(std::int64_t unix_ms, double position) {
  // A restarted job begins behind its last position.
  if (stretch_ && position >= stretch_->position && unix_ms > stretch_->unix_ms) {
    moved_ms_ += static_cast<double>(unix_ms - stretch_->unix_ms);
    moved_ += position - stretch_->position;
    if (position > stretch_->position) ++moves_;
  }
  if (moved_ms_ > kPaceMs) moved_ms_ /= 2, moved_ /= 2;
  stretch_ = {unix_ms, position};
  position_ = position;
}

std::optional<std::int64_t> TimeLeft::left_ms(double passes) const {
  if (moved_ < kPositionMin) return std::nullopt;
  if (moved_ms_ < (moves_ < kMovesMin ? kSeenWithFewMovesMinMs : kSeenMinMs)) return std::nullopt;
  const double left = (passes - position_) / moved_ * moved_ms_;
  if (!(left > 0 && left < kYearMs)) return std::nullopt;
  return static_cast<std::int64_t>(left);
}

void CostTrail::add(double cost) {
  if (!std::isfinite(cost)) return;
  if (cells_.empty() || in_last_ == stride_) {
    if (cells_.size() == kCellsMax) {
      for (std::size_t i = 0; i < kCellsMax / 2; ++i)
        cells_[i] = (cells_[2 * i] + cells_[2 * i + 1]) / 2;
      cells_.resize(kCellsMax / 2);
      stride_ *= 2;
    }
    cells_.push_back(0);
    in_last_ = 0;
  }
  ++in_last_;
  cells_.back() += (cost - cells_.back()) / static_cast<double>(in_last_);
}

std::string CostTrail::sparkline(bool utf8) const {
  if (cells_.size() < 2) return "";
  const auto [lowest, highest] = std::ranges::minmax(cells_);
  const std::size_t levels = utf8 ? kBars.size() : kAsciiBars.size();
  std::string text;
  for (const double cell : cells_) {
    const double height = highest > lowest ? (cell - lowest) / (highest - lowest) : 0;
    const auto level = static_cast<std::size_t>(height * static_cast<double>(levels - 1) + 0.5);
    text += utf8 ? kBars[level] : kAsciiBars[level];
  }
  return text;
}

std::string pass_text(std::uint64_t pass, std::uint64_t passes) {
  return passes > 0 ? fmt::format("{}/{}", pass + 1, passes) : fmt::format("{}", pass + 1);
}

std::string share_text(double share) {
  // 100 % only if all is done. Shares arrive as float: 0.52F is 52 %.
  return fmt::format("{} %", std::floor(100 * static_cast<float>(std::clamp(share, 0.0, 1.0))));
}

std::string rate_text(double per_second) {
  if (!(per_second < 1e15)) return "0/s";
  return grouped(static_cast<std::uint64_t>(std::max(0.0, per_second) + 0.5)) + "/s";
}

std::string saved_text(std::optional<std::uint64_t> pass) {
  return pass ? fmt::format("last saved: pass {}", *pass + 1) : "no pass saved";
}

std::string left_text(std::int64_t ms) {
  const std::int64_t seconds = std::max<std::int64_t>(1, (ms + 999) / 1000);
  if (seconds < 100) return fmt::format("{} s left", seconds);
  const std::int64_t minutes = (seconds + 30) / 60;
  if (minutes < 100) return fmt::format("{} min left", minutes);
  const std::int64_t hours = minutes / 60;
  if (hours < 48) return fmt::format("{} h {:02} min left", hours, minutes % 60);
  return fmt::format("{} d {:02} h left", hours / 24, hours % 24);
}

}  // namespace paddle::cli
