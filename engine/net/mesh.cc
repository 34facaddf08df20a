#include "engine/net/mesh.h"

#include <poll.h>

#include <algorithm>
#include <list>
#include <map>

#include <fmt/format.h>

#include "base/log.h"
#include "base/rng.h"

namespace paddle::net::peer {
namespace {

constexpr Duration kBackoffMin = std::chrono::milliseconds(20);
constexpr Duration kBackoffMax = std::chrono::milliseconds(500);
// A call without an answer is abandoned and repeated: if a flood keeps a port's queue full, the
// kernel would repeat the SYN only after 1, 3 and 7 seconds.
constexpr Duration kPatienceMin = std::chrono::milliseconds(250);
constexpr Duration kPatienceMax = std::chrono::seconds(2);  // even a slow network answers within it
// Longest wait between calls of stop_asked().
constexpr Duration kLook = std::chrono::milliseconds(50);
constexpr Duration kRefusalLogPeriod = std::chrono::seconds(1);

TimePoint now() {
  return SteadyClock().now();
}

// The connection with one other rank while it is set up: first one socket, which both ends have
// proven, then its further lanes.
class Arrival {
 public:
  // `lanes`: the number of lanes of the complete connection, unless it shares memory.
  explicit Arrival(std::uint32_t lanes) : lanes_(lanes) {}

  const Connection* connection() const { return connection_.get(); }
  // The transcript of the handshake of its first lane.
  const Transcript& first() const { return first_; }
  // The number of the next missing lane: 0 if there is no connection yet, nullopt if all lanes have
  // arrived.
  std::optional<std::uint8_t> missing() const;
  bool lacks(std::uint8_t lane) const;

  // Starts again with the first lane from this handshake.
  void begin(Handshake& handshake);
  void add(std::uint8_t number, Lane lane);
  // Drops further lanes that have ended; if the first lane has ended, drops all and returns true.
  bool drop_closed();
  std::unique_ptr<Connection> take() { return std::move(connection_); }

 private:
  std::uint32_t lanes_;
  std::unique_ptr<Connection> connection_;
  Transcript first_;
  // Lanes from 1, until all are there and the connection owns them.
  std::vector<std::optional<Lane>> others_;
};

std::optional<std::uint8_t> Arrival::missing() const {
  if (connection_ == nullptr) return std::uint8_t{0};
  for (std::size_t i = 0; i < others_.size(); ++i) {
    if (!others_[i]) return static_cast<std::uint8_t>(i + 1);
  }
  return std::nullopt;
}

bool Arrival::lacks(std::uint8_t lane) const {
  return connection_ != nullptr && lane > 0 && lane <= others_.size() && !others_[lane - 1U];
}

void Arrival::begin(Handshake& handshake) {
  first_ = handshake.transcript();
  connection_ = handshake.take();
  others_.clear();
  if (!connection_->is_memory()) others_.resize(lanes_ - 1);
}

void Arrival::add(std::uint8_t number, Lane lane) {
  PADDLE_CHECK(lacks(number));
  others_[number - 1U] = std::move(lane);
  if (missing()) return;
  std::vector<Lane> lanes;
  for (auto& other : std::exchange(others_, {})) lanes.push_back(*std::move(other));
  connection_->widen(std::move(lanes));
}

bool Arrival::drop_closed() {
  if (connection_ != nullptr && connection_->is_closed()) {
    connection_.reset();
    others_.clear();
    return true;
  }
  for (auto& lane : others_) {
    if (lane && is_hung_up(lane->fd.get())) lane.reset();
  }
  return false;
}

// The calls to a lower rank, one at a time. The call waits for next_try, or `connecting` or
// `handshake` is set.
struct Call {
  std::uint32_t rank = 0;
  TimePoint next_try{};
  Duration backoff = kBackoffMin;
  TimePoint began{};
  UniqueFd connecting = {};
  std::unique_ptr<Handshake> handshake = {};
  std::string last_failure = {};
};

// A caller that has not proven itself. Its handshake begins when bytes arrive, so a silent caller
// costs only a descriptor.
struct Caller {
  CallerSource source{};
  TimePoint since{};
  UniqueFd socket;  // until it sends something
  std::unique_ptr<Handshake> handshake = {};
};

class Mesh {
 public:
  explicit Mesh(const MeshOptions& options) : options_(options), rng_(options.self.job_tag) {
    for (std::size_t i = 0; i < options.endpoints.size(); ++i) {
      arrivals_.emplace_back(options.self.lanes);
    }
    self_ = *rank_of(options.self.id.index);
    for (std::uint32_t rank = 0; rank < self(); ++rank) calls_.push_back({.rank = rank});
  }

  Result<std::vector<std::unique_ptr<Connection>>> run(TimePoint deadline) {
    while (!is_complete()) {
      if (options_.stop_asked && options_.stop_asked()) {
        return Error{Errc::kInterrupted, "stopped before " + missing() + " connected"};
      }
      if (now() >= deadline) {
        return Error{Errc::kUnreachable, missing() + " did not connect before the deadline"};
      }
      drop_closed();
      for (Call& call : calls_) {
        if (arrivals_[call.rank].missing()) PADDLE_TRY_STATUS(advance(call));
      }
      accept_callers();
      PADDLE_TRY_STATUS(advance_callers());
      if (!is_complete()) wait(deadline);
    }
    std::vector<std::unique_ptr<Connection>> connections;
    for (Arrival& arrival : arrivals_) connections.push_back(arrival.take());
    return connections;
  }

 private:
  std::uint32_t self() const { return self_; }
  std::uint32_t id_of(std::uint32_t rank) const {
    return options_.ids.empty() ? rank : options_.ids[rank];
  }
  std::optional<std::uint32_t> rank_of(std::uint32_t id) const {
    for (std::uint32_t rank = 0; rank < arrivals_.size(); ++rank) {
      if (id_of(rank) == id) return rank;
    }
    return std::nullopt;
  }
  bool is_complete() const {
    for (std::uint32_t rank = 0; rank < arrivals_.size(); ++rank) {
      if (rank != self() && arrivals_[rank].missing()) return false;
    }
    return true;
  }

  // A rank whose connection has ended while others are missing may be restarted and connect again.
  void drop_closed() {
    for (std::uint32_t rank = 0; rank < arrivals_.size(); ++rank) {
      if (!arrivals_[rank].drop_closed() || rank >= self()) continue;
      calls_[rank].connecting.reset();
      calls_[rank].handshake.reset();
    }
  }

  // "rank 1 (node b) [connect: Connection refused], lane 2 of rank 3 (node d)"
  std::string missing() const {
    std::string text;
    for (std::uint32_t rank = 0; rank < arrivals_.size(); ++rank) {
      const auto lane = arrivals_[rank].missing();
      if (rank == self() || !lane) continue;
      if (!text.empty()) text += ", ";
      if (*lane > 0) text += fmt::format("lane {} of ", *lane);
      text += options_.names[rank];
      if (rank < self() && !calls_[rank].last_failure.empty()) {
        text += fmt::format(" [{}]", calls_[rank].last_failure);
      }
    }
    return text;
  }

  Status advance(Call& call) {
    const auto outcome = try_call(call);
    if (outcome) return {};
    const Error& error = outcome.error();
    // The keys differ, or another job or program uses the port: a retry does not help.
    if (error.code == Errc::kUsage) return error;
    if (error.code != Errc::kUnreachable) return Error(error).with(options_.names[call.rank]);
    call.last_failure = error.message;
    call.connecting.reset();
    call.handshake.reset();
    const auto half = static_cast<double>((call.backoff / 2).count());
    call.next_try =
        now() + call.backoff / 2 + Duration(static_cast<std::int64_t>(rng_.uniform() * half));
    call.backoff = std::min(2 * call.backoff, kBackoffMax);
    return {};
  }

  Status try_call(Call& call) {
    if (!call.connecting && call.handshake == nullptr) {
      if (now() < call.next_try) return {};
      PADDLE_TRY(call.connecting, begin_call(options_.endpoints[call.rank]));
      call.began = now();
    }
    if (call.connecting) {
      PADDLE_TRY(const bool connects, is_connected(call.connecting.get()));
      if (!connects) {
        const Duration patience = std::clamp(4 * call.backoff, kPatienceMin, kPatienceMax);
        if (now() - call.began < patience) return {};
        return Error{Errc::kUnreachable, "connect: no answer"};
      }
      PADDLE_TRY(call.handshake, shake_hands(call.rank, std::move(call.connecting)));
    }
    PADDLE_TRY(const bool is_done, call.handshake->advance(now()));
    if (!is_done) return {};
    const std::unique_ptr<Handshake> done = std::move(call.handshake);
    call.backoff = kBackoffMin;
    if (done->lane() == 0) return begin(call.rank, *done);
    PADDLE_TRY(Lane lane, done->take_lane());
    arrivals_[call.rank].add(done->lane(), std::move(lane));
    return {};
  }

  Result<std::unique_ptr<Handshake>> shake_hands(std::uint32_t rank, UniqueFd socket) const {
    const Arrival& arrival = arrivals_[rank];
    const std::uint8_t lane = *arrival.missing();
    if (lane > 0) {
      return Handshake::call_lane(options_.self, arrival.first(), lane, std::move(socket), now());
    }
    const NodeId server{options_.self.id.role, id_of(rank)};
    return Handshake::call(options_.self, server, std::move(socket), now());
  }

  Status begin(std::uint32_t rank, Handshake& handshake) {
    if (handshake.lanes() != options_.self.lanes) {
      return Error{Errc::kUsage,
                   fmt::format("{} has lanes = {}, but {} has lanes = {}", options_.names[rank],
                               handshake.lanes(), options_.names[self()], options_.self.lanes)};
    }
    arrivals_[rank].begin(handshake);
    return {};
  }

  void accept_callers() {
    for (std::size_t i = 0; i < kAcceptsPerLook; ++i) {
      auto accepted = next_caller(options_.listener);
      if (!accepted) return;
      if (callers_.size() == kUnprovenCallersMax) evict_caller();
      ++callers_by_source_[accepted->source];
      callers_.push_back({accepted->source, now(), std::move(accepted->socket)});
    }
  }

  // An honest caller sends at once and proves itself within a few rounds. Evicts a caller of the
  // address with most callers: the oldest silent one, else the oldest.
  void evict_caller() {
    std::size_t most = 0;
    for (const auto& [source, count] : callers_by_source_) most = std::max(most, count);
    auto victim = callers_.end();
    for (auto caller = callers_.begin(); caller != callers_.end(); ++caller) {
      if (callers_by_source_.at(caller->source) < most) continue;
      if (victim == callers_.end()) victim = caller;
      if (caller->handshake != nullptr) continue;
      victim = caller;
      break;
    }
    remove(victim);
  }

  std::list<Caller>::iterator remove(std::list<Caller>::iterator caller) {
    const auto count = callers_by_source_.find(caller->source);
    if (--count->second == 0) callers_by_source_.erase(count);
    return callers_.erase(caller);
  }

  // True once the caller is proven; an error is final.
  Result<bool> advance(Caller& caller) {
    if (caller.handshake == nullptr) {
      pollfd item{caller.socket.get(), POLLIN, 0};
      if (::poll(&item, 1, 0) <= 0) {
        if (now() - caller.since < kHandshakeDeadline) return false;
        return Error{Errc::kUnreachable, "handshake deadline passed"};
      }
      PADDLE_TRY(caller.handshake,
                 Handshake::accept(options_.self, std::move(caller.socket), caller.since));
    }
    return caller.handshake->advance(now());
  }

  Status advance_callers() {
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      const auto is_done = advance(*caller);
      if (is_done && !*is_done) {
        ++caller;
        continue;
      }
      if (is_done) {
        PADDLE_TRY_STATUS(admit(*caller->handshake));
      } else if (is_done.error().code == Errc::kAuth) {
        log_refused(fmt::format("a connection to {} is refused: {}", options_.names[self()],
                                is_done.error().message));
      }
      caller = remove(caller);
    }
    return {};
  }

  // The connection of a later incarnation replaces that of an earlier one. A second call of the
  // same incarnation replaces the first, which the caller has abandoned.
  Status admit(Handshake& handshake) {
    const Transcript& proven = handshake.transcript();
    const auto rank = rank_of(proven.client.index);
    if (proven.client.role != options_.self.id.role || !rank || *rank <= self()) {
      log_refused(fmt::format(
          "a connection is refused: role {}, number {} is not a rank that connects to {}",
          static_cast<int>(proven.client.role), proven.client.index, options_.names[self()]));
      return {};
    }
    Arrival& arrival = arrivals_[*rank];
    if (handshake.lane() > 0) {
      admit_lane(*rank, handshake);
      return {};
    }
    const Connection* const there = arrival.connection();
    if (there != nullptr && there->ends().peer_incarnation > proven.incarnation) {
      log_refused(fmt::format("an earlier process of {} is refused", options_.names[*rank]));
      return {};
    }
    return begin(*rank, handshake);
  }

  // Admits a further lane once, and only for the present connection.
  void admit_lane(std::uint32_t rank, Handshake& handshake) {
    Arrival& arrival = arrivals_[rank];
    const std::uint8_t number = handshake.lane();
    if (!arrival.lacks(number) || !handshake.belongs_to(arrival.first())) {
      log_refused(
          fmt::format("a lane of {} is refused: number {} belongs to another connection, or is "
                      "already connected",
                      options_.names[rank], number));
      return;
    }
    auto lane = handshake.take_lane();
    if (lane) arrival.add(number, *std::move(lane));
  }

  // Logs at most one line a second, however often unproven callers connect.
  void log_refused(const std::string& line) {
    if (now() - refusal_logged_ < kRefusalLogPeriod) {
      ++refusals_unlogged_;
      return;
    }
    log_warning("{} ({} more since the last line)", line, std::exchange(refusals_unlogged_, 0));
    refusal_logged_ = now();
  }

  void wait(TimePoint deadline) {
    std::vector<pollfd> items{{options_.listener.get(), POLLIN, 0}};
    TimePoint until = std::min(deadline, now() + kLook);
    const auto add = [&](const Handshake& one) {
      // A sealed handshake that has bytes to write waits for the peer's bytes, not for room in the
      // socket, so POLLOUT would return at once: polls again after 1 ms instead.
      items.push_back({one.descriptor(), POLLIN, 0});
      if (one.is_writing())
        until = std::min<TimePoint>(until, now() + std::chrono::milliseconds(1));
    };
    for (const Call& call : calls_) {
      if (call.connecting) items.push_back({call.connecting.get(), POLLOUT, 0});
      if (call.handshake != nullptr) add(*call.handshake);
      if (arrivals_[call.rank].missing() && !call.connecting && call.handshake == nullptr) {
        until = std::min(until, call.next_try);
      }
    }
    for (const Caller& caller : callers_) {
      if (caller.handshake != nullptr) {
        add(*caller.handshake);
      } else {
        items.push_back({caller.socket.get(), POLLIN, 0});
      }
    }
    ::poll(items.data(), items.size(), milliseconds_until(until));
  }

  const MeshOptions& options_;
  std::vector<Arrival> arrivals_;  // by rank
  std::uint32_t self_ = 0;
  std::vector<Call> calls_;    // by rank
  std::list<Caller> callers_;  // the oldest first
  std::map<CallerSource, std::size_t> callers_by_source_;
  Rng rng_;
  TimePoint refusal_logged_{};
  std::uint64_t refusals_unlogged_ = 0;
};

}  // namespace

Result<std::vector<std::unique_ptr<Connection>>> connect_ranks(const MeshOptions& options,
                                                               TimePoint deadline) {
  PADDLE_CHECK(options.names.size() == options.endpoints.size() &&
               (options.ids.empty() ? options.self.id.index < options.endpoints.size()
                                    : options.ids.size() == options.endpoints.size() &&
                                          std::ranges::count(options.ids, options.self.id.index)));
  return Mesh(options).run(deadline);
}

}  // namespace paddle::net::peer
