// The schedule of a push to several nodes. A pack that no node has is sent to one of them; the
// others pull it from there. Content that N nodes lack thus leaves this machine once, a part over
// each node's connection. A node that cannot reach the others, or is unreachable, is sent all it
// lacks.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"
#include "base/sha256.h"

namespace paddle::remote {

constexpr std::uint64_t kFanOutBytesMin = 1U << 20U;  // a node that lacks less does not join
constexpr std::uint64_t kClaimBytesMax = 4U << 20U;   // maximum of one send step
constexpr std::uint64_t kPullBytesMax = 16U << 20U;   // maximum of one pull step
constexpr std::size_t kPullBlobsMax = 1000;           // maximum of one pull step
constexpr unsigned kServesAtOnce = 4;                 // pulls from one node at a time

// The address where a node serves its packs to others.
struct ServingNode {
  std::string address;
  std::uint16_t port = 0;
  bool sealed = true;
  Secret token;
};

// A pack that a node lacks; nodes that lack the same content have equal keys.
struct PackShape {
  Sha256Digest key{};
  std::uint64_t bytes = 0;
  std::size_t blobs = 0;
};

// Only plans; moves nothing itself. Thread-safe; each seat is used by one thread.
class FanOut {
 public:
  using Seat = std::size_t;
  struct Step {
    enum class Kind { kSend, kPull, kWait, kDone };
    Kind kind = Kind::kWait;
    std::vector<std::size_t> packs;  // indices into the seat's packs
    Seat from = 0;                   // for kPull
    std::optional<ServingNode> at;   // for kPull
    std::uint64_t seen = 0;          // for kWait: the argument of wait()
  };

  explicit FanOut(std::size_t nodes) : nodes_(nodes) {}

  bool enabled() const { return nodes_ > 1; }
  // Adds a node; complete nodes keep serving until it has announced its packs and received them.
  Seat join(const std::string& node);
  // Call once, before next(). `serves` is empty for a node that others cannot pull from.
  void announce(Seat seat, const std::vector<PackShape>& lacks, std::optional<ServingNode> serves);
  // The seat's next step; report its result with arrived() or pulled().
  Step next(Seat seat);
  // A pack of a send step was acknowledged.
  void arrived(Seat seat, std::size_t pack);
  // The first `count` packs of a pull step arrived. reached: the serving node answered.
  void pulled(Seat seat, const Step& step, std::size_t count, bool reached);
  // From here on the node neither wants nor serves packs.
  void leave(Seat seat);
  // Returns when anything changed since `seen`, or after `patience`.
  void wait(std::uint64_t seen, Duration patience);
  // Empty when no node wants a pack; else the argument of wait().
  std::optional<std::uint64_t> busy() const;
  // "node-3 cannot be reached from the other nodes", for each such node.
  std::vector<std::string> troubles() const;

 private:
  enum class Have : char { kNo, kComing, kYes };
  struct PackState {
    std::vector<Seat> holders;    // have it and serve it
    std::vector<Seat> lacking;    // want it
    std::vector<Seat> receivers;  // are being sent it
  };
  struct SeatState {
    std::string node;
    std::vector<PackShape> shapes;
    std::vector<PackState*> packs;
    std::vector<Have> have;
    std::size_t left = 0;
    std::size_t first = 0;  // where its search begins, so that nodes are sent different packs
    std::optional<ServingNode> serves;
    bool active = true;
    bool announced = false;
    unsigned pulls = 0;    // running pulls from it
    bool reached = false;  // a pull from it has succeeded
    std::set<Seat> not_reached_by;
    std::set<Seat> avoids;  // nodes it failed to pull from
    bool pulled = false;    // one of its pulls has succeeded
    bool wants() const { return active && (!announced || left > 0); }
    bool reaches_none() const { return !pulled && avoids.size() >= kFailuresToGiveUp; }
    bool unreachable() const { return !reached && not_reached_by.size() >= kFailuresToGiveUp; }
  };
  static constexpr std::size_t kFailuresToGiveUp = 2;

  bool can_pull(const SeatState& seat, Seat other) const;
  bool will_be_pullable(Seat seat, const PackState& pack) const;
  std::optional<Seat> holder_for(Seat seat, const PackState& pack, bool& busy) const;
  void record(Seat seat, std::size_t pack, bool is_there);
  void notify();
  void take_pull(Seat seat, std::size_t begin, Seat from, Step& step);
  void take_send(Seat seat, std::size_t begin, Step& step);
  bool may_send(Seat seat, const PackState& pack) const;

  const std::size_t nodes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::map<Sha256Digest, PackState> packs_;
  std::vector<SeatState> seats_;
};

}  // namespace paddle::remote
