// Which nodes of a push have which packs, and so what each does next: it is sent a pack that no
// node has, or pulls some from a node that has them. So what N nodes lack leaves this machine once,
// each node's connection carrying a part, when they reach each other; one that does not reach the
// others, or is not reached, is sent what it lacks.
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

constexpr std::uint64_t kFanOutBytesMin = 1U << 20U;  // a node that lacks less is sent it
constexpr std::uint64_t kClaimBytesMax = 4U << 20U;   // sent to one node in a row
constexpr std::uint64_t kPullBytesMax = 16U << 20U;   // in one request
constexpr std::size_t kPullBlobsMax = 1000;           // likewise
constexpr unsigned kServesAtOnce = 4;                 // pulls from one node at a time

// Where a node gives what it has to others.
struct ServingNode {
  std::string address;
  std::uint16_t port = 0;
  bool sealed = true;
  Secret token;
};

// What some node lacks, in one piece; the same on every node that lacks just that.
struct PackShape {
  Sha256Digest key{};
  std::uint64_t bytes = 0;
  std::size_t blobs = 0;
};

// Decides and keeps count; moves nothing itself. For any number of threads, one a seat.
class FanOut {
 public:
  using Seat = std::size_t;
  struct Step {
    enum class Kind { kSend, kPull, kWait, kDone };
    Kind kind = Kind::kWait;
    std::vector<std::size_t> packs;  // indices into what the seat lacks
    Seat from = 0;                   // kPull
    std::optional<ServingNode> at;   // kPull
    std::uint64_t seen = 0;          // kWait: for wait()
  };

  explicit FanOut(std::size_t nodes) : nodes_(nodes) {}

  bool enabled() const { return nodes_ > 1; }
  // A node that will lack something, and tells what before it calls next(): those that have all by
  // then stay for it. `serves`: nothing where others cannot come.
  Seat join(const std::string& node);
  void tell(Seat seat, const std::vector<PackShape>& lacks, std::optional<ServingNode> serves);
  // What the seat does next; arrived() or pulled() follow.
  Step next(Seat seat);
  // One that was sent is there.
  void arrived(Seat seat, std::size_t pack);
  // Of what the step said to pull the first so many are there. reached: the other node was.
  void pulled(Seat seat, const Step& step, std::size_t count, bool reached);
  // It wants and gives no more.
  void leave(Seat seat);
  // Returns when anything changed since then, or after `patience`.
  void wait(std::uint64_t seen, Duration patience);
  // Nobody wants anything; else what to give to wait().
  std::optional<std::uint64_t> busy() const;
  // "node-3 is not reached by the others", for each where it is so.
  std::vector<std::string> troubles() const;

 private:
  enum class Have : char { kNo, kComing, kYes };
  struct PackState {
    std::vector<Seat> holders;    // that serve
    std::vector<Seat> lacking;    // seats that want it
    std::vector<Seat> receivers;  // it is being sent to
  };
  struct SeatState {
    std::string node;
    std::vector<PackShape> shapes;
    std::vector<PackState*> packs;
    std::vector<Have> have;
    std::size_t left = 0;
    std::size_t first = 0;  // where it begins to look, so that nodes are sent different packs
    std::optional<ServingNode> serves;
    bool active = true;
    bool told = false;     // what it lacks
    unsigned pulls = 0;    // from it, now
    bool reached = false;  // somebody has pulled from it
    std::set<Seat> not_reached_by;
    std::set<Seat> avoids;  // it did not reach them
    bool pulled = false;    // it has reached somebody
    bool wants() const { return active && (!told || left > 0); }
    // Nobody it called answered.
    bool alone() const { return !pulled && avoids.size() >= kFailuresToGiveUp; }
    bool shunned() const { return !reached && not_reached_by.size() >= kFailuresToGiveUp; }
  };
  static constexpr std::size_t kFailuresToGiveUp = 2;

  bool useful(const SeatState& seat, Seat other) const;
  bool comes_soon(Seat seat, const PackState& pack) const;
  std::optional<Seat> holder_for(Seat seat, const PackState& pack, bool& busy) const;
  void note(Seat seat, std::size_t pack, bool is_there);
  void change();
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
