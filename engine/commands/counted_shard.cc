#include "engine/commands/counted_shard.h"

#include <unistd.h>

#include <csignal>

#include "base/log.h"
#include "engine/commands/job_heartbeat.h"
#include "engine/commands/supervision.h"

namespace paddle::commands {
namespace {

constexpr Duration kMetricsPeriod = std::chrono::seconds(10);
constexpr Duration kReportPeriod = std::chrono::seconds(1);

}  // namespace

CountedShard::CountedShard(const pserver::ShardOptions& options, std::uint32_t port,
                           Duration first_trainer_within, std::atomic<std::uint32_t>& unfinished,
                           trainer::MetricsFile& metrics)
    : shard_(options),
      port_(port),
      is_sparse_(options.is_sparse),
      unfinished_(unfinished),
      metrics_(metrics),
      first_trainer_within_(first_trainer_within),
      begun_(std::chrono::steady_clock::now()),
      measured_at_(begun_) {}

void CountedShard::on_frame(TimePoint now, net::PeerId from, Frame&& frame,
                            std::vector<net::Outgoing>& out) {
  if (frame.header.sender.role != Role::kReader) is_lonely_ = false;
  shard_.on_frame(now, from, std::move(frame), out);
  log_layout();
  count();
}

void CountedShard::on_disconnect(TimePoint now, net::PeerId from, std::vector<net::Outgoing>& out) {
  shard_.on_disconnect(now, from, out);
  count();
}

void CountedShard::on_tick(TimePoint now, std::vector<net::Outgoing>& out) {
  shard_.on_tick(now, out);
  takes_back_trainers_ = shard_.takes_back_trainers();
  count();
  if (now - measured_at_ >= kMetricsPeriod) measure(now);
  if (reports_ && now - reported_at_ >= kReportPeriod) report(now);
}

void CountedShard::log_layout() {
  const table::DenseTable* const table = shard_.dense();
  if (has_logged_ || table == nullptr) return;
  has_logged_ = true;
  log_info("port {} holds {} blocks, {} bytes with the optimizer's state", port_, table->blocks(),
           table->size() * (1 + table->state_width()) * sizeof(float));
}

void CountedShard::measure(TimePoint now) {
  measured_at_ = now;
  const pserver::ShardStatistics all = shard_.statistics();
  JsonObject fields;
  fields.add("port", port_).add("sparse", is_sparse_ ? 1 : 0);
  fields.add("rows", all.rows).add("bytes", all.bytes);
  fields.add("pushes", all.pushes).add("batches", all.batches).add("lags", all.lags);
  metrics_.write("pserver", fields);
}

void CountedShard::report(TimePoint now) {
  reported_at_ = now;
  wire::Progress progress;
  progress.set_updates(shard_.statistics().batches);
  if (const auto awaited = shard_.awaited()) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - awaited->since);
    progress.set_awaited_since_unix_ms(unix_milliseconds() - waited.count());
    for (const std::uint32_t trainer : awaited->trainers) progress.add_awaited_trainers(trainer);
  }
  note_silences(heartbeats_, progress);
  notify_progress(std::move(progress));
}

bool CountedShard::is_abandoned() const {
  return is_lonely_ && first_trainer_within_ > Duration() &&
         std::chrono::steady_clock::now() - begun_ > first_trainer_within_;
}

void CountedShard::count() {
  if (counted_ || !(shard_.finished() || is_abandoned())) return;
  counted_ = true;
  measure(std::chrono::steady_clock::now());  // the final state
  // A failure on one port ends the job on all ports: trainers may never have connected to the
  // others, and would be refused by this one after every restart.
  const bool has_failed = !shard_.failure().empty();
  std::uint32_t left = unfinished_;
  while (left > 0 && !unfinished_.compare_exchange_weak(left, has_failed ? 0 : left - 1)) {
  }
  if (has_failed ? left > 0 : left == 1) ::kill(::getpid(), SIGTERM);
}

}  // namespace paddle::commands
