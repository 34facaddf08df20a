// The schedule of a push to several nodes. Blobs are sent in packs (push_source.h), whose contents
// are compressed together. A pack that no node has is sent to one of them, and the others pull it
// from there. Content that N nodes lack thus leaves this machine once, a part over each node's
// connection. A node that cannot reach the others, or is unreachable, is sent all it lacks.
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
constexpr std::uint64_t kSendBytesMax = 4U << 20U;    // maximum of one send step
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

// Only plans; moves nothing itself. Thread-safe; each node is used by one thread.
class FanOut {
 public:
  using NodeIndex = std::size_t;
  struct Step {
    enum class Kind { kSend, kPull, kWait, kDone };
    Kind kind = Kind::kWait;
    std::vector<std::size_t> packs;  // indices into the node's packs
    NodeIndex from = 0;              // for kPull
    std::optional<ServingNode> at;   // for kPull
    std::uint64_t seen = 0;          // for kWait: the argument of wait()
  };

  explicit FanOut(std::size_t nodes) : node_count_(nodes) {}

  bool enabled() const { return node_count_ > 1; }
  // Adds a node; complete nodes keep serving until it has announced its packs and received them.
  NodeIndex join(const std::string& name);
  // Call once, before next(). `serves` is empty for a node that others cannot pull from.
  void announce(NodeIndex node, const std::vector<PackShape>& lacks,
                std::optional<ServingNode> serves);
  // The node's next step; report its result with arrived() or pulled().
  Step next(NodeIndex node);
  // A pack of a send step was acknowledged.
  void arrived(NodeIndex node, std::size_t pack);
  // The first `count` packs of a pull step arrived. reached: the serving node answered.
  void pulled(NodeIndex node, const Step& step, std::size_t count, bool reached);
  // From here on the node neither wants nor serves packs.
  void leave(NodeIndex node);
  // Returns when anything changed since `seen`, or after `patience`.
  void wait(std::uint64_t seen, Duration patience);
  // Empty when no node wants a pack; else the argument of wait().
  std::optional<std::uint64_t> unfinished() const;
  // Sentences such as "node-3 cannot be reached from the other nodes".
  std::vector<std::string> connection_problems() const;

 private:
  enum class Have : char { kNo, kComing, kYes };
  struct PackState {
    std::vector<NodeIndex> holders;    // have it and serve it
    std::vector<NodeIndex> lacking;    // want it
    std::vector<NodeIndex> receivers;  // are receiving it
  };
  struct NodeState {
    std::string name;
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
    std::set<NodeIndex> not_reached_by;
    std::set<NodeIndex> avoids;  // nodes it failed to pull from
    bool pulled = false;         // one of its pulls has succeeded
    bool wants() const { return active && (!announced || left > 0); }
    bool reaches_none() const { return !pulled && avoids.size() >= kFailuresToGiveUp; }
    bool unreachable() const { return !reached && not_reached_by.size() >= kFailuresToGiveUp; }
  };
  static constexpr std::size_t kFailuresToGiveUp = 2;

  bool can_pull(const NodeState& node, NodeIndex other) const;
  bool will_be_pullable(NodeIndex node, const PackState& pack) const;
  std::optional<NodeIndex> holder_for(NodeIndex node, const PackState& pack, bool& busy) const;
  void record(NodeIndex node, std::size_t pack, bool is_there);
  void notify();
  void plan_pull(NodeIndex node, std::size_t begin, NodeIndex from, Step& step);
  void plan_send(NodeIndex node, std::size_t begin, Step& step);
  bool may_send(NodeIndex node, const PackState& pack) const;

  const std::size_t node_count_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;
  std::map<Sha256Digest, PackState> packs_;
  std::vector<NodeState> nodes_;
};

}  // namespace paddle::remote
