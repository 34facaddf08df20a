// Frame types of the engine's ports. Below 16: sessions (engine/net). From 16: a trainer's lane to
// a shard (wire.proto).
#pragma once

#include <cstdint>

namespace paddle {

enum class FrameType : std::uint8_t {
  // Requests, trainer to shard.
  kJoin = 16,
  kLoadBegin = 17,
  kPutDense = 18,
  kPutRows = 19,
  kReady = 20,
  kPullDense = 21,
  kPullRows = 22,
  kPushDense = 23,
  kPushRows = 24,
  kFinishPass = 25,
  kExportRows = 26,
  kLeave = 27,
  // Replies, shard to trainer.
  kRefused = 32,
  kWaiting = 33,
  kDone = 34,
  kPosition = 35,
  kDenseValues = 36,
  kRowValues = 37,
  kStored = 38,
  kPushed = 39,
  kPassFinished = 40,
  kExportedRows = 41,
};

}  // namespace paddle
