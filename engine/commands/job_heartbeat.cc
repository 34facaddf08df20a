#include "engine/commands/job_heartbeat.h"

#include <fmt/format.h>

#include "base/log.h"
#include "engine/commands/supervision.h"
#include "engine/net/identity.h"

namespace paddle::commands {
namespace {

std::string name_of(NodeId peer) {
  return fmt::format("{} {}", peer.role == Role::kPserver ? "pserver" : "trainer", peer.index);
}

std::chrono::milliseconds milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration);
}

HeartbeatThreadPtr start(heartbeat::HeartbeatThread::Options options) {
  options.on_dead = [act = std::move(options.on_dead)](const heartbeat::Silence& silence) {
    log_warning("{}", silence_text(silence));
    notify_silence(silence.peer.index, milliseconds(silence.lasted));
    if (act) act(silence);
  };
  options.on_again = [](NodeId peer) {
    log_warning("heartbeats of {} arrive again", name_of(peer));
  };
  auto started = heartbeat::HeartbeatThread::start(std::move(options));
  if (started) return *std::move(started);
  log_warning("heartbeats are off: {}", started.error().message);
  return nullptr;
}

}  // namespace

std::string silence_text(const heartbeat::Silence& silence) {
  return fmt::format("no heartbeat of {} for {:.1f} s", name_of(silence.peer),
                     std::chrono::duration<double>(silence.lasted).count());
}

HeartbeatThreadPtr start_heartbeats(const trainer::TrainOptions& options,
                                    client::ParameterClient& client, bool comes_back) {
  if (options.key_file.empty() || options.local) return nullptr;
  if (options.pservers.empty()) return nullptr;  // the group notices lost ranks itself
  auto keys = JobKeys::read(options.key_file);
  auto servers = client::pserver_endpoints(options);
  if (!keys || !servers) return nullptr;  // impossible: joining has read both
  const auto on_dead = [&client, comes_back](const heartbeat::Silence& silence) {
    if (comes_back) client.interrupt(Error{Errc::kUnreachable, silence_text(silence)});
  };
  // While the trainer waits for one pserver, it would not notice that another has lost its
  // parameters.
  const auto on_restart = [&client, comes_back](NodeId pserver) {
    const std::string text = fmt::format("pserver {} was restarted", pserver.index);
    log_warning("{}", text);
    if (comes_back) client.interrupt(Error{Errc::kUnreachable, text});
  };
  return start({.keys = *std::move(keys),
                .self = {Role::kTrainer, options.trainer_id},
                .incarnation = options.incarnation,
                .job_tag = net::job_tag_of(options.job_tag),
                .servers = *std::move(servers),
                .on_dead = on_dead,
                .on_restart = on_restart});
}

HeartbeatThreadPtr start_heartbeats(const std::string& key_file,
                                    heartbeat::HeartbeatThread::Options options) {
  if (key_file.empty()) return nullptr;
  auto keys = JobKeys::read(key_file);
  if (!keys) return nullptr;
  options.keys = *std::move(keys);
  return start(std::move(options));
}

void note_silences(const heartbeat::HeartbeatThread* thread, wire::Progress& progress) {
  if (thread == nullptr) return;
  for (const heartbeat::Silence& silence : thread->silences()) {
    wire::Silent& silent = *progress.add_silent();
    silent.set_index(silence.peer.index);
    silent.set_ms(static_cast<std::uint64_t>(milliseconds(silence.lasted).count()));
  }
}

}  // namespace paddle::commands
