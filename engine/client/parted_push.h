// A push of one kind of parameters on its way to all shards, in parts of bounded size.
#pragma once

#include <vector>

#include "engine/client/lanes.h"

namespace paddle::client {

// Last parts go out only when the earlier parts of every shard are stored: the answer to a last
// part waits for other trainers, which must not in turn wait for a part held back here.
template <class Message>
struct PartedPush {
  struct Part {
    Message head;
    Bytes tail;
    std::vector<ByteSpan> pieces;  // gradients where they lie; they follow the tail
  };

  // Calls make(i, part) for each of a shard's `count` parts, with its PushPart filled in.
  template <class Make>
  void add_shard(std::size_t count, const wire::PushPart& totals, const Make& make) {
    std::vector<Part>& parts = shards.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      wire::PushPart& part = *parts[i].head.mutable_part();
      part = totals;
      part.set_part(static_cast<std::uint32_t>(i));
      part.set_parts(static_cast<std::uint32_t>(count));
      make(i, parts[i]);
    }
  }

  Status send_early(ClientLanes& lanes) {
    for (std::size_t lane = 0; lane < shards.size(); ++lane) {
      for (std::size_t i = 0; i + 1 < shards[lane].size(); ++i) {
        PADDLE_TRY_STATUS(send(lanes, lane, shards[lane][i]));
        PADDLE_TRY_STATUS(lanes.receive(lane, FrameType::kStored));
      }
    }
    return {};
  }

  Status send_last(ClientLanes& lanes) {
    for (std::size_t lane = 0; lane < shards.size(); ++lane) {
      PADDLE_TRY_STATUS(send(lanes, lane, shards[lane].back()));
    }
    return {};
  }

  std::vector<std::vector<Part>> shards;  // at least one part each

 private:
  static constexpr FrameType kType =
      std::is_same_v<Message, wire::PushDense> ? FrameType::kPushDense : FrameType::kPushRows;

  static Status send(ClientLanes& lanes, std::size_t lane, Part& part) {
    return lanes.send(lane, kType, part.head, std::move(part.tail), part.pieces);
  }
};

}  // namespace paddle::client
