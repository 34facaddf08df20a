// Live over the nodes of a cluster: one thread looks at all nodes, every two seconds while a viewer
// is there and every fifteen otherwise. Whatever a viewer asks for is answered from memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/cluster/cluster_session.h"
#include "cli/cluster/context.h"
#include "cli/dashboard/cluster_watch.h"
#include "cli/dashboard/live.h"
#include "cli/dashboard/live_store.h"
#include "cli/dashboard/record_slots.h"

namespace paddle::cli {

class LiveCluster final : public Live {
 public:
  // Connects to the nodes in the background, and prepares none. `context` must outlive this object;
  // its console is not used. Commands that started jobs are read from `output` in its directory.
  LiveCluster(const Context& context, ClusterSpec cluster);
  // Ends what is in progress. Waits for attempts to connect, for 20 seconds or --timeout at most.
  ~LiveCluster() override;
  LiveCluster(const LiveCluster&) = delete;
  LiveCluster& operator=(const LiveCluster&) = delete;

  LiveUpdate since(const std::string& job, std::uint64_t seen) override;
  void on_change(std::function<void()> call) override;
  void log(const std::string& job, const std::string& process, std::optional<std::uint64_t> offset,
           std::function<void(Result<LogPart>)> done) override;
  // Runs on a thread and with connections of its own, as the command of the same name does.
  void change(const std::string& job, const std::string& process, Change change,
              std::function<void(Result<std::string>)> done) override;
  std::string metrics() override;

 private:
  struct ChangeThread {
    std::atomic<bool> is_over = false;
    std::thread thread;
  };

  void run();
  LiveStore::Look look();
  // Waits until the next look is due, and answers requests for logs meanwhile; some of them also
  // if it is due at once.
  void wait_for_next_look(TimePoint looked);
  // Takes the oldest ones, at most kLogsKeptMax. REQUIRES: mutex_ is held.
  std::vector<LogRequest> next_log_requests();
  void note_viewer(const std::string& job);
  void look_soon();
  void pause(Duration limit);
  Result<std::string> carry_out(const std::string& job, const std::string& process, Change change);
  Result<std::string> stop(Context& context, ClusterSession& session, const std::string& job,
                           bool now);
  Result<std::string> restart(Context& context, ClusterSession& session, const std::string& job,
                              const std::string& process);

  // The context of our threads: without output, and its pauses end with this object.
  std::ostringstream unseen_;
  Console console_{unseen_, unseen_, {}};
  Context context_;
  ClusterSpec cluster_;
  LiveStore store_;
  ClusterWatch watch_;  // used by thread_ alone

  std::atomic<bool> is_over_ = false;
  std::mutex mutex_;  // guards the members below, but for calling_
  std::condition_variable changed_;
  bool looks_soon_ = false;          // a viewer wants what was not looked at
  std::optional<TimePoint> viewed_;  // when a viewer last asked for anything
  RecordSlots slots_;
  std::vector<LogRequest> log_requests_;
  std::list<ChangeThread> changes_;

  std::mutex calling_;  // held during call_
  std::function<void()> call_;

  std::thread thread_;
};

}  // namespace paddle::cli
