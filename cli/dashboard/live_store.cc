#include "cli/dashboard/live_store.h"

#include <algorithm>
#include <utility>

namespace paddle::cli {
namespace {

constexpr std::size_t kGoneMax = 1'000;  // the oldest are forgotten first

}  // namespace

void LiveStore::publish(Look look) {
  const std::lock_guard lock(mutex_);
  ++version_;
  cluster_ = look.cluster.text();
  metrics_ = std::move(look.metrics);
  if (look.sees_all && complete_ == 0) complete_ = version_;
  std::map<std::string, std::vector<Key>> jobs;
  for (JobState& state : look.jobs) {
    const std::vector<Key>& before = jobs_[state.job];
    std::vector<Key> keys;
    for (const auto& [name, value] : state.fields) {
      const auto known = std::ranges::find(before, name, &Key::name);
      const bool is_same = known != before.end() && known->text == value.text();
      keys.push_back({name, value.text(), is_same ? known->version : version_});
    }
    jobs.emplace(state.job, std::move(keys));
  }
  jobs_ = std::move(jobs);
  const std::set<std::string> now(look.known.begin(), look.known.end());
  for (const std::string& job : known_) {
    if (!now.contains(job)) gone_[job] = version_;
  }
  for (const std::string& job : now) gone_.erase(job);
  known_ = now;
  while (gone_.size() > kGoneMax) {
    const auto oldest =
        std::ranges::min_element(gone_, {}, [](const auto& one) { return one.second; });
    gone_.erase(oldest);
  }
}

std::string LiveStore::job_event(const std::vector<Key>& keys, std::uint64_t seen) const {
  std::string text;
  for (const Key& key : keys) {
    if (key.version <= seen) continue;
    text += (text.empty() ? "{" : ", ") + Json(key.name).text() + ": " + key.text;
  }
  return text.empty() ? "" : text + "}";
}

LiveUpdate LiveStore::since(const std::string& job, std::uint64_t seen) const {
  const std::lock_guard lock(mutex_);
  LiveUpdate update;
  update.version = version_;
  if (seen > version_) seen = 0;
  if (seen == version_) return update;
  update.events.emplace_back("cluster", cluster_);
  if (job.empty()) return update;
  if (const auto found = jobs_.find(job); found != jobs_.end()) {
    if (std::string text = job_event(found->second, seen); !text.empty())
      update.events.emplace_back("job", std::move(text));
    return update;
  }
  if (known_.contains(job)) return update;  // it is being read
  const auto gone = gone_.find(job);
  const std::uint64_t since = gone == gone_.end() ? complete_ : gone->second;
  if (since > seen) update.events.emplace_back("gone", Json::object({{"job", job}}).text());
  return update;
}

std::string LiveStore::metrics() const {
  const std::lock_guard lock(mutex_);
  return metrics_;
}

}  // namespace paddle::cli
