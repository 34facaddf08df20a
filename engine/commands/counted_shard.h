// A pserver's port: its shard, with reports to the metrics and the supervisor.
#pragma once

#include <atomic>
#include <string>

#include "engine/net/heartbeat_thread.h"
#include "engine/pserver/shard.h"
#include "engine/trainer/metrics.h"

namespace paddle::commands {

// Used only by the port's thread. SIGTERM wakes the main thread: it is sent to the process by the
// last shard whose part of the job is over, or by the first shard that fails.
class CountedShard final : public net::FrameHandler {
 public:
  // `first_trainer_within`: zero for no limit. `unfinished` counts the ports that are not over.
  CountedShard(const pserver::ShardOptions& options, std::uint32_t port,
               Duration first_trainer_within, std::atomic<std::uint32_t>& unfinished,
               trainer::MetricsFile& metrics);

  void on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                std::vector<net::Outgoing>& out) override;
  void on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) override;
  void on_tick(TimePoint now, std::vector<net::Outgoing>& out) override;

  // Makes this port report for the whole process; one is enough, because the rounds of all ports
  // wait for the same trainers.
  void report_to_supervisor(const heartbeat::HeartbeatThread* heartbeats) {
    reports_ = true;
    heartbeats_ = heartbeats;
  }
  // See Shard. Any thread may call it.
  bool takes_back_trainers() const { return takes_back_trainers_; }
  std::string failure() const { return shard_.failure(); }
  Errc exit_code() const { return shard_.exit_code(); }
  bool is_lonely() const { return is_lonely_; }

 private:
  // Logs once, when the first trainer has described the parameters.
  void log_layout();
  void measure(TimePoint now);
  void report(TimePoint now);
  bool is_abandoned() const;
  void count();

  pserver::Shard shard_;
  std::uint32_t port_;
  bool is_sparse_;
  std::atomic<std::uint32_t>& unfinished_;
  trainer::MetricsFile& metrics_;
  Duration first_trainer_within_;
  TimePoint begun_;
  TimePoint measured_at_;
  bool reports_ = false;
  const heartbeat::HeartbeatThread* heartbeats_ = nullptr;
  TimePoint reported_at_;
  bool is_lonely_ = true;  // no trainer has ever sent a frame
  bool has_logged_ = false;
  std::atomic<bool> takes_back_trainers_ = false;
  bool counted_ = false;
};

}  // namespace paddle::commands
