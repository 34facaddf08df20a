// Addresses of parameters in the memory of a card. The host must not read through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paddle {

struct CardPlace {
  float* value = nullptr;     // null: the parameter is in the host's memory
  float* gradient = nullptr;  // null: the gradient goes to the host's memory
  // Event of the card (device::EventHandle) that is recorded when all gradients with this event are
  // written, while others may still be computed; null: no event is recorded.
  void* written = nullptr;
};

// Addresses of a sparse table, for one batch.
struct CardRows {
  CardPlace place;           // values of all rows by number; gradients of the batch's rows
  std::size_t rows_max = 0;  // rows that place.gradient has room for
  std::vector<std::uint32_t> numbers = {};  // numbers of the batch's rows, in order of ids
};

}  // namespace paddle
