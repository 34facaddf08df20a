#include "cli/dashboard/kept_metrics.h"

#include <algorithm>
#include <map>
#include <utility>

namespace paddle::cli {
namespace {

constexpr std::size_t kPortsMax = 256;        // of a pserver
constexpr std::size_t kTextBytesMax = 1'024;  // of a log point; no figure has such a name

std::size_t bytes_of(const MetricsLine& line) {
  std::size_t bytes = sizeof(line);
  for (const auto& [name, value] : line.numbers)
    bytes += sizeof(name) + sizeof(value) + name.size();
  for (const auto& [name, text] : line.texts) bytes += 2 * sizeof(name) + name.size() + text.size();
  for (const auto& [name, list] : line.lists)
    bytes += sizeof(name) + sizeof(list) + name.size() + sizeof(double) * list.size();
  return bytes;
}

double cost_of(const MetricsLine& line) {
  if (const auto current = line.number("current_cost")) return *current;
  if (line.cost) return *line.cost;
  return line.numbers.empty() ? 0 : line.numbers.front().second;
}

// Leaves what the page shows of a log point: of trainer 0 the evaluators too.
void strip(MetricsLine& line, bool is_leader) {
  line.lists = {};
  std::erase_if(line.texts, [](const auto& text) {
    return text.first.size() + text.second.size() > kTextBytesMax;
  });
  std::erase_if(line.numbers, [&](const auto& number) {
    const std::string& name = number.first;
    const bool is_drawn = name == "current_cost" || name == "examples_per_second";
    return is_leader ? name.size() > kTextBytesMax : !is_drawn;
  });
  if (!is_leader) line.texts = {};
  line.numbers.shrink_to_fit();
}

// A test's curves are shown for the last test that has them.
void drop_former_curves(const MetricsLine& test, std::vector<MetricsLine>& lines) {
  if (test.lists.empty()) return;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (line->kind != "test") continue;
    std::erase_if(line->lists, [&](const auto& list) {
      return std::ranges::any_of(test.lists,
                                 [&](const auto& now) { return now.first == list.first; });
    });
    break;
  }
}

}  // namespace

void KeptMetrics::append(MetricsLine line, std::uint32_t group, std::vector<MetricsLine>& lines) {
  bytes_ += bytes_of(line);
  lines.push_back(std::move(line));
  groups_.push_back(group);
  if (group > 0) ++points_;
}

void KeptMetrics::add(MetricsLine line, ProcessRecord& record) {
  if (!record.totals) record.totals = std::make_shared<MetricsTotals>();
  record.totals->add(line);
  line.step = record.totals->step();
  std::vector<MetricsLine>& lines = record.metrics;
  if (line.kind == "pserver") {
    replace_port(std::move(line), lines);
  } else if (line.kind == "train") {
    strip(line, record.role == "trainer-0");
    if (lines.empty()) {
      append(std::move(line), 0, lines);  // shows when the job began
    } else {
      add_point(std::move(line), lines);
    }
  } else {
    if (line.kind == "test") drop_former_curves(line, lines);
    append(std::move(line), 0, lines);
  }
  while (group_ > 1 && (points_ > limits_.points || (bytes_ > limits_.bytes && points_ > 2)))
    merge_groups(lines);
  if (bytes_ > limits_.bytes) drop_oldest(lines);
}

void KeptMetrics::replace_port(MetricsLine line, std::vector<MetricsLine>& lines) {
  const double port = line.number("port").value_or(0);
  const auto known = std::ranges::find_if(lines, [&](const MetricsLine& other) {
    return other.kind == "pserver" && other.number("port").value_or(0) == port;
  });
  if (known == lines.end()) {
    if (lines.size() < kPortsMax) append(std::move(line), 0, lines);
    return;
  }
  bytes_ = bytes_ + bytes_of(line) - std::min(bytes_, bytes_of(*known));
  *known = std::move(line);
}

void KeptMetrics::drop_open(std::size_t which, std::vector<MetricsLine>& lines) {
  const std::size_t at = open_[which];
  bytes_ -= std::min(bytes_, bytes_of(lines[at]));
  --points_;
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
  groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(at));
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
  for (std::size_t i = which; i < open_.size(); ++i) --open_[i];
}

void KeptMetrics::add_point(MetricsLine line, std::vector<MetricsLine>& lines) {
  // The newest point is shown as well, as long as its group is the last one.
  const auto keep = [&](std::size_t newest) {
    const auto [low, high] =
        std::ranges::minmax_element(open_, {}, [&](std::size_t at) { return cost_of(lines[at]); });
    const std::size_t lowest = *low, highest = *high;
    for (std::size_t i = open_.size() - newest; i-- > 0;) {
      if (open_[i] != lowest && open_[i] != highest) return drop_open(i, lines);
    }
  };
  if (in_group_ >= group_size_ || group_ == 0) {
    if (open_.size() > 2) keep(0);
    open_.clear();
    ++group_;
    in_group_ = 0;
  }
  ++in_group_;
  open_.push_back(lines.size());
  append(std::move(line), group_, lines);
  if (open_.size() > 3) keep(1);
}

void KeptMetrics::merge_groups(std::vector<MetricsLine>& lines) {
  struct Extremes {
    std::size_t low = 0, high = 0;
  };
  std::map<std::uint32_t, Extremes> of_group;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (groups_[i] == 0) continue;
    groups_[i] = (groups_[i] + 1) / 2;
    const auto [found, is_new] = of_group.try_emplace(groups_[i], Extremes{i, i});
    if (is_new) continue;
    if (cost_of(lines[i]) < cost_of(lines[found->second.low])) found->second.low = i;
    if (cost_of(lines[i]) > cost_of(lines[found->second.high])) found->second.high = i;
  }
  in_group_ += group_ % 2 == 0 ? group_size_ : 0;
  group_ = (group_ + 1) / 2;
  group_size_ *= 2;
  open_.clear();
  points_ = 0;
  bytes_ = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::uint32_t group = groups_[i];
    if (group > 0 && i != of_group[group].low && i != of_group[group].high) continue;
    if (kept != i) lines[kept] = std::move(lines[i]);
    groups_[kept] = group;
    bytes_ += bytes_of(lines[kept]);
    if (group > 0) ++points_;
    if (group == group_) open_.push_back(kept);
    ++kept;
  }
  lines.resize(kept);
  groups_.resize(kept);
}

void KeptMetrics::drop_oldest(std::vector<MetricsLine>& lines) {
  std::size_t dropped = 0;
  const std::size_t enough = limits_.bytes - limits_.bytes / 4;
  for (; dropped + 1 < lines.size() && bytes_ > enough; ++dropped) {
    bytes_ -= std::min(bytes_, bytes_of(lines[dropped]));
    if (groups_[dropped] > 0) --points_;
  }
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(dropped));
  groups_.erase(groups_.begin(), groups_.begin() + static_cast<std::ptrdiff_t>(dropped));
  std::erase_if(open_, [&](std::size_t at) { return at < dropped; });
  for (std::size_t& at : open_) at -= dropped;
}

}  // namespace paddle::cli
