#include "cli/dashboard/cluster_watch.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "cli/dashboard/record_slots.h"
#include "cli/job/folders.h"
#include "cli/report/prometheus.h"

namespace paddle::cli {
namespace {

std::string why_crowded() {
  return fmt::format(
      "the dashboard reads the records of {} jobs at most; this one follows a minute after the "
      "page of another job is closed",
      kRecordsMax);
}

std::vector<std::size_t> all_nodes(const ClusterSpec& cluster) {
  std::vector<std::size_t> nodes(cluster.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

Duration patience_of(const Context& context) {
  const Duration asked = context.limits.timeout;
  return asked > Duration() ? std::min<Duration>(asked, kWatchPatience) : kWatchPatience;
}

std::optional<double> per_second(std::uint64_t now, std::uint64_t before, double ms) {
  if (now < before || ms <= 0) return std::nullopt;
  return static_cast<double>(now - before) * 1000 / ms;
}

Json number_of(const std::optional<double>& value) {
  return value ? Json::number(*value) : Json();
}

// The processes of each job, without those of jobs that no command could name, and without those of
// the oldest jobs if there are too many.
std::map<std::string, std::vector<ProcessOnNode>> by_job(std::vector<ProcessOnNode> processes) {
  std::map<std::string, std::vector<ProcessOnNode>> jobs;
  for (ProcessOnNode& process : processes) {
    const std::string job = process.status.job;
    if (check_job_name(job)) jobs[job].push_back(std::move(process));
  }
  while (jobs.size() > kJobsWatchedMax) {  // processes are ordered by their start
    jobs.erase(std::ranges::min_element(
        jobs, {}, [](const auto& job) { return job.second.back().status.started_unix_ms; }));
  }
  return jobs;
}

}  // namespace

ClusterWatch::ClusterWatch(Context& context, const ClusterSpec& cluster, std::string output)
    : context_(context),
      cluster_(cluster),
      output_(std::move(output)),
      session_(ClusterSession::unconnected(cluster, all_nodes(cluster))),
      reconnection_(context, patience_of(context)),
      machines_(session_.members().size()),
      usages_(session_.members().size()),
      rates_(session_.members().size()) {}

LiveStore::Look ClusterWatch::round(const std::set<std::string>& wanted,
                                    const std::set<std::string>& crowded) {
  reconnection_.round(session_, context_.clock.now());
  ClusterLook look = session_.look(context_.clock, "");
  note_rates(look);
  auto found = by_job(std::move(look.processes));
  for (const auto& [name, processes] : found) jobs_.try_emplace(name, name);
  for (auto& [name, job] : jobs_) {
    job.want_record(wanted.contains(name));
    job.begin(found[name]);
  }
  read_files();
  LiveStore::Look result;
  has_more_ = false;
  for (auto one = jobs_.begin(); one != jobs_.end();) {
    auto& [name, job] = *one;
    job.take(context_, session_, {std::move(found[name]), look.nodes}, machines_, output_);
    has_more_ = has_more_ || job.has_more();
    if (job.members().empty()) {  // it was removed
      one = jobs_.erase(one);
      continue;
    }
    result.known.push_back(name);
    if (job.has_record()) result.jobs.push_back({name, job.fields()});
    if (crowded.contains(name))
      result.jobs.push_back({name, job.fields_without_record(why_crowded())});
    ++one;
  }
  std::erase_if(logs_, [&](const auto& log) { return !jobs_.contains(log.first.first); });
  result.cluster = cluster_json();
  result.sees_all = session_.unreachable() == 0;
  result.metrics = metrics();
  return result;
}

void ClusterWatch::read_files() {
  (void)session_.each([&](Member& member) -> Status {
    const std::size_t index = session_.index_of(member);
    if (machines_[index].node.empty()) {
      PADDLE_TRY(machines_[index], machine_of(member));
    }
    for (auto& [name, job] : jobs_) PADDLE_TRY_STATUS(job.read(member, index, machines_[index]));
    return {};
  });
  for (Member& member : session_.members()) {
    if (member.error && member.error->code == Errc::kUnreachable) member.client.reset();
  }
}

void ClusterWatch::note_rates(const ClusterLook& look) {
  for (std::size_t i = 0; i < usages_.size(); ++i) {
    rates_[i] = {};
    std::optional<remote::NodeUsage> now;
    if (look.nodes[i]) now = look.nodes[i]->usage;
    const auto before = std::exchange(usages_[i], now);
    if (!now || !before) continue;
    const auto ms = static_cast<double>(now->unix_ms - before->unix_ms);
    const auto busy_ms_per_s = per_second(now->cpu_busy_ms, before->cpu_busy_ms, ms);
    if (busy_ms_per_s) rates_[i].cores_busy = *busy_ms_per_s / 1000;
    rates_[i].in_per_s = per_second(now->received_bytes, before->received_bytes, ms);
    rates_[i].out_per_s = per_second(now->sent_bytes, before->sent_bytes, ms);
  }
}

Json ClusterWatch::node_json(std::size_t index) const {
  const Member& member = session_.members()[index];
  const MachineRecord& machine = machines_[index];
  const bool is_known = !machine.node.empty();
  const bool is_connecting = !reconnection_.was_tried(index);
  const auto& usage = usages_[index];
  const char* const state = member.client   ? "ready"
                            : member.absent ? "absent"
                            : is_connecting ? "connecting"
                                            : "unreachable";
  return Json::object(
      {{"node", member.spec.name},
       {"state", state},
       {"error", member.client || !member.error ? "" : member.error->message},
       {"cores", is_known ? Json::number(machine.cores) : Json()},
       {"memory_bytes", is_known ? Json::number(machine.memory_bytes) : Json()},
       {"memory_available_bytes", usage ? Json(usage->memory_available_bytes) : Json()},
       {"cores_busy", number_of(rates_[index].cores_busy)},
       {"gpus", machine.gpus},
       {"in_per_s", number_of(rates_[index].in_per_s)},
       {"out_per_s", number_of(rates_[index].out_per_s)}});
}

std::vector<const LiveJob*> ClusterWatch::newest_first() const {
  std::vector<const LiveJob*> jobs;
  for (const auto& [name, job] : jobs_) jobs.push_back(&job);
  std::ranges::stable_sort(jobs, std::ranges::greater(), &LiveJob::started_unix_ms);
  return jobs;
}

Json ClusterWatch::cluster_json() const {
  std::vector<Json> nodes, jobs;
  for (std::size_t i = 0; i < session_.members().size(); ++i) nodes.push_back(node_json(i));
  for (const LiveJob* const job : newest_first()) jobs.push_back(job->summary());
  const std::int64_t now = context_.unix_ms ? context_.unix_ms() : context_.unix_seconds() * 1000;
  return Json::object({{"unix_ms", now},
                       {"cluster", cluster_.name},
                       {"nodes", Json::list(nodes)},
                       {"jobs", Json::list(jobs)}});
}

std::string ClusterWatch::metrics() const {
  std::vector<JobMetrics> jobs;
  for (const LiveJob* const job : newest_first())
    jobs.push_back({&job->view(), job->run_record(), job->runs()});
  std::vector<NodeMetrics> nodes;
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    const Member& member = session_.members()[i];
    NodeMetrics node{.node = member.spec.name, .is_up = member.client != nullptr};
    if (!machines_[i].node.empty()) {
      node.cores = machines_[i].cores;
      node.memory_bytes = machines_[i].memory_bytes;
    }
    nodes.push_back(std::move(node));
  }
  return prometheus_text(cluster_.name, jobs, nodes);
}

Result<LiveJob::LogFile> ClusterWatch::find_log(const LogRequest& request) const {
  const auto job = jobs_.find(request.job);
  if (job == jobs_.end()) {
    return Error{Errc::kUsage, fmt::format("no node has a job '{}'", request.job),
                 "choose a job of the list"};
  }
  const auto file = job->second.log_of(request.process);
  if (!file) {
    return Error{Errc::kUsage,
                 fmt::format("job {} has no log of a process '{}'", request.job, request.process),
                 "choose a process of the job"};
  }
  const Member& member = session_.members()[file->member];
  if (member.client) return *file;
  Error error = member.error.value_or(
      Error{Errc::kUnreachable, fmt::format("node {} does not answer", member.spec.name),
            "the dashboard goes on trying to reach it"});
  error.code = Errc::kUnreachable;  // whatever keeps paddlectl from reading it
  return error;
}

LogTail& ClusterWatch::tail_of(const LogRequest& request, const std::string& path) {
  const std::pair key(request.job, request.process);
  auto found = logs_.find(key);
  if (found != logs_.end() && found->second.tail.path() != path) {
    logs_.erase(found);
    found = logs_.end();
  }
  if (found == logs_.end()) {
    if (logs_.size() >= kLogsKeptMax) {
      logs_.erase(
          std::ranges::min_element(logs_, {}, [](const auto& log) { return log.second.used_at; }));
    }
    found = logs_.emplace(key, KeptLog{LogTail(path)}).first;
  }
  found->second.used_at = context_.clock.now();
  return found->second.tail;
}

void ClusterWatch::read_logs(std::vector<LogRequest> requests) {
  std::vector<Result<LogPart>> answers(
      requests.size(), Error{Errc::kUnreachable, "the node did not answer", "try again"});
  std::map<std::size_t, std::vector<std::size_t>> of_member;  // indices in `requests`
  std::vector<LiveJob::LogFile> files(requests.size());
  std::vector<LogTail*> tails(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto file = find_log(requests[i]);
    if (!file) {
      answers[i] = std::move(file).error();
      continue;
    }
    files[i] = *std::move(file);
    tails[i] = &tail_of(requests[i], files[i].path);
    of_member[files[i].member].push_back(i);
  }
  (void)session_.each([&](Member& member) -> Status {
    const auto asked = of_member.find(session_.index_of(member));
    if (asked == of_member.end()) return {};
    for (const std::size_t i : asked->second) {
      answers[i] = tails[i]->part(*member.client, requests[i].offset, files[i].is_over,
                                  context_.clock.now());
      if (!answers[i] && answers[i].error().code == Errc::kUnreachable) return answers[i].error();
    }
    return {};
  });
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].done(std::move(answers[i]));
}

}  // namespace paddle::cli
