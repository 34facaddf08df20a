#include "bench/allreduce/bare.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/allreduce/must.h"
#include "bench/allreduce/timing.h"
#include "engine/group/schedule.h"
#include "engine/math/rank_sums.h"
#include "engine/net/mesh_sockets.h"
#include "engine/net/ring_stream.h"

namespace paddle::bench {
namespace {

using collective::Pattern;
using collective::Range;
using collective::Shape;

constexpr int kIdleRounds = 20;  // before it yields its core

// Both ends of the connection of two ranks, made before the ranks are forked.
struct Pair {
  UniqueFd lower;
  UniqueFd higher;
  std::optional<net::SharedSegment> memory = {};
};

Pair make_pair_of(bool shares_memory) {
  const UniqueFd listener = must(net::peer::listen({"127.0.0.1", 0}));
  Pair pair;
  pair.lower = must(net::peer::begin_call({"127.0.0.1", must(net::peer::port_of(listener))}));
  while (!must(net::peer::is_connected(pair.lower.get()))) net::spin_once();
  while (!pair.higher) {
    if (auto caller = net::peer::next_caller(listener)) pair.higher = std::move(caller->socket);
  }
  if (shares_memory) pair.memory.emplace(must(net::SharedSegment::create()));
  return pair;
}

class Ranks {
 public:
  Ranks(std::uint32_t self, std::vector<std::unique_ptr<net::Stream>> streams)
      : self_(self),
        streams_(std::move(streams)),
        parts_(streams_.size()),
        ways_(streams_.size()),
        ones_(streams_.size(), 1.0F) {}

  void all_reduce(std::span<float> bucket) {
    const auto data = std::as_writable_bytes(bucket);
    const auto ranks = static_cast<std::uint32_t>(streams_.size());
    const Shape reduce{.pattern = Pattern::kReduce, .bytes = data.size(), .ranks = ranks};
    const Shape gather{.pattern = Pattern::kGather, .bytes = data.size(), .ranks = ranks};
    const Range own = part_of(reduce, self_);
    for (Bytes& part : parts_) part.resize(std::max(part.size(), own.size()));
    exchange(reduce, data, [&](std::uint32_t peer, const Range& range) {
      return std::span(parts_[peer]).first(range.size());
    });
    std::vector<const float*> terms;
    for (const Bytes& part : parts_) terms.push_back(reinterpret_cast<const float*>(part.data()));
    auto* const sum = reinterpret_cast<float*>(data.data() + own.begin);
    terms[self_] = sum;
    kernels::weighted_sum(own.size() / sizeof(float), terms, ones_, sum);
    exchange(gather, data, [&](std::uint32_t /*peer*/, const Range& range) {
      return data.subspan(range.begin, range.size());
    });
  }

 private:
  struct Way {
    ByteSpan out;
    std::span<std::byte> in;
  };

  template <class Place>
  void exchange(const Shape& shape, std::span<const std::byte> data, Place&& place) {
    for (std::uint32_t peer = 0; peer < ways_.size(); ++peer) {
      const Range out = range_sent(shape, self_, peer);
      ways_[peer] = {data.subspan(out.begin, out.size()),
                     place(peer, range_sent(shape, peer, self_))};
    }
    int idle = 0;
    while (move()) {
      idle = has_moved_ ? 0 : idle + 1;
      if (idle > kIdleRounds) net::spin_once();
    }
  }

  // Sends and reads what is possible now. Returns false once everything is sent and read.
  bool move() {
    bool is_left = false;
    has_moved_ = false;
    for (std::uint32_t peer = 0; peer < ways_.size(); ++peer) {
      auto& [out, in] = ways_[peer];
      std::size_t moved = 0;
      if (!out.empty()) {
        const std::size_t count = must(streams_[peer]->write_some({&out, 1}));
        out = out.subspan(count);
        moved += count;
      }
      if (!in.empty()) {
        const std::size_t count = must(streams_[peer]->read_some(in));
        in = in.subspan(count);
        moved += count;
      }
      has_moved_ = has_moved_ || moved > 0;
      is_left = is_left || !out.empty() || !in.empty();
    }
    return is_left;
  }

  std::uint32_t self_;
  std::vector<std::unique_ptr<net::Stream>> streams_;  // by rank, null for this rank
  std::vector<Bytes> parts_;                           // other ranks' parts of its slice, by rank
  std::vector<Way> ways_;
  std::vector<float> ones_;
  bool has_moved_ = false;
};

}  // namespace

int measure_bare(std::uint32_t ranks, bool shares_memory, std::size_t bucket_bytes) {
  std::vector<std::vector<Pair>> pairs(ranks);  // by the higher rank, then by the lower one
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    while (pairs[rank].size() < rank) pairs[rank].push_back(make_pair_of(shares_memory));
  }
  std::uint32_t self = 0;
  for (std::uint32_t rank = 1; rank < ranks && self == 0; ++rank) {
    if (::fork() == 0) self = rank;
  }
  std::vector<std::unique_ptr<net::Stream>> streams(ranks);
  for (std::uint32_t peer = 0; peer < ranks; ++peer) {
    if (peer == self) continue;
    Pair& pair = pairs[std::max(self, peer)][std::min(self, peer)];
    const int socket = (self < peer ? pair.lower : pair.higher).get();
    if (pair.memory) {
      streams[peer] = std::make_unique<net::RingStream>(
          *std::move(pair.memory), self < peer ? net::Side::kClient : net::Side::kServer, socket);
    } else {
      streams[peer] = net::make_socket_stream(socket);
    }
  }
  Ranks all(self, std::move(streams));
  measure(shares_memory ? "bare-memory" : "bare-tcp", static_cast<int>(self),
          static_cast<int>(ranks), [&](float* values, std::size_t count) {
            for (std::span left(values, count); !left.empty();) {
              const auto bucket = left.first(std::min(left.size(), bucket_bytes / sizeof(float)));
              all.all_reduce(bucket);
              left = left.subspan(bucket.size());
            }
          });
  if (self != 0) ::_exit(0);
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed |= status;
  return failed == 0 ? 0 : 1;
}

}  // namespace paddle::bench
