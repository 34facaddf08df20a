// Frames between the core of a group and its connections, and the thread's sleep between them.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/log.h"
#include "engine/collective/engine.h"

namespace paddle::collective {
namespace {

constexpr std::size_t kFewPeers = 4;  // so many are read without asking poll() first
constexpr int kFramesPerTurn = 8;     // of one peer, before the others have their turn

}  // namespace

// One turn for every peer. False: nothing could be done.
bool Engine::serve(TimePoint now) {
  if (peers_.size() > kFewPeers) look();
  judges_again_ = std::exchange(has_changed_, false);
  bool goes_on = false;
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (write(now, rank)) goes_on = true;
    if (read(now, rank)) goes_on = true;
  }
  return goes_on;
}

// Asks the kernel once which peers have sent something.
void Engine::look() {
  std::vector<pollfd> items(peers_.size(), {-1, POLLIN, 0});
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const auto& connection = peers_[rank].connection;
    if (connection != nullptr && !connection->is_memory())
      items[rank].fd = connection->reads_from();
  }
  ::poll(items.data(), items.size(), 0);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    const auto& connection = peers_[rank].connection;
    peers_[rank].is_ready = items[rank].fd < 0 || items[rank].revents != 0 ||
                            (connection != nullptr && connection->has_read_ahead());
  }
}

bool Engine::write(TimePoint now, std::uint32_t rank) {
  auto& connection = peers_[rank].connection;
  if (connection == nullptr || peers_[rank].deaf) return false;
  bool goes_on = false;
  for (int frames = 0; frames < kFramesPerTurn; ++frames) {
    if (connection->can_begin()) {
      auto frame = core_.next(rank);
      if (!frame && !connection->is_writing()) return goes_on;
      if (frame) connection->begin(frame->header, std::move(frame->head), frame->tail);
    }
    const std::size_t left = connection->left();
    const auto finished = connection->flush();
    if (!finished && finished.error().code == Errc::kData) {
      lose(now, rank, finished.error());
      return true;
    }
    if (!finished) {
      peers_[rank].deaf = finished.error();
      peers_[rank].is_ready = true;
      return true;
    }
    const bool has_moved = *finished > 0 || connection->left() < left;
    for (std::size_t i = 0; i < *finished; ++i) core_.sent(now, rank);
    has_changed_ = has_changed_ || *finished > 0;
    goes_on = goes_on || has_moved;
    if (!has_moved || connection->left() > 0) return goes_on;
  }
  return goes_on;
}

bool Engine::read(TimePoint now, std::uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.connection == nullptr) return false;
  if (peer.is_paused && !judges_again_) return false;
  bool goes_on = false;
  for (int reads = 0; reads < kFramesPerTurn;) {
    if (!peer.is_taking) {
      const auto header = peer.connection->peek();
      if (!header) {
        lose(now, rank, header.error());
        return true;
      }
      if (*header != nullptr) {
        const GroupCore::Verdict verdict = core_.judge(now, rank, **header);
        peer.is_paused = verdict == GroupCore::Verdict::kLater;
        if (verdict != GroupCore::Verdict::kTake) return goes_on;
        peer.is_taking = true;
      }
    }
    if (peer.is_taking) {
      auto frame = peer.connection->next(
          [&](const FrameHeader& of, std::string_view /*head*/, std::size_t tail_bytes) {
            const auto place = core_.place(rank, of, tail_bytes);
            return place.empty() ? std::vector<std::span<std::byte>>() : std::vector{place};
          });
      if (!frame && frame.error().code == Errc::kResource) {  // this rank's own limit
        core_.abort(now, frame.error());
        core_.drain(rank);
        peer.is_taking = false;
        return true;
      }
      if (!frame) {
        lose(now, rank, frame.error());
        return true;
      }
      if (*frame) {
        peer.is_taking = false;
        core_.received(now, rank, std::move(**frame));
        has_changed_ = true;
        goes_on = true;
        continue;
      }
      peer.is_taking = peer.connection->is_in_frame();
      if (!peer.is_taking) {  // it was dropped, and so is all behind it but the reason
        core_.drain(rank);
        continue;
      }
    }
    // Nobody waits for more: it is for the next turn to ask the kernel.
    if (goes_on && core_.is_idle()) return true;
    if (!peer.is_ready && !peer.connection->has_read_ahead()) return goes_on;
    const auto count = peer.connection->read(core_.likely_place(rank));
    if (!count) {
      lose(now, rank, count.error());
      return true;
    }
    if (*count == 0 && peer.deaf) {
      lose(now, rank, *peer.deaf);
      return true;
    }
    if (*count == 0) return goes_on;
    core_.heard(now, rank);
    goes_on = true;
    ++reads;
  }
  return goes_on;
}

void Engine::lose(TimePoint now, std::uint32_t rank, const Error& why) {
  core_.closed(now, rank, why);
  peers_[rank].connection->let_go();  // it may be reading what was lent to it
  peers_[rank].connection.reset();
}

void Engine::tick(TimePoint now) {
  ticked_ = now;
  if (options_.stop_asked && !core_.failure() && options_.stop_asked()) {
    core_.abort(now, Error{Errc::kInterrupted, "stopped"});
  }
  for (const std::string& line : core_.on_tick(now)) log_warning("{}", line);
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (peer.connection == nullptr) continue;
    const Duration silent = peer.connection->unacknowledged(now);
    if (silent >= options_.lost_after) {
      lose(now, rank,
           Error{Errc::kUnreachable, fmt::format("its machine has answered nothing for {:.1f} s",
                                                 std::chrono::duration<double>(silent).count())});
    } else if (peer.is_paused && !core_.is_leaving() && peer.connection->is_closed()) {
      // It can have left only with an error. Behind the frames that nobody wants yet may be why.
      core_.drain(rank);
      has_changed_ = true;
    } else if (const Status lanes = peer.connection->check_lanes(); !peer.is_paused && !lanes) {
      lose(now, rank, lanes.error());
    }
  }
}

// Until a peer, a caller or `until` comes.
void Engine::sleep(TimePoint until) {
  std::vector<pollfd> items{{wake_.get(), POLLIN, 0}};
  bool may_sleep = !has_changed_;
  for (const Peer& peer : peers_) {
    if (peer.connection == nullptr) continue;
    const bool is_writing = peer.connection->is_writing() && !peer.deaf;
    // A paused peer is not watched: all that it may do can wait until the next tick.
    if (peer.is_paused && !is_writing) continue;
    may_sleep = peer.connection->prepare_sleep(!peer.is_paused) && may_sleep;
    if (!peer.is_paused || peer.connection->is_memory())
      items.push_back({peer.connection->reads_from(), POLLIN, 0});
    if (is_writing && !peer.connection->is_memory())
      items.push_back({peer.connection->writes_to(), POLLOUT, 0});
  }
  if (may_sleep) {
    sleeps_ = true;
    // Whoever came before it could see that we sleep has not rung.
    const bool is_wanted = !is_parting_ && (waiters_ > 0 || abort_is_asked_ || is_ending_);
    if (!is_wanted) ::poll(items.data(), items.size(), milliseconds_until(until));
    sleeps_ = false;
    if (items.front().revents != 0) silence(wake_);
  }
  for (const Peer& peer : peers_) {
    if (peer.connection != nullptr) peer.connection->wake();
  }
}

}  // namespace paddle::collective
