#include "base/grouped_scores.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/rng.h"

namespace paddle {
namespace {

constexpr unsigned kHashBits = 64;
constexpr std::size_t kGroupsAtLeast = 16;  // of the largest size, before any group is left out

std::uint64_t take_u64(ByteSpan& bytes) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes = bytes.subspan(sizeof number);
  return number;
}

std::uint64_t examples_of(const ScoreHistogram& scores) {
  std::uint64_t sum = 0;
  for (const ScoreHistogram::Entry& entry : scores.entries())
    sum += entry.counts[0] + entry.counts[1];
  return sum;
}

Error damaged_groups(const char* what) {
  return {Errc::kData, fmt::format("scores by group are damaged: {}", what), ""};
}

}  // namespace

std::size_t GroupedScores::group_max() const {
  return std::clamp<std::size_t>(examples_max_ / kGroupsAtLeast, 1, ScoreHistogram::kEntriesMax);
}

std::uint64_t GroupedScores::counted(const Group& group) const {
  return std::min<std::uint64_t>(group.examples, group_max());
}

void GroupedScores::add(std::span<Example> examples) {
  for (Example& one : examples) one.group = mix64(one.group);
  std::ranges::sort(examples);
  std::vector<std::uint64_t> scores;
  for (std::size_t begin = 0; begin < examples.size();) {
    const std::uint64_t hash = examples[begin].group;
    if (!keeps(hash)) break;  // nor any hash above it
    scores.clear();
    std::size_t end = begin;
    for (; end < examples.size() && examples[end].group == hash; ++end)
      scores.push_back(examples[end].score);
    ScoreHistogram part(group_max());
    part.add(scores);
    add_to(hash, part, end - begin);
    begin = end;
  }
  fit();
}

void GroupedScores::add(const GroupedScores& other) {
  limit(other.examples_max_);
  if (other.level_ > level_) drop_groups(other.level_);
  for (const auto& [hash, group] : other.groups_) {
    if (!keeps(hash)) break;
    add_to(hash, group.scores, group.examples);
  }
  fit();
}

void GroupedScores::add_to(std::uint64_t hash, const ScoreHistogram& scores,
                           std::uint64_t examples) {
  const auto [at, is_new] = groups_.try_emplace(hash, Group{ScoreHistogram(group_max())});
  Group& group = at->second;
  counted_ -= counted(group);
  group.scores.add(scores);
  group.examples += examples;
  counted_ += counted(group);
}

void GroupedScores::limit(std::size_t examples_max) {
  if (examples_max >= examples_max_) return;
  examples_max_ = examples_max;
  counted_ = 0;
  for (auto& [hash, group] : groups_) {
    ScoreHistogram smaller(group_max());
    smaller.add(group.scores);
    group.scores = std::move(smaller);
    counted_ += counted(group);
  }
  fit();
}

void GroupedScores::drop_groups(unsigned level) {
  level_ = level;
  const auto first = groups_.lower_bound(std::uint64_t{1} << (kHashBits - level));
  for (auto at = first; at != groups_.end(); ++at) counted_ -= counted(at->second);
  groups_.erase(first, groups_.end());
}

void GroupedScores::fit() {
  while (counted_ > examples_max_) drop_groups(level_ + 1);
}

double GroupedScores::mean_area() const {
  double sum = 0;
  double weights = 0;
  for (const auto& [hash, group] : groups_) {
    const double area = area_under_curve(group.scores);
    if (std::isnan(area)) continue;
    const auto weight = static_cast<double>(group.examples);
    sum += weight * area;
    weights += weight;
  }
  return weights > 0 ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

void GroupedScores::append_to(Bytes& bytes) const {
  if (examples_max_ > kSentMax) {
    GroupedScores sent(kSentMax);
    sent.add(*this);
    return sent.append_to(bytes);
  }
  const std::array<std::uint64_t, 2> head{level_, groups_.size()};
  append_bytes(bytes, std::span<const std::uint64_t>(head));
  for (const auto& [hash, group] : groups_) {
    append_bytes(bytes, std::span<const std::uint64_t>(&hash, 1));
    group.scores.append_to(bytes);
  }
}

Result<GroupedScores> GroupedScores::take(ByteSpan& bytes) {
  if (bytes.size() < kHeadBytes) return damaged_groups("their header is missing");
  GroupedScores taken(kSentMax);
  const std::uint64_t level = take_u64(bytes);
  const std::uint64_t groups = take_u64(bytes);
  if (level >= kHashBits || groups > kSentMax || bytes.size() < groups * kGroupBytes)
    return damaged_groups("their length does not match their header");
  taken.level_ = static_cast<unsigned>(level);
  for (std::uint64_t i = 0; i < groups; ++i) {
    if (bytes.size() < sizeof(std::uint64_t)) return damaged_groups("a group is missing");
    const std::uint64_t hash = take_u64(bytes);
    if (!taken.keeps(hash) || (i > 0 && taken.groups_.rbegin()->first >= hash))
      return damaged_groups("their groups are not in ascending order");
    PADDLE_TRY(const ScoreHistogram scores, ScoreHistogram::take(bytes));
    if (scores.empty() || scores.entries().size() > taken.group_max())
      return damaged_groups("a group has no score, or too many");
    taken.add_to(hash, scores, examples_of(scores));
  }
  if (taken.counted_ > kSentMax) return damaged_groups("they have too many examples");
  return taken;
}

}  // namespace paddle
