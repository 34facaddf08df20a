#include "cli/job/push_meter.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kProblemsShownMax = 3;
constexpr double kSecondsMin = 0.5;  // a shorter push gives no useful rate

}  // namespace

remote::PushProgress PushMeter::progress() {
  return [this, is_first = true](std::uint64_t planned, std::uint64_t arrived) mutable {
    add(planned, arrived, std::exchange(is_first, false));
    return !context_.interrupted();
  };
}

void PushMeter::add(std::uint64_t planned, std::uint64_t arrived, bool is_first_of_node) {
  const TimePoint now = context_.clock.now();
  std::string line;
  {
    const std::lock_guard lock(mutex_);
    planned_ += planned;
    arrived_ += arrived;
    if (is_first_of_node) ++nodes_planned_;
    const bool knows_all = nodes_planned_ == nodes_;
    if (knows_all ? planned_ == 0 : arrived_ == 0) return;
    line = "pushing: " + human_bytes(arrived_);
    line += knows_all ? " of " + human_bytes(planned_) : " so far";
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    if (arrived_ > 0 && seconds >= kSecondsMin) {
      const double each = seconds / static_cast<double>(arrived_);
      line += ", " + rate();
      if (knows_all)
        line += fmt::format(", {:.0f} s left", each * static_cast<double>(planned_ - arrived_));
    }
  }
  context_.console.progress(now, line);
}

std::string PushMeter::rate() const {
  const double seconds = std::chrono::duration<double>(context_.clock.now() - begin_).count();
  return fmt::format(
      "{}/s",
      human_bytes(seconds > 0 ? static_cast<std::uint64_t>(static_cast<double>(arrived_) / seconds)
                              : arrived_));
}

std::string PushMeter::summary() const {
  const std::lock_guard lock(mutex_);
  if (arrived_ == 0) return "";
  return fmt::format(", {} at {}", human_bytes(arrived_), rate());
}

std::string fan_out_summary(std::uint64_t bytes_from_nodes, const remote::FanOut& fan_out) {
  std::string text;
  if (bytes_from_nodes > 0)
    text = fmt::format(", {} of it from node to node", human_bytes(bytes_from_nodes));
  std::vector<std::string> problems = fan_out.connection_problems();
  const std::size_t more = problems.size() - std::min(problems.size(), kProblemsShownMax);
  problems.resize(problems.size() - more);
  if (more > 0) problems.push_back(fmt::format("{} more", more));
  if (!problems.empty()) text += fmt::format(" ({})", fmt::join(problems, ", "));
  return text;
}

}  // namespace paddle::cli
