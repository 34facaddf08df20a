// A group of ranks that train one model: each keeps all dense parameters and owns a slice of every
// bucket. A step is begin_step(), reduce_scatter() of the gradients, the owner's update of its
// slice of the values, and all_gather() of the values. Sums are computed in the order of ranks, so
// the result has the same bits as a pserver's merge, with any transport, unless sums_on_hosts is
// set.
#pragma once

#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/tally.h"
#include "engine/group/bucket_memory.h"
#include "engine/group/events.h"
#include "engine/group/schedule.h"
#include "engine/group/step_info.h"
#include "engine/math/rank_sums.h"
#include "engine/net/tcp.h"

namespace paddle::collective {

struct Member {
  std::string node;  // for messages
  net::Endpoint endpoint;
};

struct GroupOptions {
  JobKeys keys;
  std::uint64_t job_tag = 0;
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;  // rises with every start of this rank
  std::vector<Member> members;    // by rank
  // The trainers' numbers by rank, ascending; keys and messages use them. Empty: the ranks.
  std::vector<std::uint32_t> ids = {};
  net::Transport transport = net::Transport::kSealed;
  bool shares_memory = true;  // uses shared memory instead of TCP with ranks of this host
  // Number of TCP connections with every other rank, 1 to net::peer::kLanesMax. Must be equal on
  // all ranks.
  std::uint32_t lanes = 1;
  std::uint64_t host = 0;  // number that identifies this rank's machine; 0: a hash of the boot id
  // Buckets above whole_bytes_max are summed on each host first, then between hosts. So fewer bytes
  // leave a host, and the order of sums is (host, rank). Must be equal on all ranks. Such buckets
  // must not be packed if has_levels().
  bool sums_on_hosts = false;
  std::string gpu = {};  // UUID of this rank's card; no two ranks may have one
  // A socket that listens at this rank's endpoint. If it is not set, join() opens one.
  UniqueFd listener = {};
  // A rank is lost if its machine acknowledges nothing for lost_after. A wait for a rank is logged
  // after slow_after, and ends the group after gone_after. For a rank with an activity
  // (set_activity()) gone_after counts from its last frame.
  Duration lost_after = std::chrono::milliseconds(1500);
  Duration slow_after = std::chrono::seconds(5);
  Duration gone_after = std::chrono::minutes(10);
  // Called about every 100 ms. True ends join() and the group, on all ranks, with kInterrupted.
  std::function<bool()> stop = {};
  // Called about once a second by a thread that waits, with the ranks that it waits for and the
  // time so far.
  std::function<void(std::span<const std::uint32_t> ranks, Duration waited)> on_waiting = {};
  // A file for the group's last events, written when the group fails; "": none.
  std::string events_file = {};
};

class Engine;
struct Operation;

// A posted operation. Copies refer to the same operation. REQUIRES: the caller neither frees nor
// changes the operation's memory until wait() has returned or the Group is destroyed.
class Pending {
 public:
  Pending() = default;  // done
  bool done() const;
  // May be called repeatedly and on any thread. An error is the first cause that ended the group.
  Status wait() const;

 private:
  friend class Group;
  Pending(std::shared_ptr<Engine> engine, std::uint64_t number)
      : engine_(std::move(engine)), number_(number) {}
  std::shared_ptr<Engine> engine_;
  std::uint64_t number_ = 0;
};

// The weights of all ranks' gradients in a step: mean_shares or sum_shares.
using Shares = std::vector<float> (*)(std::span<const StepInfo> infos);

// Only one thread may use it, except for abort(). Every rank must make the same calls in the same
// order, with buckets of the same sizes; the first frame that differs ends the group with kUsage.
// After any error the group has ended on all ranks, and every rank has the same first cause.
class Group {
 public:
  // Connects every pair of ranks; both prove the pair's key. kUnreachable: ranks are missing at the
  // deadline, and the message names them; kAuth: a rank has other keys; kVersion: a rank runs
  // another release; kUsage: a rank has other options, such as the size of the group.
  static Result<std::unique_ptr<Group>> join(GroupOptions options, TimePoint deadline);
  // Without leave() before it, the other ranks take this one for lost.
  ~Group();

  std::uint32_t rank() const;
  std::uint32_t size() const;
  const std::string& name(std::uint32_t rank) const;  // "rank 2 (node b)"
  // The number of each rank's machine, by rank; ranks of one machine have the same number.
  std::span<const std::uint64_t> hosts() const { return hosts_; }
  // The part of a bucket that a rank owns: all of a bucket of at most whole_bytes_max.
  Range slice(std::size_t bytes, std::uint32_t rank) const;
  Range own_slice(std::size_t bytes) const { return slice(bytes, rank()); }
  // The number of ranks that own a part of a bucket above whole_bytes_max.
  std::uint32_t owners() const;
  // Whether buckets above whole_bytes_max are summed on each host first: sums_on_hosts is set, and
  // there are several hosts, one of them with several ranks.
  bool has_levels() const { return levels_ != nullptr; }

  // Allocates zeroed memory for buckets. Other ranks of this host read long parts of it in place if
  // it is one of the first net::peer::kArraysOfPeerMax such arrays; the group keeps those until it
  // ends. The memory may outlive the group.
  BucketMemory allocate(std::size_t floats);

  // Exchanges the ranks' StepInfos; returns them by rank, valid until the next call. kUsage, naming
  // two ranks: their plans or steps differ. A gradient of at most whole_bytes_max may be `carried`
  // with it, and is replaced by its sum with the weights of `shares`: the whole step is then one
  // exchange.
  Result<std::span<const StepInfo>> begin_step(const StepInfo& own, std::span<float> carried = {},
                                               Shares shares = &mean_shares);
  // Replaces this rank's slice of the bucket by the weighted sum over all ranks; the rest of the
  // bucket is unspecified afterwards. With `packed`, for a bucket above whole_bytes_max, the slices
  // of the other ranks are sent from that array, as bf16. REQUIRES: it has one element for each of
  // the bucket, multiplied by this rank's share.
  Pending reduce_scatter(std::span<float> bucket, std::span<const float> shares,
                         std::span<kernels::Bf16> packed = {});
  // Sends every rank's slice to all others. With `packed` the slices are those of that array, and
  // only the size of `bucket` is used.
  Pending all_gather(std::span<float> bucket, std::span<kernels::Bf16> packed = {});
  Pending all_gather_bytes(std::span<std::byte> bucket);
  Pending broadcast(std::uint32_t root, std::span<std::byte> data);
  // The sum over all ranks, in the order of ranks. An empty tally adds nothing.
  Result<Tally> sum(const Tally& own);
  // Returns when every rank has called it.
  Status barrier();

  // Lets another thread serve posted operations while the caller does something long, until the
  // caller waits again.
  void serve_in_background();
  // Sets what this rank reports to ranks that wait for it: "testing", "saving"; "": nothing.
  void set_activity(std::string_view activity);
  // Calls on_waiting if it is due, for a wait that consists of several calls.
  void report_waiting(std::span<const std::uint32_t> ranks, Duration waited);
  // Ends every wait of every rank with `why`. Any thread may call it; only the first call counts.
  void abort(Error why);
  // Waits until the group fails or the deadline passes. Returns the first cause, or OK.
  Status watch(TimePoint deadline);
  // Ends the group without an error. Returns once every rank has called it.
  Status leave(TimePoint deadline);
  // The last events, for tests and reports.
  std::vector<Event> events() const;

 private:
  Group(std::shared_ptr<Engine> engine, std::vector<std::uint64_t> hosts, bool sums_on_hosts);
  // Whether a bucket of this size is summed in two levels.
  bool is_levelled(std::size_t bytes) const {
    return has_levels() && bytes > whole_bytes_max(size());
  }
  Operation on_level(Pattern pattern, std::span<std::byte> data) const;
  Pending exchange(std::span<std::byte> blocks);

  std::shared_ptr<Engine> engine_;
  std::vector<std::uint64_t> hosts_;
  std::shared_ptr<const Hosts> levels_;  // null: one level
  std::vector<StepInfo> infos_;
  Bytes carried_;  // this rank's, while the sum takes its place
};

}  // namespace paddle::collective
