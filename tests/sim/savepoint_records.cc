#include "tests/sim/savepoint_records.h"

#include <algorithm>

#include <fmt/format.h>

namespace paddle::sim {

void SavepointRecords::on_begin(std::uint32_t shard, std::uint64_t savepoint, State state) {
  ports_[shard].states[savepoint] = state;
}

void SavepointRecords::set_whole(std::uint32_t shard, std::vector<std::uint64_t> whole) {
  Port& port = ports_[shard];
  if (whole == port.whole) return;
  if (!whole.empty() && (port.whole.empty() || whole.back() > port.whole.back()))
    ++whole_savepoints_;
  port.whole = std::move(whole);
  if (model_.in_rounds(shard)) note_common();
}

void SavepointRecords::note_common() {
  std::vector<std::uint64_t> common;
  bool is_first = true;
  for (std::uint32_t shard = 0; shard < ports_.size(); ++shard) {
    if (!model_.in_rounds(shard)) continue;
    const auto& whole = ports_[shard].whole;
    if (std::exchange(is_first, false)) common = whole;
    std::erase_if(common, [&](std::uint64_t savepoint) {
      return !std::ranges::binary_search(whole, savepoint);
    });
  }
  if (common.empty() || common.back() <= newest_common_) return;
  newest_common_ = common.back();
  ++common_savepoints_;
}

std::string SavepointRecords::on_opened(std::uint32_t shard,
                                        const std::vector<std::uint64_t>& whole) {
  for (const std::uint64_t savepoint : ports_[shard].whole) {
    if (std::ranges::binary_search(whole, savepoint)) continue;
    return fmt::format("savepoint {} was whole, and its port's next incarnation has not got it",
                       savepoint);
  }
  return "";
}

std::string SavepointRecords::check_gone_back(std::uint32_t shard, State now) {
  Port& port = ports_[shard];
  const std::uint64_t savepoint = port.read;
  const auto found = port.states.find(savepoint);
  if (found == port.states.end())
    return fmt::format("went back to savepoint {}, which never began", savepoint);
  if (found->second != now) {
    return fmt::format("is at step {} after going back to savepoint {} of step {}, or differs",
                       now.step, savepoint, found->second.step);
  }
  const std::uint64_t newest = newest_listed(shard);
  if (savepoint < newest)
    return fmt::format("went back to savepoint {}, and {} was whole", savepoint, newest);
  if (model_.in_rounds(shard)) newest_common_ = savepoint;
  return "";
}

// A port writes on while trainer 0 chooses.
std::uint64_t SavepointRecords::newest_listed(std::uint32_t shard) const {
  std::vector<std::uint64_t> listed = ports_[shard].listed;
  for (std::uint32_t other = 0; model_.in_rounds(shard) && other < ports_.size(); ++other) {
    if (!model_.in_rounds(other)) continue;
    std::erase_if(listed, [&](std::uint64_t savepoint) {
      return !std::ranges::binary_search(ports_[other].listed, savepoint);
    });
  }
  return listed.empty() ? 0 : listed.back();
}

bool SavepointRecords::has_rollback() const {
  for (std::uint32_t shard = 0; shard < ports_.size(); ++shard) {
    const bool has_savepoint =
        model_.in_rounds(shard) ? newest_common_ > 0 : !ports_[shard].whole.empty();
    if (!has_savepoint) return false;
  }
  return true;
}

void SavepointRecords::on_anew(std::uint32_t shard) {
  ports_[shard].whole.clear();
  if (model_.in_rounds(shard)) newest_common_ = 0;
}

}  // namespace paddle::sim
