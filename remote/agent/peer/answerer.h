// The callers of one listener: those that still have to prove their key, and those that are served.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "remote/agent/peer/handshake.h"

namespace paddle::agent {

struct PeerService {
  std::string_view name;      // the same at both ends
  Duration time_max{};        // of the listener
  Duration connection_max{};  // of one caller; then its connection ends, whatever it does
  int folder = -1;            // a descriptor for `serve`; the agent's others are closed
  std::function<void(const PeerConnection& connection, int folder)> serve;
};

// A caller has one connection at a time, so that none takes the places of others; a newer one ends
// the older. Callers without a proof wait apart: few of them, even fewer from one address, and the
// oldest goes first.
class Answerer {
 public:
  Answerer(int listener, const Secret& token, PeerService service);
  void run(TimePoint end);

 private:
  struct Unproven {
    UniqueFd fd;
    in_addr_t address = 0;
    TimePoint deadline;
    PeerNonce nonce{};
    PeerClaim claim{};
    std::size_t size = 0;  // of the claim, so far
  };
  struct Proven {
    Proven(std::uint32_t number, PeerConnection proven)
        : caller(number), connection(std::move(proven)) {}
    std::uint32_t caller;
    PeerConnection connection;
    TimePoint deadline = TimePoint::max();
    bool served = false;  // on a thread of its own, which sets `ended`
    std::atomic<bool> ended = false;
  };

  void admit();
  void make_room(in_addr_t address);
  void hear(std::size_t index);
  void take(ProvenCaller proven, UniqueFd fd);
  void end_late();
  void serve_waiting();
  void serve(const std::shared_ptr<Proven>& one);

  const int listener_;
  const Secret token_;
  const PeerService service_;
  UniqueFd wake_;                                // an eventfd
  std::vector<Unproven> unproven_;               // the oldest first
  std::vector<std::shared_ptr<Proven>> proven_;  // likewise
};

}  // namespace paddle::agent
