#include "engine/group/engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/log.h"

namespace paddle::collective {
namespace {

constexpr Duration kLinger = std::chrono::milliseconds(500);  // time to send a failure to the peers
constexpr std::size_t kEventsLogged = 32;
constexpr Duration kTellPeriod = std::chrono::seconds(1);
constexpr Duration kPart = std::chrono::seconds(2);  // for all peers to close
// How long a waiting thread spins before it yields its core: a yield takes longer than a small
// exchange.
constexpr Duration kEagerSpin = std::chrono::microseconds(2);
constexpr std::size_t kFewPeers = 4;  // up to so many are read without poll() first
constexpr int kFramesPerTurn = 8;     // frames of a peer before the next one is served

void ring(const UniqueFd& bell) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(bell.get(), &one, sizeof one);
}

// Resets an eventfd.
void silence(const UniqueFd& bell) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(bell.get(), &count, sizeof count);
}

}  // namespace

// Exclusive access to the engine: holds mutex_. If the thread that holds it is asleep in sleep(),
// take() wakes that thread first.
class Engine::Turn {
 public:
  explicit Turn(Engine& engine) : engine_(engine) { take(); }
  ~Turn() { engine_.mutex_.unlock(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // Lets the threads that wait for a Turn go first.
  void share() {
    if (engine_.waiters_ == 0) return;
    engine_.mutex_.unlock();
    while (engine_.waiters_ > 0) std::this_thread::yield();
    take();
  }

 private:
  void take() {
    if (engine_.mutex_.try_lock()) return;
    ++engine_.waiters_;
    if (engine_.sleeps_) ring(engine_.wake_);
    engine_.mutex_.lock();
    --engine_.waiters_;
  }

  Engine& engine_;
};

Result<std::unique_ptr<Engine>> Engine::start(
    GroupCore::Options core, std::vector<std::unique_ptr<net::peer::Connection>> connections,
    Options options) {
  std::unique_ptr<Engine> engine(new Engine(std::move(core), std::move(options)));
  PADDLE_TRY_STATUS(engine->open(std::move(connections)));
  return engine;
}

Engine::~Engine() {
  end();
}

std::uint64_t Engine::post(Operation&& operation) {
  const Turn turn(*this);
  const TimePoint now = clock_now();
  if (abort_is_asked_) take_abort(now);  // sent before an operation that others may not expect
  const std::uint64_t number = core_.post(now, std::move(operation));
  has_changed_ = true;
  for (std::uint32_t rank = 0; rank < core_.size(); ++rank) write(now, rank);
  return number;
}

bool Engine::is_done(std::uint64_t number) {
  const Turn turn(*this);
  if (!core_.is_done(number)) serve(clock_now());
  if (core_.failure()) let_go();
  return core_.is_done(number) || core_.failure().has_value();
}

Status Engine::wait(std::uint64_t number, TimePoint deadline) {
  serves_alone_ = false;
  Turn turn(*this);
  TimePoint spin_until{};
  TimePoint eager_until{};
  for (bool goes_on = true; !core_.is_done(number);) {
    turn.share();
    const TimePoint now = clock_now();
    if (goes_on) {
      spin_until = now + net::kSpin;
      eager_until = now + kEagerSpin;
    }
    if (abort_is_asked_) take_abort(now);
    if (now - ticked_ >= kTick) {
      tick(now);
      tell_awaited(now, core_.holding_up(now), core_.waited(now));
    }
    if (core_.failure()) {
      let_go();
      serve(now);  // sends the cause to the peers
      report();
      return *core_.failure();
    }
    if (now >= deadline) {
      return Error{Errc::kUnreachable,
                   "the deadline passed while it waited for " + core_.waited_for(now)};
    }
    goes_on = serve(now);
    if (goes_on || now < eager_until) continue;
    if (now < spin_until) {
      net::spin_once();
    } else {
      sleep(std::min(deadline, now + kTick));
    }
  }
  return {};
}

BucketMemory Engine::allocate(std::size_t floats) {
  const Turn turn(*this);
  const auto is_memory = [](const Peer& peer) {
    return peer.connection != nullptr && peer.connection->is_memory();
  };
  const bool may_lend = floats > 0 && arrays_ < net::peer::kArraysOfPeerMax;
  if (may_lend && std::ranges::any_of(peers_, is_memory)) {
    if (auto created = net::peer::LentArray::create(floats * sizeof(float))) {
      const auto array = std::make_shared<net::peer::LentArray>(*std::move(created));
      ++arrays_;
      for (Peer& peer : peers_) {
        if (is_memory(peer)) peer.connection->lend(array);
      }
      return BucketMemory(array);
    } else {
      log_info("buckets are copied between the ranks of this host: {}", created.error().message);
    }
  }
  return BucketMemory(LargeArray<float>(floats, 0.0F));
}

std::vector<GroupCore::Facts> Engine::take_facts() {
  const Turn turn(*this);
  std::vector<GroupCore::Facts> facts;
  for (std::uint32_t rank = 0; rank < core_.size(); ++rank) {
    facts.push_back(core_.take_facts(rank));
  }
  has_changed_ = true;
  return facts;
}

void Engine::abort(Error why) {
  {
    const std::scoped_lock lock(abort_mutex_);
    if (!abort_) abort_ = std::move(why);
  }
  abort_is_asked_ = true;
  ring(wake_);
  ring(background_);
}

Status Engine::watch(TimePoint deadline) {
  constexpr std::uint64_t kNeverPosted = UINT64_MAX;
  (void)wait(kNeverPosted, deadline);
  const Turn turn(*this);
  return core_.failure() ? *core_.failure() : Status();
}

void Engine::set_activity(std::string_view activity) {
  const Turn turn(*this);
  core_.set_activity(activity);
  for (std::uint32_t rank = 0; rank < core_.size(); ++rank) write(clock_now(), rank);
}

void Engine::report_waiting(std::span<const std::uint32_t> ranks, Duration waited) {
  const Turn turn(*this);
  tell_awaited(clock_now(), ranks, waited);
}

void Engine::serve_in_background() {
  serves_alone_ = true;
  ring(background_);
}

void Engine::end() {
  if (is_ending_.exchange(true)) return;
  if (thread_.joinable()) {
    ring(background_);
    ring(wake_);
    thread_.join();
  }
  const Turn turn(*this);
  is_parting_ = true;
  take_abort(clock_now());
  const bool has_left = core_.is_leaving() && core_.is_idle();
  if (!has_left) core_.abort(clock_now(), {Errc::kFailed, "it ended without leaving the group"});
  let_go();
  linger();
  part(clock_now() + (has_left ? kPart : kLinger));
  for (Peer& peer : peers_) peer.connection.reset();
  core_.abort(clock_now(), {Errc::kFailed, "the group has ended"});
}

std::vector<Event> Engine::events() {
  const Turn turn(*this);
  return core_.events().events();
}

Status Engine::open(std::vector<std::unique_ptr<net::peer::Connection>> connections) {
  PADDLE_CHECK(connections.size() == core_.size());
  for (auto& connection : connections) peers_.push_back({.connection = std::move(connection)});
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  background_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_ || !background_) return system_error(Errc::kResource, "eventfd");
  if (core_.size() > 1) thread_ = std::thread([this] { run(); });
  return {};
}

// The engine's thread.
void Engine::run() {
  while (!is_ending_) {
    pollfd bell{background_.get(), POLLIN, 0};
    if (::poll(&bell, 1, milliseconds_until(clock_now() + kTick)) > 0) silence(background_);
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) continue;  // a caller serves
    TimePoint spin_until = clock_now();
    while (!is_ending_ && waiters_ == 0) {
      const TimePoint now = clock_now();
      if (abort_is_asked_) take_abort(now);
      if (now - ticked_ >= kTick) tick(now);
      if (serve(now)) {
        spin_until = now + net::kSpin;
        continue;
      }
      if (!serves_alone_ || core_.is_idle() || core_.failure()) break;
      if (now < spin_until) {
        net::spin_once();
      } else {
        sleep(now + kTick);
      }
    }
    if (core_.failure()) report();
  }
}

// Moving frames between the core and the connections, and sleeping while there are none.

// Writes to and reads from every peer once. Returns false if nothing could be done.
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
      // A limit of this rank, no fault of the peer.
      if (!frame && frame.error().code == Errc::kResource) {
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
      if (!peer.is_taking) {  // the frame was dropped; drops all behind it but an abort
        core_.drain(rank);
        continue;
      }
    }
    // No operation waits for more frames, so the kernel is not asked before the next turn.
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
    core_.on_traffic(now, rank);
    goes_on = true;
    ++reads;
  }
  return goes_on;
}

void Engine::lose(TimePoint now, std::uint32_t rank, const Error& why) {
  core_.closed(now, rank, why);
  peers_[rank].connection->let_go();  // the peer may still read lent memory
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
           Error{Errc::kUnreachable, fmt::format("its machine has not answered for {:.1f} s",
                                                 std::chrono::duration<double>(silent).count())});
    } else if (peer.is_paused && !core_.is_leaving() && peer.connection->is_closed()) {
      // The peer has closed without leaving, so it has failed. Its abort may be behind frames that
      // this rank does not want yet: drops those.
      core_.drain(rank);
      has_changed_ = true;
    } else if (const Status lanes = peer.connection->check_lanes(); !peer.is_paused && !lanes) {
      lose(now, rank, lanes.error());
    }
  }
}

void Engine::tell_awaited(TimePoint now, std::span<const std::uint32_t> ranks, Duration waited) {
  if (!options_.on_waiting || waited < kTellPeriod || now - told_ < kTellPeriod) return;
  told_ = now;
  options_.on_waiting(ranks, waited);
}

// Sleeps until a peer is ready, a caller rings wake_, or `until`.
void Engine::sleep(TimePoint until) {
  std::vector<pollfd> items{{wake_.get(), POLLIN, 0}};
  bool may_sleep = !has_changed_;
  for (const Peer& peer : peers_) {
    if (peer.connection == nullptr) continue;
    const bool is_writing = peer.connection->is_writing() && !peer.deaf;
    // A paused peer is not watched: whatever it does can wait until the next tick.
    if (peer.is_paused && !is_writing) continue;
    may_sleep = peer.connection->prepare_sleep(!peer.is_paused) && may_sleep;
    if (!peer.is_paused || peer.connection->is_memory())
      items.push_back({peer.connection->reads_from(), POLLIN, 0});
    if (is_writing && !peer.connection->is_memory())
      items.push_back({peer.connection->writes_to(), POLLOUT, 0});
  }
  if (may_sleep) {
    sleeps_ = true;
    // A thread that came before sleeps_ was set has not rung wake_, so its request is checked here.
    const bool is_wanted = !is_parting_ && (waiters_ > 0 || abort_is_asked_ || is_ending_);
    if (!is_wanted) ::poll(items.data(), items.size(), milliseconds_until(until));
    sleeps_ = false;
    if (items.front().revents != 0) silence(wake_);
  }
  for (const Peer& peer : peers_) {
    if (peer.connection != nullptr) peer.connection->wake();
  }
}

// Ending the group.

void Engine::take_abort(TimePoint now) {
  const std::scoped_lock lock(abort_mutex_);
  if (abort_) core_.abort(now, *abort_);
  abort_is_asked_ = false;
}

// Callers may free the memory of operations once they have seen that the group has failed.
void Engine::let_go() {
  if (std::exchange(has_let_go_, true)) return;
  for (const Peer& peer : peers_) {
    if (peer.connection != nullptr) peer.connection->let_go();
  }
}

// Logs the failure of the group, once. All ranks log it at the same time, so the lines are few.
void Engine::report() {
  if (std::exchange(is_reported_, true)) return;
  const Error& why = *core_.failure();
  log_error("the group has ended: {}", why.message);
  log_info("{}", core_.position(clock_now()));
  // A lost rank cannot report how far it came, so the last events are logged.
  if (why.code == Errc::kUnreachable) {
    for (const std::string& line : core_.events().lines(kEventsLogged)) log_info("{}", line);
  }
  if (options_.events_file.empty()) return;
  std::string text;
  for (const std::string& line : core_.events().lines()) text += line + "\n";
  const Status written = replace_file(options_.events_file, as_bytes(text));
  if (!written)
    log_warning("the events of the group cannot be written: {}", written.error().message);
}

// Sends the cause of the failure to the peers that still read, for at most kLinger.
void Engine::linger() {
  if (!core_.failure()) return;
  const TimePoint end = clock_now() + kLinger;
  for (;;) {
    bool is_over = true;
    for (std::uint32_t rank = 0; rank < core_.size(); ++rank) {
      peers_[rank].is_ready = judges_again_ = true;
      read(clock_now(), rank);
      write(clock_now(), rank);
      const Peer& peer = peers_[rank];
      is_over =
          is_over && (peer.connection == nullptr || peer.deaf || !peer.connection->is_writing());
    }
    has_changed_ = false;
    if (is_over || clock_now() >= end) return;
    sleep(std::min(end, clock_now() + kTick));
  }
}

// Ends sending, and reads until the peers have closed too: a close with unread frames would reset a
// connection, and the peer could lose our last frames.
void Engine::part(TimePoint end) {
  for (const Peer& peer : peers_) {
    if (peer.connection != nullptr) peer.connection->end();
  }
  const auto is_open = [](const Peer& peer) { return peer.connection != nullptr; };
  while (std::ranges::any_of(peers_, is_open) && clock_now() < end) {
    has_changed_ = false;
    for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
      peers_[rank].is_ready = judges_again_ = true;
      read(clock_now(), rank);
    }
    if (std::ranges::any_of(peers_, is_open)) sleep(std::min(end, clock_now() + kTick));
  }
}

}  // namespace paddle::collective
