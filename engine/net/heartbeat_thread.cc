#include "engine/net/heartbeat_thread.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <thread>

#include "base/fd.h"
#include "base/thread.h"

namespace paddle::heartbeat {
namespace {

constexpr int kReadsMax = 256;      // before the clock is read again
constexpr int kLastHeartbeats = 3;  // some may be lost
constexpr int kBufferBytes = 1 << 20;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* data() { return reinterpret_cast<sockaddr*>(&storage); }
};

Result<Address> address_of(const net::Endpoint& endpoint) {
  Address address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  if (::inet_pton(AF_INET, endpoint.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(endpoint.port);
    address.size = sizeof *v4;
    return address;
  }
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET6, endpoint.address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(endpoint.port);
    address.size = sizeof *v6;
    return address;
  }
  return Error{Errc::kUsage, "'" + endpoint.address + "' is not an IP address"};
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

class UdpHeartbeatThread final : public HeartbeatThread {
 public:
  explicit UdpHeartbeatThread(Options options) : options_(std::move(options)) {}
  ~UdpHeartbeatThread() override {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
  }

  Status open();
  std::vector<Silence> silences() const override {
    const std::scoped_lock lock(mutex_);
    return watch_.silences(now());
  }

 private:
  struct Peer {
    NodeId id;
    Address address;
    Secret to, from;                // keys of the two directions
    std::uint64_t incarnation = 0;  // of a trainer; heartbeats to it repeat it
  };
  bool is_server() const { return options_.servers.empty(); }
  // A replayed answer to an earlier process of this trainer may be from an old generation of the
  // pserver.
  bool is_for_us(const Heartbeat& heartbeat) const {
    return is_server() || heartbeat.answers == options_.incarnation;
  }
  Result<Peer> peer_of(NodeId id) const;
  Peer* find(NodeId id);
  void run();
  HeartbeatNews note(const Heartbeat& heartbeat) {
    const std::scoped_lock lock(mutex_);
    return watch_.on_heartbeat(now(), heartbeat);
  }
  void receive();
  void send(Peer& peer, bool is_last);
  void send_all(bool is_last);
  void look();

  Options options_;
  UniqueFd v4_, v6_;
  UniqueFd stop_;
  std::map<std::uint32_t, Peer> peers_;  // by packed id; used by the thread only
  std::uint64_t sequence_ = 0;
  mutable std::mutex mutex_;
  HeartbeatWatch watch_;
  std::thread thread_;  // last, because it uses all of the above
};

Result<UdpHeartbeatThread::Peer> UdpHeartbeatThread::peer_of(NodeId id) const {
  const NodeId client = is_server() ? id : options_.self;
  const NodeId server = is_server() ? options_.self : id;
  PADDLE_TRY(const Secret pair, options_.keys.pair(client, server));
  return Peer{id, {}, direction_key(pair, options_.self), direction_key(pair, id), 0};
}

Status UdpHeartbeatThread::open() {
  stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
  const auto open_socket = [this](int family) {
    UniqueFd socket(::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket) return socket;
    drop_foreign_datagrams(socket.get(), options_.job_tag);
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
    return socket;
  };
  if (is_server()) {
    PADDLE_TRY(const Address address, address_of(options_.bind));
    UniqueFd& socket = address.storage.ss_family == AF_INET ? v4_ : v6_;
    socket = open_socket(address.storage.ss_family);
    if (!socket || ::bind(socket.get(), address.data(), address.size) != 0) {
      return system_error(Errc::kResource, "UDP port " + std::to_string(options_.bind.port));
    }
  } else {
    for (std::uint32_t i = 0; i < options_.servers.size(); ++i) {
      PADDLE_TRY(Peer peer, peer_of({Role::kPserver, i}));
      PADDLE_TRY(peer.address, address_of(options_.servers[i]));
      UniqueFd& socket = peer.address.storage.ss_family == AF_INET ? v4_ : v6_;
      if (!socket) socket = open_socket(peer.address.storage.ss_family);
      if (!socket) return system_error(Errc::kResource, "socket");
      peers_.emplace(pack(peer.id), std::move(peer));
    }
  }
  thread_ = thread_without_signals([this] { run(); });
  return {};
}

UdpHeartbeatThread::Peer* UdpHeartbeatThread::find(NodeId id) {
  const auto found = peers_.find(pack(id));
  if (found != peers_.end()) return &found->second;
  if (!is_server() || id.role != Role::kTrainer || id.index >= options_.trainers) return nullptr;
  auto made = peer_of(id);
  return made ? &peers_.emplace(pack(id), *std::move(made)).first->second : nullptr;
}

void UdpHeartbeatThread::send(Peer& peer, bool is_last) {
  const Datagram datagram =
      encode({options_.self, options_.incarnation, ++sequence_, is_last, peer.incarnation},
             options_.job_tag, peer.to);
  const int socket = peer.address.storage.ss_family == AF_INET ? v4_.get() : v6_.get();
  // A heartbeat that cannot be sent counts as lost.
  [[maybe_unused]] const ssize_t sent =
      ::sendto(socket, datagram.data(), datagram.size(), MSG_NOSIGNAL, peer.address.data(),
               peer.address.size);
}

void UdpHeartbeatThread::send_all(bool is_last) {
  for (auto& [id, peer] : peers_) {
    if (peer.address.storage.ss_family != 0) send(peer, is_last);
  }
}

void UdpHeartbeatThread::receive() {
  std::array<std::byte, sizeof(Datagram) + 1> bytes;
  for (const int socket : {v4_.get(), v6_.get()}) {
    for (int reads = 0; socket >= 0 && reads < kReadsMax; ++reads) {
      Address from;
      const ssize_t got =
          ::recvfrom(socket, bytes.data(), bytes.size(), 0, from.data(), &from.size);
      if (got < 0) break;
      const ByteSpan datagram(bytes.data(), static_cast<std::size_t>(got));
      const auto heartbeat = read_claim(datagram, options_.job_tag);
      Peer* const peer = heartbeat ? find(heartbeat->from) : nullptr;
      if (peer == nullptr || !is_for_us(*heartbeat) || !is_proven(datagram, peer->from)) continue;
      const HeartbeatNews news = note(*heartbeat);
      if (news == HeartbeatNews::kDropped) continue;
      if (news == HeartbeatNews::kAgain && options_.on_again) options_.on_again(heartbeat->from);
      if (news == HeartbeatNews::kRestarted && options_.on_restart)
        options_.on_restart(heartbeat->from);
      if (!is_server()) continue;
      peer->address = from;
      peer->incarnation = heartbeat->incarnation;
      if (!heartbeat->is_last) send(*peer, false);
    }
  }
}

void UdpHeartbeatThread::look() {
  std::vector<Silence> dead;
  {
    const std::scoped_lock lock(mutex_);
    dead = watch_.on_tick(now());
  }
  for (const Silence& silence : dead) {
    if (options_.on_dead) options_.on_dead(silence);
  }
}

void UdpHeartbeatThread::run() {
  TimePoint next = now();
  for (;;) {
    if (now() >= next) {
      next = now() + kPeriod;
      if (!is_server()) send_all(false);
      look();
    }
    pollfd polls[] = {{stop_.get(), POLLIN, 0}, {v4_.get(), POLLIN, 0}, {v6_.get(), POLLIN, 0}};
    ::poll(polls, 3, milliseconds_until(next));
    if (polls[0].revents != 0) break;
    receive();
  }
  for (int i = 0; i < kLastHeartbeats; ++i) send_all(true);
}

}  // namespace

Result<std::unique_ptr<HeartbeatThread>> HeartbeatThread::start(Options options) {
  auto thread = std::make_unique<UdpHeartbeatThread>(std::move(options));
  PADDLE_TRY_STATUS(thread->open());
  return std::unique_ptr<HeartbeatThread>(std::move(thread));
}

}  // namespace paddle::heartbeat
