// A Live whose state a test sets.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cli/dashboard/live.h"

namespace paddle::test {

class FakeLive final : public cli::Live {
 public:
  ~FakeLive() override {
    for (std::thread& thread : threads_) thread.join();
  }

  // A new version with these texts of the cluster and of the job "digits".
  void put(const std::string& cluster, const std::string& job) {
    std::function<void()> call;
    {
      const std::scoped_lock lock(mutex_);
      ++version_;
      if (cluster != cluster_) cluster_changed_ = version_;
      if (job != job_) job_changed_ = version_;
      cluster_ = cluster;
      job_ = job;
    }
    const std::scoped_lock lock(call_mutex_);
    if (call_) call_();
  }

  cli::LiveUpdate since(const std::string& job, std::uint64_t seen) override {
    const std::scoped_lock lock(mutex_);
    ++looks_;
    cli::LiveUpdate update{.version = version_, .events = {}};
    if (version_ == 0) return update;
    if (seen > version_) seen = 0;
    if (cluster_changed_ > seen) update.events.emplace_back("cluster", cluster_);
    if (job == "digits" && job_changed_ > seen) update.events.emplace_back("job", job_);
    if (!job.empty() && job != "digits" && seen == 0)
      update.events.emplace_back("gone", fmt::format("{{\"job\":\"{}\"}}", job));
    return update;
  }
  void on_change(std::function<void()> call) override {
    const std::scoped_lock lock(call_mutex_);
    call_ = std::move(call);
  }
  void log(const std::string& job, const std::string& process, std::optional<std::uint64_t> offset,
           std::function<void(Result<cli::LogPart>)> done) override {
    record(fmt::format("log {} {} {}", job, process, offset ? fmt::format("{}", *offset) : "end"));
    later([this, process, offset, done = std::move(done)] {
      if (process != "trainer-0")
        return done(Error{Errc::kUsage, "there is no process " + process, "see paddlectl status"});
      const std::scoped_lock lock(mutex_);
      if (log_part_ > 0) return done(part_of_long_log(offset));
      done(cli::LogPart{.offset = 7, .next = 7 + log_.size(), .size = 1000, .text = log_});
    });
  }
  void change(const std::string& job, const std::string& process, cli::Change change,
              std::function<void(Result<std::string>)> done) override {
    const char* const names[] = {"stop", "stop now", "restart"};
    record(fmt::format("{} {} {}", names[static_cast<int>(change)], job, process));
    later([this, job, done = std::move(done)] {
      if (job == "ended") return done(Error{Errc::kFailed, "it has ended", ""});
      if (job == "busy") return done(Error{Errc::kResource, "too many requests", ""});
      if (job != "digits") return done(Error{Errc::kUsage, "there is no job " + job, ""});
      done(std::string("digits is stopping"));
    });
  }
  std::string metrics() override { return "# TYPE paddle_job_running gauge\n"; }

  void set_log(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    log_ = text;
  }
  // A log that is read in parts of whole lines, of so many bytes at most.
  void set_long_log(const std::string& text, std::size_t part) {
    const std::scoped_lock lock(mutex_);
    log_ = text;
    log_part_ = part;
  }
  // The calls of log() and change(), in words.
  std::vector<std::string> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  std::size_t looks() const {
    const std::scoped_lock lock(mutex_);
    return looks_;
  }

 private:
  cli::LogPart part_of_long_log(std::optional<std::uint64_t> offset) const {
    const std::size_t last = log_.size() - std::min(log_.size(), log_part_);
    const std::size_t begin = offset ? *offset : log_.find('\n', last) + 1;
    std::string text = log_.substr(std::min(begin, log_.size()), log_part_);
    text.resize(text.rfind('\n') + 1);
    return {begin, begin + text.size(), log_.size(), text};
  }
  void record(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    asked_.push_back(text);
  }
  // On another thread, as answers of nodes come.
  void later(std::function<void()> call) {
    const std::scoped_lock lock(call_mutex_);
    threads_.emplace_back(std::move(call));
  }

  mutable std::mutex mutex_;
  std::mutex call_mutex_;
  std::function<void()> call_;
  std::uint64_t version_ = 0, cluster_changed_ = 0, job_changed_ = 0;
  std::size_t looks_ = 0;
  std::string cluster_, job_, log_;
  std::size_t log_part_ = 0;
  std::vector<std::string> asked_;
  std::vector<std::thread> threads_;
};

}  // namespace paddle::test
