// A group of ranks that train one model: each keeps all dense parameters and owns a slice of every
// bucket. A step is begin_step, reduce_scatter of the gradients, the owner's update of its slice of
// the values, all_gather of the values. Sums are made in the order of ranks, so the result has the
// bits that a pserver's merge would give, whatever the transport; but see sums_on_hosts.
#pragma once

#include <functional>
#include <memory>

#include "base/fd.h"
#include "base/tally.h"
#include "engine/collective/bucket_memory.h"
#include "engine/collective/events.h"
#include "engine/collective/schedule.h"
#include "engine/collective/step_info.h"
#include "engine/kernels/rank_sums.h"
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
  // Of the trainers, by rank, ascending: keys and messages know them by it. None: the ranks.
  std::vector<std::uint32_t> ids = {};
  net::Transport transport = net::Transport::kSealed;
  bool shares_memory = true;  // with ranks of this host, instead of its TCP stack
  // TCP connections with every other rank, 1 to net::peer::kLanesMax, alike on all ranks.
  std::uint32_t lanes = 1;
  std::uint64_t host = 0;  // a number of this rank's machine; 0: that of the kernel's boot
  // Buckets above whole_bytes_max, if they are not packed, are added up on each host first, and
  // then between hosts. So less leaves a host, and the order of sums is (host, rank). On all ranks
  // alike.
  bool sums_on_hosts = false;
  std::string gpu = {};  // UUID of this rank's card; no two ranks may have one
  // A socket that listens at the own endpoint, or none: join() opens it.
  UniqueFd listener = {};
  // A machine that acknowledges nothing for lost_after is lost. A rank that is waited for is named
  // in the log after slow_after, and given up after gone_after; one with an activity may take its
  // time, as long as it is heard.
  Duration lost_after = std::chrono::milliseconds(1500);
  Duration slow_after = std::chrono::seconds(5);
  Duration gone_after = std::chrono::minutes(10);
  // Asked about every 100 ms. True ends join() and the group, on all ranks, with kInterrupted.
  std::function<bool()> stop = {};
  // Called by a thread that waits, about once a second.
  std::function<void(std::span<const std::uint32_t> ranks, Duration waited)> on_waiting = {};
  // Written when the group fails, with its last events, for whoever looks for the cause; "": none.
  std::string events_file = {};
};

class Engine;
struct Operation;

// An operation under way. Copies are the same operation. Its memory stays, unchanged by the caller,
// until wait() has returned or the Group is gone.
class Pending {
 public:
  Pending() = default;  // done
  bool done() const;
  // Any number of times, on any thread. An error is the first cause that ended the group.
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

// For one thread, but for abort(). Every rank makes the same calls in the same order with buckets
// of the same sizes; what differs is found by the first frame, and ends the group with kUsage.
// After any error the group has ended on all ranks, and each of them has the same first cause.
class Group {
 public:
  // Connects every pair of ranks, and proves each to the other. kUnreachable names who has not
  // come; kAuth: other keys; kVersion, kUsage: a rank of another release, or another size of the
  // group.
  static Result<std::unique_ptr<Group>> join(GroupOptions options, TimePoint deadline);
  // Without leave() before it, the other ranks take this one for lost.
  ~Group();

  std::uint32_t rank() const;
  std::uint32_t size() const;
  const std::string& name(std::uint32_t rank) const;  // "rank 2 (node b)"
  // A number of each rank's machine, by rank: ranks of one machine have the same.
  std::span<const std::uint64_t> hosts() const { return hosts_; }
  // The part of a bucket that a rank owns: all of it up to whole_bytes_max.
  Range slice(std::size_t bytes, std::uint32_t rank) const;
  Range own_slice(std::size_t bytes) const { return slice(bytes, rank()); }
  // Ranks that own a part of every long bucket.
  std::uint32_t owners() const;
  // Whether long buckets are added up on each host first: as asked for, where it makes a
  // difference.
  bool has_levels() const { return levels_ != nullptr; }

  // Memory for buckets, zeros. Other ranks of this host read long parts of it in place, of the
  // first net::peer::kArraysOfPeerMax such arrays, which the group keeps until it ends. It may
  // outlive the group.
  BucketMemory allocate(std::size_t floats);

  // Every rank's facts, in the order of ranks, until the next call. Their plans and steps are
  // equal, or it is kUsage naming two ranks. A small gradient of at most whole_bytes_max may be
  // `carried` along, which then holds its sum by `shares`: the whole step is one exchange.
  Result<std::span<const StepInfo>> begin_step(const StepInfo& own, std::span<float> carried = {},
                                               Shares shares = &mean_shares);
  // This rank's slice of the bucket becomes the sum of all ranks' slices; the rest is unspecified.
  // A bucket above whole_bytes_max may be `packed` as bf16, an element for each of its own: then
  // the others' slices are sent from there, where the caller has put them times its share.
  Pending reduce_scatter(std::span<float> bucket, std::span<const float> shares,
                         std::span<kernels::Bf16> packed = {});
  // Every rank's slice reaches all others. With `packed` it is that array's, and the bucket has no
  // other use than its size.
  Pending all_gather(std::span<float> bucket, std::span<kernels::Bf16> packed = {});
  Pending all_gather_bytes(std::span<std::byte> bucket);
  Pending broadcast(std::uint32_t root, std::span<std::byte> data);
  // The sum over all ranks, in their order. An empty tally adds nothing.
  Result<Tally> sum(const Tally& own);
  // Returns when every rank has called it.
  Status barrier();

  // Moves pending bytes while this thread does something long, until it waits again.
  void serve_in_background();
  // Told to ranks that wait for this one: "testing", "saving".
  void set_activity(std::string_view activity);
  // As on_waiting tells it: this rank waits for others in more than one call.
  void tell_waiting(std::span<const std::uint32_t> ranks, Duration waited);
  // Any thread: every wait of every rank ends with it. The first abort counts.
  void abort(Error why);
  // Waits until the deadline for the group to fail; the first cause, or OK.
  Status watch(TimePoint deadline);
  // Ends the group in order, once every rank has called it.
  Status leave(TimePoint deadline);
  // The last ones, for tests and reports.
  std::vector<Event> events() const;

 private:
  Group(std::shared_ptr<Engine> engine, std::vector<std::uint64_t> hosts, bool sums_on_hosts);
  // Whether it goes in two levels.
  bool is_levelled(std::size_t bytes) const {
    return has_levels() && bytes > whole_bytes_max(size());
  }
  Operation on_level(Pattern pattern, std::span<std::byte> data) const;
  Pending exchange(std::span<std::byte> blocks);

  std::shared_ptr<Engine> engine_;
  std::vector<std::uint64_t> hosts_;
  std::shared_ptr<const Hosts> levels_;  // null: there is one
  std::vector<StepInfo> infos_;
  Bytes carried_;  // this rank's, while the sum takes its place
};

}  // namespace paddle::collective
