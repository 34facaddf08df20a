// half_async: training goes on while a thread of the trainer pushes. A thin adapter around one
// Communicator for each kind of parameter that is half_async; the other kind goes straight through.
//
// With one trainer the bits do not depend on time: dense values are refreshed after a window's end
// to those of the window send_queue_size before it, and a pull of rows goes out before the windows
// that were closed since the last one.
#pragma once

#include <memory>

#include "engine/client/parameter_client.h"
#include "engine/strategy/communicator.h"

namespace paddle::strategy {

struct HalfAsyncOptions {
  Communicator::Options communicator;
  bool dense = false;  // which kinds
  bool sparse = false;
};

std::unique_ptr<client::ParameterClient> make_half_async_client(
    std::unique_ptr<client::ParameterClient> direct, HalfAsyncOptions options);

}  // namespace paddle::strategy
