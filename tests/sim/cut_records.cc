#include "tests/sim/cut_records.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::sim {

void CutRecords::on_begin(std::uint32_t shard, std::uint64_t cut, State state) {
  ports_[shard].states[cut] = state;
}

void CutRecords::set_whole(std::uint32_t shard, std::vector<std::uint64_t> whole) {
  Port& port = ports_[shard];
  if (whole == port.whole) return;
  if (!whole.empty() && (port.whole.empty() || whole.back() > port.whole.back())) ++whole_cuts_;
  port.whole = std::move(whole);
  if (model_.in_rounds(shard)) note_common();
}

void CutRecords::note_common() {
  std::vector<std::uint64_t> common;
  bool is_first = true;
  for (std::uint32_t shard = 0; shard < ports_.size(); ++shard) {
    if (!model_.in_rounds(shard)) continue;
    const auto& whole = ports_[shard].whole;
    if (std::exchange(is_first, false)) common = whole;
    std::erase_if(common,
                  [&](std::uint64_t cut) { return !std::ranges::binary_search(whole, cut); });
  }
  if (common.empty() || common.back() <= newest_common_) return;
  newest_common_ = common.back();
  ++common_cuts_;
}

std::string CutRecords::on_opened(std::uint32_t shard, const std::vector<std::uint64_t>& whole) {
  for (const std::uint64_t cut : ports_[shard].whole) {
    if (std::ranges::binary_search(whole, cut)) continue;
    return fmt::format("cut {} was whole, and its port's next life has not got it", cut);
  }
  return "";
}

std::string CutRecords::check_gone_back(std::uint32_t shard, State now) {
  Port& port = ports_[shard];
  const std::uint64_t cut = port.read;
  const auto found = port.states.find(cut);
  if (found == port.states.end()) return fmt::format("went back to cut {}, which never began", cut);
  if (found->second != now) {
    return fmt::format("is at step {} after going back to cut {} of step {}, or differs", now.step,
                       cut, found->second.step);
  }
  const std::uint64_t newest = newest_told(shard);
  if (cut < newest) return fmt::format("went back to cut {}, and {} was whole", cut, newest);
  if (model_.in_rounds(shard)) newest_common_ = cut;
  return "";
}

// A port writes on while trainer 0 chooses.
std::uint64_t CutRecords::newest_told(std::uint32_t shard) const {
  std::vector<std::uint64_t> told = ports_[shard].told;
  for (std::uint32_t other = 0; model_.in_rounds(shard) && other < ports_.size(); ++other) {
    if (!model_.in_rounds(other)) continue;
    std::erase_if(told, [&](std::uint64_t cut) {
      return !std::ranges::binary_search(ports_[other].told, cut);
    });
  }
  return told.empty() ? 0 : told.back();
}

bool CutRecords::has_way_back() const {
  for (std::uint32_t shard = 0; shard < ports_.size(); ++shard) {
    const bool has_cut =
        model_.in_rounds(shard) ? newest_common_ > 0 : !ports_[shard].whole.empty();
    if (!has_cut) return false;
  }
  return true;
}

void CutRecords::on_anew(std::uint32_t shard) {
  ports_[shard].whole.clear();
  if (model_.in_rounds(shard)) newest_common_ = 0;
}

}  // namespace paddle::sim
