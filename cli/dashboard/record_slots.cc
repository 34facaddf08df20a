#include "cli/dashboard/record_slots.h"

#include <algorithm>
#include <tuple>

namespace paddle::cli {

bool RecordSlots::ask(const std::string& job, TimePoint now) {
  const auto found = asked_.find(job);
  const bool is_new = found == asked_.end();
  if (!is_new) {
    found->second = now;
  } else if (asked_.size() < kAskedMax || known_.contains(job)) {
    asked_.emplace(job, now);
  } else {
    return false;
  }
  return is_new;
}

void RecordSlots::know(const std::vector<std::string>& jobs) {
  known_ = {jobs.begin(), jobs.end()};
}

RecordSlots::Choice RecordSlots::choose(TimePoint now) {
  std::erase_if(asked_, [&](const auto& one) { return now - one.second > kRecordStays; });
  std::vector<std::tuple<bool, bool, TimePoint, std::string>> ranked;
  for (const auto& [job, asked] : asked_) {
    const bool is_known = known_.contains(job);
    ranked.emplace_back(is_known && held_.contains(job), is_known, asked, job);
  }
  std::ranges::sort(ranked, std::ranges::greater());
  Choice choice;
  for (const auto& [is_held, is_known, asked, job] : ranked) {
    if (choice.records.size() < kRecordsMax) {
      choice.records.insert(job);
    } else if (is_known) {
      choice.crowded.insert(job);
    }
  }
  held_ = choice.records;
  return choice;
}

}  // namespace paddle::cli
