#include "engine/group/events.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::collective {
namespace {

constexpr std::size_t kEventsPerLine = 8;

std::string text_of(const Event& event, TimePoint first) {
  const double at = std::chrono::duration<double>(event.at - first).count();
  const auto with_rank = [&](const char* verb, const char* word) {
    return fmt::format("+{:.6f} {} {}@{} {} {}", at, verb, event.operation, event.offset, word,
                       event.rank);
  };
  switch (event.kind) {
    case EventKind::kPosted:
      return fmt::format("+{:.6f} posted {} of {} bytes", at, event.operation, event.offset);
    case EventKind::kSent:
      return with_rank("sent", "to");
    case EventKind::kReceived:
      return with_rank("received", "from");
    case EventKind::kAdded:
      return fmt::format("+{:.6f} added {}@{}", at, event.operation, event.offset);
    case EventKind::kDone:
      return fmt::format("+{:.6f} done {}", at, event.operation);
    case EventKind::kSlow:
      return with_rank("waits", "for");
    case EventKind::kClosed:
      return fmt::format("+{:.6f} lost {}", at, event.rank);
    case EventKind::kFailed:
      return fmt::format("+{:.6f} failed in {}", at, event.operation);
  }
  return {};
}

}  // namespace

std::vector<Event> EventRing::events() const {
  const std::uint64_t kept = std::min<std::uint64_t>(count_, kEventsMax);
  std::vector<Event> result;
  result.reserve(kept);
  for (std::uint64_t i = count_ - kept; i < count_; ++i) result.push_back(events_[i % kEventsMax]);
  return result;
}

std::vector<std::string> EventRing::lines(std::size_t count) const {
  std::vector<std::string> lines;
  std::vector<Event> all = events();
  if (all.size() > count) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % kEventsPerLine == 0) lines.emplace_back();
    std::string& line = lines.back();
    if (!line.empty()) line += ", ";
    line += text_of(all[i], all.front().at);
  }
  return lines;
}

}  // namespace paddle::collective
