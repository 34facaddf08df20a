// Waits of a process for its own card alone, in which no other process takes part.
#pragma once

#include "engine/device/device.h"

namespace paddle::device {

// A card that passes a deadline has failed. A peer that cannot be reached is another failure, after
// which a trainer may join its job again.
inline Status as_own(Status of_card) {
  if (of_card || of_card.error().code != Errc::kUnreachable) return of_card;
  Error error = std::move(of_card).error();
  error.code = Errc::kFailed;
  return error;
}

// Waits until the stream has run all that it was given, before memory goes that it uses. Only
// briefly: the work of a whole card is done by then, and one that hangs keeps its memory.
constexpr Duration kDrainMax = std::chrono::seconds(5);
inline void drain(Device& device, StreamHandle stream, EventHandle event) {
  device.record(stream, event);
  static_cast<void>(device.wait(event, SteadyClock().now() + kDrainMax));
}

}  // namespace paddle::device
